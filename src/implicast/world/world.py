"""The event loop of the simulation: takes the next input from the agenda, lets a peer handle it,
and carries out what the peer asks for.

Every input has a purpose, inherited from its cause: the number of a cast, or join, register,
withdraw, leave, upkeep. A message with a field `cast` belongs to that cast whatever caused it. An
alarm of standing upkeep starts the purpose upkeep. So the journal knows the purpose of each
message, and peers count nothing.

The world is at rest when only upkeep is on the agenda.
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
"""(time_us, address, delivered event)."""


class LatencyModel(Protocol):
    """One-way latency between addresses: all that the world needs of a network."""

    def latency_us(self, a: int, b: int) -> int: ...


class MessageFaults(Protocol):
    """Faults of messages: the delay of each copy that arrives; none if the message is lost."""

    def copy_delays_us(
        self, now_us: int, sender: int, receiver: int, latency_us: int
    ) -> tuple[int, ...]: ...


class SendLog(Protocol):
    """Where the world records sends and notices: a journal on disk or a trace in memory."""

    sends: list[bytes]
    kinds: list[str]

    def flush_sends(self) -> None: ...

    def notice(
        self, cause: int, time_us: int, peer: int, cast: int, depth: int, altered: bool
    ) -> None: ...


class World:
    """Peers, their clock and their network. There is no global state: one process may run many
    worlds.
    """

    def __init__(
        self,
        network: LatencyModel,
        seed: int = 0,
        journal: SendLog | None = None,
        faults: MessageFaults | None = None,
        codec: Codec | None = None,
    ) -> None:
        # With faults, peers have standing alarms: many alarms, few messages. Wider slots suit them.
        self.agenda = Agenda(SLOT_BITS if faults is None else SPARSE_BITS)
        self.latency_us = network.latency_us
        self.journal, self.faults, self.codec = journal, faults, codec
        self.rng = stream(seed, "protocol")
        self.peers: dict[int, Peer] = {}
        self.materialise: Callable[[int], Peer] | None = None
        """Makes the peer of an address on its first input, where peers are materialised lazily;
        None otherwise.
        """
        self.hosts: dict[int, WorldHost] = {}
        self.rates: dict[int, float] = {}
        """By address, seconds of world time per second of the peer's clock; 1 by default."""
        self.shifts: dict[int, int] = {}
        """By address, microseconds by which the clock of the next peer there is ahead. An address
        whose clock may jump has an entry before its host is made.
        """
        self.casts: dict[CastId, int] = {}
        self.numbers: dict[int, int] = {}
        """By address, the number of the member there, where it differs from the address: a member
        that came back with an empty disk.
        """
        self.payload_of: Callable[[int], bytes] = lambda number: b""
        """The payload of a cast, to be compared with that of its notices."""
        self.events: list[Event] = []
        self.on_event: Callable[[int, Message], None] = lambda address, event: self.events.append(
            (self.now_us, address, event)
        )
        """Called with every delivered event, except notices if there is a journal."""
        self.now_us = 0
        self.cause = 0
        self.purpose = UPKEEP
        self.depth = 0
        self.busy = 0
        self.carried = 0
        self._kinds: dict[type, tuple[int, bool]] = {}
        self._last: Message | None = None
        """The message classified last while the present input is handled, ..."""
        self.facts = (UPKEEP, 0, 0)
        """... its purpose, its size in bytes and its kind."""

    # --- peers

    def host(self, address: int) -> "WorldHost":
        """The host of an address; the same object until the peer there crashes."""
        if address not in self.hosts:
            rate = self.rates.get(address, 1.0)
            self.hosts[address] = (
                WorldHost(self, address)
                if rate == 1 and address not in self.shifts
                else DriftingHost(self, address, rate, self.shifts.get(address, 0))
            )
        return self.hosts[address]

    def place(self, address: int, peer: Peer) -> None:
        """Let a peer receive what is sent to an address from now on."""
        self.peers[address] = peer

    def peer(self, address: int) -> Peer | None:
        """The peer at an address; a lazy peer is materialised."""
        found = self.peers.get(address)
        if found is None and self.materialise is not None:
            found = self.peers[address] = self.materialise(address)
        return found

    def crash(self, address: int) -> None:
        """Remove a peer without notice: messages to it are lost, its alarms do not fire."""
        self.peers.pop(address, None)
        host = self.hosts.pop(address, None)
        if host is not None:
            host.silence()

    def release_peers(self) -> None:
        """Remove all peers and hosts."""
        self.peers.clear()
        self.hosts.clear()

    # --- agenda

    def at(self, time_us: int, purpose: int, verb: Callable[[], object]) -> None:
        """Schedule a call by the application."""
        self.push(time_us, (None, None, verb, purpose, 0, None))

    def announce(self, name: CastId, number: int) -> None:
        """Assign a number to the identifier of a cast. What the running call sends belongs to this
        cast.
        """
        self.casts[name] = number
        self.purpose = number

    def run(self, until_us: int | None = None) -> None:
        """Run until at rest, or until a time, at which the clock then stands."""
        if until_us is None:
            while self.busy:  # each of these takes at least one step, so this is never too many
                self._handle_inputs(islice(self.agenda.due(), self.busy))
            return
        self._handle_inputs(self.agenda.due(until_us))
        self.now_us = max(self.now_us, until_us)

    def flush(self) -> None:
        """Write buffered rows to the journal. Only the compiled core buffers any."""

    def close(self) -> None:
        """Drop the agenda at the end of a run."""
        self.agenda = Agenda()

    def step(self) -> bool:
        """Handle the next input; False if there is none."""
        waiting = bool(self.agenda)
        self._handle_inputs(islice(self.agenda.due(), 1))
        return waiting

    def _handle_inputs(self, entries: Iterator[Entry]) -> None:
        """Handle inputs. One loop without a call for each kind of input, which would cost a tenth
        more.
        """
        peers, codec = self.peers, self.codec
        for self.now_us, self.cause, (to, sender, thing, purpose, self.depth, beside) in entries:
            self.purpose = purpose
            if purpose != UPKEEP:
                self.busy -= 1
            if sender is not None:
                # A message forwarded unchanged keeps its size and purpose: saves a quarter of the
                # cost of a long route.
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

    # --- requests of peers

    def carry(self, sender: int, to: int, message: Message) -> None:
        """Send a message. The usual case is written out in line, a quarter cheaper than a call for
        each step.
        """
        # One message often goes to many receivers in a row, so its classification is cached (a
        # sixth cheaper).
        if message is not self._last:
            self.classify(message)
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
        delays_us = (
            (delay_us,) if faults is None else faults.copy_delays_us(now_us, sender, to, delay_us)
        )
        if len(delays_us) == 1:
            arrived_us = now_us + delays_us[0]
            if purpose != UPKEEP:
                self.busy += 1
            serial = self.agenda.at(arrived_us, what)
        else:
            serial, arrived_us = self._push_copies(delays_us, what)
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
            self.on_event(address, event)

    # --- internals

    def push(self, time_us: int, what: tuple[Any, ...]) -> int:
        """Put an input on the agenda: (receiver, sender, content, purpose, depth, extra). `extra`
        is the classification of a message or the host of an alarm.
        """
        if what[3] != UPKEEP:
            self.busy += 1
        return self.agenda.at(time_us, what)

    def _push_copies(self, delays_us: tuple[int, ...], what: tuple[Any, ...]) -> tuple[int, int]:
        """Schedule the copies of a lost or duplicated message; return its serial and first arrival
        (-1: lost).
        """
        if not delays_us:
            return self.agenda.skip(), -1
        arrived_us = self.now_us + delays_us[0]
        serial = self.push(arrived_us, what)
        for delay_us in delays_us[1:]:
            self.push(self.now_us + delay_us, what)
        return serial, arrived_us

    def _register_kind(self, kind: type) -> tuple[int, bool]:
        names_cast = "cast" in getattr(kind, "__struct_fields__", ())
        code = len(self._kinds)
        self._kinds[kind] = (code, names_cast)
        if self.journal is not None:
            self.journal.kinds.append(kind.__name__)
        return code, names_cast

    def classify(self, message: Message) -> None:
        """Determine kind, purpose and size of a message about to be sent."""
        self._last = message
        kind, names_cast = self._kinds.get(type(message)) or self._register_kind(type(message))
        purpose = self.purpose
        if names_cast:
            purpose = self.casts.get(message.cast, purpose)  # type: ignore[attr-defined]
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
        """Strict mode: check that a message was not changed after sending and survives encoding and
        decoding.
        """
        assert self.codec is not None
        assert self.codec.encode(message) == packed, f"{message} was changed after it was sent"
        received = self.codec.decode(packed)
        assert received == message, f"{message} came off the wire as {received}"
        return received


