"""Carries out the events of a script in a running world: joins, leaves, crashes, restarts, network
faults.

A newcomer knows three live members, joins through them and registers when it has joined; so does a
member that comes back (`restarts.py`). A peer that has left keeps answering for `LINGER_US`, like a
process that closes its connections. A peer that is to leave before it has joined, or while it is
frozen, leaves as soon as it can. Casts are made by a member that is present at the time.

Events may overlap. A peer that is frozen or down for several reasons stays so until the last of
them ends. A peer that failed or crashed for good stays down.
"""

from collections.abc import Callable, Iterable
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
from implicast.world.clocks import allow_jumps, jump
from implicast.world.frozen import awake, freeze, thaw
from implicast.world.journal import JOIN, UPKEEP
from implicast.world.link_faults import LinkFaults
from implicast.world.plan import Plan
from implicast.world.populations import population
from implicast.world.restarts import PeerIncarnations, Restarts
from implicast.world.scripted_events import ScriptedEvent
from implicast.world.world import World

INTRODUCERS = 3
"""Live members that a newcomer knows."""
LINGER_US = 30_000_000
"""How long a peer answers after it has left."""
LEAVE_AGAIN_US = 1_000_000
CHECK_US = 1_000_000
"""Interval between checks of the invariants while one is violated, and time from an event to the
next check.
"""
LAST_CHECKS = 5
"""If the last check finds a violation, up to this many further checks, `CHECK_US` apart, may find
it gone.
"""
CALM_CHECK_US = 10_000_000
"""Longest interval between checks. Each check without a violation doubles the interval, because
checking can cost more than running.
"""
_S = 1_000_000


