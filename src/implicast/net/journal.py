"""What a node saw, on file: the raw form of the journal that the world writes, for `implicast journal` to gather.

A node knows names and its own inputs, and neither the numbers of others nor what became of what it sent. So it writes
what it can know: inputs, sends with the input they go back to, notices, casts, receipts, registrations. What needs all
nodes (numbers, arrivals, depth, what a message was for) is found when journals are gathered (`lab/gather.py`).

Rows wait in memory for a second at most and are written in segments. The oldest segment goes when there are too many,
and what cannot be written is counted and dropped: a journal never stops a node.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from implicast.language.target import Description
from implicast.net.counters import Counters
from implicast.peer.contract import Address, CastId, Message, Name, Peer
from implicast.peer.events import Notice, Outlived, Registered, Settled, Withdrawn
from implicast.peer.member import Member

FOLDER = "journal"
SEGMENT_BYTES = 8 << 20
SEGMENTS_MAX = 32
"""Segments a node keeps: 256 MiB."""
HELD_BYTES = 1 << 20
"""What waits in memory at most, should the disk be slow."""
FLUSH_S = 1.0


CASTING = ("cast", "cast_verified", "publish")
"""Verbs that name a cast."""


class Row(msgspec.Struct, array_like=True, gc=False):
    """One line of a node's journal."""


class Opened(Row, tag="o"):
    """The node began a life."""

    time_us: int
    name: Name
    incarnation: int
    address: Address
    role: str
    design: str
    network: str
    parameters: dict[str, Any]


class Came(Row, tag="m"):
    """A message came, and is input `input` of this life."""

    input: int
    time_us: int
    sender: Name
    incarnation: int
    serial: int
    """Which of all that its sender sent in that life."""


class Asked(Row, tag="v"):
    """The application asked for something."""

    input: int
    time_us: int
    verb: str
    cast: CastId | None = None


class Sent(Row, tag="s"):
    """A message left."""

    serial: int
    origin: int
    """The message or wish that it goes back to, through alarms too; 0: the node's own beginning."""
    upkeep: bool
    """An alarm of standing upkeep stands between the two."""
    time_us: int
    to: Address
    kind: str
    bytes: int
    cast: CastId | None


class Noticed(Row, tag="n"):
    """The application was notified."""

    origin: int
    time_us: int
    cast: CastId
    digest: bytes


class Made(Row, tag="c"):
    """A cast was made; `target` None: a thing was published to whoever subscribed."""

    cast: CastId
    time_us: int
    target: str | None
    digest: bytes


class Ended(Row, tag="t"):
    """The publisher knows what became of its cast."""

    cast: CastId
    time_us: int
    notified: int
    declined: int
    unreachable: int


class Began(Row, tag="r"):
    """A description was asked for; None: a withdrawal."""

    version: int
    """0: what the node's disk says that it is, which it may say by itself."""
    time_us: int
    description: Description | None


class Renamed(Row, tag="l"):
    """What was asked for under one version goes on under another."""

    before: int
    version: int


class Completed(Row, tag="d"):
    """A description, or a withdrawal, is complete."""

    version: int
    time_us: int


class Stored(Row, tag="w"):
    """What the node stores for others."""

    time_us: int
    bytes: int


class Closed(Row, tag="z"):
    """The node stopped in order: nothing more of this life comes."""


AnyRow = (
    Opened
    | Came
    | Asked
    | Sent
    | Noticed
    | Made
    | Ended
    | Began
    | Renamed
    | Completed
    | Stored
    | Closed
)
_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(AnyRow)


Cause = tuple[int, bool, int]
"""What a peer does an input for: the input it goes back to, whether that is upkeep, and when."""