class WorldHost:
    """The host of one peer.

    `send` and `deliver` are the world's methods bound to the address, which saves a call for each
    message.
    """

    __slots__ = ("address", "alive", "deliver", "send", "world")

    def __init__(self, world: World, address: int) -> None:
        self.world, self.address, self.alive = world, address, True
        self.send: Callable[[Any, Message], None] = partial(world.carry, address)
        self.deliver: Callable[[Message], None] = partial(world.deliver, address)

    def silence(self) -> None:
        """Ignore all further requests of a removed peer."""
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
    """A host whose clock, and with it every alarm, runs fast or slow, or jumps. A jump moves no
    alarm that is armed already.
    """

    __slots__ = ("_rate", "shift_us")

    def __init__(self, world: World, address: int, rate: float, shift_us: int) -> None:
        super().__init__(world, address)
        self._rate, self.shift_us = rate, shift_us

    @property
    def now_us(self) -> int:
        return int(self.world.now_us / self._rate) + self.shift_us

    def after(self, delay_us: int, alarm: Message) -> None:
        """Fire no alarm early by the host's own clock. A peer that waits for a deadline would
        otherwise re-arm its alarm without end.
        """
        due_us = self.now_us - self.shift_us + delay_us
        at_us = int(due_us * self._rate)
        while int(at_us / self._rate) < due_us:
            at_us += 1
        super().after(at_us - self.world.now_us, alarm)
