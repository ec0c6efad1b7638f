"""Replicated lists on a Chord ring: the store below the `dht` and publish/subscribe designs.

THEORY
"""

from collections.abc import Callable

from implicast.casting.designs import ASSURANCE, Design
from implicast.casting.replicated_lists.durable import DurableRing
from implicast.casting.replicated_lists.entries import OwnEntry
from implicast.casting.replicated_lists.member import RingMember
from implicast.casting.replicated_lists.reads import Fetch
from implicast.language.parameters import Parameter
from implicast.peer.contract import Message
from implicast.peer.site import Site

__all__ = ["Fetch", "OwnEntry", "RingMember", "ring_design"]

RING_PARAMETERS = (
    ASSURANCE,
    Parameter(
        "check_ms",
        0,
        "period of checking the predecessor; 0: 7 s with receipts, otherwise only after a failure",
        0,
        3_600_000,
        unit="ms",
    ),
    Parameter(
        "refresh_ms",
        0,
        "period of looking up one random finger again; 0: 60 s with receipts, otherwise fingers "
        "change only when peers join or leave",
        0,
        3_600_000,
        unit="ms",
    ),
    Parameter("copies", 2, "successors that hold copies of a list; none without receipts", 0, 3),
    Parameter("tries", 7, "unanswered requests before a neighbour is suspected", 2, 20),
    Parameter("sync_s", 12.0, "period of anti-entropy between copies", 0.2, 3600, unit="s"),
    Parameter(
        "lease_s",
        1800.0,
        "lease of an entry: it expires unless its owner renews it",
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
    durable_type: type[Message] = DurableRing,
    kinds: tuple[type[Message], ...] = (),
) -> Design:
    """Return a design whose members are created by `member(site)`."""
    return Design(
        name=name,
        summary=summary,
        paper=paper,
        member=member,
        durable_types={"member": durable_type},
        audience=True,
        kinds=tuple(dict.fromkeys((*RingMember.kinds(), *kinds))),
        parameters=(*RING_PARAMETERS, *parameters),
        languages=languages,
        survives=frozenset(
            {"joins", "leaves", "crashes", "returns", "loss", "partitions", "freezes"}
        ),
        quick={"check_ms": 1000, "tries": 6, "sync_s": 5.0},  # repairs complete within 10 s
        upkeep_points=(
            {"check_ms": 12_000, "sync_s": 20.0},
            {"check_ms": 3000, "tries": 5, "sync_s": 5.0},
        ),
    )
