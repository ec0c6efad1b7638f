"""What a node of the linked ring knows of the liveness of other nodes: departed, suspected,
remembered.
"""

from typing import TYPE_CHECKING

from implicast.overlay.links.refs import Ref, lies_between
from implicast.overlay.links.silence import MERGE_TIME_US, SilentNodes, Uncertainty
from implicast.peer.detector import Detector, DetectorSettings
from implicast.peer.lease import OWED_US
from implicast.peer.memory import Recent

if TYPE_CHECKING:
    from implicast.overlay.links.links import Links

_NO_NODES: Recent[Ref, None] = Recent(0)
"""Shared and always empty: without a detector no node is ever suspected."""


class RingLiveness:
    """Reports suspicions to the layer above the ring. When an unreachable node is heard of again,
    looks the own place up through it, because it may stand on another ring.
    """

    __slots__ = (
        "_address",
        "departed",
        "detector",
        "links",
        "remembered",
        "silent",
        "unreachable",
    )

    def __init__(self, links: "Links") -> None:
        self._address, self.links, settings = links.address, links, links.settings
        self.departed: Recent[Ref, None] = Recent(settings.departed_max)
        self.unreachable = self.remembered = _NO_NODES
        """`unreachable`: suspected nodes, probed now and then in case they are only cut off.
        `remembered`: former neighbours and origins of lookups that did not announce leaving. A node
        that ends on a separate ring finds the other ring through them.
        """
        self.silent = SilentNodes(links.address, links.host, links.request_state)
        self.detector: Detector[Ref] | None = None
        """None in a world without crashes, where no node is ever suspected. Overlays above share
        it.
        """
        if settings.tries:
            self.unreachable, self.remembered = (
                Recent(settings.unreachable_max),
                Recent(settings.unreachable_max),
            )
            detector_settings = DetectorSettings(
                rto_us=settings.rto_us,
                rto_cap_us=settings.rto_cap_us,
                tries=settings.tries,
                health_max=settings.health_max,
                forget_us=settings.forget_us,
                left_max=settings.departed_max,
            )
            self.detector = Detector(
                links.address,
                links.host,
                detector_settings,
                self._on_suspected,
                lambda ref: ref.address,
            )

    def is_lost(self, ref: Ref) -> bool:
        """Whether a node has announced that it left, or is suspected."""
        return ref in self.departed or (self.detector is not None and self.detector.is_suspect(ref))

    def is_freshly_lost(self, ref: Ref) -> bool:
        """Whether a node has announced that it left, or was suspected within `fresh_us`. Older
        suspicions do not count: after a partition a node suspects every node on the other side.
        """
        detector, fresh_us = self.detector, self.links.settings.fresh_us
        return ref in self.departed or (
            detector is not None and detector.suspected_within(ref, fresh_us)
        )

    def note_departed(self, ref: Ref) -> None:
        self.departed[ref] = None
        self.unreachable.pop(ref, None)
        self.remembered.pop(ref, None)
        self.silent.on_gone(ref.address)
        if self.detector is not None:
            self.detector.mark_left(ref)

    def suspect(self, ref: Ref) -> None:
        if self.detector is not None:
            self.detector.suspect(ref)

    def _on_suspected(self, ref: Ref) -> None:
        """A suspicion arose, in the ring or in an overlay above it that shares the detector."""
        self._remember(self.unreachable, ref)
        self.silent.add((ref,))
        self.links.listener.on_node_suspected(ref)

    def inherit(self, uncertainty: Uncertainty, right: Ref) -> None:
        """This node is linked in before `right`: add what its left neighbour knows of silent
        nodes.
        """
        self.silent.inherit(uncertainty)
        if uncertainty[1] > OWED_US - MERGE_TIME_US:
            self.links.lookup.merge_soon()
        if beside := [ref for ref, _ in uncertainty[0] if lies_between(self.links.me, ref, right)]:
            self.silent.add_beside(beside)

    def remember(self, *refs: Ref) -> None:
        """Remember nodes that were neighbours or whose lookups passed by."""
        if self.detector is not None:
            for ref in refs:
                self._remember(self.remembered, ref)

    def next_unreachable(self, count: int) -> list[Ref]:
        """The next `count` unreachable nodes, in rotation."""
        unreachable = list(self.unreachable)[:count]
        for ref in unreachable:
            self._remember(self.unreachable, ref)
        return unreachable

    def _remember(self, memory: Recent[Ref, None], ref: Ref) -> None:
        if ref.address != self._address and ref not in self.departed:
            memory.put(ref, None)

    def on_message_from(self, ref: Ref) -> None:
        """Any message from a suspect ends the suspicion; otherwise two nodes could repair around
        each other for ever. An unreachable node may have been across a partition on a ring of its
        own, so the own place is looked up through it.
        """
        if self.detector is not None and ref.address != self._address:
            self.detector.heard_from(ref)
            if self.unreachable and ref in self.unreachable:
                del self.unreachable[ref]
                self.links.lookup.lookup_via(ref.address)
