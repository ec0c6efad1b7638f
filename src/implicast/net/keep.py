"""What a node's peer keeps, between the peer and the node's file."""

import logging
import time
from typing import Any, Protocol

import msgspec

from implicast.casting.designs import Design
from implicast.net.carrier import Carrier
from implicast.net.config import text_of
from implicast.net.store import Store
from implicast.peer.changes import Changes
from implicast.peer.contract import Message
from implicast.peer.memory import HORIZON_US

log = logging.getLogger("implicast")
_pack = msgspec.msgpack.Encoder().encode

NEIGHBOURS_MAX = 16


class Keeping(Protocol):
    """One that can say what a peer keeps."""

    def kept(self) -> Message | None: ...

    def changes(self) -> Changes | None: ...


class Keep:
    """Reads what a peer had kept when it begins, and writes what has changed since."""

    def __init__(self, store: Store, design: Design, role: str) -> None:
        self._store, self._design, self._role = store, design, role
        self._written = b""
        self._near: list[str] = []

    def read(self) -> Message | None:
        kind, packed = self._design.kept.get(self._role), self._store.get("kept")
        if kind is None or packed is None:
            return None
        try:
            kept: Any = msgspec.msgpack.decode(packed, type=kind)
        except msgspec.MsgspecError:
            log.warning("what this node had kept was written by another version: it begins without")
            return None
        if self._role == "member":
            heard = self._store.heard(time.time_ns() // 1000 - HORIZON_US)
            kept = msgspec.structs.replace(
                kept, member=msgspec.structs.replace(kept.member, heard=heard)
            )
        found: Message = self._with_rows(kept)
        return found

    def _with_rows(self, kept: Any) -> Any:
        """What was kept, with what was written row by row; a field that was written whole has no rows."""
        for each in msgspec.structs.fields(kept):
            rows = self._store.rows(each.name)
            if rows:
                one_by_one = [
                    values
                    for row in rows
                    for values in msgspec.msgpack.decode(row, type=list[msgspec.Raw])
                ]
                values = msgspec.msgpack.decode(msgspec.msgpack.encode(one_by_one), type=each.type)
                kept = msgspec.structs.replace(kept, **{each.name: values})
        return kept

    def write(self, peer: Keeping) -> None:
        """What has changed of what the peer keeps since the last time. What was heard is in the inbox already."""
        changes = peer.changes()
        if changes is not None:
            self._write_rows(changes)
            self._put(changes.head)
            return
        kept: Any = peer.kept()
        if kept is None:
            return
        if self._role == "member":
            kept = msgspec.structs.replace(
                kept, member=msgspec.structs.replace(kept.member, heard=())
            )
        self._put(kept)

    def _write_rows(self, changes: Changes) -> None:
        if changes.whole:
            self._store.drop_rows()
        for part, rows in changes.rows.items():
            for key, values in rows.items():
                self._store.put_row(part, _pack(key), _pack(values) if values else None)

    def _put(self, kept: Message) -> None:
        packed = _pack(kept)
        if packed != self._written:
            self._written = packed
            self._store.put("kept", packed)

    def neighbours(self) -> list[str]:
        """Where others were when this node last looked."""
        known = self._store.get("neighbours")
        return msgspec.msgpack.decode(known, type=list[str]) if known else []

    def note_neighbours(self, carrier: Carrier) -> None:
        near = sorted(text_of(each.address) for each in carrier.links())[:NEIGHBOURS_MAX]
        if near and near != self._near:
            self._near = near
            self._store.put("neighbours", msgspec.msgpack.encode(near))
