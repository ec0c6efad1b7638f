"""Journals of live nodes put together into one, in the world's columns.

Each node wrote what it saw (`net/observation/journal.py`). Here a message that one node sent meets the arrival
that another wrote down, by its number among all that its sender sent; what it was for is found in
`origins.py`. A row is given out when all that it needs has been read. What never arrives is given
out as lost when the journals are `PATIENCE_US` further.

Gathering goes in steps, each a transaction of the lake (`lake.py`): it reads a piece of the
journals, gives out what it can, and commits rows, names and `GatherState` together. So every row of
a journal is read once and given out once, whatever is killed, and however many gatherers work: one
that lost a step goes on from the state of the one that made it. The state holds what the last
15 minutes need.
"""

from typing import Any

import msgspec

from implicast.lab.errors import LakeConflict, TableError
from implicast.lab.lake import STREAMED, Lake, Rows
from implicast.lab.node_journals import NodeJournals, NodeProgress
from implicast.lab.numbering import Key, Numbers, serial
from implicast.lab.origins import FORGET_US, Facts, Origins, OriginsState
from implicast.lab.storage import Location
from implicast.lab.whole_journal import write_whole
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
from implicast.peer.contract import NUMBER_BITS, Address

PATIENCE_US = 30_000_000
"""How long a message may be under way; what has not come by then is lost."""


class NoJournal(TableError):
    """No node wrote anything below a folder."""


class GatherState(msgspec.Struct):
    """All that a gatherer knows between two steps, besides names."""

    nodes: dict[str, NodeProgress] = {}
    roles: dict[int, str] = {}
    storage: dict[int, int] = {}
    versions: dict[int, int] = {}
    """Registrations of each peer."""
    addresses: dict[Address, int] = {}
    registrations: dict[Key, dict[str, Any]] = {}
    """By incarnation and version."""
    sent: dict[Key, tuple[int, SentRow]] = {}
    """Messages not given out yet: the sender, and the row."""
    came: dict[Key, tuple[int, int]] = {}
    """By message: the receiver, and when."""
    notices: list[tuple[int, int, NoticeRow]] = []
    """Peer, incarnation, row."""
    ended: list[ReceiptRow] = []
    origins: OriginsState = msgspec.field(default_factory=OriginsState)
    peers_given: int = 0
    now_us: int = 0
    foreign: int = 0
    """Notices of casts whose publisher's journal is not here."""


