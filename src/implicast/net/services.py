"""What nodes say to each other beside what their peers say: lists of the revoked, clocks, pieces of payloads.

These messages never reach a peer and are not part of a design: a node answers them itself. Each kind has its number on
the wire, as those of designs have; one that cannot be read is counted and dropped.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from implicast.net.carrier import Carrier
from implicast.net.counters import Counters
from implicast.net.frames import SERVICE, Hello
from implicast.peer.contract import Address, Message
from implicast.peer.errors import RemoteError
from implicast.peer.wire import KIND_BYTES, Codec, pack

log = logging.getLogger("implicast")
Kind = TypeVar("Kind", bound=Message)


class Services:
    """Hands what comes to the one function that answers it."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._answers: dict[type, Callable[[Hello, Message], None]] = {}
        self._codec = Codec(())
        self.carrier: Carrier | None = None

    def offer(self, kind: type[Kind], answer: Callable[[Hello, Kind], None]) -> None:
        """From now on messages of this kind are answered."""
        self._answers[kind] = answer  # type: ignore[assignment]
        self._codec = Codec(self._answers)

    def receive(self, hello: Hello, body: bytes) -> None:
        try:
            message = self._codec.decode(body)
            self._answers[type(message)](hello, message)
        except RemoteError:
            self._counters["refused_frames"] += 1
        except Exception:
            self._counters["broken"] += 1
            log.exception("a service broke down over a message from %s", hello.name.hex())

    def send(self, to: Address, message: Message) -> None:
        if self.carrier is not None:
            self.carrier.send(to, message_bytes(message), 0, SERVICE)


def message_bytes(message: Message) -> bytes:
    """A message with its number, as `Codec` would encode it."""
    return type(message).wire.to_bytes(KIND_BYTES, "big") + pack(message)
