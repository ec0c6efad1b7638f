"""A member that stands on Chord and keeps lists for others: what the designs on a hashed ring have in common."""

from collections.abc import Callable
from typing import Any

from implicast.casting.designs import Design, Plan
from implicast.casting.inbox import Inbox
from implicast.casting.keeping import (
    ALIVE_KINDS,
    RING_ALIVE,
    RING_PATIENCE,
    RING_QUICK,
    RING_SURVIVES,
    LivingMember,
    living_trouble,
    stand_up_alive,
)
from implicast.casting.shelf_messages import SHELF_KINDS
from implicast.casting.shelves import Shelves
from implicast.language.parameters import Parameter, Parameters
from implicast.overlay.chord import CHORD_KINDS, Chord, assemble_chord, chord_objections
from implicast.overlay.links import LINK_KINDS, Links, LinkSettings
from implicast.overlay.links.stabilise import Stabilise, StabiliseSettings
from implicast.overlay.links.stabilise_messages import STABILISE_KINDS
from implicast.peer.contract import Address, Host, Peer
from implicast.peer.events import Joined, Left
from implicast.peer.member import Member
from implicast.space.ring import ID_BITS, hashed

RING_KINDS: tuple[type, ...] = (*LINK_KINDS, *STABILISE_KINDS, *CHORD_KINDS, *SHELF_KINDS)

RING_PARAMETERS = (
    Parameter("upkeep", "links", "how the ring is kept: the doubly linked ring, or Chord's stabilising for comparison",
              choices=("links", "stabilise")),
    Parameter("check_ms", 0, "period of the look at the left neighbour; 0: only when there is cause", 0, 3_600_000,
              unit="ms"),
    Parameter("refresh_ms", 0, "period of looking one random finger up afresh; 0: fingers change only when somebody "
              "joins or leaves", 0, 3_600_000, unit="ms"),
)  # fmt: skip


class RingMember(
    Member, parts={"links": Links, "stabilise": Stabilise, "chord": Chord, "shelves": Shelves}
):  # fmt: skip
    """Ring, fingers, lists; joining and leaving."""

    __slots__ = ("chord", "inbox", "links", "shelves", "stabilise")

    def __init__(self, address: Address, host: Host, seed: int, parameters: Parameters, rows: Any) -> None:
        super().__init__(address, host)
        key = hashed("peer", seed, address)
        ring: Links | Stabilise
        if parameters["upkeep"] == "links":
            ring = Links(address, host, key, LinkSettings(check_us=int(parameters["check_ms"]) * 1000))
        else:
            ring = Stabilise(address, host, key, StabiliseSettings())
        self.links = self.stabilise = ring
        self.chord = Chord(address, host, ring, ID_BITS, int(parameters["refresh_ms"]) * 1000)
        self.shelves = Shelves(address, host, self.chord, rows)
        self.shelves.joined = lambda: host.deliver(Joined())
        self.shelves.left_ring = lambda: host.deliver(Left())
        self.shelves.serve = self.receive
        self.inbox = Inbox(self)

    def join(self, introducers: tuple[Address, ...]) -> None:
        self.links.join(introducers)

    def leave(self) -> None:
        if self.description is not None:
            self.withdraw()
        self.shelves.leave()

    def holdings(self) -> Any:
        neighbours = (self.links.left, self.links.right, self.chord.table.fingers())
        return (neighbours, list(self.shelves.rows()))


def stand_up(members: list[RingMember]) -> list[Peer]:
    """The converged ring of these members at once."""
    assemble_chord([member.chord for member in members])
    return list(members)


def ring_trouble(population: Any) -> list[str]:
    """Objections of the overlay. Fingers may be askew after changes at one moment; that only costs hops. Where peers
    crash, lists must also be where they belong, with their copies."""
    kind = chord_objections([member.chord for member in population if isinstance(member, RingMember)], exact=False)
    return kind + living_trouble(population)


def ring_design(
    name: str, summary: str, paper: str, kind: Callable[[Plan], Callable[[int], RingMember]],
    living: Callable[[Plan], Callable[[int], LivingMember]], kinds: tuple[type, ...],
    parameters: tuple[Parameter, ...] = (), languages: tuple[str, ...] = ("tags",),
) -> Design:  # fmt: skip
    """A design on these lists: `kind` and `living` make its members, in a kind world and where peers crash."""

    def newcomer(plan: Plan, address: int) -> Member:
        return living(plan)(address) if plan.parameters["alive"] else kind(plan)(address)

    def assemble(plan: Plan) -> list[Peer]:
        if plan.parameters["alive"]:
            return stand_up_alive(list(map(living(plan), range(plan.peers))))
        return stand_up(list(map(kind(plan), range(plan.peers))))

    return Design(
        name=name,
        summary=summary,
        paper=paper,
        assemble=assemble,
        newcomer=newcomer,
        kinds=(*RING_KINDS, *ALIVE_KINDS, *kinds),
        parameters=(*RING_PARAMETERS, *RING_ALIVE, *parameters),
        languages=languages,
        objections=ring_trouble,
        survives=RING_SURVIVES,
        alive={"alive": True},
        quick=RING_QUICK,
        patience=RING_PATIENCE,
    )