class FaultInjector:
    """Carries out one script."""

    def __init__(
        self,
        script: tuple[ScriptedEvent, ...],
        world: World,
        application: Application,
        link_faults: LinkFaults,
        design: Design,
        plan: Plan,
        newcomer_descriptions: dict[int, Description],
    ) -> None:
        self.script, self.world, self.application, self.link_faults = (
            script,
            world,
            application,
            link_faults,
        )
        self.design, self.plan, self.newcomer_descriptions = design, plan, newcomer_descriptions
        self.incarnations = PeerIncarnations(application, plan.peers)
        hosts = max([plan.peers + plan.infrastructure - 1, *newcomer_descriptions]) + 1
        self.restarts = Restarts(
            script, world, application, design, plan, self.incarnations, hosts, self._introduce
        )
        self.overlay_check = population(design).watch()
        self.samples: list[tuple[int, list[str]]] = []
        """(time_us, violations) of each check of the invariants."""
        self._check_at_us = self.watched_until_us = 0
        self._pause_us = CHECK_US
        self._registered_once: set[tuple[int, int]] = set()
        """(number, start of incarnation) of the members that have registered after joining."""
        self._disks: dict[int, object] = {}
        """Durable state of servers and brokers that are down and will come back."""
        self._down: dict[int, list[ScriptedEvent]] = {}
        self._frozen: dict[int, list[ScriptedEvent]] = {}
        """By address, the events that keep a server or broker down, and those that keep a peer
        frozen.
        """
        self._failed: set[int] = set()
        self._unconnected: dict[int, tuple[int, ...]] = {}
        """By address, newcomers that could not yet exchange messages with any of the members they
        know, and these members.
        """
        self._chance = stream(plan.seed, "introducers of newcomers")
        allow_jumps(world, script)
        application.on_joined, application.on_left = self._on_joined, self._on_left
        application.choose_publisher, application.on_registered = (
            self._choose_publisher,
            self.restarts.on_registered,
        )

    def schedule(self, start_us: int) -> None:
        """Put all events on the agenda."""
        self.restarts.schedule_copies(start_us, self._at)
        for event in self.script:
            begin, end = _HANDLERS[event.kind]
            self._at(start_us + int(event.from_s * _S), partial(self.carry_out, begin, event))
            if end is not None:
                self._at(start_us + int(event.to_s * _S), partial(self.carry_out, end, event))

    def watch(self, from_us: int, to_us: int) -> None:
        """Check the invariants from one time to another, more often after events and violations."""
        self.watched_until_us = to_us
        self._schedule_check(from_us)
        self._at(to_us, self.check)

    def _schedule_check(self, time_us: int) -> None:
        self._check_at_us = time_us
        if time_us < self.watched_until_us:
            self._at(time_us, self._check_and_reschedule)

    def _check_and_reschedule(self) -> None:
        now_us = self.world.now_us
        if now_us == self._check_at_us:  # otherwise an event has scheduled an earlier check
            self._pause_us = CHECK_US if self.check() else min(2 * self._pause_us, CALM_CHECK_US)
            self._schedule_check(now_us + self._pause_us)

    def check(self) -> list[str]:
        self._forget_connected()
        wrong = self.violations()
        self.samples.append((self.world.now_us, wrong))
        return wrong

    def violations(self) -> list[str]:
        """Violations of the overlay's invariants at this moment."""
        return self.overlay_check(self.introduced())

    def introduced(self) -> list[Peer]:
        """Present peers without newcomers that no member can let in: every member they know was
        gone before they could exchange a message.
        """
        strangers = self._strangers()
        return [each for each in self.present() if each.address not in strangers]

    def _strangers(self) -> set[int]:
        """Newcomers that have not joined, and know no member that is still there."""
        peers, joining = self.world.peers.keys(), self.incarnations.joining()
        return {
            each
            for each, known in self._unconnected.items()
            if self.application.number(each) in joining and not peers & set(known)
        }

    def carry_out(self, act: "Act", event: ScriptedEvent) -> None:
        act(self, event)
        soon_us = self.world.now_us + CHECK_US
        self._pause_us = CHECK_US
        if self._check_at_us > soon_us:
            self._schedule_check(soon_us)

    def end_s(self) -> float:
        """End of the last event."""
        return max((event.to_s for event in self.script), default=0.0)

    def present(self) -> list[Peer]:
        """All peers in the world that have not left, frozen ones included, by address."""
        left, peers, renamed = self.application.left, self.world.peers, self.world.numbers
        return [
            awake(peers[address])
            for address in sorted(peers)
            if renamed.get(address, address) not in left
        ]

    def able(self) -> list[int]:
        """Addresses of members that have joined, are not frozen and are not leaving."""
        peers, staying = self.world.peers, self._staying()
        # Called for every cast: `compress` and `map` take a fifth of the time of a loop over the
        # peers.
        return list(
            compress(staying, map(isinstance, map(peers.__getitem__, staying), repeat(Member)))
        )

    def _staying(self) -> list[int]:
        """Addresses of peers that have joined and are not leaving."""
        out = self.application.leaving.keys() | self.incarnations.joining()
        renamed = self.world.numbers
        if renamed:
            return [each for each in sorted(self.world.peers) if renamed.get(each, each) not in out]
        return sorted(self.world.peers.keys() - out)

    def _joining(self) -> list[int]:
        """Addresses of peers that have asked to join and have not joined yet."""
        joining, renamed = self.incarnations.joining(), self.world.numbers
        return [each for each in sorted(self.world.peers) if renamed.get(each, each) in joining]

    def _members(self, addresses: Iterable[int]) -> list[int]:
        """Those of some addresses where members are, frozen ones included."""
        peers = self.world.peers
        return [address for address in addresses if isinstance(awake(peers[address]), Member)]

    def complaints(self) -> list[str]:
        """Newcomers that never joined, leavers that never left and registrations never completed,
        of peers still alive.
        """
        application = self.application
        here = {application.number(address) for address in self.world.peers}
        lost = {application.number(each) for each in self._strangers()}
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

    def _forget_connected(self) -> None:
        """Forget newcomers that can now exchange messages with a member they know, whether or not
        they do.
        """
        met = [
            address
            for address, known in self._unconnected.items()
            if any(self._meets(address, one) for one in known)
        ]
        for address in met:
            del self._unconnected[address]

    def _meets(self, newcomer: int, other: int) -> bool:
        there = other in self.world.peers and other not in self._frozen
        return there and self.link_faults.meet(self.world.now_us, newcomer, other)

    # --- events

    def _at(self, time_us: int, what: Callable[[], object]) -> None:
        self.world.at(time_us, UPKEEP, what)

    def _join(self, event: ScriptedEvent) -> None:
        for address in event.who:
            self.world.place(address, self.plan.new_member(self.design, address))
            self.incarnations.begin(address, self.world.now_us)
            known = self._introduce(address)
            if not self.plan.infrastructure:  # otherwise it joins through a server or broker
                self._unconnected[address] = known

    def _introduce(self, address: int) -> tuple[int, ...]:
        """Let a peer join through members; through frozen ones if all are frozen, and through
        members that are joining too if none has joined. Without these, two members that start could
        each found a network, and neither would know of the other.
        """
        known = self.able() or self._members(self._staying()) or self._members(self._joining())
        able = [each for each in known if each != address]
        introducers = tuple(self._chance.sample(able, min(INTRODUCERS, len(able))))
        self.world.at(self.world.now_us, JOIN, partial(self._join_through, address, introducers))
        return introducers

    def _join_through(self, address: int, introducers: tuple[int, ...]) -> None:
        if self.application.awake(address):
            self.application.join(self.world.now_us, address, introducers)

    def _on_joined(self, address: int) -> None:
        """Register a newcomer that has joined. A member that lost its place and joined again is
        registered already.
        """
        number = self.application.number(address)
        incarnation = (number, self.incarnations.born_us.get(number, 0))
        returned = self.restarts.descriptions
        description = (
            returned[number] if number in returned else self.newcomer_descriptions.get(number)
        )
        if number in self.incarnations.came_us and incarnation not in self._registered_once:
            self._registered_once.add(incarnation)
            if description is not None:
                self.application.register(self.world.now_us, address, description)
            elif self.application.withdrawing(number):
                self.application.withdraw(self.world.now_us, address)
            if number in self.restarts.outboxes:
                self.application.carry_on(address, self.restarts.outboxes[number])

    def _leave(self, event: ScriptedEvent) -> None:
        able = self.able()
        for address in event.who:
            if address in able:
                self.application.leave(self.world.now_us, address)
            elif (
                address in self.world.peers
                and self.application.number(address) not in self.application.leaving
            ):
                self._at(
                    self.world.now_us + LEAVE_AGAIN_US, partial(self._leave, _only(event, address))
                )

    def _on_left(self, address: int) -> None:
        self._at(self.world.now_us + LINGER_US, partial(self.world.crash, address))

    def _crash(self, event: ScriptedEvent) -> None:
        for address in event.who:
            self.restarts.cancel(address)
            number = self.application.number(address)
            if address in self.world.peers and number not in self.application.left:
                self.application.crashed[number] = self.world.now_us
                self.world.crash(address)

    def _fail(self, event: ScriptedEvent) -> None:
        for address in event.who:
            self._failed.add(address)  # also if it is down now: it then stays down
            self._stop(address)

    def _go_down(self, event: ScriptedEvent) -> None:
        for address in event.who:
            peer = self.world.peers.get(address)
            if peer is not None:
                self._disks[address] = awake(peer).durable_state()
                self._down[address] = [event]
                self._stop(address)
            elif address in self._down:
                self._down[address].append(event)

    def _stop(self, address: int) -> None:
        self._frozen.pop(address, None)
        self.world.crash(address)

    def _come_back(self, event: ScriptedEvent) -> None:
        for address in event.who:
            if _ended(self._down, address, event) and address not in self._failed:
                self.world.place(address, self._revived(address, self._disks.pop(address)))

    def _revived(self, address: int, durable_state: Any) -> Peer:
        return self.plan.new_fixture(
            self.design,
            address,
            durable_state.incarnation if durable_state is not None else 0,
            durable_state,
        )

    def _go_away(self, event: ScriptedEvent) -> None:
        for address in event.who:
            self._frozen.pop(address, None)
        self.restarts.begin_absence(event)

    def _return(self, event: ScriptedEvent) -> None:
        self.restarts.end_absence(event)

    def _register(self, event: ScriptedEvent) -> None:
        """Register the last description again."""
        for address in event.who:
            last = self.application.latest.get(self.application.number(address))
            described = last.description if last is not None else None
            self._register_if_able(event, address, described or self._other(event, address))

    def _describe(self, event: ScriptedEvent) -> None:
        for address in event.who:
            tags = event.detail.split("+") if event.detail else []
            self._register_if_able(
                event, address, describe(*tags) if tags else self._other(event, address)
            )

    def _register_if_able(
        self, event: ScriptedEvent, address: int, description: Description
    ) -> None:
        if address in self.able():
            self.application.register(self.world.now_us, address, description)

    def _other(self, event: ScriptedEvent, address: int) -> Description:
        """The description of some member, drawn by the seed."""
        known = self.plan.descriptions[: self.plan.peers]
        return known[
            digest_bits(48, self.plan.seed, "described anew", event.text(), address) % len(known)
        ]

    def _withdraw(self, event: ScriptedEvent) -> None:
        for address in set(event.who) & set(self.able()):
            self.application.withdraw(self.world.now_us, address)

    def _burst(self, event: ScriptedEvent) -> None:
        """Cast at a fixed rate; targets are drawn from those of the run."""
        spacing_us = max(1, int(_S / event.amount))
        end_us = self.world.now_us + int((event.to_s - event.from_s) * _S)
        for address in event.who:
            for at_us in range(self.world.now_us, end_us, spacing_us):
                self._at(at_us, partial(self._cast, address))

    def _cast(self, address: int) -> None:
        targets = self.plan.targets
        if targets and address in self.able():
            drawn = digest_bits(48, self.plan.seed, "burst", len(self.application.casts))
            self.application.cast_now(address, targets[drawn % len(targets)])

    def _freeze(self, event: ScriptedEvent) -> None:
        for address in event.who:
            if address in self.world.peers:
                self._frozen.setdefault(address, []).append(event)
                freeze(self.world, address)

    def _thaw(self, event: ScriptedEvent) -> None:
        for address in event.who:
            if _ended(self._frozen, address, event):
                thaw(self.world, address)

    def _slow(self, event: ScriptedEvent, sign: int = 1) -> None:
        for address in event.who:
            self.link_faults.slow(address, sign * int(event.amount * 1000))

    def _hurry(self, event: ScriptedEvent) -> None:
        self._slow(event, -1)

    def _cut(self, event: ScriptedEvent) -> None:
        self.link_faults.cut((event.who[0], event.who[1]), int(event.amount * _S))

    def _mend(self, event: ScriptedEvent) -> None:
        self.link_faults.mend((event.who[0], event.who[1]), int(event.amount * _S))

    def _split(self, event: ScriptedEvent) -> None:
        self.link_faults.split(frozenset(event.who))

    def _heal(self, event: ScriptedEvent) -> None:
        self.link_faults.heal(frozenset(event.who))

    def _mute(self, event: ScriptedEvent) -> None:
        self.link_faults.mute(frozenset(event.who))

    def _unmute(self, event: ScriptedEvent) -> None:
        self.link_faults.unmute(frozenset(event.who))

    def _deafen(self, event: ScriptedEvent) -> None:
        self.link_faults.deafen(frozenset(event.who))

    def _undeafen(self, event: ScriptedEvent) -> None:
        self.link_faults.undeafen(frozenset(event.who))

    def _jump(self, event: ScriptedEvent) -> None:
        jump(self.world, event)

    def _choose_publisher(self, wanted: int) -> int | None:
        """Any able member with equal probability, newcomers included; None if there is none."""
        able = self.able()
        if not able:
            return None
        return able[
            digest_bits(48, self.plan.seed, "publisher", len(self.application.casts)) % len(able)
        ]


