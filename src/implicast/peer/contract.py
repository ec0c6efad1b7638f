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

from collections.abc import Callable, Mapping
from operator import attrgetter
from random import Random
from typing import Any, ClassVar, Protocol, TypeVar, dataclass_transform

import msgspec

Address = int | tuple[str, int]
"""Where a peer can be reached. Opaque to engines: a small integer in the world, (host, port) on a network."""

Handler = TypeVar("Handler", bound=Callable[..., None])


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class _Frozen(msgspec.StructMeta):
    """Tells type checkers that every kind of message is frozen, as its base says."""


class Message(msgspec.Struct, metaclass=_Frozen, frozen=True, array_like=True, gc=False):
    """A value that is sent or awaited: made once, never changed.

    `gc=False` is safe because a message holds plain values and tuples and never refers back to itself.
    Fields are ints, floats, strings, bytes, booleans, None, tuples of these, and other structs: what can travel.
    """

    upkeep: ClassVar[bool] = False
    """True for alarms of standing upkeep: what they cause counts as upkeep, not as part of the verb that armed them."""


class CastId(Message, order=True):
    """Names one cast for ever: who published it, and which of the publisher's casts it was."""

    publisher: Address
    serial: int


class Host(Protocol):
    """All that a peer may ask of its world.

    A verb notes an intention and returns at once: it never re-enters a peer, never blocks, never
    fails. Silence is the only sign of loss.
    """

    @property
    def now_us(self) -> int:
        """Microseconds. Holds still while one input is handled."""

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


def handles(kind: type) -> Callable[[Handler], Handler]:
    """Mark a method as the one place where this kind of message or alarm is decided."""

    def mark(method: Handler) -> Handler:
        method.handles = kind  # type: ignore[attr-defined]
        return method

    return mark


class Part:
    """A share of a peer, such as its overlay: it has the host and handles some kinds of messages itself."""

    __slots__ = ("address", "host")
    _inner: ClassVar[Mapping[str, type["Part"]]] = {}

    def __init_subclass__(cls, parts: Mapping[str, type["Part"]] | None = None) -> None:
        super().__init_subclass__()
        cls._inner = {**cls._inner, **(parts or {})}

    def __init__(self, address: Address, host: Host) -> None:
        self.address, self.host = address, host


class Peer(Part):
    """One participant. Its life is a function of its seed and its inputs.

    A peer made of parts names them in its class line, `class Spice(Peer, parts={"surface": Ice})`, and sets an
    attribute of each name; messages that a part handles go straight to it.
    """

    __slots__ = ()
    _handlers: ClassVar[dict[type, Callable[..., None]]] = {}

    def __init_subclass__(cls, parts: Mapping[str, type[Part]] | None = None) -> None:
        for name, part in (parts or {}).items():
            found = {kind: _through(path, of) for kind, (path, of) in _reached(name, part).items()}
            cls._handlers = {**cls._handlers, **found}
        cls._handlers = {**cls._handlers, **_marked(cls)}

    @classmethod
    def kinds(cls) -> list[type]:
        """The kinds of messages and alarms this peer decides on, by name."""
        return sorted(cls._handlers, key=lambda kind: kind.__name__)

    def holdings(self) -> Any:
        """The state held for the system or for others, as values that can be encoded: the measure of storage (STOR)."""
        return ()

    def disk(self) -> Any:
        """What was written down and outlives a crash of this peer, as a value; most peers write nothing down."""
        return None

    def bound(self, kind: type) -> Callable[..., None]:
        """The method that decides on a kind, bound to the part it belongs to, for those who keep it at hand."""
        handler = self._handlers[kind]
        method, name = getattr(handler, "passes_on", (handler, ""))
        bound: Callable[..., None] = method.__get__(attrgetter(name)(self) if name else self)
        return bound

    def receive(self, sender: Address, message: Message) -> None:
        self._handlers[type(message)](self, sender, message)

    def wake(self, alarm: Message) -> None:
        self._handlers[type(alarm)](self, alarm)


class Bound(dict[type, Callable[..., None]]):
    """The methods by which one peer decides, each bound when it is first needed: for peers to whom much comes, who save
    two calls for each message by it (`receive` and `wake` ask here), at a kilobyte for each peer."""

    __slots__ = ("_peer",)

    def __init__(self, peer: Peer) -> None:
        super().__init__()
        self._peer = peer

    def __missing__(self, kind: type) -> Callable[..., None]:
        bound = self[kind] = self._peer.bound(kind)
        return bound


def _marked(owner: type) -> dict[type, Callable[..., None]]:
    found: dict[type, Callable[..., None]] = {}
    for base in reversed(owner.__mro__):
        for method in vars(base).values():
            if hasattr(method, "handles"):
                found[method.handles] = method
    return found


def _reached(name: str, part: type[Part]) -> dict[type, tuple[str, Callable[..., None]]]:
    """What a part and its own parts handle, each with the path that leads to it."""
    found: dict[type, tuple[str, Callable[..., None]]] = {}
    for inner, each in part._inner.items():
        found |= _reached(f"{name}.{inner}", each)
    return found | {kind: (name, method) for kind, method in _marked(part).items()}


def _through(name: str, method: Callable[..., None]) -> Callable[..., None]:
    """Each with as many arguments as it takes: at every message and alarm, half the price of passing on any number."""

    reach = attrgetter(name)

    def receive(peer: Any, sender: Address, message: Message) -> None:
        method(reach(peer), sender, message)

    def wake(peer: Any, alarm: Message) -> None:
        method(reach(peer), alarm)

    through: Callable[..., None] = receive if method.__code__.co_argcount == MESSAGE_ARGUMENTS else wake
    through.passes_on = (method, name)  # type: ignore[attr-defined]
    return through
