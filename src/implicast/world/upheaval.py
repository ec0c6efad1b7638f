"""Carries out the deeds of a script in a running world: newcomers, leavers, crashes, troubles.

A newcomer is introduced to live members and registers when it has joined, and so is a member that comes back
(`returns.py`); a leaver stays in the world for a while after it has left, as a process does that closes its
connections; whoever is asked to leave before it has joined, or while it stands still, leaves as soon as it can. Casts
are made by whoever is there.

Deeds may overlap: whoever stands still, or is down, for several reasons at once is so until the last of them ends, and
who is gone for good stays so.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import compress, repeat
from typing import Any

from implicast.casting.designs import Design
from implicast.language.parse import describe
from implicast.language.target import Description
from implicast.peer.contract import Peer
from implicast.peer.member import Member
from implicast.space.digest import digest_bits, stream
from implicast.world.application import Application
from implicast.world.churn import Churn
from implicast.world.deeds import Deed
from implicast.world.frozen import awake, freeze, thaw
from implicast.world.journal import JOIN, UPKEEP
from implicast.world.plan import Plan
from implicast.world.populations import population
from implicast.world.returns import PeerIncarnations, Returns
from implicast.world.trouble import Trouble
from implicast.world.world import World

INTRODUCERS = 3
"""A newcomer is told of so many live members."""
LINGER_US = 30_000_000
"""How long a peer that has left still answers."""
LEAVE_AGAIN_US = 1_000_000
LOOK_US = 1_000_000
"""How often the invariants are looked at from outside while something is wrong, and how soon after a deed."""
LAST_LOOKS = 5
"""If the last look finds something, so many more may find that it was a matter of the moment."""
CALM_LOOK_US = 10_000_000
"""After each look that finds nothing the next comes twice as late, up to this: looking can cost more than running."""
_S = 1_000_000


class Upheaval:
    """One script under way."""

    def __init__(
        self,
        script: tuple[Deed, ...],
        world: World,
        application: Application,
        trouble: Trouble,
        design: Design,
        plan: Plan,
        greetings: dict[int, Description],
    ) -> None:
        self.script, self.world, self.application, self.trouble = (
            script,
            world,
            application,
            trouble,
        )
        self.design, self.plan, self.greetings = design, plan, greetings
        self.incarnations = PeerIncarnations(application, plan.peers)
        hosts = max([plan.peers + plan.infrastructure - 1, *greetings]) + 1
        self.returns = Returns(
            script, world, application, design, plan, self.incarnations, hosts, self._introduce
        )
        self._objections = population(design).watch()
        self.samples: list[tuple[int, list[str]]] = []
        """When the invariants were looked at, and what was wrong."""
        self._look_at_us = self._end_us = 0
        self._pause_us = LOOK_US
        self._greeted: set[tuple[int, int]] = set()
        """Members that have registered, and the life in which they did."""
        self._disks: dict[int, object] = {}
        """Of those that are down, and will come back."""
        self._down: dict[int, list[Deed]] = {}
        self._still: dict[int, list[Deed]] = {}
        """By address, the deeds that keep somebody down, or standing still."""
        self._failed: set[int] = set()
        self._strangers: dict[int, tuple[int, ...]] = {}
        """Newcomers that could not speak with anybody they know, by address, and whom they know."""
        self._chance = stream(plan.seed, "introducers of newcomers")
        application.welcome, application.farewell = self._welcome, self._farewell
        application.publisher, application.registered = self._publisher, self.returns.registered

    def schedule(self, start_us: int) -> None:
        """Put all deeds on the agenda."""
        for deed in self.script:
            begin, end = _DEEDS[deed.kind]
            self._at(start_us + int(deed.from_s * _S), partial(self._happen, begin, deed))
            if end is not None:
                self._at(start_us + int(deed.to_s * _S), partial(self._happen, end, deed))

    def watch(self, from_us: int, to_us: int) -> None:
        """Look at the invariants from one time to another, more often when there is reason to."""
        self._end_us = to_us
        self._look_later(from_us)
        self._at(to_us, self.look)

    def _look_later(self, time_us: int) -> None:
        self._look_at_us = time_us
        if time_us < self._end_us:
            self._at(time_us, self._look)

    def _look(self) -> None:
        now_us = self.world.now_us
        if now_us == self._look_at_us:  # else a deed has made an earlier look of it
            self._pause_us = LOOK_US if self.look() else min(2 * self._pause_us, CALM_LOOK_US)
            self._look_later(now_us + self._pause_us)

    def look(self) -> list[str]:
        self._find_strangers()
        wrong = self.wrongs()
        self.samples.append((self.world.now_us, wrong))
        return wrong

    def wrongs(self) -> list[str]:
        """What is wrong with the overlay at this moment."""
        return self._objections(self.present())

    def _happen(self, act: "Act", deed: Deed) -> None:
        act(self, deed)
        soon_us = self.world.now_us + LOOK_US
        self._pause_us = LOOK_US
        if self._look_at_us > soon_us:
            self._look_later(soon_us)

    def end_s(self) -> float:
        """When the last deed is over."""
        return max((deed.to_s for deed in self.script), default=0.0)

    def present(self) -> list[Peer]:
        """Whoever is in the world and has not left, by address; also those who stand still."""
        left, peers, renamed = self.application.left, self.world.peers, self.world.numbers
        return [
            awake(peers[address])
            for address in sorted(peers)
            if renamed.get(address, address) not in left
        ]

    def able(self) -> list[int]:
        """Members that have joined, are awake and do not leave."""
        peers, staying = self.world.peers, self._staying()
        # Asked at every cast: without a step for each peer, a fifth of the price.
        return list(
            compress(staying, map(isinstance, map(peers.__getitem__, staying), repeat(Member)))
        )

    def _staying(self) -> list[int]:
        """Addresses of whoever has joined and does not leave."""
        out = self.application.leaving.keys() | self.incarnations.joining()
        renamed = self.world.numbers
        if renamed:
            return [each for each in sorted(self.world.peers) if renamed.get(each, each) not in out]
        return sorted(self.world.peers.keys() - out)

    def _sleepers(self) -> list[int]:
        """Members that stand still and do not leave: where nobody is awake, a newcomer knocks at their doors."""
        peers = self.world.peers
        return [address for address in self._staying() if isinstance(awake(peers[address]), Member)]

    def complaints(self) -> list[str]:
        """Newcomers that never joined, leavers that never left, registrations never complete; for those that live."""
        application = self.application
        here = {application.number(address) for address in self.world.peers}
        strangers = (
            self._strangers.items()
        )  # nobody can join through those who went before it could speak with them
        lost = {
            application.number(each)
            for each, known in strangers
            if not self.world.peers.keys() & set(known)
        }
        found = [
            f"{who} never joined"
            for who in self.incarnations.joining()
            if who in here and who not in lost
        ]
        found += [
            f"{who} never left"
            for who in application.leaving
            if who in here and who not in application.left
        ]
        found += [
            f"version {last.version} of {who}'s description was never complete"
            for who, last in application.latest.items()
            if last.completed_us is None and who in here and who not in application.leaving
        ]
        return found

    def _find_strangers(self) -> None:
        """Whoever could speak with one that it knows is a stranger no more, whatever it makes of that."""
        met = [
            address
            for address, known in self._strangers.items()
            if any(self._meets(address, one) for one in known)
        ]
        for address in met:
            del self._strangers[address]

    def _meets(self, newcomer: int, other: int) -> bool:
        there = other in self.world.peers and other not in self._still
        return there and self.trouble.meet(self.world.now_us, newcomer, other)

    # --- deeds

    def _at(self, time_us: int, what: Callable[[], object]) -> None:
        self.world.at(time_us, UPKEEP, what)

    def _join(self, deed: Deed) -> None:
        for address in deed.who:
            self.world.place(address, self.plan.begin(self.design, address))
            self.incarnations.begin(address, self.world.now_us)
            known = self._introduce(address)
            if not self.plan.infrastructure:  # else it needs no member to let it in
                self._strangers[address] = known

    def _introduce(self, address: int) -> tuple[int, ...]:
        able = [each for each in self.able() or self._sleepers() if each != address]
        known = tuple(self._chance.sample(able, min(INTRODUCERS, len(able))))
        self.world.at(self.world.now_us, JOIN, partial(self._knock, address, known))
        return known

    def _knock(self, address: int, introducers: tuple[int, ...]) -> None:
        if self.application.awake(address):
            self.application.join(self.world.now_us, address, introducers)

    def _welcome(self, address: int) -> None:
        """A newcomer registers when it has joined; one that lost its place and joined again has done so before."""
        number = self.application.number(address)
        incarnation = (number, self.incarnations.born_us.get(number, 0))
        returned = self.returns.descriptions
        said = returned[number] if number in returned else self.greetings.get(number)
        if number in self.incarnations.came_us and incarnation not in self._greeted:
            self._greeted.add(incarnation)
            if said is not None:
                self.application.register(self.world.now_us, address, said)
            elif self.application.withdrawing(number):
                self.application.withdraw(self.world.now_us, address)
            if number in self.returns.outboxes:
                self.application.carry_on(address, self.returns.outboxes[number])

    def _leave(self, deed: Deed) -> None:
        able = self.able()
        for address in deed.who:
            if address in able:
                self.application.leave(self.world.now_us, address)
            elif (
                address in self.world.peers
                and self.application.number(address) not in self.application.leaving
            ):
                self._at(
                    self.world.now_us + LEAVE_AGAIN_US, partial(self._leave, _only(deed, address))
                )

    def _farewell(self, address: int) -> None:
        self._at(self.world.now_us + LINGER_US, partial(self.world.crash, address))

    def _crash(self, deed: Deed) -> None:
        for address in deed.who:
            self.returns.forget(address)
            number = self.application.number(address)
            if address in self.world.peers and number not in self.application.left:
                self.application.crashed[number] = self.world.now_us
                self.world.crash(address)

    def _fail(self, deed: Deed) -> None:
        for address in deed.who:
            self._failed.add(address)  # also of what is down just now
            self._stop(address)

    def _go_down(self, deed: Deed) -> None:
        for address in deed.who:
            peer = self.world.peers.get(address)
            if peer is not None:
                self._disks[address] = awake(peer).kept()
                self._down[address] = [deed]
                self._stop(address)
            elif address in self._down:
                self._down[address].append(deed)

    def _stop(self, address: int) -> None:
        self._still.pop(address, None)
        self.world.crash(address)

    def _come_back(self, deed: Deed) -> None:
        for address in deed.who:
            if _ended(self._down, address, deed) and address not in self._failed:
                self.world.place(address, self._revived(address, self._disks.pop(address)))

    def _revived(self, address: int, kept: Any) -> Peer:
        return self.plan.stand(
            self.design, address, kept.incarnation if kept is not None else 0, kept
        )

    def _go_away(self, deed: Deed) -> None:
        for address in deed.who:
            self._still.pop(address, None)
        self.returns.go(deed)

    def _return(self, deed: Deed) -> None:
        self.returns.come(deed)

    def _register(self, deed: Deed) -> None:
        """Say again what was said last."""
        for address in deed.who:
            said = self.application.latest.get(self.application.number(address))
            described = said.description if said is not None else None
            self._say(deed, address, described or self._other(deed, address))

    def _describe(self, deed: Deed) -> None:
        for address in deed.who:
            tags = deed.detail.split("+") if deed.detail else []
            self._say(deed, address, describe(*tags) if tags else self._other(deed, address))

    def _say(self, deed: Deed, address: int, description: Description) -> None:
        if address in self.able():
            self.application.register(self.world.now_us, address, description)

    def _other(self, deed: Deed, address: int) -> Description:
        """What some member says of itself."""
        known = self.plan.descriptions[: self.plan.peers]
        return known[
            digest_bits(48, self.plan.seed, "described anew", deed.text(), address) % len(known)
        ]

    def _withdraw(self, deed: Deed) -> None:
        for address in set(deed.who) & set(self.able()):
            self.application.withdraw(self.world.now_us, address)

    def _burst(self, deed: Deed) -> None:
        """Many casts, one after the other; what they say to whom is drawn from the casts of the run."""
        spacing_us = max(1, int(_S / deed.amount))
        end_us = self.world.now_us + int((deed.to_s - deed.from_s) * _S)
        for address in deed.who:
            for at_us in range(self.world.now_us, end_us, spacing_us):
                self._at(at_us, partial(self._cast, address))

    def _cast(self, address: int) -> None:
        targets = self.plan.targets
        if targets and address in self.able():
            drawn = digest_bits(48, self.plan.seed, "burst", len(self.application.casts))
            self.application.cast_now(address, targets[drawn % len(targets)])

    def _freeze(self, deed: Deed) -> None:
        for address in deed.who:
            if address in self.world.peers:
                self._still.setdefault(address, []).append(deed)
                freeze(self.world, address)

    def _thaw(self, deed: Deed) -> None:
        for address in deed.who:
            if _ended(self._still, address, deed):
                thaw(self.world, address)

    def _slow(self, deed: Deed, sign: int = 1) -> None:
        for address in deed.who:
            self.trouble.slow(address, sign * int(deed.amount * 1000))

    def _hurry(self, deed: Deed) -> None:
        self._slow(deed, -1)

    def _cut(self, deed: Deed) -> None:
        self.trouble.cut((deed.who[0], deed.who[1]), int(deed.amount * _S))

    def _mend(self, deed: Deed) -> None:
        self.trouble.mend((deed.who[0], deed.who[1]), int(deed.amount * _S))

    def _split(self, deed: Deed) -> None:
        self.trouble.split(frozenset(deed.who))

    def _heal(self, deed: Deed) -> None:
        self.trouble.heal(frozenset(deed.who))

    def _publisher(self, wanted: int) -> int | None:
        """Anybody who is there, newcomers as likely as others; None when all are gone, or stand still."""
        able = self.able()
        if not able:
            return None
        return able[
            digest_bits(48, self.plan.seed, "publisher", len(self.application.casts)) % len(able)
        ]


Act = Callable[[Upheaval, Deed], None]
_DEEDS: dict[str, tuple[Act, Act | None]] = {
    "join": (Upheaval._join, None),
    "leave": (Upheaval._leave, None),
    "crash": (Upheaval._crash, None),
    "fail": (Upheaval._fail, None),
    "return": (Upheaval._go_away, Upheaval._return),
    "register": (Upheaval._register, None),
    "describe": (Upheaval._describe, None),
    "withdraw": (Upheaval._withdraw, None),
    "burst": (Upheaval._burst, None),
    "fall": (Upheaval._burst, Upheaval._crash),
    "restart": (Upheaval._go_down, Upheaval._come_back),
    "freeze": (Upheaval._freeze, Upheaval._thaw),
    "slow": (Upheaval._slow, Upheaval._hurry),
    "cut": (Upheaval._cut, Upheaval._mend),
    "flap": (Upheaval._cut, Upheaval._mend),
    "split": (Upheaval._split, Upheaval._heal),
}
"""What is done at the beginning of a deed, and at its end."""


def drift_rates(churn: Churn, seed: int, hosts: int) -> dict[int, float]:
    """How much longer a second takes on each host."""
    some = range(hosts if churn.drift else 0)
    return {
        host: 1 + churn.drift * (2 * digest_bits(48, seed, "drift", host) / 2**48 - 1)
        for host in some
    }


def _ended(reasons: dict[int, list[Deed]], address: int, deed: Deed) -> bool:
    """Take a deed from those that keep somebody in a state: was it the last?"""
    if deed not in reasons.get(address, ()):
        return False  # it began when there was nobody, or somebody else
    reasons[address].remove(deed)
    if reasons[address]:
        return False
    del reasons[address]
    return True


def _only(deed: Deed, address: int) -> Deed:
    return replace(deed, who=(address,))
