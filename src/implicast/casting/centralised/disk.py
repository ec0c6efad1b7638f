"""What a server writes down before it answers: a log of records, from which it can begin again after a crash.

The log is all that outlives the server. It is compacted when it has grown to twice what is still true: then it holds
the newest version of each member and the casts that are not finished. Records are bytes, as on a real disk.
"""

import msgspec

from implicast.casting.centralised.messages import Publish
from implicast.language.target import Description
from implicast.peer.contract import Address, CastId

COMPACT_LEAST = 256
"""A log shorter than this is not worth compacting."""


class Kept(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """This version of a member's description; `None`: withdrawn."""

    member: Address
    version: int
    description: Description | None


class Forgotten(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The lease of a member is over."""

    member: Address


class Taken(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A cast was accepted, for these members."""

    publish: Publish
    members: tuple[Address, ...]


class Done(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Nothing is left to be done for this cast."""

    cast: CastId


Record = Kept | Forgotten | Taken | Done
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Record).decode


class Disk:
    """The log, and what it says."""

    __slots__ = ("_log", "casts", "members")

    def __init__(self, log: tuple[bytes, ...] = ()) -> None:
        self._log: list[bytes] = []
        self.members: dict[Address, Kept] = {}
        self.casts: dict[CastId, Taken] = {}
        """Accepted and not finished."""
        for line in log:
            self.write(_decode(line))

    def write(self, record: Record) -> None:
        """Once this returns, the record is safe."""
        self._log.append(_encode(record))
        self._note(record)
        if len(self._log) > max(COMPACT_LEAST, 2 * (len(self.members) + len(self.casts))):
            self._log = [_encode(each) for each in (*self.members.values(), *self.casts.values())]

    def content(self) -> tuple[bytes, ...]:
        return tuple(self._log)

    def _note(self, record: Record) -> None:
        if isinstance(record, Kept):
            self.members[record.member] = record
        elif isinstance(record, Forgotten):
            self.members.pop(record.member, None)
        elif isinstance(record, Taken):
            self.casts[record.publish.cast] = record
        else:
            self.casts.pop(record.cast, None)
