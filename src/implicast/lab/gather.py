"""Journals of live nodes put together into one, in the world's columns.

Each node wrote what it saw (`net/observation/journal.py`). Here a message that one node sent meets the arrival
that another wrote down, by its number among all that its sender sent; what it was for is found in
`origins.py`. A row is given out when all that it needs has been read. What never arrives is given
out as lost when the journals are `PATIENCE_US` further.

Nothing is given out twice, also when the gatherer is started again: what was given out before is
read from the lake.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from implicast.lab.errors import TableError
from implicast.lab.lake import STREAMED, Lake, Rows, check_run
from implicast.lab.numbering import Key, Numbers, serial
from implicast.lab.origins import FORGET_US, Facts, Origins
from implicast.language.target import scalar_text
from implicast.net.observation import journal
from implicast.net.observation.journal import (
    AnyRow,
    CastRow,
    CompletedRow,
    NoticeRow,
    OpenedRow,
    ReceiptRow,
    ReceivedRow,
    RegistrationRow,
    SentRow,
    VersionRow,
)
from implicast.peer.contract import NUMBER_BITS

PATIENCE_US = 30_000_000
"""How long a message may be under way; what has not come by then is lost."""
IDLE_S = 10.0
"""A journal to which nothing was added for so long is not written any more: nodes write every
second.
"""


class NoJournal(TableError):
    """No node wrote anything below a folder."""


@dataclass(slots=True)
class Journalled:
    """One node's journal, as far as it was read."""

    folder: Path
    read: dict[str, int] = field(default_factory=dict)
    """How far each segment was."""
    name: bytes = b""
    incarnation: int = -1
    peer: int = -1
    closed: bool = False

    def is_written(self) -> bool:
        """May more come soon? Not when the node stopped in order, nor when nothing came for a
        while.
        """
        newest_s = max(
            (each.stat().st_mtime for each in journal.segments(self.folder)), default=0.0
        )
        return not self.closed and time.time() - newest_s < IDLE_S

    def rows(self) -> Iterator[AnyRow]:
        """What is new."""
        for path in journal.segments(self.folder):
            before = self.read.get(path.name, 0)
            if path.stat().st_size > before:
                for row, after in journal.rows(path, before):
                    self.read[path.name] = after
                    yield row


