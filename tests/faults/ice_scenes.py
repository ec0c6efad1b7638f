"""A living surface with a simple store, hostile scenes for it, and what must hold: the trial ground
of ICE's life.

The store stores numbered things at places. A thing is *complete* when its owner has said so, after
its batch counted. Scenes are functions of a seed. The watcher looks at every change of ownership,
at every death and four times a second whether two peers answer for one code, and whether there is a
code that nobody holds and no backup of the dead could inherit; not across a partition, but again
when it has healed and repair has had its time. When all is quiet it looks at the invariants and at
every complete thing.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import pi
from random import Random

import msgspec

from implicast.overlay.ice.durable import DurableSurface
from implicast.overlay.ice.item_store import Item, RouteHeader
from implicast.overlay.ice.kinds import KINDS
from implicast.overlay.ice.messages import OwnershipClaim
from implicast.overlay.ice.settings import SurfaceSettings, Timers
from implicast.overlay.ice.surface import IceSurface
from implicast.peer.contract import Message, Peer, handles
from implicast.peer.wire import Codec
from implicast.space.angle import cosine_of
from implicast.space.digest import digest_bits, stream
from implicast.space.morton import BITS
from implicast.space.tract import WHOLE, contains, intervals, subtract, union
from implicast.world.faults import Faults, FaultStream
from implicast.world.frozen import awake, freeze, thaw
from implicast.world.journal import UPKEEP
from implicast.world.link_faults import LinkFaults
from implicast.world.populations.surface import settle, tiling, uniform_points
from implicast.world.populations.surface_objections import doubles, surface_objections
from implicast.world.world import World

S = 1_000_000
CHECK_US = S // 4
"""Copies of what the dead held may be dropped without a change of ownership: so one looks this
often besides.
"""


class Put(Message):
    wire = 0x7001

    way: RouteHeader
    thing: int
    version: int
    origin: int


class Stored(Message):
    wire = 0x7002

    thing: int
    version: int


class PutAgain(Message):
    thing: int


class Lodger(Peer, parts={"surface": IceSurface}):
    """Keeps things at places for others, and has others keep things for it."""

    surface_kind: type = IceSurface

    def __init__(self, address, host, terms, scene, kept=None):
        super().__init__(address, host)
        self.things: dict[int, tuple[int, int]] = {}
        self.offers: dict[int, tuple[int, int]] = {}
        self.wanted: dict[int, tuple[int, int]] = {}
        self.scene = scene
        self.surface = self.surface_kind(address, host, self, terms, kept)

    # the keeper

    def pack(self, tract):
        return tuple(
            Item(code, code + 1, thing.to_bytes(4), msgspec.msgpack.encode((thing, version)))
            for thing, (code, version) in self.things.items()
            if contains(tract, code)
        )

    def can_decode(self, item):
        return True

    def accept(self, items, tract):
        for item in items:
            thing, version = msgspec.msgpack.decode(item.body)
            if contains(tract, item.low) and version > self.things.get(thing, (0, 0))[1]:
                self.things[thing] = (item.low, version)

    def drop(self, tract):
        self.things = {thing: at for thing, at in self.things.items() if not contains(tract, at[0])}

    def on_tract_lost(self, tract):
        gone = {thing: at for thing, at in self.things.items() if contains(tract, at[0])}
        self.drop(tract)
        for thing, (code, version) in gone.items():
            self.offers[thing] = (code, version)
            self._send(thing, code, version)

    def lost(self, tract):
        self.scene.orphaned += 1

    def on_partition_healed(self): ...

    def retry_waiting(self): ...

    def settled(self):
        self.scene.changed(self)

    def on_arrival(self, sender, part, message):
        code = message.way.tract[0]
        if message.version >= self.things.get(message.thing, (0, 0))[1]:
            self.things[message.thing] = (code, message.version)
        item = next(
            each for each in self.pack((code, code + 1)) if each.key == message.thing.to_bytes(4)
        )
        self.surface.replicate((item,), lambda: self._complete(message, code))

    def _complete(self, message, code):
        if not self.surface.answers(code):
            return
        if message.origin == self.address:
            self.on_stored(self.address, Stored(message.thing, message.version))
        else:
            self.host.send(message.origin, Stored(message.thing, message.version))

    # what it wants of others

    def put(self, thing, code, version):
        self.wanted[thing] = (code, version)
        self._send(thing, code, version)

    def _send(self, thing, code, version):
        self.surface.send(Put(RouteHeader((code, code + 1)), thing, version, self.address))
        self.host.after(3 * S, PutAgain(thing))

    @handles(PutAgain)
    def on_put_again(self, alarm):
        for table in (self.wanted, self.offers):
            if alarm.thing in table:
                self._send(alarm.thing, *table[alarm.thing])
                return

    @handles(Put)
    def on_put(self, sender, put):
        self.surface.routing.on_routed(sender, put)

    @handles(Stored)
    def on_stored(self, sender, stored):
        if sender != self.address:
            self.surface.heard_from(sender)
        for table in (self.wanted, self.offers):
            if table.get(stored.thing, (0, 0))[1] == stored.version:
                code, version = table.pop(stored.thing)
                self.scene.complete(stored.thing, code, version)


def uncovered(surfaces: list[IceSurface]) -> list[str]:
    """At any time: codes that no live peer holds, on whatever terms, and no live backup of the dead
    has a copy of.
    """
    alive = {each.address: each.born_us for each in surfaces}
    held = [pair for each in surfaces for pair in intervals(each.tract)]
    held += [(claim.low, claim.high) for each in surfaces for claim in inheritable(each, alive)]
    return [f"no peer holds or can restore {low:#x}" for low in subtract(WHOLE, union(held))[::2]]


def inheritable(surface: IceSurface, alive: dict[int, int]) -> Iterator[OwnershipClaim]:
    """Titles of the dead of whose backup_copies this peer has a copy; who began another life is
    dead in the one before.
    """
    for owner, copy in surface.copies.held.items():
        state = surface.members.states.get(owner)
        if owner not in alive or (state is not None and state.born_us < alive[owner]):
            yield from copy.claims
    for dead_owner in surface.takeover.dead_owners.values():
        yield from dead_owner.copy.claims
    for poll in surface.takeover.polls.values():
        if poll.message.certain and poll.copy is not None:
            yield from poll.copy.claims


def healing_us(timers: Timers) -> int:
    """After a cut both sides greet whom they lost; whoever lost everything by that enters anew."""
    return 2 * timers.probe_lost_us + timers.dead_after_us + 2 * timers.rank_us


class Net:
    """Delays of 5 to 80 ms."""

    def __init__(self, seed):
        self.seed, self.known = seed, {}

    def latency_us(self, a, b):
        key = (a, b) if a < b else (b, a)
        if key not in self.known:
            self.known[key] = 5_000 + digest_bits(20, self.seed, "delay", *key) * 75_000 // 2**20
        return self.known[key]


@dataclass
class Scene:
    """One run: a world, what happens in it, and what was wrong."""

    seed: int
    peers: int = 20
    dimensions: int = 2
    faults: Faults = field(default_factory=lambda: Faults(0.01, 0.01, 0.02, (50.0, 400.0), 0.1))
    timers: Timers = field(default_factory=lambda: Timers.of(1.5))
    lodger: type = Lodger
    strict: bool = False
    assembled: bool = True
    wrong: list[str] = field(default_factory=list)
    completed: dict[int, tuple[int, int]] = field(default_factory=dict)
    parted: int = 0
    """Partitions under way or healed a short while ago: two sides may both answer."""
    divided: bool = False
    """There was a partition at some time."""
    crashed: bool = False
    orphaned: int = 0
    repaired_s: float = -1.0

    def __post_init__(self):
        self.terms = SurfaceSettings(self.dimensions, cosine_of(pi / 3), timers=self.timers)
        self.rng: Random = stream(self.seed, "scene")
        self.link_faults = LinkFaults(FaultStream(self.faults, self.seed))
        codec = Codec((*KINDS, Put, Stored)) if self.strict else None
        self.world = World(Net(self.seed), seed=self.seed, faults=self.link_faults, codec=codec)
        self.fresh, self.thing = 0, 0
        self.whole = False
        """Everybody has been set up: from now on there is a surface."""
        lodgers = [self.lodge() for _ in range(self.peers)]
        if self.assembled:
            points = uniform_points(self.peers, self.rng.getrandbits)
            surfaces = [each.surface for each in lodgers]
            settle(tiling(points, self.dimensions), surfaces, self.world.latency_us)
        else:
            lodgers[0].surface.join(())
            for number, each in enumerate(lodgers[1:]):
                self.at(0.3 + 0.2 * number, lambda each=each: each.surface.join((0,)))
        self.whole = True
        self.at(0.1, self.keep_looking)

    # the population

    def lodge(self, again: int | None = None, kept: DurableSurface | None = None) -> Lodger:
        address = self.fresh if again is None else again
        self.fresh += again is None
        lodger = self.lodger(address, self.world.host(address), self.terms, self, kept)
        self.world.place(address, lodger)
        return lodger

    def lodgers(self) -> list[Lodger]:
        return [awake(peer) for _, peer in sorted(self.world.peers.items())]

    def surfaces(self) -> list[IceSurface]:
        return [each.surface for each in self.lodgers()]

    def steady(self) -> list[Lodger]:
        return [
            each for each in self.lodgers() if each.surface.committed and not each.surface.leaving
        ]

    def at(self, time_s: float, verb: Callable[[], object]) -> None:
        self.world.at(int(time_s * S), UPKEEP, verb)

    # deeds

    def join(self) -> None:
        known = tuple(
            each.address for each in self.rng.sample(self.steady(), min(3, len(self.steady())))
        )
        self.lodge().surface.join(known)

    def leave(self) -> None:
        if len(self.steady()) > 4:
            lodger = self.rng.choice(self.steady())
            lodger.wanted.clear()
            lodger.surface.leave()

    def crash(self, lodger: Lodger | None = None) -> None:
        if len(self.steady()) > 4:
            lodger = lodger or self.rng.choice(self.steady())
            self.crashed = True
            self.die(lodger.address)

    def die(self, address: int) -> None:
        if address in self.world.peers:
            self.world.crash(address)
            self.look()

    def come_back(
        self, lodger: Lodger | None = None, disk: bool | None = None, away_s: float | None = None
    ) -> None:
        """A lodger dies, and returns to its address a little later, with what it kept or without."""
        if len(self.steady()) > 4:
            lodger = lodger or self.rng.choice(self.steady())
            disk = self.rng.random() < 0.5 if disk is None else disk
            away_s = self.rng.uniform(0, 6) if away_s is None else away_s
            kept = lodger.surface.durable_state() if disk else None
            self.crash(lodger)
            self.at(self.world.now_us / S + away_s, lambda: self.revive(lodger.address, kept))

    def revive(self, address: int, kept: DurableSurface | None) -> None:
        if address not in self.world.peers:
            known = tuple(
                each.address for each in self.rng.sample(self.steady(), min(3, len(self.steady())))
            )
            self.lodge(address, kept).surface.join(known)

    def twins(self) -> None:
        """An owner, and its first backup a little later."""
        lodger = self.rng.choice(self.steady())
        backups = lodger.surface.backups
        self.crash(lodger)
        if backups and backups[0] in self.world.peers:
            later_s = (
                self.world.now_us / S + self.rng.random() * self.timers.dead_after_us / S * 1.5
            )
            self.at(later_s, lambda: self.die(backups[0]))

    def freeze(self) -> None:
        lodger = self.rng.choice(self.steady())
        freeze(self.world, lodger.address)
        seconds = self.rng.uniform(1, 14)
        self.at(self.world.now_us / S + seconds, lambda: thaw(self.world, lodger.address))

    def cut_link(self) -> None:
        """An owner and its first backup do not hear each other."""
        lodger = self.rng.choice(self.steady())
        if lodger.surface.backups:
            pair = (lodger.address, lodger.surface.backups[0])
            for link in (pair, pair[::-1]):
                self.link_faults.cut(link)
                self.at(
                    self.world.now_us / S + self.rng.uniform(3, 20),
                    lambda link=link: self.link_faults.mend(link),
                )

    def split(self) -> None:
        everyone = [each.address for each in self.lodgers()]
        side = frozenset(self.rng.sample(everyone, len(everyone) // 2))
        self.part(side)
        self.at(self.world.now_us / S + self.rng.uniform(3, 20), lambda: self.heal(side))

    def part(self, side: frozenset[int]) -> None:
        self.link_faults.split(side)
        self.parted, self.divided = self.parted + 1, True

    def heal(self, side: frozenset[int]) -> None:
        self.link_faults.heal(side)
        self.at((self.world.now_us + healing_us(self.timers)) / S, self.grow_together)

    def grow_together(self) -> None:
        """From now on one surface is due again."""
        self.parted -= 1
        self.look()

    def put(self) -> None:
        self.thing += 1
        self.rng.choice(self.steady()).put(self.thing, self.rng.getrandbits(BITS), 1)

    # watching

    def changed(self, lodger: Lodger) -> None:
        """A lodger's ground has changed."""
        self.look()

    def look(self) -> None:
        """What must hold at any time does, except across a partition."""
        if self.parted or not self.whole:
            return
        surfaces = self.surfaces()
        found = doubles(surfaces) + uncovered(surfaces)
        self.wrong += [f"{self.world.now_us / S:.2f} s: {each}" for each in found[:1]]

    def keep_looking(self) -> None:
        self.look()
        self.at((self.world.now_us + CHECK_US) / S, self.keep_looking)

    def complete(self, thing: int, code: int, version: int) -> None:
        self.completed[thing] = max(self.completed.get(thing, (0, 0)), (version, code))

    def objections(self) -> list[str]:
        present = [each for each in self.surfaces() if not each.relocation.left]
        return surface_objections(present)

    def missing(self) -> list[str]:
        owners = self.lodgers()
        found = []
        for thing, (version, code) in self.completed.items():
            owner = next((each for each in owners if contains(each.surface.committed, code)), None)
            if owner is None or owner.things.get(thing, (0, 0))[1] < version:
                found.append(f"thing {thing} is missing")
        return found

    def amiss(self) -> list[str]:
        """A partition with crashes may lose what one side alone knew to be complete; nothing else
        may.
        """
        excused = self.divided and self.crashed
        return self.objections() + ([] if excused else self.missing())

    def run(self, over_s: float, quiet_s: float) -> "Scene":
        """Until all deeds are over, then until quiet, at most so long."""
        self.world.run(int(over_s * S))
        objections = self.amiss()
        while objections and self.world.now_us < (over_s + quiet_s) * S:
            self.world.run(self.world.now_us + S // 2)
            objections = self.amiss()
        self.repaired_s = self.world.now_us / S - over_s
        self.wrong += objections
        return self


def play(
    seed: int, deeds: dict[str, int], over_s: float = 40.0, quiet_s: float = 60.0, **settings
) -> Scene:
    """A scene with so many deeds of each kind at random times, and things put all the while."""
    scene = Scene(seed, **settings)
    for name, count in deeds.items():
        for number in range(count):
            share = scene.rng.random()
            if name in SPACED:
                share = (number + 0.3 * share) / count
            scene.at(2 + share * (over_s - 5), getattr(scene, name))
    for _ in range(2 * scene.peers):
        scene.at(1 + scene.rng.random() * (over_s - 2), scene.put)
    return scene.run(over_s + 20, quiet_s)


def varied(seed: int, name: str, lodger: type = Lodger) -> Scene:
    """A scene of this name in a world drawn from the seed: 8 to 128 peers, 2 to 4 dimensions, loss
    up to 5 %.
    """
    chance = stream(seed, "varied", name)
    peers = int(8 * 16 ** chance.random())
    deeds = {deed: max(1, int(count * peers / 20)) for deed, count in SCENES[name].items()}
    deeds = {deed: min(count, MOST.get(deed, 16)) for deed, count in deeds.items()}
    loss, again = chance.choice((0.0, 0.01, 0.05)), chance.choice((0.0, 0.02, 0.05))
    faults = Faults(
        loss, again, chance.choice((0.0, 0.02)), (50.0, 400.0), chance.choice((0.0, 0.2))
    )
    slow = chance.random() < 0.25
    return play(
        seed,
        deeds,
        over_s=100.0 if slow else 40.0,
        quiet_s=60.0,
        peers=peers,
        dimensions=chance.choice((2, 3, 4)),
        faults=faults,
        timers=Timers() if slow else Timers.of(1.5),
        lodger=lodger,
        strict=chance.random() < 0.2,
    )


MOST = {"crash": 4, "twins": 2, "split": 4, "come_back": 4}
"""Of what takes long to repair."""
SPACED = ("crash", "twins", "split", "come_back")
"""Deeds that come one after the other, each after the last has been repaired: no more is promised.
"""
SCENES: dict[str, dict[str, int]] = {
    "calm": {"join": 4},
    "flux": {"join": 10, "leave": 10},
    "crash": {"crash": 3, "join": 4, "leave": 3},
    "twins": {"twins": 2, "join": 2},
    "returns": {"come_back": 4, "join": 3, "leave": 3},
    "freeze": {"freeze": 6},
    "cutlink": {"cut_link": 5},
    "split": {"split": 1},
    "storm": {"join": 6, "leave": 4, "crash": 2, "freeze": 2, "cut_link": 2, "split": 1},
    "mix": {"join": 5, "leave": 4, "crash": 2, "freeze": 3, "cut_link": 2},
}
