"""Nodes of the ring that fell silent without leaving: they may stand on another ring.

No node can tell a crash from a partition. Behind a partition the silent nodes close a ring of their
own, and members may register there that this ring does not know. So while a node knows of silent
nodes, it is *uncertain* whether its ring has all members. The uncertainty about a node ends when it has
answered and had time to be linked in and to exchange what the two rings store, or after `OWED_US`.
A ring that was founded again after a stop of all members cannot know which of them are missing: it
is uncertain for `OWED_US`.
"""

from collections.abc import Callable, Iterable
from typing import Annotated, NamedTuple

from msgspec import Meta

from implicast.overlay.links.refs import Ref
from implicast.peer.contract import Address, Host
from implicast.peer.fields import Micros
from implicast.peer.lease import OWED_US
from implicast.peer.memory import Recent

SILENT_MAX = 64
"""Silent nodes that are remembered; the oldest is forgotten first."""
MERGE_TIME_US = 60_000_000
"""Time in which two rings that can communicate again become one, and members put again what is
missing: the repair time of the designs.
"""
PROBE_US = 30_000_000
"""Least time between two rounds of probes."""
PROBES = 4
"""Silent nodes that are probed in one round, in rotation. When one has answered, a partition may
have ended, and all are probed at once.
"""


ANSWER_US = 5_000_000
"""Time in which a probe is answered."""


Uncertainty = tuple[Annotated[tuple[tuple[Ref, Micros], ...], Meta(max_length=SILENT_MAX)], Micros]
"""What a node tells a neighbour that joins: the silent nodes, each with the time since when it is
silent; and how long it will be in uncertainty, whatever nodes answer.
"""
NO_UNCERTAINTY: Uncertainty = ((), 0)


class SilentNode(NamedTuple):
    """A silent node, since when it is silent, and when it was last probed."""

    ref: Ref
    since_us: int
    probed_us: int = -ANSWER_US


class SilentNodes:
    """The silent nodes that one node knows or was told of. They are probed only when the uncertainty
    matters, so that a ring that carries no casts sends nothing.
    """

    __slots__ = (
        "_address",
        "_answered_us",
        "_beside",
        "_host",
        "_probe",
        "_probe_us",
        "_silent",
        "_until_us",
    )

    def __init__(self, address: Address, host: Host, probe: Callable[[Ref], None]) -> None:
        """`probe(ref)` asks a node for an answer."""
        self._address, self._host, self._probe = address, host, probe
        self._silent: Recent[Address, SilentNode] = Recent(SILENT_MAX)
        self._answered_us = -MERGE_TIME_US
        """When a silent node last answered."""
        self._until_us = 0
        """Until when there is uncertainty, whatever nodes answer."""
        self._probe_us = 0
        """Time of the next round of probes."""
        self._beside = False
        """Whether silent nodes stood beside this one."""

    def add(self, refs: Iterable[Ref]) -> None:
        """These nodes are silent."""
        self.inherit((tuple((ref, 0) for ref in refs), 0))

    def inherit(self, uncertainty: Uncertainty) -> None:
        """Add what a neighbour knows."""
        silent, span_us = uncertainty
        for ref, age_us in silent:
            if ref.address != self._address and ref.address not in self._silent:
                self._silent.put(ref.address, SilentNode(ref, self._host.now_us - age_us))
        self.uncertain_for(span_us)

    def shared(self) -> Uncertainty:
        """What a neighbour that joins has to know."""
        if not self._silent and not self.uncertain_us():
            return NO_UNCERTAINTY
        self.refs()
        now_us = self._host.now_us
        silent = tuple((one.ref, now_us - one.since_us) for one in self._silent.values())
        return silent, self.uncertain_us()

    def add_beside(self, refs: Iterable[Ref]) -> None:
        """These nodes, which stood beside this one, are silent."""
        self.add(refs)
        self._beside = True

    def note_founded(self) -> None:
        """This node founds the ring again after a stop of all members."""
        self.uncertain_for(OWED_US)
        self._beside = True

    def uncertain_for(self, span_us: int) -> None:
        """Be uncertain for a time, whatever nodes answer."""
        self._until_us = max(self._until_us, self._host.now_us + span_us)

    def uncertain_us(self) -> int:
        """How long there will be uncertainty, whatever nodes answer."""
        until_us = max(self._until_us, self._answered_us + MERGE_TIME_US)
        return max(0, until_us - self._host.now_us)

    def refs(self) -> tuple[Ref, ...]:
        """The silent nodes of the last `OWED_US`."""
        if self._silent:
            over_us = self._host.now_us - OWED_US
            for address in [each for each, one in self._silent.items() if one.since_us <= over_us]:
                del self._silent[address]
        return tuple(one.ref for one in self._silent.values())

    def is_silent(self, ref: Ref) -> bool:
        """Whether a node fell silent within the last `OWED_US`."""
        silent = self._silent.get(ref.address)
        return silent is not None and silent.since_us > self._host.now_us - OWED_US

    def on_answer(self, address: Address) -> bool:
        """The node at an address has answered a request. Other messages do not show that it can be
        reached: links may be cut in one direction. Returns whether it was silent.
        """
        if not self._silent or self._silent.pop(address, None) is None:
            return False
        self._answered_us = self._probe_us = self._host.now_us
        return True

    def on_gone(self, address: Address) -> None:
        """A peer says that its earlier incarnation is gone. This is an answer if it was probed."""
        silent = self._silent.get(address) if self._silent else None
        if silent is not None and self._host.now_us < silent.probed_us + ANSWER_US:
            self.on_answer(address)

    def are_uncertain(self) -> bool:
        """Whether members may be registered on another ring."""
        now_us = self._host.now_us
        if now_us < self._until_us or now_us < self._answered_us + MERGE_TIME_US:
            return True
        return bool(self._silent and self.refs())

    def are_beside(self) -> bool:
        """The same, if nodes are missing beside this one."""
        self._beside = self._beside and self.are_uncertain()
        return self._beside

    def probe(self) -> None:
        """Probe silent nodes, if that is due."""
        now_us, refs = self._host.now_us, self.refs()
        if not refs or now_us < self._probe_us:
            return
        are_back = now_us < self._answered_us + PROBE_US
        self._probe_us = now_us + PROBE_US
        for ref in refs if are_back else refs[:PROBES]:
            self._silent.put(ref.address, self._silent[ref.address]._replace(probed_us=now_us))
            self._probe(ref)
