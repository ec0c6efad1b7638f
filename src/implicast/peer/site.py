"""All that one node may know when it begins: in the world as on a network.

The laboratory's bird's-eye view (`world/plan.py`, `Plan`) stays with the laboratory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from implicast.language.parameters import Parameters
from implicast.peer.contract import Address, Host, Incarnation, Name
from implicast.peer.words import BELIEVED, Words


@dataclass(frozen=True, slots=True)
class Site:
    """Where one node stands, and with what it begins."""

    name: Name
    incarnation: Incarnation
    address: Address
    host: Host
    parameters: Parameters
    network: bytes
    """What all nodes of one network agree on: hashes that must be the same everywhere grow from it."""
    infrastructure: Mapping[str, tuple[Address, ...]] = field(default_factory=dict)
    """By role (`server`, `broker`, `authority`), where those are that serve the members."""
    credentials: Any = None
    """Keys and certificates, in designs that have them."""
    kept: Any = None
    """What outlived the node's last crash (`Peer.kept`); None: it begins with an empty disk."""
    resting: bool = False
    """The laboratory's promise that nothing will change: upkeep that only looks for changes need not be armed."""
    words: Words = BELIEVED
    """How what is said is signed and checked."""

    @property
    def assured(self) -> bool:
        """Are steps confirmed and repeated, and what is kept for others kept more than once?"""
        return self.parameters.get("assurance") != "none"

    @property
    def watched(self) -> bool:
        """Is it assured, and may it change: do nodes look after each other, renew and refresh?"""
        return self.assured and not self.resting
