"""Sites for members that tests make alone, without a network."""

from implicast.peer.contract import Host
from implicast.peer.expiry import LIFETIME_US, with_expiry
from implicast.peer.name import name_of
from implicast.peer.site import Site


def lone_site(address: int, host: Host) -> Site:
    """Of a member in its first life, with no parameters."""
    return Site(name_of(b"", address), 1, address, host, {}, b"")


def sealed(payload: bytes, made_us: int = 0) -> bytes:
    """A payload as an unsigned cast of this time carries it."""
    return with_expiry(made_us + LIFETIME_US, payload)
