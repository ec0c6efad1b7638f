"""Builds the peer of a design, for a running node and for the replay of its record."""

from pathlib import Path
from typing import Any

from implicast.casting.designs import Design
from implicast.language.parameters import Parameters
from implicast.net.errors import NodeError
from implicast.peer.contract import Peer
from implicast.peer.site import Site


def credentials_for(design: Design, folder: Path, role: str, parameters: Parameters) -> Any:
    """The overlay keys of the node of a folder; None if the design's overlay needs none."""
    if "authority" not in design.durable_types:
        return None
    from implicast.net.identity.enrolment import credentials_of

    return credentials_of(folder, role, parameters)


def peer_of(design: Design, role: str, site: Site) -> Peer:
    """Build the peer of this role. `NodeError` if the design has no such role on a network."""
    if role == "member":
        if design.member is None:
            raise NodeError(f"{design.name} does not run on a network yet")
        return design.member(site)
    if design.fixture is None or role not in design.durable_types:
        roles = ", ".join(each for each in design.durable_types if each != "member") or "none"
        raise NodeError(f"{design.name} has no role {role!r}; besides member it has: {roles}")
    return design.fixture(site, role)