Act = Callable[[FaultInjector, ScriptedEvent], None]
_HANDLERS: dict[str, tuple[Act, Act | None]] = {
    "join": (FaultInjector._join, None),
    "leave": (FaultInjector._leave, None),
    "crash": (FaultInjector._crash, None),
    "fail": (FaultInjector._fail, None),
    "return": (FaultInjector._go_away, FaultInjector._return),
    "register": (FaultInjector._register, None),
    "describe": (FaultInjector._describe, None),
    "withdraw": (FaultInjector._withdraw, None),
    "burst": (FaultInjector._burst, None),
    "fall": (FaultInjector._burst, FaultInjector._crash),
    "restart": (FaultInjector._go_down, FaultInjector._come_back),
    "freeze": (FaultInjector._freeze, FaultInjector._thaw),
    "slow": (FaultInjector._slow, FaultInjector._hurry),
    "cut": (FaultInjector._cut, FaultInjector._mend),
    "flap": (FaultInjector._cut, FaultInjector._mend),
    "split": (FaultInjector._split, FaultInjector._heal),
    "oneway": (FaultInjector._mute, FaultInjector._unmute),
    "deaf": (FaultInjector._deafen, FaultInjector._undeafen),
    "jump": (FaultInjector._jump, None),
}
"""By kind, what to do at the begin and at the end of an event."""


def _ended(reasons: dict[int, list[ScriptedEvent]], address: int, event: ScriptedEvent) -> bool:
    """Remove one of the events that keep a peer in a state; True if it was the last."""
    if event not in reasons.get(address, ()):
        return False  # the event began while no peer, or another one, was at the address
    reasons[address].remove(event)
    if reasons[address]:
        return False
    del reasons[address]
    return True


def _only(event: ScriptedEvent, address: int) -> ScriptedEvent:
    return replace(event, who=(address,))
