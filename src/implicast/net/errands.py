"""Casts that a proxy makes for its light clients, under the name of their stand-ins.

A client numbers its errands and writes each down, with the proxy that it gives it to, before it sends it; it asks the
same proxy again until it is told what became of it. The stand-in writes the number down in the commit that holds the
cast: so an errand becomes one cast, however often it is asked for and whoever falls in between. A large payload is
fetched from the client before it is cast.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec

from implicast.net.blobs import Reference, unwrapped
from implicast.net.frames import Hello
from implicast.net.receipt import Receipt
from implicast.peer.contract import CastId, Message, Name
from implicast.peer.errors import ImplicastError, RemoteError
from implicast.peer.fields import Count, Payload, Text, Token
from implicast.peer.memory import Recent

if TYPE_CHECKING:
    from implicast.net.node import Node

log = logging.getLogger("implicast")

FETCH_S = 120.0
"""How long a proxy fetches a large payload from its client before it gives the errand up; the client asks again."""
UNDER_WAY_MAX = 64
"""Errands of all clients at a time; further ones are not answered, and asked for again."""
ERRANDS_MAX = 1_000
"""Errands of one client that are remembered: those before them were answered long ago."""
MADE = "errands made"
WAIT_S = 5.0
"""How long a proxy waits for the receipt before it answers."""


class CastFor(Message):
    """A client asks its proxy to cast something, or what became of it."""

    wire = 0x0E24
    number: Token
    target: Text
    carried: Payload


class CastTaken(Message):
    """What became of an errand: the cast's receipt as far as it is known, or why there is none."""

    wire = 0x0E25
    number: Token
    refused: Text
    cast: CastId | None = None
    expected: Count = 0
    notified: Count = 0
    declined: Count = 0
    unreachable: Count = 0
    open: Count = 0
    known: bool = False

    @classmethod
    def of(cls, number: int, receipt: Receipt) -> "CastTaken":
        return cls(
            number,
            "",
            receipt.cast,
            receipt.expected,
            receipt.notified,
            receipt.declined,
            receipt.unreachable,
            receipt.open,
            receipt.known,
        )

    def receipt(self) -> Receipt:
        assert self.cast is not None, "what was refused has no receipt"
        return Receipt(
            self.cast,
            self.expected,
            self.notified,
            self.declined,
            self.unreachable,
            self.open,
            (),
            self.known,
        )


class Errands:
    """The casts that one proxy makes for its clients."""

    def __init__(self, proxy: "Node") -> None:
        self._proxy = proxy
        self._under_way: set[tuple[bytes, int]] = set()
        self._made: dict[Name, Recent[int, CastId]] = {}
        """By stand-in and number, which cast an errand became; written down with the cast."""

    def begin(self, hello: Hello, errand: CastFor, standing: "Node") -> None:
        key = (hello.name, errand.number)
        if len(self._under_way) >= UNDER_WAY_MAX:
            raise RemoteError("too many errands at a time")
        if key not in self._under_way:
            self._under_way.add(key)
            self._proxy.background(self._run(hello, errand, standing))

    async def _run(self, hello: Hello, errand: CastFor, standing: "Node") -> None:
        try:
            answer = CastTaken.of(errand.number, await self._receipt(errand, standing))
        except (ImplicastError, TimeoutError) as error:
            answer = CastTaken(
                errand.number, str(error) or "the payload could not be fetched from the client"
            )
        finally:
            self._under_way.discard((hello.name, errand.number))
        self._proxy.services.send(hello.address, answer)

    async def _receipt(self, errand: CastFor, standing: "Node") -> Receipt:
        """Of the cast that this errand became, now or when it was first asked for."""
        made = self._of(standing)
        if errand.number in made:
            return standing.receipt(made[errand.number])
        payload, name = await self._payload(errand)
        made[errand.number] = standing.upcoming_cast()
        _write(standing, made)
        try:  # up to its first pause `cast` runs at once: number and cast are in one commit
            return await standing.cast(errand.target, payload, WAIT_S, name)
        except ImplicastError:
            made.pop(errand.number, None)
            _write(standing, made)
            await standing.store.committed()
            raise

    def _of(self, standing: "Node") -> Recent[int, CastId]:
        if standing.name not in self._made:
            written = standing.store.get(MADE)
            found = self._made[standing.name] = Recent(ERRANDS_MAX)
            for number, cast in (
                msgspec.msgpack.decode(written, type=list[tuple[int, CastId]]) if written else ()
            ):
                found[number] = cast
        return self._made[standing.name]

    async def _payload(self, errand: CastFor) -> tuple[bytes, str]:
        """What is to be cast, and the name of its file."""
        reference = unwrapped(errand.carried)
        if not isinstance(reference, Reference):
            return reference, ""
        payloads = self._proxy.payloads
        payloads.transfers.fetch(reference, self._proxy.config.payload_max)
        async with asyncio.timeout(FETCH_S):
            while not payloads.blobs.whole(reference.root):
                await asyncio.sleep(0.05)
        return payloads.blobs.read(reference.root), reference.name


def _write(standing: "Node", made: Recent[int, CastId]) -> None:
    standing.store.put(MADE, msgspec.msgpack.encode(list(made.items())))
