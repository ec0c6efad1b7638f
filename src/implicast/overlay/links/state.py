"""What state a node of a linked ring is in, what it keeps of things under way, and how patient it is with them.

OUT --join--> INS --Ack or proof--> IN --leave--> DEL --Ack--> OUT, its life in `graces` for a while
              INS --Nak--> OUT                    DEL --Nak--> IN
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from implicast.overlay.links.messages import SetR, SetRAck, SetRNak
from implicast.overlay.links.refs import Number, Ref
from implicast.peer.contract import Message
from implicast.peer.memory import Recent

if TYPE_CHECKING:
    from implicast.overlay.links.links import Links

OUT, INS, IN, DEL = "out", "ins", "in", "del"
"""Not a member; own insertion unsettled; member; own deletion unsettled. In INS and DEL `right` is frozen."""

Answered = Recent[Ref, tuple[int, SetRAck | SetRNak, int]]
"""Per asker: the operation answered last, the answer, and when. An answer is final: given again, never changed."""


class Grace(NamedTuple):
    """What a life that has left still knows: its answers, and who was next to it."""

    answered: Answered
    left: Ref
    right: Ref


@dataclass(slots=True, kw_only=True)
class Attempts:
    """How often something was asked, how many of these do not count, when it should have been answered, how often the
    alarm itself rang late. Waits are longer each time, and longer still where the node's own health is bad. `health` is
    the observer's when it began, or better: else a single death would make it slow to find that very death."""

    tried: int = 1
    granted: int = 0
    health: int = 0
    late: int = 0
    since_us: int = 0
    due_us: int = 0

    def begin(self, links: "Links", alarm: Message) -> None:
        """Something has been asked for the first time."""
        self.health, self.since_us = (
            links.detector.health if links.detector else 0,
            links.host.now_us,
        )
        wait_us = links.settings.rto_us * (1 + self.health)
        self.due_us = self.since_us + wait_us
        links.host.after(wait_us, alarm)

    def goes_on(self, links: "Links", ref: Ref, alarm: Message) -> bool:
        """An attempt stayed unanswered: whether this node is asked once more, or patience is over with it. An alarm
        that rings late says that this node slept, not the other: that attempt does not count. Nor do those before a
        word of the other, which may be one to somebody else; but patience does not get longer than twice."""
        detector, now_us, settings = links.detector, links.host.now_us, links.settings
        is_late = detector is not None and now_us - self.due_us > settings.rto_us // 2
        if detector is not None and (self.tried == 1 or is_late):
            detector.ail()  # silent nodes count, not attempts: else one death would take health away
        if is_late and self.late < settings.tries:
            self.late += 1
        else:
            silent_us = detector.silent_for_us(ref) if detector is not None else None
            if silent_us is not None and now_us - silent_us > self.since_us:
                self.since_us, self.granted = now_us - silent_us, min(self.tried, settings.tries)
            if detector is not None and self.tried >= self.granted + settings.tries:
                return False
            self.tried += 1
        health = min(self.health, detector.health) if detector is not None else 0
        self.due_us = now_us + links.later(settings.backoff_us(self.tried) * (1 + health), alarm)
        return True

    def answered(self, links: "Links") -> None:
        """If the first attempt sufficed the observer is well connected."""
        if links.detector is not None and self.tried == 1 and not self.late:
            links.detector.ease()


@dataclass(slots=True)
class Operation(Attempts):
    """An own SetR that is not settled."""

    request: SetR


@dataclass(slots=True)
class Walk(Attempts):
    """A look to the left: who is asked, reached from whom with which number, who comes next, who of these lives."""

    token: int
    at: Ref
    reached_from: tuple[Ref, Number] | None
    rest: list[Ref]
    living: list[Ref]
