"""What a node of the linked ring knows of the liveness of other nodes: departed, suspected,
silent, remembered.

In a world without crashes the detector is `NoDetector`: no node is ever suspected, and none is
remembered.
"""

from collections.abc import Callable, Iterable

from implicast.overlay.links.position import Position
from implicast.overlay.links.refs import Ref, lies_between
from implicast.overlay.links.settings import LinkSettings
from implicast.overlay.links.silence import MERGE_TIME_US, SilentNodes, Uncertainty
from implicast.peer.contract import Host
from implicast.peer.detector import Detector, DetectorSettings
from implicast.peer.lease import OWED_US
from implicast.peer.memory import Recent
from implicast.peer.no_detector import NO_DETECTOR, NoDetector

_NO_NODES: Recent[Ref, None] = Recent(0)
"""Shared and always empty."""


class RingLiveness:
    """Tells the layer above the ring of suspicions. When an unreachable node is heard of again, it
    may stand on another ring: `heard_again` looks the own place up through it.
    """

    __slots__ = (
        "_fresh_us",
        "_heard_again",
        "_may_be_split",
        "_position",
        "_suspected",
        "departed",
        "detector",
        "remembered",
        "silent",
        "unreachable",
    )

    def __init__(
        self,
        position: Position,
        host: Host,
        settings: LinkSettings,
        probe: Callable[[Ref], None],
        suspected: Callable[[Ref], None],
        heard_again: Callable[[Ref], None],
        may_be_split: Callable[[], None],
    ) -> None:
        """`probe(ref)` asks a node for an answer; `suspected(ref)` and `heard_again(ref)` report a
        suspicion and its end; `may_be_split()`: there may be other rings.
        """
        self._position, self._fresh_us = position, settings.fresh_us
        self._suspected, self._heard_again = suspected, heard_again
        self._may_be_split = may_be_split
        self.departed: Recent[Ref, None] = Recent(settings.departed_max)
        self.unreachable = self.remembered = _NO_NODES
        """`unreachable`: suspected nodes, probed now and then in case they are only cut off.
        `remembered`: former neighbours and origins of lookups that did not announce leaving. A node
        that ends on a separate ring finds the other ring through them.
        """
        self.silent = SilentNodes(position.address, host, probe)
        self.detector: Detector[Ref] | NoDetector = NO_DETECTOR
        if settings.tries:
            self.unreachable = Recent(settings.unreachable_max)
            self.remembered = Recent(settings.unreachable_max)
            self.detector = Detector(
                position.address,
                host,
                _detector_settings(settings),
                self._on_suspected,
                lambda ref: ref.address,
            )

    # --- lost nodes

    def is_lost(self, ref: Ref) -> bool:
        """Whether a node has announced that it left, or is suspected."""
        return ref in self.departed or self.detector.is_suspect(ref)

    def is_freshly_lost(self, ref: Ref) -> bool:
        """Whether a node has announced that it left, or was suspected within `fresh_us`. Older
        suspicions do not count: after a partition a node suspects every node on the other side.
        """
        return ref in self.departed or self.detector.suspected_within(ref, self._fresh_us)

    def may_be_apart(self, ref: Ref) -> bool:
        """Whether a former neighbour may stand on another ring."""
        return self.detector.watches(ref) and ref not in self.departed

    def forwards_nothing(self, ref: Ref) -> bool:
        """Whether a node has left and may have crashed since. One that cannot crash still forwards
        lookups.
        """
        return ref in self.departed and self.detector.watches(ref)

    def note_departed(self, ref: Ref) -> None:
        self.departed[ref] = None
        self.unreachable.pop(ref, None)
        self.remembered.pop(ref, None)
        self.silent.on_gone(ref.address)
        self.detector.mark_left(ref)

    def suspect(self, ref: Ref) -> None:
        self.detector.suspect(ref)

    def _on_suspected(self, ref: Ref) -> None:
        """A suspicion arose, in the ring or in an overlay above it that shares the detector."""
        self._remember(self.unreachable, ref)
        self.silent.add((ref,))
        self._suspected(ref)

    def on_message_from(self, ref: Ref) -> None:
        """Any message from a suspect ends the suspicion; otherwise two nodes could repair around
        each other for ever. An unreachable node may have been across a partition on a ring of its
        own, so the own place is looked up through it.
        """
        if ref.address != self._position.address:
            self.detector.heard_from(ref)
            if self.unreachable and ref in self.unreachable:
                del self.unreachable[ref]
                self._heard_again(ref)

    # --- silent and remembered nodes

    def inherit(self, uncertainty: Uncertainty, right: Ref) -> None:
        """This node is linked in before `right`: add what its left neighbour knows of silent
        nodes.
        """
        self.silent.inherit(uncertainty)
        if uncertainty[1] > OWED_US - MERGE_TIME_US:
            self._may_be_split()
        me = self._position.me
        if beside := [ref for ref, _ in uncertainty[0] if lies_between(me, ref, right)]:
            self.silent.add_beside(beside)

    def note_bypassed(self, refs: Iterable[Ref]) -> None:
        """The ring is repaired past these nodes, which stood beside this one: those that did not
        announce leaving are silent.
        """
        if silent := [ref for ref in refs if ref not in self.departed]:
            self.silent.add_beside(silent)

    def is_split(self) -> bool:
        """Whether a node that fell silent lately is still unreachable: a partition may end at any
        moment.
        """
        return any(map(self.silent.is_silent, self.unreachable))

    def remember(self, *refs: Ref) -> None:
        """Remember nodes that were neighbours or whose lookups passed by."""
        for ref in refs:
            self._remember(self.remembered, ref)

    def next_unreachable(self, count: int) -> list[Ref]:
        """The next `count` unreachable nodes, in rotation."""
        unreachable = list(self.unreachable)[:count]
        for ref in unreachable:
            self._remember(self.unreachable, ref)
        return unreachable

    def _remember(self, memory: Recent[Ref, None], ref: Ref) -> None:
        if (
            memory is not _NO_NODES
            and ref.address != self._position.address
            and ref not in self.departed
        ):
            memory.put(ref, None)


def _detector_settings(settings: LinkSettings) -> DetectorSettings:
    return DetectorSettings(
        rto_us=settings.rto_us,
        rto_cap_us=settings.rto_cap_us,
        tries=settings.tries,
        health_max=settings.health_max,
        forget_us=settings.forget_us,
        left_max=settings.departed_max,
    )
