"""A member that stands on Chord and keeps lists for others: what the designs on a hashed ring have in common.

A design says what it lays when it is described, which lists a cast needs, and whom they select; everything that makes
that survive is in the rooms beside.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from implicast.casting.inbox import Inbox
from implicast.casting.keeping.copies import Copies
from implicast.casting.keeping.doubts import Doubts
from implicast.casting.keeping.keeper import Keeper
from implicast.casting.keeping.layings import Layings
from implicast.casting.keeping.messages import Deliver, LaidAt, LeaveLate, Renew, Row, Told
from implicast.casting.keeping.pieces import Piece
from implicast.casting.keeping.questions import Question, Questions
from implicast.casting.keeping.renewals import Renewals
from implicast.casting.keeping.rumours import Rumours
from implicast.casting.keeping.settings import NONE, KeepingSettings
from implicast.casting.keeping.share import Share
from implicast.casting.keeping.strays import Strays
from implicast.casting.keeping.tellings import Tellings
from implicast.casting.keeping.tenure import Tenure
from implicast.casting.reliable import Hops
from implicast.language.parameters import Parameters
from implicast.language.target import Description, Scalar, Target
from implicast.overlay.chord import Chord, Fingers
from implicast.overlay.detector import Detector
from implicast.overlay.links import Links, LinkSettings
from implicast.peer.contract import Address, CastId, Host, Message, handles
from implicast.peer.events import Joined, Left, Refused, Registered, Settled, Withdrawn
from implicast.peer.member import Member
from implicast.space.ring import ID_BITS, hashed

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


class RingMember(
    Member,
    parts={
        "links": Links, "detector": Detector, "chord": Chord, "fingers": Fingers, "strays": Strays, "copies": Copies,
        "rumours": Rumours, "tenure": Tenure, "doubts": Doubts, "keeper": Keeper, "layings": Layings,
        "renewals": Renewals, "questions": Questions, "hops": Hops,
    },
):  # fmt: skip
    """Ring, fingers, lists with copies; joining and leaving."""

    __slots__ = (
        "_leave_by_us", "chord", "copies", "detector", "doubts", "fingers", "hops", "inbox", "keeper", "layings",
        "links", "questions", "renewals", "rumours", "share", "strays", "tellings", "tenure",
    )  # fmt: skip

    def __init__(self, address: Address, host: Host, seed: int, parameters: Parameters) -> None:
        super().__init__(address, host)
        ring, keeping = _ring_settings(parameters), _keeping_settings(parameters)
        refresh_us = int(parameters["refresh_ms"]) * 1000 or (REFRESH_US if keeping.repeats else 0)
        self.links = Links(address, host, hashed("peer", seed, address), ring)
        self.detector = self.links.detector
        self.chord = Chord(address, host, self.links, ID_BITS, refresh_us)
        self.fingers = self.chord.fingers
        self.share = Share(host, self.chord, self.key_of, self.owner_of, keeping, self._compare_soon)
        self.strays = Strays(address, host, self.share)
        self.copies = Copies(address, host, self.share, self.strays, self._renew_all)
        self.rumours = Rumours(address, host, self.chord, self._heed, self._mourn)
        self.tenure = Tenure(address, host, self.share, self.copies, self.rumours, self._came_or_went)
        self.doubts = Doubts(address, host, self.share, self._lay_all_again)
        self.keeper = Keeper(address, host, self.share, self.doubts, self._laid_here, self._told_here)
        self.layings = Layings(address, host, self.share, self.keeper, self._laid)
        self.renewals = Renewals(
            address, host, keeping.lease_us // RENEWALS, self.layings.pieces, self._lost_here, self.layings.lay_again
        )
        self.questions = Questions(address, host, self.share, self.keeper, self._found)
        self.tellings = Tellings(address, host)
        self.hops = self.tellings.hops
        self.inbox = Inbox(self)
        self._leave_by_us = 0

    # What parts say to parts made after them

    def _compare_soon(self) -> None:
        self.copies.soon()

    def _renew_all(self) -> None:
        self.renewals.renew_all()

    def _lay_all_again(self) -> None:
        self.layings.lay_all_again()

    def _heed(self, low: int, high: int) -> None:
        self.layings.heed(low, high)

    def _mourn(self, who: Address) -> None:
        self.layings.mourn(who)
        self.doubts.doubt(who)

    def _laid_here(self, laid: LaidAt) -> None:
        self.layings.on_laid(self.address, laid)

    def _told_here(self, told: Told) -> None:
        self.questions.on_told(self.address, told)

    def _lost_here(self, renew: Renew) -> list[tuple[int, Scalar, Scalar]]:
        return self.keeper.lost_of(renew)

    def _came_or_went(self, came: bool) -> None:
        self.host.deliver(Joined() if came else Left())

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

    def is_of_description(self, piece: Piece) -> bool:
        """Whether a piece belongs to what the peer says of itself."""
        return True

    def laid(self, group: Any) -> None:
        """A group of the design's own is laid."""

    # Verbs

    def join(self, introducers: tuple[Address, ...]) -> None:
        self.links.join(introducers)

    def leave(self) -> None:
        """First nobody's audience any more; then see the own casts off, then hand over, then go."""
        self.description = None
        self._leave_by_us = self.host.now_us + OWN_CASTS_US
        laid = [piece for piece in self.layings.pieces.values() if piece.packed]
        self.layings.lay("leave", [self.layings.removal(piece) for piece in laid])

    def _go(self) -> None:
        is_busy = len(self.questions) or len(self.tellings)
        if is_busy and self.host.now_us < self._leave_by_us:
            self.host.after(OWN_CASTS_LOOK_US, LeaveLate())
        else:
            self.tenure.leave()

    @handles(LeaveLate)
    def on_leave_late(self, alarm: LeaveLate) -> None:
        self._go()

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

    def _laid(self, group: Any) -> None:
        if group == "leave":
            self._go()
        elif not isinstance(group, int):
            self.laid(group)
        elif group == self.version:
            done = Registered if self.description is not None else Withdrawn
            self.host.deliver(done(self.version))

    def cast(self, target: Target, payload: bytes) -> CastId:
        cast = self.next_cast()
        question = self.question(target, payload)
        if isinstance(question, str):
            self.host.deliver(Refused("cast", question))
        else:
            self.ask(cast, question, "cast")
        return cast

    def ask(self, cast: CastId, question: Question, verb: str) -> None:
        if not self.questions.ask(cast, question):
            self.host.deliver(Refused(verb, "too many await their lists"))

    def _found(self, cast: CastId, question: Question | None) -> None:
        if question is None:
            self.host.deliver(Settled(cast, 0, 0))
        else:
            self.found(cast, question)

    # Notices

    def tell_all(self, cast: CastId, target: Target, payload: bytes, consumers: Sequence[Address]) -> None:
        """Tell everybody selected, and oneself by a call."""
        tell = Deliver(cast, target, payload)
        others: dict[Address, Message] = {consumer: tell for consumer in consumers if consumer != self.address}
        here = len(consumers) - len(others)
        if here:
            self.inbox.take(cast, target, payload)
        self.tell(cast, others, here)

    def tell(self, cast: CastId, others: dict[Address, Message], here: int) -> None:
        if self.share.settings.repeats:
            self.tellings.tell(cast, others, here)
        else:
            for to, message in others.items():
                self.host.send(to, message)

    @handles(Deliver)
    def on_tell(self, sender: Address, tell: Deliver) -> None:
        self.confirm(sender, tell.cast)
        self.inbox.take(tell.cast, tell.target, tell.payload)

    def confirm(self, sender: Address, cast: CastId) -> None:
        if self.share.settings.repeats:
            self.hops.confirm(sender, cast)

    def holdings(self) -> Any:
        neighbours = (self.links.left, self.links.right, self.links.lefts, self.chord.table.fingers())
        return (neighbours, list(self.share.held()))


def _ring_settings(parameters: Parameters) -> LinkSettings:
    check_us = int(parameters["check_ms"]) * 1000
    if parameters["assurance"] == "none":
        return LinkSettings(check_us=check_us)
    living = LinkSettings.living(check_us or CHECK_US, int(parameters["tries"]), MERGE_US)
    return replace(living, forget_us=FORGET_US, health_max=1)


def _keeping_settings(parameters: Parameters) -> KeepingSettings:
    if parameters["assurance"] == "none":
        return NONE
    lease_us = int(float(parameters["lease_s"]) * 1e6)
    return KeepingSettings(int(parameters["copies"]), int(float(parameters["sync_s"]) * 1e6), lease_us)
