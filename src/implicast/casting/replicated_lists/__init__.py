"""Replicated lists on a Chord ring: the store below the `dht` and publish/subscribe designs.

Each attribute value has a list. The list of a value belongs to the node that owns the value's key
(the first node at or after the key), its *holder*. An *entry* of a list names its owner, the peer
that put it there. With receipts, a holder copies its entries to its successors, so that a list
survives the crash of its holder; without receipts there is one holder and no copy, as in the
papers. In code, `left` is Chord's predecessor and `right` its successor.

Read in this order: `entry_table.py` (storage), `holder_state.py` (which keys a node owns),
`holder.py` (puts, copies and reads at the holder), `own_entries.py` (puts and renewals by the
owner), `fetches.py` (reads by a publisher), `anti_entropy.py` (repair of copies),
`range_handoff.py` (join and leave), `ring_broadcast.py` and `owner_probes.py` (failures),
`member.py` (the assembled peer). This module: the parameters that all designs on such a ring share.
"""

from collections.abc import Callable

from implicast.casting.designs import ASSURANCE, Design
from implicast.casting.notifier import Notify, NotifyAck
from implicast.casting.replicated_lists.durable import DurableRing
from implicast.casting.replicated_lists.fetches import Fetch
from implicast.casting.replicated_lists.member import RingMember
from implicast.casting.replicated_lists.messages import REPLICATED_LIST_KINDS
from implicast.casting.replicated_lists.own_entry import OwnEntry
from implicast.language.parameters import Parameter
from implicast.overlay.chord import CHORD_KINDS
from implicast.overlay.links import LINK_KINDS
from implicast.peer.contract import Message
from implicast.peer.detector import DETECTOR_KINDS
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
        kinds=(
            *LINK_KINDS,
            *DETECTOR_KINDS,
            *CHORD_KINDS,
            *REPLICATED_LIST_KINDS,
            Notify,
            NotifyAck,
            *kinds,
        ),
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
