"""The contract between one peer and the host that runs it. Read this file first.

A peer gets inputs: `receive` (a message arrived), `wake` (an alarm fired) and the verbs of its
application. It responds by calling its `Host`: `send` a message, arm an alarm `after` a delay, or
`deliver` an event to the application. It has no clock, no socket and no randomness of its own.
Therefore the same code runs in the deterministic simulator and on a real network, and the behaviour
of a peer is a function of its seed and its inputs.

Messages and alarms are frozen values (`Message`). They are `msgspec` structs because these cost
half as much to make as a dataclass with slots and a sixth of a frozen one (`bench/values.py`), are
truly immutable, and encode without further code.
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
"""Permanent identity of a peer: digest of its public key on a network, of seed and number in the
simulator.
"""

Port = Annotated[int, Meta(ge=0, le=(1 << 16) - 1)]
Address = int | tuple[Annotated[str, Meta(max_length=255)], Port]
"""Where a peer can be reached. Opaque to protocols: a small integer in the simulator, (host, port)
on a network. An address does not identify a peer: after a crash another peer may start at the same
address. The integer has no bound because msgspec 0.22 fails on a union of a bounded scalar and a
tuple of fixed length.
"""


def in_order(address: Address) -> tuple[bool, Address]:
    """Sort key for addresses. All addresses of one network have one type, but a message from a
    foreign or malicious peer may carry either.
    """
    return isinstance(address, tuple), address


INCARNATION_BITS, NUMBER_BITS = 40, 20
Incarnation = Annotated[int, Meta(ge=0, le=(1 << INCARNATION_BITS) - 1)]
"""One run of a peer, from a start to the next crash. Each is greater than all earlier ones of the
same peer (`name.py`).
"""
Version = Annotated[int, Meta(ge=0, le=(1 << INCARNATION_BITS + NUMBER_BITS) - 1)]
"""Version of a member's description: the incarnation, then a number within it. 0 is before all
others.
"""
Serial = Annotated[int, Meta(ge=0, le=(1 << 48) - 1)]

Handler = TypeVar("Handler", bound=Callable[..., None])


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class _Frozen(msgspec.StructMeta):
    """Tells type checkers that every subclass of `Message` is frozen."""


class Message(
    msgspec.Struct, metaclass=_Frozen, frozen=True, array_like=True, gc=False, cache_hash=True
):
    """A value that is sent, or awaited as an alarm. Immutable.

    Fields are ints, floats, strings, bytes, booleans, None, tuples of these, and other messages:
    everything that can be encoded. `cache_hash`: forwarded messages and owners of entries are
    looked up at every hop. `gc=False` is safe because a message holds plain values and tuples and
    cannot contain itself.
    """

    wire: ClassVar[int] = 0
    """Number of this kind on the wire; it never changes (`wire.py`). Alarms have none and cannot be
    sent.
    """
    upkeep: ClassVar[bool] = False
    """True for alarms of periodic upkeep: messages caused by them count as upkeep, not as cost of
    the application's call that armed the alarm.
    """
    after_commit: ClassVar[bool] = True
    """False for messages that a node may send before the state behind them is committed to disk.
    Safe where the message promises nothing: if the sender loses that state in a crash, the request
    that caused the message is repeated.
    """
    reports_notices: ClassVar[bool] = False
    """True for messages that report or count notices, also those of earlier inputs. They wait for
    every commit under way: a receipt must not count a notice that a crash can still lose.
    """


class StandingAlarm(Message):
    """Base of alarms of periodic upkeep."""

    upkeep: ClassVar[bool] = True


class CastId(Message, order=True):
    """Permanent identity of one cast: its publisher, the publisher's incarnation, and a serial
    number within that.
    """

    publisher: Name
    incarnation: Incarnation
    serial: Serial


class Contact(Message, order=True):
    """Name and address of a member, as kept by peers that may have to notify it."""

    name: Name
    address: Address


class Host(Protocol):
    """Everything a peer may ask of its environment.

    A call records an intention and returns at once. It never re-enters the peer, never blocks and
    never fails. A lost message shows only in the absence of an answer.
    """

    @property
    def now_us(self) -> int:
        """Microseconds since 1970 on a network, since the start of the run in the simulator.
        Constant while one input is handled; never decreases within an incarnation.
        """

    @property
    def rng(self) -> Random:
        """The only source of randomness."""

    def send(self, to: Address, message: Message) -> None:
        """Send a message to another peer. It may be lost, delayed, duplicated or reordered.

        A peer never sends to itself: it calls the handler instead.
        """

    def after(self, delay_us: int, alarm: Message) -> None:
        """Call `wake` with this alarm after a delay. Alarms cannot be cancelled; a peer ignores
        stale ones.
        """

    def deliver(self, event: Message) -> None:
        """Pass an event to the application: `Notice`, `Registered`, ... (`events.py`)."""


MESSAGE_ARGUMENTS = 3
"""Arguments of a message handler: self, sender, message. An alarm handler takes two: self, alarm.
"""


def handles(*kinds: type) -> Callable[[Handler], Handler]:
    """Mark a method as the handler of these kinds of messages or alarms."""

    def mark(method: Handler) -> Handler:
        method.handles = kinds  # type: ignore[attr-defined]
        return method

    return mark


class Part:
    """A component of a peer, such as its overlay. It owns some of the state and handles some kinds
    of messages.

    A part made of parts names them in its class statement, `class Ice(Part, parts={"members":
    Members})`, and sets an attribute of each name. Messages go straight to the part that handles
    them, at any depth.
    """

    __slots__ = ("address", "host")
    parts: ClassVar[Mapping[str, "type[Part]"]] = {}

    def __init_subclass__(cls, parts: "Mapping[str, type[Part]] | None" = None) -> None:
        super().__init_subclass__()
        cls.parts = {**cls.parts, **(parts or {})}

    def __init__(self, address: Address, host: Host) -> None:
        self.address, self.host = address, host


class Peer(Part):
    """One participant. Its behaviour is a function of its seed and its inputs.

    A class that has to see every message before its handler names a method in its class statement,
    `class Bft(Member, first="on_any_message")`. If that method returns False the message is
    dropped.
    """

    __slots__ = ("strays",)
    message_handlers: ClassVar[dict[type, Callable[..., None]]] = {}
    alarm_handlers: ClassVar[dict[type, Callable[..., None]]] = {}
    _first_handler: ClassVar[str] = ""

    def __init_subclass__(
        cls, parts: Mapping[str, type[Part]] | None = None, first: str = ""
    ) -> None:
        super().__init_subclass__(parts)
        cls._first_handler = first or cls._first_handler
        cls.message_handlers, cls.alarm_handlers = decisions(cls)
        if cls._first_handler:
            first_handler = getattr(cls, cls._first_handler)
            cls.message_handlers = {
                kind: _after(first_handler, handler)
                for kind, handler in cls.message_handlers.items()
            }

    def __init__(self, address: Address, host: Host) -> None:
        super().__init__(address, host)
        self.strays = 0
        """Messages dropped because a peer of this role does not handle their kind."""

    @classmethod
    def kinds(cls) -> list[type]:
        """Kinds of messages that a peer of this role handles, sorted by name."""
        return sorted(cls.message_handlers, key=lambda kind: kind.__name__)

    @classmethod
    def alarm_kinds(cls) -> list[type]:
        """Kinds of alarms that a peer of this role handles, sorted by name."""
        return sorted(cls.alarm_handlers, key=lambda kind: kind.__name__)

    def holdings(self) -> Any:
        """State held for the system or for other peers, as values that can be encoded: the measure
        of storage (STOR).

        The rule is the same for all designs. Counted: registrations of others, routing tables and
        filters, copies kept for others. Not counted: the peer's own description, credentials and
        place, and the address of the server or broker that serves it.
        """
        return ()

    def stored_bytes(self) -> int | None:
        """Encoded size of `holdings`, for peers that know it without building the values; else
        None.
        """
        return None

    def durable_state(self) -> Message | None:
        """State that survives a crash, as one typed value; None if there is none."""
        return None

    def changes(self) -> "Changes | None":
        """Changes of the durable state since the previous call. None: the peer's durable state is
        small, and the host writes all of it (`durable_state`).
        """
        return None

    def receive(self, sender: Address, message: Message) -> None:
        handler = self.message_handlers.get(type(message))
        if handler is None:
            self.strays += 1
        else:
            handler(self, sender, message)

    def drop_stray(self) -> None:
        self.strays += 1

    def on_own_statement(self, message: Message) -> None:
        """Another peer holds a signed message of this peer, possibly one of an incarnation that
        this peer's disk does not know.
        """
        self.drop_stray()

    def wake(self, alarm: Message) -> None:
        self.alarm_handlers[type(alarm)](self, alarm)


Decisions = dict[type, Callable[..., None]]


def _after(first_handler: Callable[..., bool], handler: Callable[..., None]) -> Callable[..., None]:
    path, method = getattr(handler, "leads_to", (None, handler))
    part = attrgetter(path) if path else None

    def decide(self: Peer, sender: Address, message: Message) -> None:
        if first_handler(self, sender, message):
            found = self if part is None else part(self)
            if found is None:  # a part that only some settings have
                self.drop_stray()
            else:
                method(found, sender, message)

    return decide


def decisions(owner: type[Part]) -> tuple[Decisions, Decisions]:
    """Handler of each kind of message and of each kind of alarm, for a peer or a part.

    A peer dispatches its inputs by it. A part that would address itself uses it to call the handler
    directly.
    """
    messages: Decisions = {}
    alarms: Decisions = {}
    for path, method in _marked(owner):
        takes_message = method.__code__.co_argcount == MESSAGE_ARGUMENTS
        kinds = messages if takes_message else alarms
        handler = _through(path, method, takes_message)
        kinds.update(dict.fromkeys(method.handles, handler))  # type: ignore[attr-defined]
    return messages, alarms


def _marked(owner: type[Part], path: str = "") -> Iterator[tuple[str, Callable[..., None]]]:
    """Marked methods of an owner and of its parts, each with the attribute path to it. The owner's
    own come last, so that they override those of its parts.
    """
    for name, part in owner.parts.items():
        yield from _marked(part, f"{path}.{name}" if path else name)
    for base in reversed(owner.__mro__):
        for method in vars(base).values():
            if hasattr(method, "handles"):
                yield path, method


def _through(path: str, method: Callable[..., None], takes_message: bool) -> Callable[..., None]:
    """A function of the peer that calls the method of a part. Written for exactly the arguments it
    takes: forwarding `*args` would double the cost of every message and alarm.
    """
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
    # lets a compiled core call the method without this wrapper
    vars(decide)["leads_to"] = (path, method)
    return decide
