"""What state a node of a linked ring is in, and what it keeps of things under way.

    OUT --join--> INS --Ack or proof--> IN --leave--> DEL --Ack--> OUT, its life in `graces` for a while
                  INS --Nak--> OUT                    DEL --Nak--> IN
"""

from dataclasses import dataclass

from implicast.overlay.links.messages import SetR, SetRAck, SetRNak
from implicast.overlay.links.patience import Attempts
from implicast.overlay.links.refs import Number, Ref
from implicast.peer.memory import Recent

OUT, INS, IN, DEL = "out", "ins", "in", "del"
"""Not a member; own insertion unsettled; member; own deletion unsettled. In INS and DEL `right` is frozen."""

Answered = Recent[Ref, tuple[int, SetRAck | SetRNak, int]]
"""Per asker: the operation answered last, the answer, and when. An answer is final: given again, never changed."""


@dataclass(slots=True)
class Operation(Attempts):
    """An own SetR that is not settled."""

    request: SetR


@dataclass(slots=True)
class Grace:
    """What a life that has left still knows: its answers, and who was next to it."""

    answered: Answered
    left: Ref
    right: Ref


@dataclass(slots=True)
class Walk(Attempts):
    """A look to the left under way: who is asked, from whom it was reached with which number, who comes next, and
    who of these has shown that it lives."""

    token: int
    at: Ref
    reached_from: tuple[Ref, Number] | None
    rest: list[Ref]
    living: list[Ref]
