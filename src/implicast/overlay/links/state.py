"""The states of a node of the linked ring, its operations under way, and their retries.

    OUT --join--> INS --Ack or proof--> IN --leave--> DEL --Ack--> OUT
                  INS --Nak--> OUT                    DEL --Nak--> IN

The incarnation that left is kept in `departed_incarnations` for a while.
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
"""Not a member; own insertion unsettled; member; own deletion unsettled. In INS and DEL `right` is
frozen.
"""

AnswerMemory = Recent[Ref, tuple[int, SetRAck | SetRNak, int]]
"""For each requester: its last answered operation, the answer, and when it was given. An answer is
final: it may be sent again but never changes.
"""


class DepartedExpired(Message):
    """Fires when a departed incarnation need not be remembered any longer."""

    ref: Ref


class DepartedIncarnation(NamedTuple):
    """What a departed incarnation still knows: its answers and its last neighbours."""

    answered: AnswerMemory
    left: Ref
    right: Ref


@dataclass(slots=True, kw_only=True)
class Attempts:
    """Retry state of one request. `tried`: attempts. `excused`: attempts that do not count towards
    the limit. `late`: how often the alarm itself fired late. `due_us`: when the answer was due.
    Waits grow with each attempt, and further with the node's own bad health. `health` is the node's
    health at the start, or a better one since: otherwise a single dead node would slow down its own
    detection.
    """

    tried: int = 1
    excused: int = 0
    health: int = 0
    late: int = 0
    since_us: int = 0
    due_us: int = 0

    def start(self, links: "Links", alarm: Message) -> None:
        """The first attempt has been sent."""
        self.health, self.since_us = (
            links.detector.health if links.detector else 0,
            links.host.now_us,
        )
        wait_us = links.settings.rto_us * (1 + self.health)
        self.due_us = self.since_us + wait_us
        links.host.after(wait_us, alarm)

    def retry_or_give_up(self, links: "Links", ref: Ref, alarm: Message) -> bool:
        """An attempt stayed unanswered. Returns True if another attempt should be sent, False to
        give the node up. A late alarm means that this node was suspended, not the other one, so
        that attempt does not count. Attempts before the last message of the other node, to whatever
        purpose, do not count either; this at most doubles the limit.
        """
        detector, now_us, settings = links.detector, links.host.now_us, links.settings
        is_late = detector is not None and now_us - self.due_us > settings.rto_us // 2
        if detector is not None and (self.tried == 1 or is_late):
            # counts silent nodes, not attempts: one dead node must not spoil the health
            detector.lower_health()
        if is_late and self.late < settings.tries:
            self.late += 1
        else:
            silent_us = detector.silent_for_us(ref) if detector is not None else None
            if silent_us is not None and now_us - silent_us > self.since_us:
                self.since_us, self.excused = now_us - silent_us, min(self.tried, settings.tries)
            if detector is not None and self.tried >= self.excused + settings.tries:
                return False
            self.tried += 1
        health = min(self.health, detector.health) if detector is not None else 0
        self.due_us = now_us + links.after_jittered(
            settings.backoff_us(self.tried) * (1 + health), alarm
        )
        return True

    def on_answer(self, links: "Links") -> None:
        """If the first attempt sufficed, the own connection is good."""
        if links.detector is not None and self.tried == 1 and not self.late:
            links.detector.raise_health()


@dataclass(slots=True)
class PendingSetR(Attempts):
    """An own SetR that is not settled."""

    request: SetR


@dataclass(slots=True)
class LeftSearch(Attempts):
    """A search for the left neighbour under way: `at` is the queried node, `reached_from` the node
    that named it with the number of that link, `candidates` the nodes to query next, `responsive`
    those of them that have answered.
    """

    token: int
    at: Ref
    reached_from: tuple[Ref, Number] | None
    candidates: list[Ref]
    responsive: list[Ref]