class JournalWriter:
    """Writes one life of a node."""

    def __init__(
        self, folder: Path, counters: Counters, storage: Callable[[], int] = lambda: 0
    ) -> None:
        """`storage`: asked now and then what the node stores for others."""
        self._folder, self._counters, self._storage = folder / FOLDER, counters, storage
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._held: list[bytes] = []
        self._held_bytes = self._written = 0
        self._stored = -1
        self._opening: Opened | None = None
        self._file: BinaryIO | None = None
        self._timer: asyncio.TimerHandle | None = None

    def open(self, opening: Opened, said: Description | None) -> None:
        """A life begins, with what the node's disk says that it is; every segment says whose it is."""
        self._opening = opening
        if said is not None:
            self.write(Began(0, opening.time_us, said))

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

    def sent(self, serial: int, cause: Cause, to: Address, message: Message, size: int) -> None:
        cast = getattr(message, "cast", None)
        named = cast if isinstance(cast, CastId) else None
        self.write(Sent(serial, *cause, to, type(message).__name__, size, named))

    def asked(
        self, number: int, now_us: int, verb: str, arguments: tuple[Any, ...], peer: Peer
    ) -> None:
        """What the application is about to ask for, and what will be named so."""
        assert isinstance(peer, Member)
        cast = (
            arguments[0]
            if verb == "carry_on"
            else peer.upcoming_cast()
            if verb in CASTING
            else None
        )
        self.write(Asked(number, now_us, verb, cast))
        if cast is not None and verb != "carry_on":
            what, payload = arguments
            self.write(
                Made(cast, now_us, str(what) if verb != "publish" else None, digest(payload))
            )
        if verb in ("register", "withdraw"):
            said = arguments[0] if verb == "register" else None
            self.write(Began(peer.upcoming_version(), now_us, said))

    def heard(self, cause: Cause, events: list[Message]) -> None:
        """What the peer delivered."""
        origin, _, now_us = cause
        for event in events:
            if isinstance(event, Notice):
                self.write(Noticed(origin, now_us, event.cast, digest(event.payload)))
            elif isinstance(event, Settled):
                if not event.open:
                    self.write(
                        Ended(event.cast, now_us, event.notified, event.declined, event.unreachable)
                    )
            elif isinstance(event, Registered | Withdrawn):
                self.write(Completed(event.version, now_us))
            elif isinstance(event, Outlived):
                self.write(Renamed(event.before, event.version))

    def flush(self) -> None:
        """What waits is written; where that fails it is lost, and counted."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        rows, self._held, self._held_bytes = self._held, [], 0
        try:
            self._open_segment().write(b"".join(rows))
            self._written += sum(map(len, rows))
        except OSError:
            self._counters["journal_lost"] += len(rows)
            self._shut()

    def note_storage(self, now_us: int) -> None:
        """What the node stores for others, when that has changed."""
        stored = self._storage()
        if stored != self._stored:
            self._stored = stored
            self.write(Stored(now_us, stored))

    def close(self) -> None:
        self.write(Closed())
        self.flush()
        self._shut()

    def _shut(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        self._file = None

    def _open_segment(self) -> BinaryIO:
        if self._file is not None and self._written < SEGMENT_BYTES:
            return self._file
        self._shut()
        there = segments(self._folder)
        for old in there[: max(0, len(there) + 1 - SEGMENTS_MAX)]:
            old.unlink(missing_ok=True)
        number = int(there[-1].stem) + 1 if there else 1
        self._file = (self._folder / f"{number:08d}.rows").open("ab", buffering=0)
        self._written = 0
        if self._opening is not None:
            packed = _encode(self._opening)
            self._file.write(len(packed).to_bytes(4, "big") + packed)
        return self._file


def digest(payload: bytes) -> bytes:
    """By which a payload that was altered on its way is told."""
    return blake2b(payload, digest_size=8).digest()


def segments(folder: Path) -> list[Path]:
    """The files of a journal, oldest first."""
    return sorted(folder.glob("*.rows"))


def rows(path: Path, offset: int = 0) -> Iterator[tuple[AnyRow, int]]:
    """The whole rows of a segment from a place on, each with the place after it; half a row at the end is left."""
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read()
    at = 0
    while at + 4 <= len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        if end > len(data):
            return
        yield _decoder.decode(data[at + 4 : end]), offset + end
        at = end
