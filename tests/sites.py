"""Sites for members that tests make alone, without a network."""

from implicast.peer.contract import Host
from implicast.peer.name import name_of
from implicast.peer.site import Site


def lone_site(address: int, host: Host) -> Site:
    """Of a member in its first life, with no parameters."""
    return Site(name_of(b"", address), 1, address, host, {}, b"")
