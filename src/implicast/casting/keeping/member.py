"""A member of a living ring that keeps lists for others: what the designs on a hashed ring have in common with crashes.

`RING_ALIVE` are its parameters. A design says what it lays when it is described, which lists a cast needs, and whom
they select; everything that makes that survive is here and in the rooms beside.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from implicast.casting.inbox import Inbox
from implicast.casting.keeping.asking import Asking, Question
from implicast.casting.keeping.keeper import Keeper
from implicast.casting.keeping.lacking import Lacking
from implicast.casting.keeping.laying import Layings
from implicast.casting.keeping.messages import KEEPING_KINDS, Deliver, LeaveLate, Row
from implicast.casting.keeping.mourning import Mourning
from implicast.casting.keeping.pieces import Piece
from implicast.casting.keeping.settings import KeepingSettings
from implicast.casting.reliable import Got, Hops
from implicast.language.parameters import Parameter, Parameters
from implicast.language.target import Description, Scalar, Target
from implicast.overlay.chord import LIVING_CHORD_KINDS, LivingChord, assemble_chord
from implicast.overlay.detector import DETECTOR_KINDS, Detector
from implicast.overlay.links import Links, LinkSettings
from implicast.peer.contract import Address, CastId, Host, Peer, handles
from implicast.peer.errors import ParameterError
from implicast.peer.events import Joined, Left, Refused, Registered, Withdrawn
from implicast.peer.member import Member
from implicast.space.ring import ID_BITS, hashed

ALIVE_KINDS: tuple[type, ...] = (*LIVING_CHORD_KINDS, *DETECTOR_KINDS, *KEEPING_KINDS, Got)

CHECK_US = 7_000_000
"""How often the left neighbour is looked at, unless `check_ms` says otherwise."""
REFRESH_US = 60_000_000
"""How often a finger is looked up afresh, unless `refresh_ms` says otherwise."""
MERGE_US = 30_000_000
"""How often one looks at the own place from outside: all do, so a partition's end is noticed by somebody at once."""
FORGET_US = 40_000_000
"""How long a suspicion lasts: longer than a repair that is refused a few times, lest the dead are asked again."""
OWN_CASTS_US, OWN_CASTS_LOOK_US = 20_000_000, 250_000
"""So long a leaver waits for its own casts to arrive, and so often it looks: off the ring it could ask no more."""
RENEWALS = 2
"""Times that an entry is renewed within its lease: what is not answered is repeated at once, so twice is enough."""

RING_ALIVE = (
    Parameter("alive", False, "the ring heals, lists have copies, everything is confirmed and repeated; for networks "
              "and machines that fail"),
    Parameter("copies", 2, "right neighbours that keep copies of a list", 0, 3, only="alive"),
    Parameter("tries", 7, "questions in vain before a neighbour is believed dead", 2, 20, only="alive"),
    Parameter("sync_s", 12.0, "how often copies are compared", 0.2, 3600, unit="s", only="alive"),
    Parameter("lease_s", 1800.0, "a peer that has not renewed its entries for so long is forgotten", 5.0,
              86_400, unit="s", only="alive"),
)  # fmt: skip

RING_SURVIVES = frozenset({"joins", "leaves", "crashes", "loss", "partitions", "freezes"})
RING_QUICK = {"check_ms": 1000, "tries": 6, "sync_s": 5.0}
"""Repair within ten seconds."""
RING_PATIENCE = ({"check_ms": 12_000, "sync_s": 20.0}, {"check_ms": 3000, "tries": 5, "sync_s": 5.0})
"""Further points between patience and upkeep."""


