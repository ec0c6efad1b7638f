"""What a node of a linked ring believes of others: who has gone, who fell silent, who was a neighbour once."""

from typing import TYPE_CHECKING

from implicast.overlay.links.refs import Ref
from implicast.peer.liveness import Detector, DetectorSettings
from implicast.peer.memory import Recent

if TYPE_CHECKING:
    from implicast.overlay.links.links import Links

_NOBODY: Recent[Ref, None] = Recent(0)
"""Where nobody is suspected nobody is missed."""


class Company:
    """What stands on the ring is told of suspicions; a node that was missed and is heard again is looked through."""

    __slots__ = ("_address", "_links", "detector", "gone", "met", "missed")

    def __init__(self, links: "Links") -> None:
        self._address, self._links, settings = links.address, links, links.settings
        self.gone: Recent[Ref, None] = Recent(settings.gone_max)
        self.missed = self.met = _NOBODY
        """Nodes that fell silent; they are asked now and then, in case they are only cut off. Former neighbours that
        did not say they left: a node that ended alone on its ring knows whom to ask."""
        self.detector: Detector[Ref] | None = None
        """None in a world without crashes, where nobody is ever suspected. Overlays above share it."""
        if settings.tries:
            self.missed, self.met = Recent(settings.missed_max), Recent(settings.missed_max)
            patience = DetectorSettings(
                rto_us=settings.rto_us,
                rto_cap_us=settings.rto_cap_us,
                tries=settings.tries,
                health_max=settings.health_max,
                forget_us=settings.forget_us,
                gone_max=settings.gone_max,
            )
            self.detector = Detector(
                links.address, links.host, patience, self._fell_silent, lambda ref: ref.address
            )

    def is_lost(self, ref: Ref) -> bool:
        """Whether it said that it left, or is suspected."""
        return ref in self.gone or (self.detector is not None and self.detector.is_suspect(ref))

    def is_surely_lost(self, ref: Ref) -> bool:
        """Lost by its own word or fresh evidence: after a partition a node suspects all on the other side."""
        detector, fresh_us = self.detector, self._links.settings.fresh_us
        return ref in self.gone or (
            detector is not None and detector.suspected_within(ref, fresh_us)
        )

    def note_gone(self, ref: Ref) -> None:
        self.gone[ref] = None
        self.missed.pop(ref, None)
        self.met.pop(ref, None)
        if self.detector is not None:
            self.detector.say_gone(ref)

    def suspect(self, ref: Ref) -> None:
        if self.detector is not None:
            self.detector.suspect(ref)

    def _fell_silent(self, ref: Ref) -> None:
        """A suspicion arose, here or in what stands on this ring."""
        self._keep(self.missed, ref)
        self._links.above.silent(ref)

    def note_met(self, *refs: Ref) -> None:
        """These were neighbours."""
        if self.detector is not None:
            for ref in refs:
                self._keep(self.met, ref)

    def next_missed(self, count: int) -> list[Ref]:
        """The next of those who are missed, in turn."""
        missed = list(self.missed)[:count]
        for ref in missed:
            self._keep(self.missed, ref)
        return missed

    def _keep(self, memory: Recent[Ref, None], ref: Ref) -> None:
        if ref.address != self._address and ref not in self.gone:
            memory.put(ref, None)

    def heard(self, ref: Ref) -> None:
        """Any word from a suspect ends the suspicion, else two nodes could repair each other in turns without end.
        A node that was missed may have been on the other side of a partition, with a ring of its own."""
        if self.detector is not None and ref.address != self._address:
            self.detector.heard(ref)
            if self.missed and ref in self.missed:
                del self.missed[ref]
                self._links.seeking.reunite(ref.address)