class Gatherer:
    """Reads the journals below a folder into one run of a lake."""

    def __init__(self, source: Path, lake: Path, run: str | None = None) -> None:
        self.source, self.first = source, _first(source)
        self.lake = Lake(
            lake, check_run(run or f"{self.first.network}-{self.first.design}"), self.first.design
        )
        self.numbers = Numbers(self.lake)
        self._origins = Origins(self.numbers)
        self._given = Given(self.lake)
        self._journals: dict[Path, Journalled] = {}
        self._roles: dict[int, str] = {}
        self._storage: dict[int, int] = {}
        self._registrations: dict[Key, dict[str, Any]] = {}
        """By life and version."""
        self._versions: dict[int, int] = {}
        self._sent: dict[Key, tuple[int, SentRow]] = {}
        """Messages not given out yet: who sent them, and the row."""
        self._came: dict[Key, tuple[int, int]] = {}
        """By message: who got it, and when."""
        self._notices: list[tuple[int, int, NoticeRow]] = []
        """Peer, life, row."""
        self._ended: list[ReceiptRow] = []
        self.now_us = 0
        self.foreign = 0
        """Notices of casts whose publisher's journal is not here."""

    def take(self) -> dict[str, int]:
        """Read what is new and give out what can be: rows by table. When no node writes any more,
        that is all.
        """
        out: dict[str, Rows] = {name: [] for name in STREAMED}
        for folder in _folders(self.source):
            there = self._journals.setdefault(folder, Journalled(folder))
            for row in there.rows():
                self._read(there, row, out)
                self.now_us = max(self.now_us, getattr(row, "time_us", 0))
        at_end = not any(each.is_written() for each in self._journals.values())
        self._give_receipts(out)
        self._give_sends(out, at_end)
        self._give_notices(out, at_end)
        self._give_peers(out)
        self._origins.forget(self.now_us)
        self._came = {
            key: each for key, each in self._came.items() if each[1] >= self.now_us - FORGET_US
        }
        self.numbers.keep()
        self.lake.add(out)
        return {name: len(rows) for name, rows in out.items()}

    # --- reading

    def _read(self, there: Journalled, row: AnyRow, out: dict[str, Rows]) -> None:
        if isinstance(row, OpenedRow):
            self._open(there, row)
        elif there.incarnation < 0:
            raise TableError(
                f"{there.folder} begins in the middle: its segments do not say whose they are"
            )
        elif isinstance(row, SentRow):
            self._sent[there.incarnation, row.serial] = (there.peer, row)
            self._origins.sent((there.incarnation, row.serial), row)
        elif isinstance(row, ReceivedRow):
            key = (self.numbers.incarnation(row.sender, row.incarnation), row.serial)
            self._came.setdefault(key, (there.peer, row.time_us))
            self._origins.came(there.incarnation, row, key)
        elif isinstance(row, journal.RequestRow):
            self._origins.asked(there.incarnation, row)
        elif isinstance(row, NoticeRow):
            self._notices.append((there.peer, there.incarnation, row))
        elif isinstance(row, CastRow):
            self._make(there, row, out)
        elif isinstance(row, ReceiptRow):
            self._ended.append(row)
        else:
            self._note(there, row)

    def _open(self, there: Journalled, row: OpenedRow) -> None:
        if row.design != self.first.design:
            raise TableError(
                f"{there.folder} is of a node of {row.design}, others are of {self.first.design}: gather "
                "each network by itself"
            )
        there.name, there.closed, there.peer = row.name, False, self.numbers.peer(row.name)
        there.incarnation = self.numbers.incarnation(row.name, row.incarnation)
        self._roles[there.peer] = "peer" if row.role == "member" else row.role
        self.numbers.incarnations_at(row.address, there.peer)

    def _make(self, there: Journalled, row: CastRow, out: dict[str, Rows]) -> None:
        number = self.numbers.cast(row.cast)
        self._origins.made[number] = row
        if row.target is not None and self._given.casts.add(number):
            out["casts"].append(
                {
                    "cast": number,
                    "publisher": there.peer,
                    "time_us": row.time_us,
                    "target": row.target,
                }
            )

    def _note(self, there: Journalled, row: AnyRow) -> None:
        """What a node said of itself."""
        if isinstance(row, journal.ClosedRow):
            there.closed = True
        elif isinstance(row, journal.StoredBytesRow):
            self._storage[there.peer] = row.bytes
        elif isinstance(row, RegistrationRow):
            self._registrations[there.incarnation, row.version] = self._registration(
                there.peer, row
            )
        elif isinstance(row, VersionRow):
            self.numbers.goes_on(there.name, row.version >> NUMBER_BITS, there.incarnation)
            begun = self._registrations.pop((there.incarnation, row.before), None)
            if begun is not None:
                self._registrations[there.incarnation, row.version] = begun
        elif isinstance(row, CompletedRow):
            begun = self._registrations.get(
                (there.incarnation, row.version)
            ) or self._registrations.get((there.incarnation, 0))
            if begun is not None and begun["completed_us"] is None:
                begun["completed_us"] = row.time_us

    def _registration(self, peer: int, row: RegistrationRow) -> dict[str, Any]:
        self._versions[peer] = self._versions.get(peer, 0) + 1
        said, listed = row.description, row.description.values if row.description else ()
        values = [
            {"attribute": each.attribute, "value": scalar_text(each.value)} for each in listed
        ]
        return {
            "peer": peer,
            "version": self._versions[peer],
            "begun_us": row.time_us,
            "completed_us": None,
            "withdrawn": said is None,
            "tags": list(said.tags) if said else [],
            "values": values,
        }

    # --- giving out

    def _late(self, time_us: int, at_end: bool) -> bool:
        return at_end or self.now_us - time_us > PATIENCE_US

    def _give_receipts(self, out: dict[str, Rows]) -> None:
        left, made = [], self._origins.made
        for row in self._ended:
            number = self.numbers.cast(row.cast)
            if number not in made:
                left.append(row)
            elif made[number].target is not None and self._given.receipts.add(number):
                out["receipts"].append(
                    {
                        "cast": number,
                        "time_us": made[number].time_us,
                        "settled_us": row.time_us,
                        "notified": row.notified,
                        "declined": row.declined,
                        "unreachable": row.unreachable,
                        "uncertain": row.uncertain,
                    }
                )
        self._ended = [row for row in left if self.now_us - row.time_us < FORGET_US]

    def _give_sends(self, out: dict[str, Rows], at_end: bool) -> None:
        for key, (sender, row) in list(self._sent.items()):
            came, late = self._came.get(key), self._late(row.time_us, at_end)
            facts = self._origins.of_message(key, late) if came is not None or late else None
            if facts is not None:
                del self._sent[key]
                self._came.pop(key, None)
                if self._given.sends.add(serial(key)):
                    out["sends"].append(self._sent_row(key, sender, row, facts, came))

    def _sent_row(
        self, key: Key, sender: int, row: SentRow, facts: Facts, came: tuple[int, int] | None
    ) -> dict[str, Any]:
        receiver, arrived_us = came or (self.numbers.at(row.to), None)
        return {
            "serial": serial(key),
            "cause": self._origins.cause(key[0], row.origin),
            "sent_us": row.time_us,
            "arrived_us": arrived_us,
            "sender": sender,
            "receiver": receiver,
            "kind": row.kind,
            "phase": facts.phase,
            "cast": facts.cast,
            "depth": facts.depth,
            "bytes": row.bytes,
        }

    def _give_notices(self, out: dict[str, Rows], at_end: bool) -> None:
        left = []
        for peer, incarnation, row in self._notices:
            number, late = self.numbers.cast(row.cast), self._late(row.time_us, at_end)
            led, made = (
                self._origins.of_input(incarnation, row.origin, late),
                self._origins.made.get(number),
            )
            if led is None or (made is None and not late):
                left.append((peer, incarnation, row))
            elif made is None:
                self.foreign += 1
            elif made.target is not None and self._given.notices.add((peer, number, row.time_us)):
                out["notices"].append(
                    {
                        "cause": self._origins.cause(incarnation, row.origin),
                        "time_us": row.time_us,
                        "peer": peer,
                        "cast": number,
                        "depth": led.depth,
                        "altered": row.digest != made.digest,
                    }
                )
        self._notices = left

    def _give_peers(self, out: dict[str, Rows]) -> None:
        for number in self.numbers.peers.values():
            if self._given.peers.add(number):
                role = self._roles.get(number, "unknown")
                out["peers"].append({"peer": number, "role": role, "time_us": self.now_us})

    # --- the whole

    def whole(self) -> Path:
        """The journal of the run as the world would have written it."""
        peers = [
            {
                "peer": number,
                "role": self._roles.get(number, "unknown"),
                "router": 0,
                "access_us": 0,
                "storage_bytes": self._storage.get(number, 0),
                "capacity": 1.0,
            }
            for number in self.numbers.peers.values()
        ]
        registrations = sorted(
            self._registrations.values(), key=lambda row: (row["begun_us"], row["peer"])
        )
        scenario = {
            "design": self.first.design,
            "peers": sum(each["role"] == "peer" for each in peers),
            "casts": len(self.numbers.casts),
            "parameters": self.first.parameters,
            "network": "live",
            "workload": "live",
            "seed": 0,
        }
        return self.lake.write_whole({"registrations": registrations, "peers": peers}, scenario)


