"""Reads and writes the peer's durable state in the node's database."""

import logging
import time
from typing import Any, Protocol

import msgspec

from implicast.casting.designs import Design
from implicast.net.config import text_of
from implicast.net.connection_pool import ConnectionPool
from implicast.net.remembered import seen_blocks
from implicast.net.store import Store
from implicast.peer.changes import Changes
from implicast.peer.contract import Message
from implicast.peer.expiry import CLOCK_BOUND_US

log = logging.getLogger("implicast")
_pack = msgspec.msgpack.Encoder().encode

NEIGHBOURS_MAX = 16


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

    def note_neighbours(self, pool: ConnectionPool) -> None:
        near = sorted(text_of(each.address) for each in pool.connected_nodes())[:NEIGHBOURS_MAX]
        if near and near != self._near:
            self._near = near
            self._store.put("neighbours", msgspec.msgpack.encode(near))
