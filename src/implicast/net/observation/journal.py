"""The journal of one node: the raw data from which `implicast journal` builds the same journal as
the simulator writes.

A node knows its own inputs and the names of other nodes. It knows neither the peers' numbers nor
the fate of its messages. So it writes inputs, sent messages with the input that caused them,
notices, casts, receipts and registrations. Everything that needs the journals of all nodes
(numbers, arrivals, depth, purpose of a message) is computed when they are gathered
(`lab/gather.py`).

Rows are buffered for at most one second and written in segments. Beyond `SEGMENTS_MAX` the oldest
segment is deleted. Rows that cannot be written are counted and dropped: the journal never stops a
node.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from implicast.language.target import Description
from implicast.net.storage.files import make_private_folder, open_private
from implicast.net.transport.counters import Counters
from implicast.peer.contract import Address, CastId, Message, Name, Peer
from implicast.peer.events import IncarnationAdvanced, Notice, Registered, Settled, Withdrawn
from implicast.peer.member import Member

FOLDER = "journal"
SEGMENT_BYTES = 8 << 20
SEGMENTS_MAX = 32
"""Segments that a node keeps: 256 MiB."""
HELD_BYTES = 1 << 20
"""Bytes of rows buffered in memory while the disk is slow."""
FLUSH_S = 1.0


CASTING = ("cast", "cast_verified", "publish")
"""Verbs that make a cast."""


class JournalRow(msgspec.Struct, array_like=True, gc=False):
    """One row of a node's journal."""


class OpenedRow(JournalRow, tag="o"):
    """The node starts an incarnation."""

    time_us: int
    name: Name
    incarnation: int
    address: Address
    role: str
    design: str
    network: str
    parameters: dict[str, Any]


class ReceivedRow(JournalRow, tag="m"):
    """A message was received as input number `input` of this incarnation."""

    input: int
    time_us: int
    sender: Name
    incarnation: int
    serial: int
    """Serial number of the message among all that its sender sent in its incarnation."""


class RequestRow(JournalRow, tag="v"):
    """The application called a verb."""

    input: int
    time_us: int
    verb: str
    cast: CastId | None = None


class SentRow(JournalRow, tag="s"):
    """A message was sent."""

    serial: int
    origin: int
    """The message or verb that caused it, directly or through alarms; 0: the start of the node."""
    upkeep: bool
    """True if a maintenance alarm lies between the cause and this message."""
    time_us: int
    to: Address
    kind: str
    bytes: int
    cast: CastId | None


class NoticeRow(JournalRow, tag="n"):
    """The application was notified."""

    origin: int
    time_us: int
    cast: CastId
    digest: bytes


class CastRow(JournalRow, tag="c"):
    """A cast was made. `target` is None if it was published to subscribers."""

    cast: CastId
    time_us: int
    target: str | None
    digest: bytes


class ReceiptRow(JournalRow, tag="t"):
    """The publisher's receipt is final: nothing is open."""

    cast: CastId
    time_us: int
    notified: int
    declined: int
    unreachable: int
    uncertain: int = 0


class RegistrationRow(JournalRow, tag="r"):
    """A registration was requested; description None: a withdrawal."""

    version: int
    """0: the description from the node's durable state, which the peer may register by itself."""
    time_us: int
    description: Description | None


class VersionRow(JournalRow, tag="l"):
    """A registration continues under another version."""

    before: int
    version: int


class CompletedRow(JournalRow, tag="d"):
    """A registration or withdrawal is complete."""

    version: int
    time_us: int


class StoredBytesRow(JournalRow, tag="w"):
    """Size of the data that the node stores for other peers."""

    time_us: int
    bytes: int


class ClosedRow(JournalRow, tag="z"):
    """The node stopped in an orderly way. No further row of this incarnation follows."""


AnyRow = (
    OpenedRow
    | ReceivedRow
    | RequestRow
    | SentRow
    | NoticeRow
    | CastRow
    | ReceiptRow
    | RegistrationRow
    | VersionRow
    | CompletedRow
    | StoredBytesRow
    | ClosedRow
)
_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(AnyRow)


Cause = tuple[int, bool, int]
"""Cause of an input: the input at the start of the chain, whether a maintenance alarm lies between,
the time.
"""


