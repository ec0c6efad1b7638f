"""Keys, certificates, signatures, revocation, and the authority that issues them. Above `transport`."""
