"""The identity of one node: name, incarnation, certificate, signatures, known revocations."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

from implicast.net.identity.credentials import CertificateRenewed, Credentials
from implicast.net.identity.keys import root_key
from implicast.net.identity.own import OwnIdentity
from implicast.net.identity.revocation import Revocations, RevocationsKnown, RevokedNames
from implicast.net.identity.signing import expel, load_grant, signing_of
from implicast.net.settings import NodeSettings
from implicast.net.storage.store import Store
from implicast.net.transport.frames import Hello
from implicast.net.transport.heartbeat import NodeHeartbeats
from implicast.net.transport.layer import TransportLayer
from implicast.peer.contract import Address, Host, Name
from implicast.peer.signing import UNSIGNED, Signing


class IdentityLayer:
    """Proves who the node is, and knows which names are revoked."""

    def __init__(
        self,
        settings: NodeSettings,
        own: OwnIdentity,
        store: Store,
        transport: TransportLayer,
        tls: tuple[ssl.SSLContext, ssl.SSLContext] | None,
        on_revoked: Callable[[set[Name]], None],
    ) -> None:
        """`on_revoked` is called with all revoked names whenever a new list is accepted."""
        self._settings, self._transport, self._on_revoked = settings, transport, on_revoked
        self.own = own
        self.signing: Signing = UNSIGNED
        self.revoked = asyncio.Event()
        """Set when this node learns that it was revoked."""
        services, pool = transport.services, transport.pool
        root = None if tls is None else root_key(settings.directory / "authority.pem")
        self.revocations = Revocations(root, store, self._ban, services.send, pool.connected_nodes)
        services.register(RevocationsKnown, self.revocations.on_known)
        services.register(RevokedNames, self.revocations.on_list)
        self.heartbeats = NodeHeartbeats(services, transport.clock, self.revocations)
        self.credentials: Credentials | None = None
        if tls is not None:
            self.credentials = Credentials(
                settings.directory, tls, self.revocations, self.reload_signing
            )
            services.register(CertificateRenewed, self.credentials.on_renewed)

    def sign_with(self, host: Host, address: Address) -> Signing:
        """Build the signing of the peer on this host."""
        settings = self._settings
        self.signing = signing_of(
            settings.directory, settings.parameters, host, address, settings.network, late=True
        )
        expel(self.signing, self._transport.pool.banned)
        return self.signing

    def reload_signing(self) -> None:
        """Sign with the rights of the certificate that is in the folder now."""
        load_grant(self.signing, self._settings.directory, self._settings.parameters)

    def on_hello(self, hello: Hello) -> None:
        self._transport.clock.compare(hello.name, hello.now_us)
        self.revocations.on_number(hello, hello.revocations)

    def _ban(self, names: set[Name]) -> None:
        """Close the connections of revoked names and reject everything that these names sign."""
        self._transport.pool.ban(names)
        expel(self.signing, names)
        self._on_revoked(names)
        if self.own.name in names:
            self.revoked.set()

    def status(self) -> dict[str, Any]:
        certificate = self.credentials
        return {
            "life": self.own.incarnation,
            "certificate_until": None if certificate is None else certificate.until.isoformat(),
            "revocations": self.revocations.number,
            "revoked": self.own.name in self.revocations.names,
        }