class JournalWriter:
    """Writes the journal of one incarnation."""

    def __init__(
        self, folder: Path, counters: Counters, storage: Callable[[], int] = lambda: 0
    ) -> None:
        """`storage` returns the number of bytes that the node stores for other peers."""
        self._folder, self._counters, self._storage = folder / FOLDER, counters, storage
        make_private_folder(self._folder)
        self._held: list[bytes] = []
        self._held_bytes = self._written = 0
        self._stored = -1
        self._opening: OpenedRow | None = None
        self._file: BinaryIO | None = None
        self._timer: asyncio.TimerHandle | None = None

    def open(self, opening: OpenedRow, described: Description | None) -> None:
        """Start an incarnation with the description in its durable state. Every segment begins with
        `opening`.
        """
        self._opening = opening
        if described is not None:
            self.write(RegistrationRow(0, opening.time_us, described))

    def write(self, row: AnyRow) -> None:
        packed = _encode(row)
        if self._held_bytes + len(packed) > HELD_BYTES:
            self._counters["journal_lost"] += 1
            return
        self._held.append(len(packed).to_bytes(4, "big") + packed)
        self._held_bytes += len(packed)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_S, self.flush)
        elif self._held_bytes > HELD_BYTES // 2:
            self.flush()

    def on_sent(self, serial: int, cause: Cause, to: Address, message: Message, size: int) -> None:
        cast = getattr(message, "cast", None)
        named = cast if isinstance(cast, CastId) else None
        self.write(SentRow(serial, *cause, to, type(message).__name__, size, named))

    def on_verb(
        self, number: int, now_us: int, verb: str, arguments: tuple[Any, ...], peer: Peer
    ) -> None:
        """Record a verb that the application is about to call, and the cast or registration that it
        starts.
        """
        assert isinstance(peer, Member)
        cast = (
            arguments[0]
            if verb == "carry_on"
            else peer.upcoming_cast()
            if verb in CASTING
            else None
        )
        self.write(RequestRow(number, now_us, verb, cast))
        if cast is not None and verb != "carry_on":
            what, payload = arguments[:2]
            self.write(
                CastRow(cast, now_us, str(what) if verb != "publish" else None, digest(payload))
            )
        if verb in ("register", "withdraw"):
            described = arguments[0] if verb == "register" else None
            self.write(RegistrationRow(peer.upcoming_version(), now_us, described))

    def on_events(self, cause: Cause, events: list[Message]) -> None:
        """Record the events that the peer delivered."""
        origin, _, now_us = cause
        for event in events:
            if isinstance(event, Notice):
                self.write(NoticeRow(origin, now_us, event.cast, digest(event.payload)))
            elif isinstance(event, Settled):
                if not event.open:
                    self.write(
                        ReceiptRow(
                            event.cast,
                            now_us,
                            event.notified,
                            event.declined,
                            event.unreachable,
                            event.uncertain,
                        )
                    )
            elif isinstance(event, Registered | Withdrawn):
                self.write(CompletedRow(event.version, now_us))
            elif isinstance(event, IncarnationAdvanced):
                self.write(VersionRow(event.before, event.version))

    def flush(self) -> None:
        """Write the buffered rows. Rows that cannot be written are counted and dropped."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        rows, self._held, self._held_bytes = self._held, [], 0
        try:
            self._open_segment().write(b"".join(rows))
            self._written += sum(map(len, rows))
        except OSError:
            self._counters["journal_lost"] += len(rows)
            self.close_segment()

    def note_storage(self, now_us: int) -> None:
        """Record the size of the data stored for other peers, if it changed."""
        stored = self._storage()
        if stored != self._stored:
            self._stored = stored
            self.write(StoredBytesRow(now_us, stored))

    def close(self) -> None:
        self.write(ClosedRow())
        self.flush()
        self.close_segment()

    def close_segment(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        self._file = None

    def _open_segment(self) -> BinaryIO:
        if self._file is not None and self._written < SEGMENT_BYTES:
            return self._file
        self.close_segment()
        there = segments(self._folder)
        for old in there[: max(0, len(there) + 1 - SEGMENTS_MAX)]:
            old.unlink(missing_ok=True)
        number = int(there[-1].stem) + 1 if there else 1
        self._file = open_private(self._folder / f"{number:08d}.rows", "ab", buffering=0)
        self._written = 0
        if self._opening is not None:
            packed = _encode(self._opening)
            self._file.write(len(packed).to_bytes(4, "big") + packed)
        return self._file


def digest(payload: bytes) -> bytes:
    """Digest by which a payload altered in transit is detected."""
    return blake2b(payload, digest_size=8).digest()


def segments(folder: Path) -> list[Path]:
    """The segment files of a journal, oldest first."""
    return sorted(folder.glob("*.rows"))


def rows(path: Path, offset: int = 0) -> Iterator[tuple[AnyRow, int]]:
    """The complete rows of a segment from an offset, each with the offset after it. An incomplete
    row at the end is skipped.
    """
    with path.open("rb") as file:
        file.seek(offset)
        yield from decoded_rows(file.read(), offset)


def decoded_rows(data: bytes, offset: int = 0) -> Iterator[tuple[AnyRow, int]]:
    """The complete rows of a piece of a segment that begins at an offset."""
    at = 0
    while at + 4 <= len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        if end > len(data):
            return
        yield _decoder.decode(data[at + 4 : end]), offset + end
        at = end
