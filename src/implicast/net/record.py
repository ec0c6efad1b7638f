"""The inputs of one node on file, and the same peer fed with them again.

A record holds all that decides what a peer does: with what it began, the seed of its chance, and every input with its
time (a message, an alarm, a verb of the application), each followed by a digest of what the peer sent. `replay` feeds
the inputs to a fresh peer over a host that only writes down; the same bytes must leave it, input by input.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any, BinaryIO

import msgspec

from implicast.casting.designs import Design, design
from implicast.language.target import Description, Target
from implicast.net.speech import words_of
from implicast.peer.contract import Address, CastId, Message, Name, Peer
from implicast.peer.errors import LocalError
from implicast.peer.site import Site
from implicast.peer.wire import Codec

VERBS: dict[str, tuple[Any, ...]] = {
    "join": (tuple[Address, ...],),
    "leave": (),
    "register": (Description,),
    "withdraw": (),
    "cast": (Target, bytes),
    "cast_verified": (Target, bytes),
    "carry_on": (CastId, Target, bytes),
    "complain": (CastId,),
    "estimate": (Target,),
    "subscribe": (Target,),
    "unsubscribe": (int,),
    "publish": (Description, bytes),
    "expel": (Name,),
}
"""The verbs of an application, with the types of their arguments; the last is for an authority's ears."""
LOOKS = ("kept", "changes", "holdings")
"""What a node reads of its peer."""

Sent = list[tuple[Address, bytes]]
_pack = msgspec.msgpack.Encoder().encode


class RecordError(LocalError):
    """A file that is no record, or does not fit this version."""


class Opening(msgspec.Struct, array_like=True):
    """With what a peer began."""

    design: str
    role: str
    name: Name
    incarnation: int
    address: Address
    network: bytes
    infrastructure: dict[str, tuple[Address, ...]]
    parameters: dict[str, Any]
    kept: bytes
    seed: int
    now_us: int
    sent: bytes
    """The digest of what it sent while it was made."""


class Input(msgspec.Struct, array_like=True):
    """One input: a message (`m`), an alarm (`a`), a verb (`v`), or a look at the peer (`k`)."""

    kind: str
    now_us: int
    sender: Address | None
    what: str
    """The name of an alarm, of a verb or of what was read."""
    packed: bytes
    sent: bytes


def digest_of(sent: Sent) -> bytes:
    return blake2b(_pack(sent), digest_size=8).digest()


class Recorder:
    """Writes a record."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("wb")

    def write(self, entry: Opening | Input) -> None:
        packed = _pack(entry)
        self._file.write(len(packed).to_bytes(4, "big") + packed)

    def close(self) -> None:
        self._file.close()


def entries(path: Path) -> Iterator[bytes]:
    """What was written, up to where the file ends: a killed node leaves half an entry."""
    try:
        with path.open("rb") as file:
            while len(head := file.read(4)) == 4:
                packed = file.read(int.from_bytes(head, "big"))
                if len(packed) < int.from_bytes(head, "big"):
                    return
                yield packed
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror or error}") from None


class _Paper:
    """A host that only writes down."""

    def __init__(self, seed: int, now_us: int, codec: Codec) -> None:
        self.rng, self.now_us, self._codec = Random(seed), now_us, codec
        self.sent: Sent = []

    def send(self, to: Address, message: Message) -> None:
        self.sent.append((to, self._codec.encode(message)))

    def after(self, delay_us: int, alarm: Message) -> None:
        """Alarms ring when the record says so."""

    def deliver(self, event: Message) -> None:
        """Nobody listens."""

    def take(self) -> bytes:
        sent, self.sent = self.sent, []
        return digest_of(sent)


@dataclass(frozen=True, slots=True)
class Replayed:
    """How a replay went."""

    inputs: int
    messages: int
    alarms: int
    verbs: int
    differs_at: int | None
    """The first input after which other bytes were sent; None: all the same."""


def replay(path: Path, folder: Path | None = None) -> Replayed:
    """Feed a record to a fresh peer, and compare what it sends.

    Where a design signs, the peer needs the node's keys: from its `folder`, or from beside the record.
    """
    found = entries(path)
    try:
        opening = msgspec.msgpack.decode(next(found), type=Opening)
    except (StopIteration, msgspec.MsgspecError):
        raise RecordError(f"{path} is no record of a node") from None
    made = design(opening.design)
    codec = Codec(made.kinds)
    paper = _Paper(opening.seed, opening.now_us, codec)
    peer = _peer(made, opening, paper, folder or path.parent)
    counts = {"m": 0, "a": 0, "v": 0, "k": 0}
    differs_at = None if paper.take() == opening.sent else 0
    for number, packed in enumerate(found, 1):
        entry = msgspec.msgpack.decode(packed, type=Input)
        counts[entry.kind] += 1
        paper.now_us = entry.now_us
        feed(peer, codec, entry)
        if paper.take() != entry.sent and differs_at is None:
            differs_at = number
    return Replayed(
        counts["m"] + counts["a"] + counts["v"], counts["m"], counts["a"], counts["v"], differs_at
    )


def feed(peer: Peer, codec: Codec, entry: Input) -> None:
    """Give a peer one recorded input."""
    if entry.kind == "m":
        assert entry.sender is not None, "a message has a sender"
        peer.receive(entry.sender, codec.decode(entry.packed))
    elif entry.kind == "a":
        peer.wake(msgspec.msgpack.decode(entry.packed, type=_alarm(type(peer), entry.what)))
    elif entry.kind == "k":
        if entry.what in LOOKS:
            getattr(peer, entry.what)()
    else:
        types: Any = tuple.__class_getitem__(VERBS[entry.what])
        getattr(peer, entry.what)(*msgspec.msgpack.decode(entry.packed, type=types))


def _alarm(peer: type[Peer], name: str) -> type[Message]:
    found: type[Message] = next(kind for kind in peer.alarm_kinds() if kind.__name__ == name)
    return found


def _peer(made: Design, opening: Opening, paper: _Paper, folder: Path) -> Peer:
    """`folder`: the node's, with its key; what it signs again is the same."""
    kind = made.kept.get(opening.role)
    kept = (
        msgspec.msgpack.decode(opening.kept, type=kind)
        if opening.kept and kind is not None
        else None
    )
    parameters, credentials = made.settle(opening.parameters), None
    if "authority" in made.kept:
        from implicast.net.enrolment import credentials_of

        credentials = credentials_of(folder, opening.role, parameters)
    words = words_of(folder, parameters, paper, opening.address, opening.network)
    site = Site(
        opening.name,
        opening.incarnation,
        opening.address,
        paper,
        parameters,
        opening.network,
        opening.infrastructure,
        credentials,
        kept,
        words=words,
    )
    if opening.role == "member":
        assert made.member is not None, "only designs that run on a network are recorded"
        return made.member(site)
    assert made.fixture is not None
    return made.fixture(site, opening.role)