class Once:
    """Keys that were given out."""

    def __init__(self, keys: Iterable[Any]) -> None:
        self._keys = set(keys)

    def add(self, key: Any) -> bool:
        """Is it new?"""
        before = len(self._keys)
        self._keys.add(key)
        return len(self._keys) > before


class Given:
    """What is in the lake already."""

    def __init__(self, lake: Lake) -> None:
        self.peers = Once(lake.gathered("peers", ["peer"])["peer"].to_pylist())
        self.casts = Once(lake.gathered("casts", ["cast"])["cast"].to_pylist())
        self.receipts = Once(lake.gathered("receipts", ["cast"])["cast"].to_pylist())
        self.sends = Once(lake.gathered("sends", ["serial"])["serial"].to_pylist())
        told = lake.gathered("notices", ["peer", "cast", "time_us"])
        self.notices = Once(
            zip(*(told[name].to_pylist() for name in ("peer", "cast", "time_us")), strict=True)
        )


def _folders(source: Path) -> list[Path]:
    return sorted(each for each in source.glob(f"**/{journal.FOLDER}") if each.is_dir())


def _first(source: Path) -> OpenedRow:
    """Who says first to which network and design all this belongs."""
    for folder in _folders(source):
        for path in journal.segments(folder):
            for row, _ in journal.rows(path):
                if isinstance(row, OpenedRow):
                    return row
    raise NoJournal(
        f"{source} holds no journal of a node: start nodes with --journal, or with `journal = true` in "
        "their node.toml"
    )
