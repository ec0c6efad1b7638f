"""Who was revoked: the authority's signed and numbered lists, spread from node to node.

A higher number replaces a lower one. The number of the list that a node has rides in its hello and in its pulses; a
node that hears of a higher one asks for it, and one that hears of a lower one tells. A node that takes a list closes
the connections of those on it, accepts them no more, and tells all its neighbours the number at once.
"""

import logging
from collections.abc import Callable
from typing import Annotated, Protocol

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Meta

from implicast.net.frames import Hello
from implicast.peer.contract import Address, Message, Name
from implicast.peer.errors import LocalError, RemoteError
from implicast.peer.fields import Digest, Token
from implicast.peer.wire import UNREADABLE

log = logging.getLogger("implicast")

REVOKED_MAX = 1 << 15
"""Names on one list: half of what a frame carries."""


class RevocationError(LocalError):
    """A list that cannot be taken; the text says why."""


class RevokedNames(Message):
    """The authority's word on who belongs to the network no more."""

    wire = 0x0E01

    number: Token
    names: Annotated[tuple[Name, ...], Meta(max_length=REVOKED_MAX)]
    signature: Digest

    def body(self) -> bytes:
        """What the authority signs."""
        return b"revoked names" + msgspec.msgpack.encode((self.number, self.names))


class RevocationsKnown(Message):
    """The number of the list that a node has."""

    wire = 0x0E02

    number: Token


_list = msgspec.msgpack.Decoder(RevokedNames)


def signed_list(key: Ed25519PrivateKey, number: int, names: tuple[Name, ...]) -> RevokedNames:
    unsigned = RevokedNames(number, names, b"")
    return msgspec.structs.replace(unsigned, signature=key.sign(unsigned.body()))


def read_list(packed: bytes) -> RevokedNames:
    try:
        return _list.decode(packed)
    except UNREADABLE:
        raise RevocationError("this is no list of the revoked") from None


class _Keeps(Protocol):
    def get(self, key: str) -> bytes | None: ...
    def put_now(self, key: str, value: bytes) -> None: ...


class Revocations:
    """The newest list that this node has."""

    def __init__(
        self,
        root: Ed25519PublicKey | None,
        store: _Keeps,
        ban: Callable[[set[Name]], None],
        tell: Callable[[Address, Message], None],
        neighbours: Callable[[], list[Hello]],
    ) -> None:
        """Without a root (no TLS) no list is ever taken."""
        self._root, self._store, self._ban, self._tell, self._neighbours = (
            root,
            store,
            ban,
            tell,
            neighbours,
        )
        self._newest: RevokedNames | None = None
        packed = store.get("revoked")
        if packed is not None and root is not None:
            self._newest = read_list(packed)
            ban(set(self._newest.names))

    @property
    def number(self) -> int:
        return 0 if self._newest is None else self._newest.number

    @property
    def names(self) -> frozenset[Name]:
        return frozenset() if self._newest is None else frozenset(self._newest.names)

    def take(self, told: RevokedNames) -> bool:
        """Take a list that is newer than the one at hand; `RevocationError` when the authority did not sign it."""
        if told.number <= self.number:
            return False
        try:
            if self._root is None:
                raise InvalidSignature
            self._root.verify(told.signature, told.body())
        except InvalidSignature:
            raise RevocationError(
                f"list {told.number} was not signed by this network's authority"
            ) from None
        self._store.put_now("revoked", msgspec.msgpack.encode(told))
        self._newest = told
        log.info("list %d of the revoked: %d names", told.number, len(told.names))
        self._ban(set(told.names))
        for each in self._neighbours():
            self._tell(each.address, RevocationsKnown(told.number))
        return True

    def known(self, hello: Hello, number: int) -> None:
        """A neighbour has list `number`: ask for it by telling one's own lower number, or give one's own."""
        if number > self.number:
            self._tell(hello.address, RevocationsKnown(self.number))
        elif number < self.number and self._newest is not None:
            self._tell(hello.address, self._newest)

    def on_known(self, hello: Hello, told: RevocationsKnown) -> None:
        self.known(hello, told.number)

    def on_list(self, hello: Hello, told: RevokedNames) -> None:
        try:
            self.take(told)
        except RevocationError as error:
            raise RemoteError(f"{hello.name.hex()}: {error}") from None
