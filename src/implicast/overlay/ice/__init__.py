"""ICE: peers on the surface of a torus, and routing to whole regions of it (thesis section 7.2)."""
