"""Members that crash and come back at their address: with their disk, with an old copy of it, or with none.

The disk is what `Peer.kept` gave at the moment of the crash, the old copy what it gave when the member was first
registered. With either the member keeps its name and begins its next life; without a disk it is a new member that
happens to stand at the same address, with a name and a number of its own. Whoever comes back joins through live members
and registers when it has joined, with what its disk says or, without one, with what was said last at its address. As a
node does, it carries on with those casts of its disk of which it does not know how they ended.

A member that comes back with an old copy of its disk is as it was when the copy was made: it has forgotten what it said
and heard since then, and may hear it again.
"""

from collections.abc import Callable
from typing import Any

from implicast.casting.designs import Design
from implicast.language.target import Description
from implicast.peer.member import Member
from implicast.world.application import Application
from implicast.world.change import PeerIncarnation
from implicast.world.deeds import Deed
from implicast.world.frozen import awake
from implicast.world.plan import Plan
from implicast.world.world import World


class PeerIncarnations:
    """When each member was there, how that ended, and when those that came back were registered again."""

    def __init__(self, application: Application, peers: int) -> None:
        self.application = application
        self.born_us = dict.fromkeys(range(peers), 0)
        self.came_us: dict[int, int] = {}
        """When members that were not there from the beginning asked to join: newcomers, and those that came back."""
        self._back_us: dict[int, int | None] = {}
        self._copied_us: dict[int, int | None] = {}
        self._past: list[tuple[int, PeerIncarnation]] = []

    def begin(
        self, number: int, now_us: int, returned: bool = False, copied_us: int | None = None
    ) -> None:
        """A life of this member begins; one that was before it is over. `copied_us`: with a disk as it was then."""
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

    def registered(self, number: int, now_us: int) -> None:
        if number in self._back_us and self._back_us[number] is None:
            self._back_us[number] = now_us

    def joining(self) -> set[int]:
        """Members that have asked to join and have not been let in yet."""
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


class Returns:
    """Those who are away, and what is on their disks."""

    def __init__(
        self,
        script: tuple[Deed, ...],
        world: World,
        application: Application,
        design: Design,
        plan: Plan,
        incarnations: PeerIncarnations,
        hosts: int,
        knock: Callable[[int], object],
    ) -> None:
        self.world, self.application, self.design, self.plan, self.incarnations = (
            world,
            application,
            design,
            plan,
            incarnations,
        )
        self.knock = knock
        """Let whoever is at an address join."""
        self._named = {who for deed in script if deed.kind == "return" for who in deed.who}
        self._fresh = hosts
        """The next number for a member that comes back without its disk."""
        self.places: dict[int, int] = {}
        """Where each member stands that came back so, by number."""
        self._again: dict[int, int] = {}
        self._starts = 0
        self._old: dict[int, tuple[int, Any]] = {}
        """When the disk at an address was copied, and what was on it."""
        self._disks: dict[int, Any] = {}
        self._away: dict[int, list[Deed]] = {}
        self.descriptions: dict[int, Description | None] = {}
        """By number, what those who came back will say of themselves when they have joined."""
        self.outboxes: dict[int, int] = {}
        """By number, of what time the disk of one who came back is: it knows of casts until then."""

    def registered(self, number: int) -> None:
        """A disk is copied when its owner is first registered."""
        self.incarnations.registered(number, self.world.now_us)
        address = self.places.get(number, number)
        if address in self._named and address not in self._old:
            self._old[address] = self.world.now_us, awake(self.world.peers[address]).kept()

    def go(self, deed: Deed) -> None:
        for address in deed.who:
            peer = self.world.peers.get(address)
            number = self.application.number(address)
            if address in self._away:
                self._away[address].append(deed)
            elif peer is not None and number not in self.application.left:
                self._disks[address] = awake(peer).kept()
                self._away[address] = [deed]
                self.application.crashed[number] = self.world.now_us
                self.world.crash(address)

    def forget(self, address: int) -> None:
        """Whoever crashes for good while it is away stays away."""
        self._away.pop(address, None)

    def come(self, deed: Deed) -> None:
        for address in deed.who:
            if deed in self._away.get(address, ()):
                self._away[address].remove(deed)
                if not self._away[address]:
                    del self._away[address]
                    self._begin(address, deed.disk)

    def _begin(self, address: int, disk: str) -> None:
        said = self.application.latest.get(self.application.number(address))
        copied_us, kept = None, None if disk == "empty" else self._disks[address]
        if disk == "old" and address in self._old:
            copied_us, kept = self._old[address]
        if kept is None:
            self._rename(address)
        number = self.application.number(address)
        if kept is not None:
            self.outboxes[number] = self.world.now_us if copied_us is None else copied_us
        self.incarnations.begin(number, self.world.now_us, True, copied_us)
        self.world.place(address, self._member(address, kept))
        last = said.description if said is not None else None
        self.descriptions[number] = last if kept is None else kept.member.description
        if self.descriptions[number] != last:
            self.application.imply(address, self.descriptions[number])
        self.knock(address)

    def _rename(self, address: int) -> None:
        self.world.numbers[address], self.places[self._fresh] = self._fresh, address
        self._fresh += 1
        self._again[address] = self._again.get(address, 0) + 1

    def _member(self, address: int, kept: Any) -> Member:
        self._starts += 1
        previous, again = 0 if kept is None else kept.incarnation, self._again.get(address, 0)
        return self.plan.begin(self.design, address, previous, again, kept, self._starts)
