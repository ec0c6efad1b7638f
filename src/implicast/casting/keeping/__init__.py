"""Lists on a hashed ring, kept by the node of each key for all: with receipts they outlive their keepers.

Read in this order: `rows.py` (what is kept), `share.py` (where a node stands), `keeper.py` (keeping), `layings.py` (the
own entries), `questions.py` (casts), `copies.py`, `tenure.py`, `rumours.py` (when all copies died), `member.py`.
Here: what a design on such a ring has for parameters.
"""

from collections.abc import Callable

from implicast.casting.designs import ASSURANCE, Design
from implicast.casting.keeping.member import KeptRing, RingMember
from implicast.casting.keeping.messages import KEEPING_KINDS
from implicast.casting.keeping.pieces import Piece
from implicast.casting.keeping.questions import Fetch
from implicast.casting.telling import Got, Notify
from implicast.language.parameters import Parameter
from implicast.overlay.chord import CHORD_KINDS
from implicast.overlay.links import LINK_KINDS
from implicast.peer.contract import Message
from implicast.peer.liveness import DETECTOR_KINDS
from implicast.peer.site import Site

__all__ = ["Fetch", "Piece", "RingMember", "ring_design"]

RING_PARAMETERS = (
    ASSURANCE,
    Parameter(
        "check_ms",
        0,
        "period of the look at the left neighbour; 0: 7 s with receipts, else only when there is "
        "cause",
        0,
        3_600_000,
        unit="ms",
    ),
    Parameter(
        "refresh_ms",
        0,
        "period of looking one random finger up afresh; 0: a minute with receipts, else fingers "
        "change only when peers join or leave",
        0,
        3_600_000,
        unit="ms",
    ),
    Parameter(
        "copies", 2, "right neighbours that keep copies of a list; none without receipts", 0, 3
    ),
    Parameter("tries", 7, "questions in vain before a neighbour is believed dead", 2, 20),
    Parameter("sync_s", 12.0, "how often copies are compared", 0.2, 3600, unit="s"),
    Parameter(
        "lease_s",
        1800.0,
        "a peer that has not renewed its entries for so long is forgotten",
        5.0,
        86_400,
        unit="s",
    ),
)


def ring_design(
    name: str,
    summary: str,
    paper: str,
    member: Callable[[Site], RingMember],
    parameters: tuple[Parameter, ...] = (),
    languages: tuple[str, ...] = ("tags",),
    kept: type[Message] = KeptRing,
    kinds: tuple[type[Message], ...] = (),
) -> Design:
    """A design whose members are made by `member(site)`."""
    return Design(
        name=name,
        summary=summary,
        paper=paper,
        member=member,
        kept={"member": kept},
        audience=True,
        kinds=(*LINK_KINDS, *DETECTOR_KINDS, *CHORD_KINDS, *KEEPING_KINDS, Notify, Got, *kinds),
        parameters=(*RING_PARAMETERS, *parameters),
        languages=languages,
        survives=frozenset(
            {"joins", "leaves", "crashes", "returns", "loss", "partitions", "freezes"}
        ),
        quick={"check_ms": 1000, "tries": 6, "sync_s": 5.0},  # repair within ten seconds
        patience=(
            {"check_ms": 12_000, "sync_s": 20.0},
            {"check_ms": 3000, "tries": 5, "sync_s": 5.0},
        ),
    )
