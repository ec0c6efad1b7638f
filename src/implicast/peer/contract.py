"""The contract between one peer and the world that runs it. Read this file first.

A peer gets inputs: `receive` (a message came), `wake` (an alarm rang) and the verbs of its
application. It answers by asking its `Host` to `send`, to ring an alarm `after` a while, or to
`deliver` an event to the application. That is all: no clock, no socket, no chance of its own. So
the very same peer runs in the deterministic world and on a real network, and its life is a
function of its seed and its inputs.

Messages and alarms are frozen values (`Message`). They are `msgspec` structs because these cost
half of a slots dataclass to make and a sixth of a frozen one (`bench/values.py` measures it), are
truly frozen, and encode without further code.
"""

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, TypeVar, dataclass_transform

import msgspec
from msgspec import Meta

if TYPE_CHECKING:
    from implicast.peer.changes import Changes

NAME_BYTES = 16
Name = Annotated[bytes, Meta(min_length=NAME_BYTES, max_length=NAME_BYTES)]
"""Who a peer is, for ever: the digest of its public key on a network, of seed and number in the world."""

Port = Annotated[int, Meta(ge=0, le=(1 << 16) - 1)]
Address = int | tuple[Annotated[str, Meta(max_length=255)], Port]
"""Where a peer can be reached. Opaque to engines: a small integer in the world, (host, port) on a network.
It says nothing of who is there: a peer may fall and another rise at the same address. (The integer bears no bound of
its own: msgspec 0.22 breaks down over a bounded scalar beside a tuple of fixed length in one union.)"""


def in_order(address: Address) -> tuple[bool, Address]:
    """What addresses are sorted by. Those of a network are of one kind, but strangers may name any."""
    return isinstance(address, tuple), address


LIFE_BITS, NUMBER_BITS = 40, 20
Incarnation = Annotated[int, Meta(ge=0, le=(1 << LIFE_BITS) - 1)]
"""One stretch of a peer's time, from a start to a crash; each is above those before it (`name.py`)."""
Version = Annotated[int, Meta(ge=0, le=(1 << LIFE_BITS + NUMBER_BITS) - 1)]
"""Which of its descriptions a member speaks of: its life, then the number within that life; 0 comes before all."""
Serial = Annotated[int, Meta(ge=0, le=(1 << 48) - 1)]

Handler = TypeVar("Handler", bound=Callable[..., None])


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class _Frozen(msgspec.StructMeta):
    """Tells type checkers that every kind of message is frozen, as its base says."""


class Message(
    msgspec.Struct, metaclass=_Frozen, frozen=True, array_like=True, gc=False, cache_hash=True
):
    """A value that is sent or awaited: made once, never changed.

    `cache_hash`: those that are passed on are looked up at every step, and owners of entries at every word about them.
    `gc=False` is safe because a message holds plain values and tuples and never refers back to itself.
    Fields are ints, floats, strings, bytes, booleans, None, tuples of these, and other structs: what can travel.
    """

    wire: ClassVar[int] = 0
    """How this kind is called on a wire, for ever (`wire.py`); alarms have none and cannot travel."""
    upkeep: ClassVar[bool] = False
    """True for alarms of standing upkeep: what they cause counts as upkeep, not as part of the verb that armed them."""
    promises: ClassVar[bool] = True
    """False for messages that tell something and promise nothing: they may leave before what led to them is written
    down, for whoever asked asks again when their sender has forgotten it."""


class StandingAlarm(Message):
    """An alarm of standing upkeep."""

    upkeep: ClassVar[bool] = True


class CastId(Message, order=True):
    """Names one cast for ever: who published it, in which of its lives, and which of that life's casts it was."""

    publisher: Name
    incarnation: Incarnation
    serial: Serial


class Contact(Message, order=True):
    """Who and where: what is kept of a member by those who may have to tell it something."""

    name: Name
    address: Address


class Host(Protocol):
    """All that a peer may ask of its world.

    A verb notes an intention and returns at once: it never re-enters a peer, never blocks, never
    fails. Silence is the only sign of loss.
    """

    @property
    def now_us(self) -> int:
        """Microseconds since 1970 on a network, since the beginning in the world. Holds still while one input is
        handled, and never goes backwards within a life."""

    @property
    def rng(self) -> Random:
        """The only source of chance."""

    def send(self, to: Address, message: Message) -> None:
        """Carry a message to another peer; it may be lost, delayed, repeated or overtaken.

        Never to oneself: that is a plain call.
        """

    def after(self, delay_us: int, alarm: Message) -> None:
        """Wake me with this alarm later. Alarms are not cancelled; ignore those that have become stale."""

    def deliver(self, event: Message) -> None:
        """Tell the application: a `Notice`, `Registered`, `Settled`, ... (`events.py`)."""


MESSAGE_ARGUMENTS = 3
"""What a method that handles messages takes: self, sender, message. One that handles alarms: self, alarm."""


def handles(*kinds: type) -> Callable[[Handler], Handler]:
    """Mark a method as the one place where these kinds of messages or alarms are decided."""

    def mark(method: Handler) -> Handler:
        method.handles = kinds  # type: ignore[attr-defined]
        return method

    return mark


