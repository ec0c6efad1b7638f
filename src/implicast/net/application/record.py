"""Records the inputs of one node, and replays them.

A record holds everything that determines a peer's behaviour: its initial state, the seed of its
random numbers, and every input with its time (message, alarm, verb of the application). A digest of
what the peer sent follows each input. `replay` feeds the inputs to a new peer on a host that only
collects its messages. The peer must send the same bytes after each input.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any, BinaryIO

import msgspec

from implicast.casting.designs import Design, design
from implicast.language.target import Description, Target
from implicast.net.application.peers import credentials_for, peer_of
from implicast.net.identity.signing import signing_of
from implicast.net.storage.files import open_private
from implicast.peer.contract import Address, CastId, Message, Name, Peer
from implicast.peer.errors import LocalError
from implicast.peer.site import Site
from implicast.peer.wire import Codec

VERBS: dict[str, tuple[Any, ...]] = {
    "join": (tuple[Address, ...],),
    "leave": (),
    "register": (Description,),
    "withdraw": (),
    "cast": (Target, bytes, int),
    "cast_verified": (Target, bytes, int),
    "carry_on": (CastId, Target, bytes, int),
    "complain": (CastId,),
    "estimate": (Target,),
    "subscribe": (Target,),
    "unsubscribe": (int,),
    "publish": (Description, bytes),
    "expel": (Name,),
}
"""The verbs of an application with the types of their arguments. `expel` is for an authority peer.
"""
READS = {"kept": "durable_state", "changes": "changes", "holdings": "holdings"}
"""The methods by which a node reads its peer, by the name that records use for them."""

SentMessages = list[tuple[Address, bytes]]
Roles = Mapping[str, tuple[Address, ...]]
_pack = msgspec.msgpack.Encoder().encode


class RecordError(LocalError):
    """The file is not a record, or not one of this version."""


class RecordHeader(msgspec.Struct, array_like=True):
    """The initial state of a peer."""

    design: str
    role: str
    name: Name
    incarnation: int
    address: Address
    network: bytes
    infrastructure: dict[str, tuple[Address, ...]]
    parameters: dict[str, Any]
    state: bytes
    seed: int
    now_us: int
    sent: bytes
    """Digest of what the peer sent while it was constructed."""


def header_of(
    design_name: str, role: str, site: Site, infrastructure: Roles, seed: int, sent: bytes
) -> RecordHeader:
    """The header of a record of the node at `site`."""
    state = site.durable_state
    return RecordHeader(
        design_name,
        role,
        site.name,
        site.incarnation,
        site.address,
        site.network,
        dict(infrastructure),
        dict(site.parameters),
        _pack(state) if state else b"",
        seed,
        site.host.now_us,
        sent,
    )


class RecordedInput(msgspec.Struct, array_like=True):
    """One input: a message (`m`), an alarm (`a`), a verb (`v`), or a read of the peer (`k`)."""

    kind: str
    now_us: int
    sender: Address | None
    what: str
    """Name of the alarm, the verb or the read method."""
    packed: bytes
    sent: bytes


def digest_of(sent: SentMessages) -> bytes:
    return blake2b(_pack(sent), digest_size=8).digest()


class Recorder:
    """Writes a record."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = open_private(path)

    def write(self, entry: RecordHeader | RecordedInput) -> None:
        packed = _pack(entry)
        self._file.write(len(packed).to_bytes(4, "big") + packed)

    def close(self) -> None:
        self._file.close()


def entries(path: Path) -> Iterator[bytes]:
    """The entries of a record. An incomplete last entry, left by a killed node, is skipped."""
    try:
        with path.open("rb") as file:
            while len(head := file.read(4)) == 4:
                packed = file.read(int.from_bytes(head, "big"))
                if len(packed) < int.from_bytes(head, "big"):
                    return
                yield packed
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror or error}") from None


class _ReplayHost:
    """A host that collects the digests of sent messages."""

    def __init__(self, seed: int, now_us: int, codec: Codec) -> None:
        self.rng, self.now_us, self._codec = Random(seed), now_us, codec
        self.sent: SentMessages = []

    def send(self, to: Address, message: Message) -> None:
        self.sent.append((to, self._codec.encode(message)))

    def after(self, delay_us: int, alarm: Message) -> None:
        """Does nothing: the record says when alarms fire."""

    def deliver(self, event: Message) -> None:
        """Does nothing: a replay has no application."""

    def take_digest(self) -> bytes:
        sent, self.sent = self.sent, []
        return digest_of(sent)


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a replay."""

    inputs: int
    messages: int
    alarms: int
    verbs: int
    differs_at: int | None
    """Number of the first input after which the peer sent other bytes; None if there is none."""


def replay(path: Path, folder: Path | None = None) -> ReplayResult:
    """Feed a record to a new peer and compare what it sends.

    If the design signs, the peer needs the node's keys: from `folder`, by default the folder of the
    record.
    """
    found = entries(path)
    try:
        header = msgspec.msgpack.decode(next(found), type=RecordHeader)
    except (StopIteration, msgspec.MsgspecError):
        raise RecordError(f"{path} is not a record of a node") from None
    made = design(header.design)
    codec = Codec(made.kinds)
    host = _ReplayHost(header.seed, header.now_us, codec)
    peer = _peer(made, header, host, folder or path.parent)
    counts = {"m": 0, "a": 0, "v": 0, "k": 0}
    differs_at = None if host.take_digest() == header.sent else 0
    for number, packed in enumerate(found, 1):
        entry = msgspec.msgpack.decode(packed, type=RecordedInput)
        counts[entry.kind] += 1
        host.now_us = entry.now_us
        feed_input(peer, codec, entry)
        if host.take_digest() != entry.sent and differs_at is None:
            differs_at = number
    return ReplayResult(
        counts["m"] + counts["a"] + counts["v"], counts["m"], counts["a"], counts["v"], differs_at
    )


def feed_input(peer: Peer, codec: Codec, entry: RecordedInput) -> None:
    """Pass one recorded input to a peer."""
    if entry.kind == "m":
        assert entry.sender is not None, "a message has a sender"
        peer.receive(entry.sender, codec.decode(entry.packed))
    elif entry.kind == "a":
        peer.wake(msgspec.msgpack.decode(entry.packed, type=_alarm(type(peer), entry.what)))
    elif entry.kind == "k":
        if entry.what in READS:
            getattr(peer, READS[entry.what])()
    else:
        types: Any = tuple.__class_getitem__(VERBS[entry.what])
        getattr(peer, entry.what)(*msgspec.msgpack.decode(entry.packed, type=types))


def _alarm(peer: type[Peer], name: str) -> type[Message]:
    found: type[Message] = next(kind for kind in peer.alarm_kinds() if kind.__name__ == name)
    return found


def _peer(made: Design, header: RecordHeader, host: _ReplayHost, folder: Path) -> Peer:
    """Build the peer of a record. `folder` holds the node's key, so that it makes the same
    signatures.
    """
    kind = made.durable_types.get(header.role)
    state = (
        msgspec.msgpack.decode(header.state, type=kind)
        if header.state and kind is not None
        else None
    )
    parameters = made.settle(header.parameters)
    site = Site(
        header.name,
        header.incarnation,
        header.address,
        host,
        parameters,
        header.network,
        header.infrastructure,
        credentials_for(made, folder, header.role, parameters),
        state,
        signing=signing_of(folder, parameters, host, header.address, header.network),
    )
    return peer_of(made, header.role, site)
