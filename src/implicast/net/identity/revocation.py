"""Revocation lists: signed and numbered by the authority, spread from node to node.

A list with a higher number replaces one with a lower number. Each hello and heartbeat carries the
number of the sender's list. A node that learns of a higher number asks for that list; one that
learns of a lower number sends its own. A node that accepts a list closes the connections of the
names on it, refuses new ones, and announces the number to all its neighbours at once.
"""

import logging
from collections.abc import Callable
from typing import Annotated, Protocol

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Meta

from implicast.net.transport.frames import Hello
from implicast.peer.contract import Address, Message, Name
from implicast.peer.errors import LocalError, RemoteError
from implicast.peer.fields import Digest, Token
from implicast.peer.wire import UNREADABLE

log = logging.getLogger("implicast")

REVOKED_MAX = 1 << 15
"""Names on one list: half of what fits into a frame."""


class RevocationError(LocalError):
    """A list cannot be accepted; the text says why."""


class RevokedNames(Message):
    """The authority's signed list of revoked names."""

    wire = 0x0E01

    number: Token
    names: Annotated[tuple[Name, ...], Meta(max_length=REVOKED_MAX)]
    signature: Digest

    def body(self) -> bytes:
        """The bytes that the authority signs."""
        return b"revoked names" + msgspec.msgpack.encode((self.number, self.names))


class RevocationsKnown(Message):
    """Announces the number of the sender's list. The receiver answers with a newer one."""

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
        raise RevocationError("this is not a revocation list") from None


class _KeyValueStore(Protocol):
    def get(self, key: str) -> bytes | None: ...
    def put_now(self, key: str, value: bytes) -> None: ...


class Revocations:
    """The newest revocation list of this node."""

    def __init__(
        self,
        root: Ed25519PublicKey | None,
        store: _KeyValueStore,
        ban: Callable[[set[Name]], None],
        tell: Callable[[Address, Message], None],
        neighbours: Callable[[], list[Hello]],
    ) -> None:
        """Without a root key (no TLS) every list is rejected."""
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

    def accept(self, received: RevokedNames) -> bool:
        """Accept a list that is newer than the current one. Returns False if it is not; raises
        `RevocationError` if the authority did not sign it.
        """
        if received.number <= self.number:
            return False
        try:
            if self._root is None:
                raise InvalidSignature
            self._root.verify(received.signature, received.body())
        except InvalidSignature:
            raise RevocationError(
                f"list {received.number} was not signed by this network's authority"
            ) from None
        self._store.put_now("revoked", msgspec.msgpack.encode(received))
        self._newest = received
        log.info("accepted revocation list %d: %d names", received.number, len(received.names))
        near = self._neighbours()
        for each in near:  # a revoked node learns why it is cut off
            if each.name in received.names:
                self._tell(each.address, received)
        self._ban(set(received.names))
        for each in near:
            if each.name not in received.names:
                self._tell(each.address, RevocationsKnown(received.number))
        return True

    def on_number(self, hello: Hello, number: int) -> None:
        """A neighbour has list `number`. If that is newer, ask for it by announcing the own, lower
        number; if it is older, send the own list.
        """
        if number > self.number:
            self._tell(hello.address, RevocationsKnown(self.number))
        elif number < self.number and self._newest is not None:
            self._tell(hello.address, self._newest)

    def on_known(self, hello: Hello, received: RevocationsKnown) -> None:
        self.on_number(hello, received.number)

    def on_list(self, hello: Hello, received: RevokedNames) -> None:
        try:
            self.accept(received)
        except RevocationError as error:
            raise RemoteError(f"{hello.name.hex()}: {error}") from None