class Part:
    """A share of a peer, such as its overlay: it owns some of the state and handles some kinds of messages itself.

    A part made of parts names them in its class line, `class Surface(Part, parts={"heirs": Succession})`, and sets an
    attribute of each name; messages that a part handles go straight to it, however deep it lies.
    """

    __slots__ = ("address", "host")
    parts: ClassVar[Mapping[str, "type[Part]"]] = {}

    def __init_subclass__(cls, parts: "Mapping[str, type[Part]] | None" = None) -> None:
        super().__init_subclass__()
        cls.parts = {**cls.parts, **(parts or {})}

    def __init__(self, address: Address, host: Host) -> None:
        self.address, self.host = address, host


class Peer(Part):
    """One participant. Its life is a function of its seed and its inputs.

    One that wants to hear of every message before it is decided on names a method for it in its class line,
    `class Bft(Member, first="hears")`; where that says False the message is dropped.
    """

    __slots__ = ("strays",)
    _messages: ClassVar[dict[type, Callable[..., None]]] = {}
    _alarms: ClassVar[dict[type, Callable[..., None]]] = {}
    _hears_first: ClassVar[str] = ""

    def __init_subclass__(
        cls, parts: Mapping[str, type[Part]] | None = None, first: str = ""
    ) -> None:
        super().__init_subclass__(parts)
        cls._hears_first = first or cls._hears_first
        cls._messages, cls._alarms = decisions(cls)
        if cls._hears_first:
            hears = getattr(cls, cls._hears_first)
            cls._messages = {
                kind: _after(hears, handler) for kind, handler in cls._messages.items()
            }

    def __init__(self, address: Address, host: Host) -> None:
        super().__init__(address, host)
        self.strays = 0
        """Messages that came and are not for a peer of this role: dropped."""

    @classmethod
    def kinds(cls) -> list[type]:
        """The kinds of messages that a peer of this role decides on, by name."""
        return sorted(cls._messages, key=lambda kind: kind.__name__)

    @classmethod
    def alarm_kinds(cls) -> list[type]:
        """The kinds of alarms that a peer of this role decides on, by name."""
        return sorted(cls._alarms, key=lambda kind: kind.__name__)

    def holdings(self) -> Any:
        """The state held for the system or for others, as values that can be encoded: the measure of storage (STOR).

        One rule for all designs. What others registered here counts, and tables and filters by which this peer finds
        others, and copies kept for others. What is its own does not: its description, its credentials, its place, the
        address of the station that serves it.
        """
        return ()

    def stored_bytes(self) -> int | None:
        """Bytes of `holdings` as they would be encoded, where they are known without making all of them."""
        return None

    def kept(self) -> Message | None:
        """What was written down and outlives a crash of this peer, as one typed value; None: nothing."""
        return None

    def changes(self) -> "Changes | None":
        """What has changed of it since this was last asked; None: this peer keeps little, and `kept` is all of it."""
        return None

    def receive(self, sender: Address, message: Message) -> None:
        handler = self._messages.get(type(message))
        if handler is None:
            self.strays += 1
        else:
            handler(self, sender, message)

    def drop_stray(self) -> None:
        self.strays += 1

    def shown(self, message: Message) -> None:
        """Another peer keeps this word of this peer's own, which it may have forgotten."""
        self.drop_stray()

    def wake(self, alarm: Message) -> None:
        self._alarms[type(alarm)](self, alarm)


Decisions = dict[type, Callable[..., None]]


def _after(hears: Callable[..., bool], handler: Callable[..., None]) -> Callable[..., None]:
    path, method = getattr(handler, "leads_to", (None, handler))
    part = attrgetter(path) if path else None

    def decide(self: Peer, sender: Address, message: Message) -> None:
        if hears(self, sender, message):
            found = self if part is None else part(self)
            if found is None:  # a part that only some settings have
                self.drop_stray()
            else:
                method(found, sender, message)

    return decide


def decisions(owner: type[Part]) -> tuple[Decisions, Decisions]:
    """By kind of message, and by kind of alarm, the function of the owner that decides on it.

    A peer's inputs go by it; and what one share of a peer says to itself, where it would send it to another peer.
    """
    messages: Decisions = {}
    alarms: Decisions = {}
    for path, method in _marked(owner):
        takes_message = method.__code__.co_argcount == MESSAGE_ARGUMENTS
        kinds = messages if takes_message else alarms
        kinds.update(dict.fromkeys(method.handles, _through(path, method, takes_message)))  # type: ignore[attr-defined]
    return messages, alarms


def _marked(owner: type[Part], path: str = "") -> Iterator[tuple[str, Callable[..., None]]]:
    """The marked methods of an owner and its parts, with the path that leads to each; the nearest comes last."""
    for name, part in owner.parts.items():
        yield from _marked(part, f"{path}.{name}" if path else name)
    for base in reversed(owner.__mro__):
        for method in vars(base).values():
            if hasattr(method, "handles"):
                yield path, method


def _through(path: str, method: Callable[..., None], takes_message: bool) -> Callable[..., None]:
    """A function of the peer that calls the method of the part. Each with as many arguments as it takes: at every
    message and alarm, half the price of passing on any number."""
    if not path:
        return method
    part = attrgetter(path)

    def receive(peer: Any, sender: Address, message: Message) -> None:
        found = part(peer)
        if found is None:  # a part that only some settings have
            peer.drop_stray()
        else:
            method(found, sender, message)

    def wake(peer: Any, alarm: Message) -> None:
        method(part(peer), alarm)

    decide = receive if takes_message else wake
    vars(decide)["leads_to"] = (path, method)  # for a core that goes there without this call
    return decide
