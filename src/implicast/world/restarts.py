"""Members that crash and come back at their address: with their disk, with an old copy of it, or
with an empty one, or with a disk that has lost what was written last.

The disk holds `Peer.durable_state` as of the crash, the old copy that of the member's first
completed registration. With either, the member keeps its name and starts its next incarnation. With
an empty disk it is a new member at the same address, with a new name and a new number. The member
joins through live members and registers when it has joined: the description on its disk or, without
one, the last description registered at its address. Like a node on a network it resumes the casts
of its outbox whose outcome it does not know.

Two disks are faulty. A `lost` disk holds the state of `UNWRITTEN_S` before the crash, a `torn` one
that before the last change, if it changed within that time.

A member with an old copy of its disk has forgotten what it sent and received after the copy was
made, and may receive it again.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from implicast.casting.designs import Design
from implicast.language.target import Description
from implicast.peer.member import Member
from implicast.world.application import Application
from implicast.world.change import PeerIncarnation
from implicast.world.frozen import awake
from implicast.world.plan import Plan
from implicast.world.scripted_events import FAULTY_DISKS, ScriptedEvent
from implicast.world.world import World

UNWRITTEN_S = 1.0
"""What a faulty disk may lose: the changes of this many seconds before the crash."""
COPIES = 20
"""States that are compared in this time to find the last change."""
_S = 1_000_000


class PeerIncarnations:
    """Begin and end of each incarnation of each member, and when a returned member was registered
    again.
    """

    def __init__(self, application: Application, peers: int) -> None:
        self.application = application
        self.born_us = dict.fromkeys(range(peers), 0)
        self.came_us: dict[int, int] = {}
        """When a member that was not in the initial population asked to join: newcomers and
        returned members.
        """
        self._back_us: dict[int, int | None] = {}
        self._copied_us: dict[int, int | None] = {}
        self._past: list[tuple[int, PeerIncarnation]] = []

    def begin(
        self, number: int, now_us: int, returned: bool = False, copied_us: int | None = None
    ) -> None:
        """Start an incarnation of a member and close the one before it. `copied_us`: when its disk
        was copied, if that is an old copy.
        """
        if number in self.born_us:
            self._past.append((number, self._incarnation(number)))
            for table in (
                self.application.crashed,
                self.application.joined,
                self.application.leaving,
            ):
                table.pop(number, None)
        self.born_us[number] = self.came_us[number] = now_us
        if returned:
            self._back_us[number], self._copied_us[number] = None, copied_us

    def on_registered(self, number: int, now_us: int) -> None:
        if number in self._back_us and self._back_us[number] is None:
            self._back_us[number] = now_us

    def joining(self) -> set[int]:
        """Members that have asked to join and have not joined yet."""
        return self.came_us.keys() - self.application.joined.keys()

    def all(self) -> list[tuple[int, PeerIncarnation]]:
        return sorted(
            [*self._past, *((number, self._incarnation(number)) for number in self.born_us)],
            key=_began,
        )

    def _incarnation(self, number: int) -> PeerIncarnation:
        application, joined_us = self.application, 0
        ends = (
            (application.left.get(number), "left"),
            (application.crashed.get(number), "crashed"),
        )
        to_us, end = next((each for each in ends if each[0] is not None), (None, "stayed"))
        leaving = application.leaving.get(number)
        return PeerIncarnation(
            self.born_us[number],
            application.joined.get(number) if number in self.came_us else joined_us,
            None if leaving is None else leaving.begun_us,
            to_us,
            end,
            number in self._back_us,
            self._back_us.get(number),
            self._copied_us.get(number),
        )


def _began(one: tuple[int, PeerIncarnation]) -> tuple[int, int]:
    return one[1].from_us, one[0]


class Restarts:
    """Absent members and their disks."""

    def __init__(
        self,
        script: tuple[ScriptedEvent, ...],
        world: World,
        application: Application,
        design: Design,
        plan: Plan,
        incarnations: PeerIncarnations,
        hosts: int,
        join_again: Callable[[int], object],
    ) -> None:
        self.world, self.application, self.design, self.plan, self.incarnations = (
            world,
            application,
            design,
            plan,
            incarnations,
        )
        self.join_again = join_again
        """Lets the member at an address join again."""
        self._faulty = [event for event in script if event.disk in FAULTY_DISKS]
        self._copies: dict[tuple[int, ScriptedEvent], list[tuple[int, Any]]] = {}
        """By address and absence with a faulty disk, states before the crash and their times."""
        self._named = {who for event in script if event.kind == "return" for who in event.who}
        self._fresh = hosts
        """Number of the next member that comes back with an empty disk."""
        self.places: dict[int, int] = {}
        """By number of such a member, its address."""
        self._again: dict[int, int] = {}
        self._starts = 0
        self._old: dict[int, tuple[int, Any]] = {}
        """By address, when the disk was copied and what it held."""
        self._disks: dict[int, Any] = {}
        self._held_until_us: dict[int, int] = {}
        """By address, the time of the state on a faulty disk."""
        self._away: dict[int, list[ScriptedEvent]] = {}
        self.descriptions: dict[int, Description | None] = {}
        """By number of a returned member, the description that it registers once it has joined."""
        self.outboxes: dict[int, int] = {}
        """By number of a returned member, the time of its disk: it knows the casts made until then.
        """

    def on_registered(self, number: int) -> None:
        """Copy the disk of a member when its first registration is complete."""
        self.incarnations.on_registered(number, self.world.now_us)
        address = self.places.get(number, number)
        if address in self._named and address not in self._old:
            self._old[address] = self.world.now_us, awake(self.world.peers[address]).durable_state()

    def schedule_copies(
        self, start_us: int, at: Callable[[int, Callable[[], object]], None]
    ) -> None:
        """Copy the state of members whose disk will lose the last writes: once for a `lost` disk,
        `COPIES` times for a `torn` one.
        """
        for event in self._faulty:
            crash_us, lost_us = start_us + int(event.from_s * _S), int(UNWRITTEN_S * _S)
            for turn in range(COPIES if event.disk == "torn" else 1):
                at_us = max(start_us, crash_us - lost_us + turn * lost_us // COPIES)
                at(at_us, partial(self._copy, event))

    def _copy(self, event: ScriptedEvent) -> None:
        for address in event.who:
            peer = self.world.peers.get(address)
            if peer is not None:
                copy = self.world.now_us, awake(peer).durable_state()
                self._copies.setdefault((address, event), []).append(copy)

    def begin_absence(self, event: ScriptedEvent) -> None:
        for address in event.who:
            peer = self.world.peers.get(address)
            number = self.application.number(address)
            if address in self._away:
                self._away[address].append(event)
            elif peer is not None and number not in self.application.left:
                self._disks[address] = awake(peer).durable_state()
                self._lose_last_writes(address, event)
                self._away[address] = [event]
                self.application.crashed[number] = self.world.now_us
                self.world.crash(address)

    def _lose_last_writes(self, address: int, event: ScriptedEvent) -> None:
        """Replace the disk of a member by the state that a faulty one holds."""
        state = self._disks[address]
        self._held_until_us.pop(address, None)
        copies = self._copies.pop((address, event), [])
        if event.disk == "torn":
            copies = [each for each in copies if each[1] != state][-1:]
        if copies:
            self._held_until_us[address], self._disks[address] = copies[0]

    def cancel(self, address: int) -> None:
        """A member that crashes for good while absent does not come back."""
        self._away.pop(address, None)

    def end_absence(self, event: ScriptedEvent) -> None:
        for address in event.who:
            if event in self._away.get(address, ()):
                self._away[address].remove(event)
                if not self._away[address]:
                    del self._away[address]
                    self._begin(address, event.disk)

    def _begin(self, address: int, disk: str) -> None:
        last_registration = self.application.latest.get(self.application.number(address))
        copied_us, durable_state = None, None if disk == "empty" else self._disks[address]
        if disk == "old" and address in self._old:
            copied_us, durable_state = self._old[address]
        if disk in FAULTY_DISKS:
            copied_us = self._held_until_us.get(address)
        if durable_state is None:
            self._rename(address)
        number = self.application.number(address)
        if durable_state is not None:
            self.outboxes[number] = self.world.now_us if copied_us is None else copied_us
        self.incarnations.begin(number, self.world.now_us, True, copied_us)
        self.world.place(address, self._member(address, durable_state))
        last = last_registration.description if last_registration is not None else None
        self.descriptions[number] = (
            last if durable_state is None else durable_state.member.description
        )
        if self.descriptions[number] != last:
            self.application.note_restored(address, self.descriptions[number])
        self.join_again(address)

    def _rename(self, address: int) -> None:
        self.world.numbers[address], self.places[self._fresh] = self._fresh, address
        self._fresh += 1
        self._again[address] = self._again.get(address, 0) + 1

    def _member(self, address: int, durable_state: Any) -> Member:
        self._starts += 1
        previous, again = (
            0 if durable_state is None else durable_state.incarnation,
            self._again.get(address, 0),
        )
        return self.plan.new_member(
            self.design, address, previous, again, durable_state, self._starts
        )
