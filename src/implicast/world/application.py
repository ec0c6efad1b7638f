"""The applications of all peers: they ask for the verbs, hear the events, and remember both.

What was asked and when it was complete is the other half of the contract's trace; the notifications are in the journal.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from implicast.language.render import render
from implicast.language.target import Description, Target, scalar_text
from implicast.peer.contract import Message
from implicast.peer.events import Joined, Left, Outlived, Refused, Registered, Settled, Withdrawn
from implicast.peer.member import Member
from implicast.world.journal import JOIN, LEAVE, REGISTER, WITHDRAW, Journal
from implicast.world.world import World


@dataclass(slots=True)
class Registration:
    """One version of a peer's description: from when it was asked for, and since when it was complete."""

    peer: int
    version: int
    begun_us: int
    description: Description | None
    """None: withdrawn."""
    completed_us: int | None = None
    ordinal: int = 0
    """The so-manieth that the peer asked for: what the journal calls its version."""


@dataclass(slots=True)
class Cast:
    """One cast: when and by whom it was made, and when its publisher knew how it ended."""

    number: int
    publisher: int
    time_us: int
    target: Target
    settled_us: int | None = None
    settled: Settled | None = None
    """What the publisher was told last."""


class Application:
    """Stands for the applications of all members of one world."""

    def __init__(self, world: World, payload: bytes = b"") -> None:
        self.world, self.payload = world, payload
        self.registrations: list[Registration] = []
        self.casts: list[Cast] = []
        self.joined: dict[int, int] = {}
        self.left: dict[int, int] = {}
        self.crashed: dict[int, int] = {}
        """Members that died, and when."""
        self.leaving: dict[int, Registration] = {}
        self.welcome: Callable[[int], None] = lambda peer: None
        """Told of every peer that has joined."""
        self.farewell: Callable[[int], None] = lambda peer: None
        """Told of every peer that has left."""
        self.publisher: Callable[[int], int | None] = lambda wanted: wanted
        """Who casts in the place of a peer, where peers may be absent; None: nobody can."""
        self.unmade = 0
        """Casts that were not made, for nobody was there who could; the others are numbered without them."""
        self.refused: list[tuple[int, int, str]] = []
        self._open: dict[tuple[int, int], Registration] = {}
        world.heard = self.hear

    # --- verbs

    def join(self, time_us: int, peer: int, introducers: tuple[int, ...]) -> None:
        self.world.at(time_us, JOIN, lambda: self._member(peer).join(introducers))

    def register(self, time_us: int, peer: int, description: Description) -> None:
        self.world.at(time_us, REGISTER, lambda: self._register(peer, description))

    def withdraw(self, time_us: int, peer: int) -> None:
        self.world.at(time_us, WITHDRAW, lambda: self._withdraw(peer))

    def leave(self, time_us: int, peer: int) -> None:
        self.world.at(time_us, LEAVE, lambda: self._leave(peer))

    def cast(self, time_us: int, number: int, publisher: int, target: Target) -> None:
        self.world.at(time_us, number, lambda: self._cast(number, publisher, target))

    # --- events

    def hear(self, address: int, event: Message) -> None:
        now_us = self.world.now_us
        if isinstance(event, Registered | Withdrawn):
            registration = self._open.pop((address, event.version), None)
            if registration is not None:
                registration.completed_us = now_us
        elif isinstance(event, Outlived):
            registration = self._open.pop((address, event.before), None)
            if registration is not None:
                registration.version = event.version
                self._open[address, event.version] = registration
        elif isinstance(event, Settled):
            self._note_settled(self.casts[self.world.casts[event.cast]], event)
        elif isinstance(event, Joined):
            self.joined[address] = now_us
            self.welcome(address)
        elif isinstance(event, Left):
            self._note_left(address)
        elif isinstance(event, Refused):
            self.refused.append((now_us, address, f"{event.verb}: {event.reason}"))

    def write(self, journal: Journal) -> None:
        """The tables of what was asked."""
        journal.table("casts", [_cast_row(cast) for cast in self.casts])
        asked: Counter[int] = Counter()
        for each in self.registrations:
            asked[each.peer] += 1
            each.ordinal = asked[each.peer]
        journal.table("registrations", [_registration_row(each) for each in self.registrations])

    # --- inside

    def awake(self, address: int) -> bool:
        """Is there a member that can be asked for anything?"""
        return isinstance(self.world.peers.get(address), Member)

    def _member(self, address: int) -> Member:
        peer = self.world.peers[address]
        assert isinstance(peer, Member), f"{address} is infrastructure: it has no application"
        return peer

    def _register(self, peer: int, description: Description) -> None:
        if peer in self.leaving or not self.awake(peer):
            return
        member = self._member(peer)
        self._note(Registration(peer, member.upcoming_version(), self.world.now_us, description))
        member.register(description)

    def _withdraw(self, peer: int) -> None:
        if peer in self.leaving or not self.awake(peer):
            return
        member = self._member(peer)
        self._note(Registration(peer, member.upcoming_version(), self.world.now_us, None))
        member.withdraw()

    def _leave(self, peer: int) -> None:
        """Whoever leaves withdraws: from now on nothing is owed to it, and nothing may reach it once it has left."""
        if peer in self.leaving or not self.awake(peer):
            return
        member = self._member(peer)
        self.leaving[peer] = Registration(peer, member.upcoming_version(), self.world.now_us, None)
        self._note(self.leaving[peer])
        member.leave()

    def _note_settled(self, cast: Cast, settled: Settled) -> None:
        cast.settled = settled
        if not settled.open:
            cast.settled_us = self.world.now_us

    def _note_left(self, peer: int) -> None:
        self.left[peer] = self.world.now_us
        withdrawal = self.leaving.get(peer)
        if withdrawal is not None and withdrawal.completed_us is None:
            withdrawal.completed_us = self.world.now_us
        self.farewell(peer)

    def _note(self, registration: Registration) -> None:
        self.registrations.append(registration)
        self._open[registration.peer, registration.version] = registration

    def _cast(self, number: int, publisher: int, target: Target) -> None:
        assert number == len(self.casts) + self.unmade, "casts are made in the order of their numbers"
        caster = self.publisher(publisher)
        if caster is None:
            self.unmade += 1
            return
        number = len(self.casts)
        member = self._member(caster)
        self.casts.append(Cast(number, caster, self.world.now_us, target))
        # The name is known before the verb runs, so that what it sends is counted for this cast.
        self.world.announce(member.upcoming_cast(), number)
        member.cast(target, self.payload)


def _cast_row(cast: Cast) -> dict[str, Any]:
    return {
        "cast": cast.number,
        "publisher": cast.publisher,
        "time_us": cast.time_us,
        "target": render(cast.target),
        "settled_us": cast.settled_us,
    }


def _registration_row(each: Registration) -> dict[str, Any]:
    described = each.description
    values: Sequence[Any] = described.values if described else ()
    return {
        "peer": each.peer,
        "version": each.ordinal,
        "begun_us": each.begun_us,
        "completed_us": each.completed_us,
        "withdrawn": described is None,
        "tags": list(described.tags) if described else [],
        "values": [{"attribute": value.attribute, "value": scalar_text(value.value)} for value in values],
    }
