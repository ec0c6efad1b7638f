"""Everything that a node knows when it starts, in the simulator and on a network.

What only the laboratory knows about a whole network is in `Plan` (`world/plan.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from implicast.language.parameters import Parameters
from implicast.peer.contract import Address, Host, Incarnation, Name
from implicast.peer.signing import UNSIGNED, Signing


@dataclass(frozen=True, slots=True)
class Site:
    """Identity, address, host and settings with which one node starts."""

    name: Name
    incarnation: Incarnation
    address: Address
    host: Host
    parameters: Parameters
    network: bytes
    """Identity of the network, shared by all its nodes: the key of hashes that have to be equal
    everywhere.
    """
    infrastructure: Mapping[str, tuple[Address, ...]] = field(default_factory=dict)
    """By role (`server`, `broker`, `authority`), the addresses of the infrastructure."""
    credentials: Any = None
    """Keys and certificates, in designs that use them."""
    durable_state: Any = None
    """State that survived the last crash (`Peer.durable_state`); None: the disk is empty."""
    resting: bool = False
    """The laboratory guarantees that no peer joins, leaves or fails: upkeep that only detects
    changes is not started.
    """
    signing: Signing = UNSIGNED
    """How statements are signed and verified."""

    @property
    def assured(self) -> bool:
        """Whether hops are acknowledged and retried, and entries held for others are replicated."""
        return self.parameters.get("assurance") != "none"

    @property
    def watched(self) -> bool:
        """Whether the node runs failure detection, renewal and refresh: it is assured, and the
        network may change.
        """
        return self.assured and not self.resting