class LivingMember(
    Member,
    parts={
        "links": Links, "detector": Detector, "chord": LivingChord, "keeper": Keeper, "layings": Layings,
        "asking": Asking, "hops": Hops, "lacking": Lacking,
        "mourning": Mourning,
    },
):  # fmt: skip
    """Ring, fingers, lists with copies; joining and leaving."""

    __slots__ = (
        "_leave_by_us", "asking", "chord", "detector", "hops", "inbox", "keeper", "lacking", "layings", "links",
        "mourning",
    )  # fmt: skip

    def __init__(self, address: Address, host: Host, seed: int, parameters: Parameters) -> None:
        super().__init__(address, host)
        if parameters["upkeep"] != "links":
            raise ParameterError("alive=true needs upkeep=links: stabilising loses peers while others come and go")
        check_us = int(parameters["check_ms"]) * 1000 or CHECK_US
        living = LinkSettings.living(check_us, int(parameters["tries"]), MERGE_US)
        settings = replace(living, forget_us=FORGET_US, health_max=1)
        lease_us = int(float(parameters["lease_s"]) * 1e6)
        keeping = KeepingSettings(int(parameters["copies"]), int(float(parameters["sync_s"]) * 1e6), lease_us)
        self.links = Links(address, host, hashed("peer", seed, address), settings)
        self.detector = self.links.detector
        refresh_us = int(parameters["refresh_ms"]) * 1000 or REFRESH_US
        self.chord = LivingChord(address, host, self.links, ID_BITS, refresh_us)
        self.keeper = Keeper(address, host, self.chord, self.key_of, keeping)
        self.layings = Layings(address, host, self.keeper, lease_us // RENEWALS, self._laid)
        self.asking = Asking(address, host, self.keeper, self.found)
        self.hops = self.asking.hops
        self.mourning = Mourning(address, host, self.keeper, self.owner_of, self.layings.lay_all_again)
        self.lacking = Lacking(address, host, self.chord, self.layings.heed, self._mourn)
        self.keeper.joined = lambda: host.deliver(Joined())
        self.keeper.left_ring = lambda: host.deliver(Left())
        self.keeper.lacks, self.keeper.died = self.lacking.announce, self.lacking.announce_death
        self.keeper.came_back = self.layings.renew_all
        self.inbox = Inbox(self)
        self._leave_by_us = 0

    def _mourn(self, who: Address) -> None:
        self.layings.mourn(who)
        self.mourning.doubt(who)

    # What a design says

    @abstractmethod
    def key_of(self, attribute: str, value: Scalar) -> int:
        """Where the list of a value belongs."""

    def owner_of(self, row: Row) -> Address:
        """Whose entry this is."""
        return row.name

    @abstractmethod
    def entries(self, description: Description) -> list[Piece]:
        """What is laid for a description."""

    @abstractmethod
    def question(self, target: Target, payload: bytes) -> Question | str:
        """Which lists a cast needs; or why it is refused."""

    @abstractmethod
    def found(self, cast: CastId, question: Question) -> None:
        """All lists have come."""

    # Verbs

    def join(self, introducers: tuple[Address, ...]) -> None:
        self.links.join(introducers)

    def leave(self) -> None:
        """First nobody's audience any more; then see the own casts off, then hand over, then go."""
        self.description = None
        self._leave_by_us = self.host.now_us + OWN_CASTS_US
        laid = [piece for piece in self.layings.pieces.values() if piece.packed]
        self.layings.lay("leave", [self.layings.removal(piece) for piece in laid])

    def register(self, description: Description) -> None:
        self.description = description
        self._restate(self.next_version(), self.entries(description))

    def withdraw(self) -> None:
        self.description = None
        self._restate(self.next_version(), [])

    def _restate(self, group: Any, wanted: list[Piece]) -> None:
        """Lay what is wanted now; take out what was laid before and is not."""
        kept = {(piece.shelf, piece.attribute, piece.low) for piece in wanted}
        former = [piece for piece in self.layings.pieces.values() if piece.packed and self.is_of_description(piece)]
        removals = []
        for piece in former:
            if (piece.shelf, piece.attribute, piece.low) in kept:
                self.layings.forget(piece)
            else:
                removals.append(self.layings.removal(piece))
        self.layings.lay(group, [*wanted, *removals])

    def is_of_description(self, piece: Piece) -> bool:
        """Whether a piece belongs to what the peer says of itself."""
        return True

    def _laid(self, group: Any) -> None:
        if group == "leave":
            self._go()
        elif isinstance(group, int):
            if group == self.version:
                done = Registered if self.description is not None else Withdrawn
                self.host.deliver(done(self.version))
        else:
            self.laid(group)

    def _go(self) -> None:
        if self.asking.is_busy and self.host.now_us < self._leave_by_us:
            self.host.after(OWN_CASTS_LOOK_US, LeaveLate())
        else:
            self.keeper.leave()

    @handles(LeaveLate)
    def on_leave_late(self, alarm: LeaveLate) -> None:
        self._go()

    def laid(self, group: Any) -> None:
        """A group of the design's own is laid."""

    def cast(self, target: Target, payload: bytes) -> CastId:
        cast = self.next_cast()
        question = self.question(target, payload)
        if isinstance(question, str):
            self.host.deliver(Refused("cast", question))
        elif not self.asking.ask(cast, question):
            self.host.deliver(Refused("cast", "too many casts await their lists"))
        return cast

    # Notices

    def tell_all(self, cast: CastId, target: Target, payload: bytes, consumers: Sequence[Address]) -> None:
        """Tell everybody selected, and oneself by a call."""
        tell = Deliver(cast, target, payload)
        others = {consumer: tell for consumer in consumers if consumer != self.address}
        if len(others) < len(consumers):
            self.inbox.take(cast, target, payload)
        self.asking.tell(cast, others, len(consumers) - len(others))

    @handles(Deliver)
    def on_tell(self, sender: Address, tell: Deliver) -> None:
        self.hops.confirm(sender, tell.cast)
        self.inbox.take(tell.cast, tell.target, tell.payload)

    def holdings(self) -> Any:
        neighbours = (self.links.left, self.links.right, self.links.lefts, self.chord.table.fingers())
        return (neighbours, list(self.keeper.held()))


def stand_up_alive(population: list[LivingMember]) -> list[Peer]:
    """The converged ring of these members at once."""
    assemble_chord([member.chord for member in population])
    for member in population:
        member.keeper.stand()
    return list(population)
