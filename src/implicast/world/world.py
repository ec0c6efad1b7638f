"""The loop: takes what is next from the agenda, lets a peer handle it, and notes what the peer asks for.

Everything that happens has a *purpose*, inherited from its cause: the number of a cast, or join, register, withdraw,
leave, upkeep. A message that names its cast (a field `cast`) belongs to that cast whatever caused it; an alarm
of standing upkeep starts the purpose *upkeep* anew. So the journal knows what each message was for, and peers need
not count anything.

The world is at rest when nothing but upkeep is on the agenda.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from random import Random
from typing import Any, Protocol

from implicast.peer.contract import CastId, Message, Peer
from implicast.peer.events import Notice
from implicast.peer.wire import KIND_BYTES, Codec, pack
from implicast.space.digest import stream
from implicast.world.agenda import SLOT_BITS, SPARSE_BITS, Agenda, Entry
from implicast.world.journal import CHUNK_ROWS, UPKEEP, pack_send

Event = tuple[int, int, Message]
"""time_us, address, what was delivered."""


class Carrier(Protocol):
    """What the world needs of a physical network."""

    def latency_us(self, a: int, b: int) -> int: ...


class Fate(Protocol):
    """What hardship does to a message: delays until each copy arrives; none when it is lost."""

    def fate(self, now_us: int, sender: int, receiver: int, latency_us: int) -> tuple[int, ...]: ...


class Book(Protocol):
    """What the world writes into: a journal on disk, or a trace in memory."""

    sends: list[bytes]
    kinds: list[str]

    def flush_sends(self) -> None: ...

    def notice(
        self, cause: int, time_us: int, peer: int, cast: int, depth: int, altered: bool
    ) -> None: ...


class World:
    """Peers, their time and their network. Nothing in it is global: many worlds live in one process."""

    def __init__(
        self,
        network: Carrier,
        seed: int = 0,
        journal: Book | None = None,
        faults: Fate | None = None,
        codec: Codec | None = None,
    ) -> None:
        # Who lives in an unkind world has standing alarms: few messages among many of them.
        self.agenda = Agenda(SLOT_BITS if faults is None else SPARSE_BITS)
        self.latency_us = network.latency_us
        self.journal, self.faults, self.codec = journal, faults, codec
        self.rng = stream(seed, "protocol")
        self.peers: dict[int, Peer] = {}
        self.asleep: Callable[[int], Peer] | None = None
        """Makes the peer of an address to which nothing has happened yet, where peers are made when they are needed."""
        self.hosts: dict[int, WorldHost] = {}
        self.rates: dict[int, float] = {}
        """How much longer a second takes by the clock of an address; 1 where nothing is said."""
        self.casts: dict[CastId, int] = {}
        self.numbers: dict[int, int] = {}
        """Who is at an address, where it is not the one who was there first: one that came back without its disk."""
        self.payload_of: Callable[[int], bytes] = lambda number: b""
        """What each cast says, to be compared with what is notified."""
        self.events: list[Event] = []
        self.heard: Callable[[int, Message], None] = lambda address, event: self.events.append(
            (self.now_us, address, event)
        )
        """Told of every event that is delivered, except notices when a journal is kept."""
        self.now_us = 0
        self.cause = 0
        self.purpose = UPKEEP
        self.depth = 0
        self.busy = 0
        self.carried = 0
        self._kinds: dict[type, tuple[int, bool]] = {}
        self._last: Message | None = None
        """The message looked at last while the present input is handled, ..."""
        self.facts = (UPKEEP, 0, 0)
        """... what it is for, its bytes and its kind."""

    # --- the population

    def host(self, address: int) -> "WorldHost":
        """The host of an address; the same until the peer there crashes or is removed."""
        if address not in self.hosts:
            rate = self.rates.get(address, 1.0)
            self.hosts[address] = (
                WorldHost(self, address) if rate == 1 else DriftingHost(self, address, rate)
            )
        return self.hosts[address]

    def place(self, address: int, peer: Peer) -> None:
        """From now on this peer receives what is sent to the address."""
        self.peers[address] = peer

    def peer(self, address: int) -> Peer | None:
        """Whoever is at an address."""
        found = self.peers.get(address)
        if found is None and self.asleep is not None:
            found = self.peers[address] = self.asleep(address)
        return found

    def crash(self, address: int) -> None:
        """The peer stops in the middle of life: its mail vanishes, its alarms ring no more."""
        self.peers.pop(address, None)
        host = self.hosts.pop(address, None)
        if host is not None:
            host.silence()

    def let_go(self) -> None:
        """Nobody is there any more."""
        self.peers.clear()
        self.hosts.clear()

    # --- what is to happen

    def at(self, time_us: int, purpose: int, verb: Callable[[], object]) -> None:
        """Let the application do something at a time."""
        self.push(time_us, (None, None, verb, purpose, 0, None))

    def announce(self, name: CastId, number: int) -> None:
        """This is how the cast with this number is called; what the running verb does belongs to it."""
        self.casts[name] = number
        self.purpose = number

    def run(self, until_us: int | None = None) -> None:
        """Until at rest, or until a time; then the clock stands at that time."""
        if until_us is None:
            while self.busy:  # each of these takes a step at least: so many are never too many
                self._work_off(islice(self.agenda.due(), self.busy))
            return
        self._work_off(self.agenda.due(until_us))
        self.now_us = max(self.now_us, until_us)

    def flush(self) -> None:
        """Rows are in the journal as soon as they are made; the compiled core keeps some back."""

    def close(self) -> None:
        """Nothing more will happen."""
        self.agenda = Agenda()

    def step(self) -> bool:
        """Handle the next thing on the agenda; False when there is nothing."""
        waiting = bool(self.agenda)
        self._work_off(islice(self.agenda.due(), 1))
        return waiting

    def _work_off(self, entries: Iterator[Entry]) -> None:
        """One loop for all that happens: a call for each step of it would cost a tenth more."""
        peers, codec = self.peers, self.codec
        for self.now_us, self.cause, (to, sender, thing, purpose, self.depth, beside) in entries:
            self.purpose = purpose
            if purpose != UPKEEP:
                self.busy -= 1
            if sender is not None:
                # Passed on as it came, it has the size and the purpose it came with: a quarter of a long route's cost.
                self._last, self.facts = thing, beside
                peer = peers.get(to) or self.peer(to)
                if peer is not None:
                    peer.receive(sender, thing if codec is None else self._arrive(*thing))
                continue
            self._last = None
            if to is None:
                thing()
            elif beside.alive:
                peers[to].wake(thing)

    # --- what peers ask for

    def carry(self, sender: int, to: int, message: Message) -> None:
        """Every message comes this way: the usual case is written out, a quarter cheaper than a call for each step."""
        # One message often goes to many in a row: what was found out about the last one is kept (a sixth cheaper).
        if message is not self._last:
            self._look_at(message)
        facts, depth, now_us = self.facts, self.depth + 1, self.now_us
        purpose, length, kind = facts
        what = (
            to,
            sender,
            message if self.codec is None else self._pack(sender, to, message),
            purpose,
            depth,
            facts,
        )
        latency_us, faults = (
            self.latency_us,
            self.faults,
        )  # attributes, not methods: cheaper to fetch before the call
        delay_us = latency_us(sender, to)
        delays_us = (delay_us,) if faults is None else faults.fate(now_us, sender, to, delay_us)
        if len(delays_us) == 1:
            arrived_us = now_us + delays_us[0]
            if purpose != UPKEEP:
                self.busy += 1
            serial = self.agenda.at(arrived_us, what)
        else:
            serial, arrived_us = self._endure(delays_us, what)
        self.carried += 1
        if self.journal is not None:
            sends = self.journal.sends
            sends.append(
                pack_send(
                    serial, self.cause, now_us, arrived_us, sender, to, purpose, depth, length, kind
                )
            )
            if len(sends) >= CHUNK_ROWS:
                self.journal.flush_sends()

    def deliver(self, address: int, event: Message) -> None:
        if type(event) is Notice and self.journal is not None:
            number = self.casts.get(event.cast, -1)
            altered = number >= 0 and event.payload != self.payload_of(number)
            who = self.numbers.get(address, address)
            self.journal.notice(self.cause, self.now_us, who, number, self.depth, altered)
        else:
            self.heard(address, event)

    # --- inside

    def push(self, time_us: int, what: tuple[Any, ...]) -> int:
        """Put an input on the agenda: receiver, sender, thing, purpose, depth, and what is beside it: the facts of a
        message, the host of an alarm."""
        if what[3] != UPKEEP:
            self.busy += 1
        return self.agenda.at(time_us, what)

    def _endure(self, delays_us: tuple[int, ...], what: tuple[Any, ...]) -> tuple[int, int]:
        """Serial and first arrival (-1: lost) of a message that is lost or repeated."""
        if not delays_us:
            return self.agenda.skip(), -1
        arrived_us = self.now_us + delays_us[0]
        serial = self.push(arrived_us, what)
        for delay_us in delays_us[1:]:
            self.push(self.now_us + delay_us, what)
        return serial, arrived_us

    def _learn(self, kind: type) -> tuple[int, bool]:
        names_cast = "cast" in getattr(kind, "__struct_fields__", ())
        code = len(self._kinds)
        self._kinds[kind] = (code, names_cast)
        if self.journal is not None:
            self.journal.kinds.append(kind.__name__)
        return code, names_cast

    def _look_at(self, message: Message) -> None:
        """Find out kind, purpose and size of a message about to be carried."""
        self._last = message
        kind, names_cast = self._kinds.get(type(message)) or self._learn(type(message))
        purpose = self.casts.get(message.cast, self.purpose) if names_cast else self.purpose  # type: ignore[attr-defined]
        self.facts = (
            purpose,
            KIND_BYTES + len(pack(message)) if self.journal is not None else 0,
            kind,
        )

    def _pack(self, sender: int, to: int, message: Message) -> tuple[Message, bytes]:
        assert self.codec is not None
        assert sender != to, (
            f"{sender} sent {message} to itself: that is a plain call, not a message"
        )
        return message, self.codec.encode(message)

    def _arrive(self, message: Message, packed: bytes) -> Message:
        """The strict world: what arrives must be what was sent, and must have survived the wire."""
        assert self.codec is not None
        assert self.codec.encode(message) == packed, f"{message} was changed after it was sent"
        received = self.codec.decode(packed)
        assert received == message, f"{message} came off the wire as {received}"
        return received


class WorldHost:
    """What one peer sees of the world.

    `send` and `deliver` are the world's own methods with the address filled in: a call less for each message.
    """

    __slots__ = ("address", "alive", "deliver", "send", "world")

    def __init__(self, world: World, address: int) -> None:
        self.world, self.address, self.alive = world, address, True
        self.send: Callable[[Any, Message], None] = partial(world.carry, address)
        self.deliver: Callable[[Message], None] = partial(world.deliver, address)

    def silence(self) -> None:
        """The peer is dead: whatever it may still ask for does not happen."""
        self.alive = False
        self.send = lambda to, message: None
        self.deliver = lambda event: None

    @property
    def now_us(self) -> int:
        return self.world.now_us

    @property
    def rng(self) -> Random:
        return self.world.rng

    def after(self, delay_us: int, alarm: Message) -> None:
        if self.alive:
            world = self.world
            purpose = UPKEEP if alarm.upkeep else world.purpose
            if purpose != UPKEEP:
                world.busy += 1
            what = (self.address, None, alarm, purpose, world.depth, self)
            world.agenda.at(world.now_us + delay_us if delay_us > 0 else world.now_us, what)


class DriftingHost(WorldHost):
    """A host whose clock, and with it every alarm, runs a little fast or slow."""

    __slots__ = ("_rate",)

    def __init__(self, world: World, address: int, rate: float) -> None:
        super().__init__(world, address)
        self._rate = rate

    @property
    def now_us(self) -> int:
        return int(self.world.now_us / self._rate)

    def after(self, delay_us: int, alarm: Message) -> None:
        """Never early by the host's own clock: whoever waits for a deadline would otherwise arm itself without end."""
        due_us = self.now_us + delay_us
        at_us = int(due_us * self._rate)
        while int(at_us / self._rate) < due_us:
            at_us += 1
        super().after(at_us - self.world.now_us, alarm)
