"""A design whose members stand on a hashed ring and keep lists for each other: parameters, set-up, checks."""

from bisect import bisect_left
from collections.abc import Callable, Sequence

from implicast.casting.designs import ASSURANCE, Design, Plan
from implicast.casting.keeping.member import KeptRing, RingMember
from implicast.casting.keeping.messages import KEEPING_KINDS
from implicast.casting.keeping.trouble import Watcher, ring_trouble
from implicast.casting.telling import Got, Notify
from implicast.language.parameters import Parameter
from implicast.overlay.chord import CHORD_KINDS, assemble_chord
from implicast.overlay.links import LINK_KINDS
from implicast.peer.contract import Message, Peer
from implicast.peer.events import Registered
from implicast.peer.liveness import DETECTOR_KINDS
from implicast.peer.site import Site

RING_KINDS: tuple[type[Message], ...] = (*LINK_KINDS, *DETECTOR_KINDS, *CHORD_KINDS, *KEEPING_KINDS, Notify, Got)

RING_PARAMETERS = (
    ASSURANCE,
    Parameter("check_ms", 0, "period of the look at the left neighbour; 0: 7 s with receipts, else only when there is "
              "cause", 0, 3_600_000, unit="ms"),
    Parameter("refresh_ms", 0, "period of looking one random finger up afresh; 0: a minute with receipts, else fingers "
              "change only when peers join or leave", 0, 3_600_000, unit="ms"),
    Parameter("copies", 2, "right neighbours that keep copies of a list; none without receipts", 0, 3),
    Parameter("tries", 7, "questions in vain before a neighbour is believed dead", 2, 20),
    Parameter("sync_s", 12.0, "how often copies are compared", 0.2, 3600, unit="s"),
    Parameter("lease_s", 1800.0, "a peer that has not renewed its entries for so long is forgotten", 5.0,
              86_400, unit="s"),
)  # fmt: skip
RING_SURVIVES = frozenset({"joins", "leaves", "crashes", "returns", "loss", "partitions", "freezes"})
RING_QUICK = {"check_ms": 1000, "tries": 6, "sync_s": 5.0}
"""Repair within ten seconds."""
RING_PATIENCE = ({"check_ms": 12_000, "sync_s": 20.0}, {"check_ms": 3000, "tries": 5, "sync_s": 5.0})
"""Further points between patience and upkeep."""


def stand_up(members: list[RingMember]) -> list[Peer]:
    """The converged ring of these members at once."""
    assemble_chord([member.chord for member in members])
    for member in members:
        member.tenure.stand()
    return list(members)


def enrol(plan: Plan, population: Sequence[Peer]) -> None:
    """Every entry at the node that answers for its value, and at those that keep its copies."""
    members = [peer for peer in population if isinstance(peer, RingMember)]
    ring = sorted(members, key=lambda member: member.links.me.place)
    keys = [member.chord.table.own for member in ring]
    copies = min(ring[0].share.settings.copies, len(ring) - 1)
    for member, description in zip(members, plan.descriptions, strict=False):
        for piece in member.enrol(description):
            at = bisect_left(keys, piece.key) % len(ring)
            member.layings.stand(piece, ring[at].address)
            row = piece.row(member.contact)
            for step in range(copies + 1):
                ring[(at + step) % len(ring)].share.take((row,))
        member.host.deliver(Registered(member.version))


def ring_design(
    name: str, summary: str, paper: str, member: Callable[[Site], RingMember],
    parameters: tuple[Parameter, ...] = (), languages: tuple[str, ...] = ("tags",),
    kept: type[Message] = KeptRing, kinds: tuple[type[Message], ...] = (),
) -> Design:  # fmt: skip
    """A design whose members are made by `member(site)`."""

    def assemble(plan: Plan) -> list[Peer]:
        return stand_up([member(plan.site(address)) for address in range(plan.peers)])

    return Design(
        name=name,
        summary=summary,
        paper=paper,
        assemble=assemble,
        enrol=enrol,
        member=member,
        kept={"member": kept},
        audience=True,
        kinds=(*RING_KINDS, *kinds),
        parameters=(*RING_PARAMETERS, *parameters),
        languages=languages,
        objections=ring_trouble,
        watcher=Watcher,
        survives=RING_SURVIVES,
        quick=RING_QUICK,
        patience=RING_PATIENCE,
    )
