"""Peers that lie: a seeded, colluding fraction of the members, against any design.

A liar runs the very same peer as everybody else, on a host that does something else with what the peer wants to send.
So these attacks need to know nothing of the design:

    silent           forwards nothing
    wrong-next-hop   sends everything to somebody else
    replaying        sends everything again, later and to others too
    flooding         sends everything to many who should not get it
    forging          changes the payload of whatever carries one

    sybil            claims to be everything: describes itself by as many tags as it is let, then forwards nothing

Two more are made for the skip graph and are mere silence, or nothing at all, elsewhere:

    preempting       hands the genuine message on at once, to everyone it can, at too low a level; otherwise silent
    eclipsing        names only fellow liars to newcomers who ask for their neighbours; otherwise honest

Liars behave until the gang is told to act, so a network is set up by all and attacked afterwards. Members lie;
infrastructure (a server, brokers, an authority) is whatever the design trusts.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import msgspec

from implicast.casting.bft.member import Bft
from implicast.casting.bft.messages import CastHop, Source
from implicast.overlay.skip_graph.messages import Neighbours
from implicast.peer.contract import Address, Host, Message, Peer
from implicast.peer.errors import ParameterError
from implicast.peer.identity import Certificate
from implicast.space.digest import stream

FLOOD = 16
"""Extra receivers of each message of a flooding liar."""
REPLAYS = 3
REPLAY_MEMORY = 1_000
EXTRAS = 200
"""Superfluous messages a liar can afford in all: liars that answer liars would otherwise multiply without end."""
FORGED = b"forged"


@dataclass(slots=True)
class Gang:
    """The liars of one world and what they share. `act` turns them loose."""

    liars: frozenset[int]
    everyone: int
    rng: Random
    acting: bool = False
    extras: int = 0
    population: list[Peer] = field(default_factory=list)
    recorded: deque[tuple[Address, Message]] = field(default_factory=lambda: deque(maxlen=REPLAY_MEMORY))
    told: set[tuple[int, bytes]] = field(default_factory=set)

    def act(self, population: list[Peer]) -> None:
        """From now on everyone of the gang does what it came for; what is public about all peers is known to it."""
        self.acting, self.population = True, population

    def afford(self) -> bool:
        """Whether the gang can pay for one more superfluous message."""
        self.extras += 1
        return self.extras <= EXTRAS * len(self.liars)

    def somebody(self, but: Address) -> int:
        """Anyone except one."""
        other = self.rng.randrange(self.everyone)
        return other if other != but else (other + 1) % self.everyone

    def accomplices(self) -> list[Certificate]:
        """The certificates of all liars, in the order of keys."""
        members = [self.population[address] for address in sorted(self.liars)]
        found = [each for member in members if isinstance(member, Bft) for each in member.graph.certificates()]
        return sorted(found, key=lambda each: each.key)


def gang(peers: int, fraction: float, seed: int, besides: range = range(0)) -> Gang:
    """A fraction of all members, drawn by the seed, and those named besides (a server, brokers)."""
    if not 0 <= fraction <= 1:
        raise ParameterError(f"a fraction of liars of {fraction} is out of range; it takes 0..1")
    rng = stream(seed, "liars", peers, fraction)
    return Gang(frozenset([*rng.sample(range(peers), round(peers * fraction)), *besides]), peers, rng)


Lie = Callable[[Host, int, Gang, Address, Message], None]
"""host, own address, gang, to, message: what to do instead of sending."""


class LyingHost:
    """A liar's host: as any other until the gang acts."""

    __slots__ = ("_address", "_gang", "_host", "_lie")

    def __init__(self, host: Host, address: int, gang: Gang, lie: Lie) -> None:
        self._host, self._address, self._gang, self._lie = host, address, gang, lie

    @property
    def now_us(self) -> int:
        return self._host.now_us

    @property
    def rng(self) -> Random:
        return self._host.rng

    def send(self, to: Address, message: Message) -> None:
        if self._gang.acting:
            self._lie(self._host, self._address, self._gang, to, message)
        else:
            self._host.send(to, message)

    def truly_send(self, to: Address, message: Message) -> None:
        """What the liar means to send."""
        self._host.send(to, message)

    def after(self, delay_us: int, alarm: Message) -> None:
        self._host.after(delay_us, alarm)

    def deliver(self, event: Message) -> None:
        self._host.deliver(event)


