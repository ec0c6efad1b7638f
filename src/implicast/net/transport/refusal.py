"""Why a node refuses another one that says hello."""

from collections.abc import Set

from implicast.net.transport.frames import PROTOCOL, Hello
from implicast.peer.contract import Name


def refusal_of(
    own: Hello, hello: Hello, banned: Set[Name], certified: Name | None
) -> tuple[str, str]:
    """The kind of the reason, by which refusals are counted, and the end of a sentence; empty texts
    if the node is not refused. `certified`: the name in its certificate.
    """
    if hello.protocol != PROTOCOL:
        return (
            "version",
            f"uses version {hello.protocol} of the protocol, this node version {PROTOCOL}",
        )
    if hello.network != own.network:
        return "network", "belongs to another network"
    if hello.digest != own.digest and hello.digest and own.digest:
        version = hello.software or "unknown"
        return "design", f"runs another design, other parameters or another version ({version})"
    if hello.name in banned:
        return "revoked", "was revoked"
    if hello.address == own.address and hello.name != own.name:
        return "address", "claims the address of this node"
    if certified != hello.name:
        return "name", "has a certificate for another name"
    return "", ""
