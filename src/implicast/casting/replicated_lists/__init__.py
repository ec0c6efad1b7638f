"""Replicated lists on a Chord ring: the store below the `dht` and publish/subscribe designs.

State. Each value of an attribute has a list. The list of a value belongs to the node that owns the
value's key (the first node at or after the key), its *holder*. An *entry* of a list names its
owner, the peer that put it there, and has a stamp: the owner's incarnation, then a counter. With
receipts a holder's `copies` successors store copies. A node knows from which key on its entries are
complete (`floor_key`). In code, `left` is Chord's predecessor and `right` its successor.

Invariants.

1. Of two versions of an entry the larger stamp wins, at equal stamps the removal. Only the owner
   issues stamps, so copies converge in whatever order they are merged.
2. A put is acknowledged when the holder and all its copies have stored it. So a node that takes
   over the keys of a crashed predecessor has every acknowledged entry, unless the holder and all
   copies crashed together.
3. A node answers reads only while its entries are complete from the lower end of its range
   (`is_ready`). If it takes over keys of which it lacks entries, it announces the loss first, and
   until the owners have had time to put them again its answers are uncertain.
4. A receipt is complete only if no list was uncertain and no selected member's entry was removed
   because its owner is silent.

Who sends what when.

| part | sends | when |
|---|---|---|
| `own_entries` | `PutEntry` to the holder, by routing | an entry changes; until `PutAck` |
| | `RenewEntries` to each holder | twice per lease |
| `holder` | `CopyEntries` along the successors | an entry was put |
| | `PutAck` to the owner, from the last copy | all copies are stored |
| | `EntryOutdated`, `NewerListEntry` | the owner restarted from an old disk |
| `reads` | `FetchLists` to the holders, by routing | a cast; until `ListsFetched` or 55 s |
| `anti_entropy` | `RangeDigest` along the successors | every `sync_s`, and after a change |
| | `SyncEntries`, both ways | a digest differs |
| | `ReturnEntries` to the owner of the keys | a node holds what it should not |
| `range_handoff` | `PullRange`, answered by `RangeEntries` | a node has joined |
| | `RangeEntries`, answered by `RangeTaken` | a node leaves |
| `ring_broadcast` | `RangeLost`, `SuspectReport` to all nodes | a range or a neighbour is lost |
| `owner_probes` | `ProbeOwner`, answered by `OwnerAlive` | an owner is reported suspect |

States and transitions stand as tables at the head of the parts: own entries (`own_table.py`), reads
(`reads.py`), join and leave (`range_handoff.py`), owners (`owner_probes.py`). `Commits` and the two
sides of a handoff are shared tools (`peer/replication.py`, `peer/handoff.py`).

Differences from the papers. Chord leaves storage to the application, and the designs' papers store
an entry at one node. Without receipts this is so here: `copies`, `sync_us` and `lease_us` are 0, a
message is sent once, and nothing is renewed or compared. With receipts everything above is added.
Left out: digests finer than one for each range.

Read in this order: `entries.py`, `entry_table.py` and `holder_state.py` (state), `holder.py`,
`own_entries.py`, `reads.py` (puts and reads), `anti_entropy.py`, `range_handoff.py`,
`ring_broadcast.py`, `owner_probes.py` (change), `member.py` (the assembled peer). This module: the
parameters that all designs on such a ring share.
"""

from collections.abc import Callable

from implicast.casting.designs import ASSURANCE, REPAIRS, Design
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
    REPAIRS,
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