def hosts(host: Callable[[int], Host], gang: Gang, attack: str) -> Callable[[int], Host]:
    """Hosts for a plan: lying ones for the liars."""
    if attack not in ATTACKS:
        raise ParameterError(f"there is no attack {attack!r}; choose one of: {', '.join(ATTACKS)}")
    lie = ATTACKS[attack]
    return lambda address: LyingHost(host(address), address, gang, lie) if address in gang.liars else host(address)


# --- the attacks


def silent(host: Host, me: int, gang: Gang, to: Address, message: Message) -> None:
    """Nothing leaves."""


def wrong_next_hop(host: Host, me: int, gang: Gang, to: Address, message: Message) -> None:
    host.send(gang.somebody(me), message)


def replaying(host: Host, me: int, gang: Gang, to: Address, message: Message) -> None:
    host.send(to, message)
    gang.recorded.append((to, message))
    for _ in range(REPLAYS):
        first_receiver, old = gang.recorded[gang.rng.randrange(len(gang.recorded))]
        if gang.afford():
            host.send(first_receiver if first_receiver != me else gang.somebody(me), old)
        if gang.afford():
            host.send(gang.somebody(me), old)


def flooding(host: Host, me: int, gang: Gang, to: Address, message: Message) -> None:
    host.send(to, message)
    for _ in range(FLOOD):
        if gang.afford():
            host.send(gang.somebody(me), message)


def forging(host: Host, me: int, gang: Gang, to: Address, message: Message) -> None:
    host.send(to, forged(message))


def forged(message: Message) -> Message:
    """The same message with every payload in it replaced, however deep."""
    changes: dict[str, object] = {}
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if name == "payload":
            changes[name] = FORGED
        elif isinstance(value, Message):
            inner = forged(value)
            if inner is not value:
                changes[name] = inner
    return msgspec.structs.replace(message, **changes) if changes else message


def preempting(host: Host, me: int, gang: Gang, to: Address, message: Message) -> None:
    if not isinstance(message, CastHop):
        return
    if message.source.name not in gang.told:
        gang.told.add(message.source.name)
        preempt(gang, message.source)


def eclipsing(host: Host, me: int, gang: Gang, to: Address, message: Message) -> None:
    if isinstance(message, Neighbours):
        message = msgspec.structs.replace(message, nodes=tuple(gang.accomplices()))
    host.send(to, message)


def preempt(gang: Gang, source: Source) -> None:
    """Every honest place gets the message from the liar whose level is lowest, if that is below its own.

    Only what the checks before the fifth would let pass is sent: level = cpl(liar, place) below the start level.
    """
    liars = [peer for address in sorted(gang.liars) if isinstance(peer := gang.population[address], Bft)]
    for victim in gang.population:
        if not isinstance(victim, Bft) or victim.address in gang.liars:
            continue
        for place in victim.graph.certificates():
            _preempt_place(liars, source, place)


def _preempt_place(liars: list[Bft], source: Source, place: Certificate) -> None:
    if not liars:
        return
    common = liars[0].multicasts.gate.vectors.common
    proper = min(common(source.certificate.vector, place.vector), source.start)
    offers = [
        (common(own.vector, place.vector), number, own)
        for number, liar in enumerate(liars)
        for own in liar.graph.certificates()
    ]
    level, number, own = min(offers, key=lambda offer: offer[:2])
    if level < proper:
        host = liars[number].host
        assert isinstance(host, LyingHost), "a liar lies through its host"
        host.truly_send(place.address, liars[number].multicasts.signed_hop(source, level, own))


ATTACKS: dict[str, Lie] = {
    "silent": silent,
    "wrong-next-hop": wrong_next_hop,
    "replaying": replaying,
    "flooding": flooding,
    "forging": forging,
    "sybil": silent,
    "preempting": preempting,
    "eclipsing": eclipsing,
}
