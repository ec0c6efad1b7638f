"""Reads and writes the peer's durable state in the node's database, and the casts that the node
remembers on disk, so that it takes none twice after a restart.

Each notice in the inbox stands for a cast until the time in its row. When old notices are deleted,
the ids of casts that have to be remembered longer stay in the table `remembered`.
"""

import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from implicast.casting.designs import Design
from implicast.net.storage.store import NOTICES_MAX, Store
from implicast.peer.changes import Changes
from implicast.peer.contract import Message
from implicast.peer.expiry import CLOCK_BOUND_US, DEFAULT_MEMORY_US
from implicast.peer.memory import WORD_SERIAL_BITS, SeenBlock

log = logging.getLogger("implicast")
_pack = msgspec.msgpack.Encoder().encode

NEIGHBOURS_MAX = 16
UNTIL = f"coalesce(until_us, arrived_us + {DEFAULT_MEMORY_US})"


class DurableStateSource(Protocol):
    """Provides a peer's durable state, whole or as changes."""

    def durable_state(self) -> Message | None: ...

    def changes(self) -> Changes | None: ...


class DurableStateStore:
    """Reads the durable state at startup and writes its changes afterwards."""

    def __init__(self, store: Store, design: Design, role: str) -> None:
        self._store, self._design, self._role = store, design, role
        self._written = b""
        self._near: list[str] = []

    def read(self) -> Message | None:
        kind, packed = self._design.durable_types.get(self._role), self._store.get("kept")
        if kind is None or packed is None:
            return None
        try:
            state: Any = msgspec.msgpack.decode(packed, type=kind)
        except msgspec.MsgspecError:
            log.warning(
                "the durable state is of an incompatible version: the node starts without it"
            )
            return None
        if self._role == "member":
            heard = seen_blocks(self._store, time.time_ns() // 1000 - CLOCK_BOUND_US)
            state = msgspec.structs.replace(
                state, member=msgspec.structs.replace(state.member, seen_blocks=heard)
            )
        found: Message = self._with_rows(state)
        return found

    def _with_rows(self, state: Any) -> Any:
        """Replace the fields that are stored row by row with their rows. A field that is stored
        whole has no rows.
        """
        for each in msgspec.structs.fields(state):
            rows = self._store.rows(each.name)
            if rows:
                one_by_one = [
                    values
                    for row in rows
                    for values in msgspec.msgpack.decode(row, type=list[msgspec.Raw])
                ]
                values = msgspec.msgpack.decode(msgspec.msgpack.encode(one_by_one), type=each.type)
                state = msgspec.structs.replace(state, **{each.name: values})
        return state

    def write(self, peer: DurableStateSource) -> None:
        """Write the changes of the durable state since the last call. The casts seen by a member
        are not written here, because its inbox holds them.
        """
        changes = peer.changes()
        if changes is not None:
            self._write_rows(changes)
            self._put(changes.head)
            return
        state: Any = peer.durable_state()
        if state is None:
            return
        if self._role == "member":
            state = msgspec.structs.replace(
                state, member=msgspec.structs.replace(state.member, seen_blocks=())
            )
        self._put(state)

    def _write_rows(self, changes: Changes) -> None:
        if changes.whole:
            self._store.drop_rows()
        for part, rows in changes.rows.items():
            for key, values in rows.items():
                self._store.put_row(part, _pack(key), _pack(values) if values else None)

    def _put(self, state: Message) -> None:
        packed = _pack(state)
        if packed != self._written:
            self._written = packed
            self._store.put("kept", packed)

    def neighbours(self) -> list[str]:
        """Addresses of the nodes that this node was connected to when it last stored them."""
        known = self._store.get("neighbours")
        return msgspec.msgpack.decode(known, type=list[str]) if known else []

    def note_neighbours(self, addresses: list[str]) -> None:
        near = sorted(addresses)[:NEIGHBOURS_MAX]
        if near and near != self._near:
            self._near = near
            self._store.put("neighbours", msgspec.msgpack.encode(near))


class StateWriter:
    """Writes the state of the running peer and the addresses of its neighbours."""

    def __init__(
        self,
        states: DurableStateStore,
        store: Store,
        peer: DurableStateSource,
        neighbours: Callable[[], list[str]],
    ) -> None:
        self._states, self._store, self._peer, self._neighbours = states, store, peer, neighbours

    def write(self) -> None:
        self._states.write(self._peer)

    def note_neighbours(self) -> None:
        self._states.note_neighbours(self._neighbours())

    async def commit(self) -> None:
        """Write the peer's durable state and wait until it is committed."""
        self.write()
        await self._store.committed()


def seen_blocks(store: Store, now_us: int) -> tuple[SeenBlock, ...]:
    """The casts that are still remembered, as blocks of bits for the peer's memory."""
    blocks: dict[tuple[bytes, int, int], tuple[int, int]] = {}
    rows = store.execute_now(
        f"select publisher, life, serial, {UNTIL} from notices where {UNTIL} >= ? "
        "union all select publisher, life, serial, until_us from remembered where until_us >= ?",
        now_us,
        now_us,
    )
    for publisher, incarnation, serial, until_us in rows:
        block = (bytes(publisher), incarnation, serial >> WORD_SERIAL_BITS)
        bits, last_us = blocks.get(block, (0, 0))
        bit = 1 << (serial & (1 << WORD_SERIAL_BITS) - 1)
        blocks[block] = bits | bit, max(last_us, until_us)
    return tuple(SeenBlock(*block, *found) for block, found in blocks.items())


def prune(store: Store, now_us: int, keep: int = NOTICES_MAX, before_us: int = 0) -> None:
    """Delete the oldest done notices beyond `keep`, those done before `before_us`, and expired
    casts whose receipt was final before it. Notices that are not done stay. The ids of deleted
    notices stay until their time has passed.
    """
    beyond = (
        "from notices where done_us is not null "
        "order by arrived_us limit max(0, (select count(*) from notices) - ?)"
    )
    _delete_notices(store, beyond, keep, now_us)
    store.write("delete from remembered where until_us < ?", (now_us,))
    if before_us > 0:
        _delete_notices(store, "from notices where done_us < ?", before_us, now_us)
        old = "settled_us < ? and until_us < ?"
        store.write(
            f"delete from receipts where (life, serial) in (select life, serial from outbox where {old})",
            (before_us, now_us),
        )
        store.write(f"delete from outbox where {old}", (before_us, now_us))


def _delete_notices(store: Store, which: str, bound: int, now_us: int) -> None:
    """Delete notices, and remember the casts that are not out of their time."""
    store.write(
        "insert or ignore into remembered select publisher, life, serial, until_us from "
        f"(select publisher, life, serial, {UNTIL} as until_us {which}) where until_us >= ?",
        (bound, now_us),
    )
    store.write(
        "delete from notices where (publisher, life, serial) in ("
        f"select publisher, life, serial {which})",
        (bound,),
    )
