"""Messages between nodes that are not part of a design: revocation lists, heartbeats, chunks of
payloads.

A node answers these messages itself; they never reach its peer. Each kind has a wire number, like
those of designs. A message that cannot be decoded is counted and dropped.
"""

import logging
from collections.abc import Callable
from typing import Protocol, TypeVar

from implicast.net.transport.counters import Counters
from implicast.net.transport.frames import SERVICE, Hello
from implicast.peer.contract import Address, Message
from implicast.peer.errors import RemoteError
from implicast.peer.wire import KIND_BYTES, Codec, pack

log = logging.getLogger("implicast")
Kind = TypeVar("Kind", bound=Message)


class Sender(Protocol):
    """Sends frames: the connection pool."""

    def send(self, to: Address, body: bytes, serial: int, flags: int = ...) -> None: ...


class Services:
    """Dispatches each message to the handler of its kind."""

    def __init__(self, counters: Counters, pool: Sender) -> None:
        self._counters, self._pool = counters, pool
        self._answers: dict[type, Callable[[Hello, Message], None]] = {}
        self.codec = Codec(())

    def register(self, kind: type[Kind], answer: Callable[[Hello, Kind], None]) -> None:
        """Handle messages of this kind with `answer`."""
        self._answers[kind] = answer  # type: ignore[assignment]
        self.codec = Codec(self._answers)

    def receive(self, hello: Hello, body: bytes) -> None:
        try:
            message = self.codec.decode(body)
            self._answers[type(message)](hello, message)
        except RemoteError:
            self._counters["refused_frames"] += 1
        except Exception:
            self._counters["broken"] += 1
            log.exception(
                "a service handler raised an exception for a message from %s", hello.name.hex()
            )

    def send(self, to: Address, message: Message) -> None:
        self._pool.send(to, message_bytes(message), 0, SERVICE)


def message_bytes(message: Message) -> bytes:
    """The encoded message with its wire number, as `Codec` encodes it."""
    return type(message).wire.to_bytes(KIND_BYTES, "big") + pack(message)
