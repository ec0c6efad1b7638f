"""The applications of all peers: they call the verbs, receive the events, and record both.

The recorded calls and completions are one half of the trace on which the contract is checked; the
notices in the journal are the other.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from implicast.language.render import render
from implicast.language.target import Description, Target, Value, scalar_text
from implicast.peer.contract import CastId, Message, Name, Peer
from implicast.peer.events import (
    IncarnationAdvanced,
    Joined,
    Left,
    Refused,
    Registered,
    Settled,
    Withdrawn,
)
from implicast.peer.expiry import LIFETIME_US
from implicast.peer.member import Member
from implicast.world.arrays import lists, optional, strings
from implicast.world.journal import JOIN, LEAVE, REGISTER, WITHDRAW, Journal
from implicast.world.receipts import CastReceipt as CastReceipt
from implicast.world.receipts import ReceiptReport
from implicast.world.world import World

ROWS_AT_ONCE = 1 << 17
"""Registrations written at once. A million would take a gigabyte of memory."""
NOTHING = Description()


@dataclass(slots=True)
class Registration:
    """One description of a member: when it was asked for, and when it was complete."""

    peer: int
    version: int
    """Number of this registration among those of the member, from 1, over all its incarnations."""
    begun_us: int
    description: Description | None
    """None: a withdrawal."""
    completed_us: int | None = None


@dataclass(slots=True)
class Cast:
    """One cast: publisher, time, and when its publisher knew the outcome."""

    number: int
    publisher: int
    time_us: int
    target: Target
    settled_us: int | None = None
    receipt: CastReceipt | None = None
    warm_up: bool = False
    """A warm-up cast, made before the measured ones."""
    carried_us: int | None = None
    """When its publisher resumed it after returning with its disk."""
    reports: list[ReceiptReport] = field(default_factory=list)
    """All receipts in order of time, without those that repeat the one before."""
    refused_us: int | None = None
    """When its publisher was told that the system declined it."""
    silent: set[int] = field(default_factory=set)
    """Members that receipts name as unreachable; -1: a name that no registered member has."""

    @property
    def begun_us(self) -> int:
        """When its publisher last started it."""
        return self.time_us if self.carried_us is None else self.carried_us


class Application:
    """The applications of all members of one world.

    A member has a number: its address or, if it came back with an empty disk, a number of its own
    (`World.numbers`).
    """

    def __init__(self, world: World, payload_bytes: int = 0, warm_up: int = 0) -> None:
        self.world, self.payload_bytes, self.warm_up = world, payload_bytes, warm_up
        self.registrations: list[Registration] = []
        self.casts: list[Cast] = []
        self.joined: dict[int, int] = {}
        self.left: dict[int, int] = {}
        self.crashed: dict[int, int] = {}
        """By member, when it crashed."""
        self.leaving: dict[int, Registration] = {}
        self.on_joined: Callable[[int], None] = lambda peer: None
        """Called with the address of each peer that has joined."""
        self.materialise: Callable[[int], Peer | None] = lambda address: None
        """Materialises a lazy peer."""
        self.on_left: Callable[[int], None] = lambda peer: None
        """Called with the address of each peer that has left."""
        self.choose_publisher: Callable[[int], int | None] = lambda wanted: wanted
        """Replaces the publisher of a cast where peers may be absent; None: no member is able to
        cast.
        """
        self.unmade = 0
        """Casts that were not made for lack of an able member. They have no number."""
        self.refused: list[tuple[int, int, str]] = []
        self._open: dict[tuple[int, int], Registration] = {}
        """By member and the member's own version number of the registration."""
        self.latest: dict[int, Registration] = {}
        """By member, its last registration or withdrawal."""
        self.names: dict[Name, int] = {}
        """By name of a member that has registered, its number."""
        self.is_lazy = False
        """Whether members were registered that are not materialised. Their names are not known."""
        self.on_registered: Callable[[int], None] = lambda peer: None
        """Called with each member whose registration or withdrawal is complete."""
        world.on_event, world.payload_of = self.on_event, self.payload_of

    # --- verbs

    def join(self, time_us: int, peer: int, introducers: tuple[int, ...]) -> None:
        self.world.at(time_us, JOIN, lambda: self._member(peer).join(introducers))

    def register(self, time_us: int, peer: int, description: Description) -> None:
        self.world.at(time_us, REGISTER, lambda: self.register_now(peer, description))

    def preload(self, peer: int, description: Description) -> None:
        """Record that a member is about to be registered together with all others
        (`Population.preload`).
        """
        self._note(peer, self._member(peer), description)

    def all_preloaded(self, descriptions: Iterable[Description]) -> None:
        """Record that all members are registered now, although most are not materialised."""
        now_us, self.is_lazy = self.world.now_us, True
        self.registrations += [
            Registration(peer, 1, now_us, each, now_us) for peer, each in enumerate(descriptions)
        ]

    def withdraw(self, time_us: int, peer: int) -> None:
        self.world.at(time_us, WITHDRAW, lambda: self.withdraw_now(peer))

    def leave(self, time_us: int, peer: int) -> None:
        self.world.at(time_us, LEAVE, lambda: self.leave_now(peer))

    def cast(self, time_us: int, number: int, publisher: int, target: Target) -> None:
        self.world.at(time_us, number, lambda: self._cast(number, publisher, target))

    # --- events

    def on_event(self, address: int, event: Message) -> None:
        now_us = self.world.now_us
        if isinstance(event, Registered | Withdrawn):
            self._complete(self.number(address), event.version)
        elif isinstance(event, IncarnationAdvanced):
            self._rename(self.number(address), event)
        elif isinstance(event, Settled):
            self._settle(self.casts[self.world.casts[event.cast]], event)
        elif isinstance(event, Joined):
            self.joined[self.number(address)] = now_us
            self.on_joined(address)
        elif isinstance(event, Left):
            self._note_left(address)
        elif isinstance(event, Refused):
            self.refused.append((now_us, address, f"{event.verb}: {event.reason}"))
            if event.verb == "cast":
                self._note_refused(self.number(address))

    def write(self, journal: Journal) -> None:
        """Write the tables of casts and registrations."""
        journal.columns("casts", _cast_columns(self.casts))
        every = self.registrations
        some = (
            every[first : first + ROWS_AT_ONCE] for first in range(0, len(every) or 1, ROWS_AT_ONCE)
        )
        journal.chunks("registrations", map(_registration_columns, some))

    # --- internals

    def number(self, address: int) -> int:
        """The number of the member at an address."""
        return self.world.numbers.get(address, address)

    def payload_of(self, number: int) -> bytes:
        """The payload of a cast. Payloads are distinct unless they are empty."""
        return (number.to_bytes(8, "little") * (self.payload_bytes // 8 + 1))[: self.payload_bytes]

    def withdrawing(self, number: int) -> bool:
        """Whether the member's last request is a withdrawal that is not complete."""
        latest = self.latest.get(number)
        return latest is not None and latest.description is None and latest.completed_us is None

    def awake(self, address: int) -> bool:
        """Whether a member at the address can carry out a verb."""
        return isinstance(self.world.peers.get(address) or self.materialise(address), Member)

    def _member(self, address: int) -> Member:
        peer = self.world.peers.get(address) or self.materialise(address)
        assert isinstance(peer, Member), f"{address} is infrastructure: it has no application"
        return peer

    def _able(self, address: int) -> Member | None:
        """The member at an address, if it can carry out a verb and is not leaving."""
        if self.number(address) in self.leaving or not self.awake(address):
            return None
        return self._member(address)

    def register_now(self, address: int, description: Description) -> None:
        member = self._able(address)
        if member is not None:
            self._note(address, member, description)
            member.register(description)

    def withdraw_now(self, address: int) -> None:
        member = self._able(address)
        if member is not None:
            self._note(address, member, None)
            member.withdraw()

    def leave_now(self, address: int) -> None:
        """Leave the network. This withdraws the registration: no cast owes the leaver a notice from
        now on, and none may reach it once it has left.
        """
        member = self._able(address)
        if member is not None:
            self.leaving[self.number(address)] = self._note(address, member, None)
            member.leave()

    def _note_left(self, address: int) -> None:
        peer = self.number(address)
        self.left[peer] = self.world.now_us
        withdrawal = self.leaving.get(peer)
        if withdrawal is not None and withdrawal.completed_us is None:
            withdrawal.completed_us = self.world.now_us
        self.on_left(address)

    def _note(self, address: int, member: Member, description: Description | None) -> Registration:
        peer = self.number(address)
        version = self.latest[peer].version + 1 if peer in self.latest else 1
        noted = Registration(peer, version, self.world.now_us, description)
        self.registrations.append(noted)
        self.names[member.name] = peer
        self.latest[peer] = self._open[peer, member.upcoming_version()] = noted
        return noted

    def note_restored(self, address: int, description: Description | None) -> None:
        """Record the description that a member restores from its disk. It may register it before it
        is asked to.
        """
        peer = self.number(address)
        version = self.latest[peer].version + 1 if peer in self.latest else 1
        self.registrations.append(Registration(peer, version, self.world.now_us, description))
        self.latest[peer] = self.registrations[-1]

    def _complete(self, peer: int, version: int) -> None:
        registration = self._open.pop((peer, version), None)
        if registration is not None:
            registration.completed_us = self.world.now_us
            self.on_registered(peer)

    def _rename(self, peer: int, event: IncarnationAdvanced) -> None:
        """A member restarted under an incarnation that other peers knew to be over. Its pending
        registration continues under another version.
        """
        registration = self._open.pop((peer, event.before), None)
        if registration is not None:
            self._open[peer, event.version] = registration

    def _settle(self, cast: Cast, event: Settled) -> None:
        """A receipt may be updated while deliveries are pending. The journal has the last final
        one; the judge reads all of them.
        """
        receipt = CastReceipt(event.notified, event.declined, event.unreachable, event.uncertain)
        report = ReceiptReport(self.world.now_us, receipt, event.open, len(event.silent))
        if not (cast.reports and cast.reports[-1].says_the_same(report)):
            cast.reports.append(report)
        if not self.is_lazy:
            cast.silent.update(self.names.get(name, -1) for name in event.silent)
        if not event.open:
            cast.settled_us, cast.receipt = self.world.now_us, receipt

    def _note_refused(self, publisher: int) -> None:
        """Record which cast was refused. An alarm may serve several requests of a peer: then it is
        the oldest cast of the publisher that has not ended.
        """
        number = self.world.purpose
        if not (0 <= number < len(self.casts) and self.casts[number].publisher == publisher):
            unended = (
                cast.number
                for cast in self.casts
                if cast.publisher == publisher and cast.settled_us is None
                if cast.refused_us is None
            )
            number = next(unended, -1)
        if number >= 0:
            self.casts[number].refused_us = self.world.now_us

    def _cast(self, number: int, publisher: int, target: Target) -> None:
        caster = self.choose_publisher(publisher)
        if caster is None:
            self.unmade += 1
        else:
            self.cast_now(caster, target)

    def carry_on(self, address: int, before_us: int) -> None:
        """Resume the casts in the outbox of a member that returned with a disk of this time, as a
        node does. Casts that have expired end with a receipt that is not complete.
        """
        number, member = self.number(address), self._member(address)
        names = {
            of: name for name, of in self.world.casts.items() if self.casts[of].publisher == number
        }
        for cast in [self.casts[of] for of in sorted(names)]:
            if cast.settled_us is not None or cast.time_us > before_us or not member.assured:
                continue
            if self.world.now_us >= cast.time_us + LIFETIME_US:
                self._settle(cast, Settled(names[cast.number], 0).at_expiry())
            else:
                cast.carried_us = self.world.now_us
                again = partial(self._carry_on, address, names[cast.number], cast)
                self.world.at(self.world.now_us, cast.number, again)

    def _carry_on(self, address: int, name: CastId, cast: Cast) -> None:
        member = self._able(address)
        if member is not None:
            expiry_us = cast.time_us + LIFETIME_US
            member.carry_on(name, cast.target, self.payload_of(cast.number), expiry_us)

    def cast_now(self, address: int, target: Target) -> None:
        """Cast now. Casts are numbered in the order in which they are made."""
        number, member = len(self.casts), self._member(address)
        self.casts.append(
            Cast(
                number,
                self.number(address),
                self.world.now_us,
                target,
                warm_up=number < self.warm_up,
            )
        )
        # Announced before the verb runs, so that what it sends is counted for this cast.
        self.world.announce(member.upcoming_cast(), number)
        member.cast(target, self.payload_of(number))


def _cast_columns(casts: Sequence[Cast]) -> dict[str, Any]:
    receipts = [cast.receipt for cast in casts]
    return {
        "cast": [cast.number for cast in casts],
        "publisher": [cast.publisher for cast in casts],
        "time_us": [cast.time_us for cast in casts],
        "target": [render(cast.target) for cast in casts],
        "settled_us": optional([cast.settled_us for cast in casts], pa.int64()),
        "carried_us": optional([cast.carried_us for cast in casts], pa.int64()),
        "warm_up": [cast.warm_up for cast in casts],
        **{
            name: optional(
                [None if each is None else getattr(each, name) for each in receipts], pa.int64()
            )
            for name in ("notified", "declined", "unreachable", "uncertain")
        },
    }


def _registration_columns(some: Sequence[Registration]) -> dict[str, Any]:
    described = [each.description or NOTHING for each in some]
    return {
        "peer": [each.peer for each in some],
        "version": [each.version for each in some],
        "begun_us": [each.begun_us for each in some],
        "completed_us": optional([each.completed_us for each in some], pa.int64()),
        "withdrawn": [each.description is None for each in some],
        "tags": lists([each.tags for each in described], strings),
        "values": lists([each.values for each in described], _values),
    }


def _values(every: Sequence[Value]) -> pa.Array:
    names, texts = (
        strings([each.attribute for each in every]),
        strings([scalar_text(each.value) for each in every]),
    )
    return pa.StructArray.from_arrays([names, texts], names=["attribute", "value"])