class Gatherer:
    """Reads the journals below a place into one run of a lake."""

    def __init__(self, source: Any, lake: Any, run: str | None = None) -> None:
        self.source = Location.of(source)
        self._journals = NodeJournals(self.source)
        self.first = self._first()
        name = run or f"{self.first.network}-{self.first.design}"
        self.lake = Lake(lake, name, self.first.design, self.first.network or "live")
        self._load()

    def _first(self) -> OpenedRow:
        """The network and design to which all this belongs."""
        found = self._journals.look()
        if not found:
            raise NoJournal(
                f"{self.source} holds no journal of a node: start nodes with --journal, or with "
                "`journal = true` in their node.toml"
            )
        return found[0]

    def _load(self) -> None:
        """Everything as the newest step left it."""
        self._step, state = self.lake.head()
        self._step_begun = False
        self.state = msgspec.msgpack.decode(state, type=GatherState) if state else GatherState()
        self.numbers = Numbers(self.lake, self.state.addresses)
        self._origins = Origins(self.numbers, self.state.origins)

    @property
    def foreign(self) -> int:
        return self.state.foreign

    def take(self) -> dict[str, int]:
        """Read what is new and give out what can be, step by step: rows by table. When no node
        writes any more, that is all.
        """
        total = dict.fromkeys(STREAMED, 0)
        self._journals.look()
        while True:
            if self._step_begun or not self.lake.is_at(self._step):
                self._load()
            try:
                made = self._make_step()
            except LakeConflict:  # another gatherer made this step: go on from its state
                continue
            if made is None:
                return total
            for name in total:
                total[name] += len(made.get(name, ()))

    def _make_step(self) -> dict[str, Rows] | None:
        """One step; None when there is nothing to be done. If it is interrupted, the state is
        useless.
        """
        self._step_begun = True
        out: dict[str, Rows] = {name: [] for name in STREAMED}
        state, read = self.state, 0
        for node, row in self._journals.rows(state.nodes):
            self._read(node, row, out)
            read += 1
        state.now_us = max(state.now_us, self._journals.frontier_us(state.nodes))
        at_end = self._journals.are_over(state.nodes)
        self._give_receipts(out)
        self._give_sends(out, at_end)
        self._give_notices(out, at_end)
        self._give_peers(out)
        if not read and not any(out.values()):
            self._step_begun = False
            return None
        self._origins.forget(state.now_us)
        old_us = state.now_us - FORGET_US
        state.came = {key: each for key, each in state.came.items() if each[1] >= old_us}
        rows = {"names": self.numbers.take_new(), **out}
        self.lake.commit(self._step + 1, rows, msgspec.msgpack.encode(state))
        self._step, self._step_begun = self._step + 1, False
        return out

    # --- reading

    def _read(self, there: NodeProgress, row: AnyRow, out: dict[str, Rows]) -> None:
        if isinstance(row, OpenedRow):
            self._open(there, row)
        elif there.incarnation < 0:
            raise TableError(
                f"a journal of {there.name.hex()} begins in the middle: it does not say whose it is"
            )
        elif isinstance(row, SentRow):
            self.state.sent[there.incarnation, row.serial] = (there.peer, row)
            self._origins.sent((there.incarnation, row.serial), row)
        elif isinstance(row, ReceivedRow):
            key = (self.numbers.incarnation(row.sender, row.incarnation), row.serial)
            self.state.came.setdefault(key, (there.peer, row.time_us))
            self._origins.came(there.incarnation, row, key)
        elif isinstance(row, journal.RequestRow):
            self._origins.asked(there.incarnation, row)
        elif isinstance(row, NoticeRow):
            self.state.notices.append((there.peer, there.incarnation, row))
        elif isinstance(row, CastRow):
            self._make(there, row, out)
        elif isinstance(row, ReceiptRow):
            self.state.ended.append(row)
        else:
            self._note(there, row)

    def _open(self, there: NodeProgress, row: OpenedRow) -> None:
        if row.design != self.first.design:
            raise TableError(
                f"{self.source} has a node of {row.design}, others are of {self.first.design}: "
                "gather each network by itself"
            )
        there.closed, there.peer = False, self.numbers.peer(row.name)
        there.incarnation = self.numbers.incarnation(row.name, row.incarnation)
        self.state.roles[there.peer] = "peer" if row.role == "member" else row.role
        self.numbers.is_at(row.address, there.peer)

    def _make(self, there: NodeProgress, row: CastRow, out: dict[str, Rows]) -> None:
        number = self.numbers.cast(row.cast)
        if self.numbers.make(number, row) and row.target is not None:
            out["casts"].append(
                {
                    "cast": number,
                    "publisher": there.peer,
                    "time_us": row.time_us,
                    "target": row.target,
                }
            )

    def _note(self, there: NodeProgress, row: AnyRow) -> None:
        """What a node said of itself."""
        if isinstance(row, journal.ClosedRow):
            there.closed = True
        elif isinstance(row, journal.StoredBytesRow):
            self.state.storage[there.peer] = row.bytes
        elif isinstance(row, RegistrationRow):
            begun = self._registration(there.peer, row)
            self.state.registrations[there.incarnation, row.version] = begun
        elif isinstance(row, VersionRow):
            self.numbers.goes_on(there.name, row.version >> NUMBER_BITS, there.incarnation)
            moved = self.state.registrations.pop((there.incarnation, row.before), None)
            if moved is not None:
                self.state.registrations[there.incarnation, row.version] = moved
        elif isinstance(row, CompletedRow):
            known = self.state.registrations
            done = known.get((there.incarnation, row.version)) or known.get((there.incarnation, 0))
            if done is not None and done["completed_us"] is None:
                done["completed_us"] = row.time_us

    def _registration(self, peer: int, row: RegistrationRow) -> dict[str, Any]:
        self.state.versions[peer] = self.state.versions.get(peer, 0) + 1
        said, listed = row.description, row.description.values if row.description else ()
        values = [
            {"attribute": each.attribute, "value": scalar_text(each.value)} for each in listed
        ]
        return {
            "peer": peer,
            "version": self.state.versions[peer],
            "begun_us": row.time_us,
            "completed_us": None,
            "withdrawn": said is None,
            "tags": list(said.tags) if said else [],
            "values": values,
        }

    # --- giving out

    def _late(self, time_us: int, at_end: bool) -> bool:
        return at_end or self.state.now_us - time_us > PATIENCE_US

    def _give_receipts(self, out: dict[str, Rows]) -> None:
        left, made = [], self.numbers.made
        for row in self.state.ended:
            number = self.numbers.cast(row.cast)
            if number not in made:
                left.append(row)
            elif made[number].target is not None and self.numbers.end(number):
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
        now_us = self.state.now_us
        self.state.ended = [row for row in left if now_us - row.time_us < FORGET_US]

    def _give_sends(self, out: dict[str, Rows], at_end: bool) -> None:
        state = self.state
        for key, (sender, row) in list(state.sent.items()):
            came, late = state.came.get(key), self._late(row.time_us, at_end)
            facts = self._origins.of_message(key, late) if came is not None or late else None
            if facts is not None:
                del state.sent[key]
                state.came.pop(key, None)
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
        for peer, incarnation, row in self.state.notices:
            number, late = self.numbers.cast(row.cast), self._late(row.time_us, at_end)
            led, made = (
                self._origins.of_input(incarnation, row.origin, late),
                self.numbers.made.get(number),
            )
            if led is None or (made is None and not late):
                left.append((peer, incarnation, row))
            elif made is None:
                self.state.foreign += 1
            elif made.target is not None:
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
        self.state.notices = left

    def _give_peers(self, out: dict[str, Rows]) -> None:
        state, known = self.state, len(self.numbers.peers)
        for number in range(state.peers_given, known):
            role = state.roles.get(number, "unknown")
            out["peers"].append({"peer": number, "role": role, "time_us": state.now_us})
        state.peers_given = known

    # --- the whole

    def whole(self) -> Location:
        """The journal of the run as the world would have written it."""
        roles, storage = self.state.roles, self.state.storage
        peers = [
            {
                "peer": number,
                "role": roles.get(number, "unknown"),
                "router": 0,
                "access_us": 0,
                "storage_bytes": storage.get(number, 0),
                "capacity": 1.0,
            }
            for number in self.numbers.peers.values()
        ]
        registrations = sorted(
            self.state.registrations.values(), key=lambda row: (row["begun_us"], row["peer"])
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
        return write_whole(self.lake, {"registrations": registrations, "peers": peers}, scenario)
