"""Stored state as items of the surface: kinds, keys and encoding.

A record lies at its home, the closed part of a registry in its tract, the replication header of a
tag at its original root, the state of a replica root at that root. The unrecovered tract lies where
registries were lost, the doubtful tract where they were recovered while members were silent. Items
move with the extents that contain them.

In a signed network an entry carries a proof by its consumer, packed into the `before` field. One
proof covers a version of the description under all its tags; a withdrawal is proved for each tag.
Each peer that stores an entry verifies it, so that it cannot be moved to another tag, address or
version.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from implicast.casting.spice.homes import address_of, spot_of
from implicast.language.target import Description
from implicast.overlay.ice.item_store import Code, Item, RouteHeader
from implicast.peer.contract import Address, Contact, Message, Name, Version
from implicast.peer.embedded_proofs import embed_proof, extract_proof
from implicast.peer.fields import Micros
from implicast.peer.signing import Signing
from implicast.space.morton import BITS
from implicast.space.tract import Tract, intersect, intervals, union

TAG_MAX = 256
"""Maximum length of a tag."""
TOGETHER_MAX = 512
"""Maximum number of entries in one message. Keeps it well below the message size limit."""

Tag = Annotated[str, Meta(max_length=TAG_MAX)]
TractField = Annotated[tuple[Code, ...], Meta(max_length=4_096)]
Notch = Annotated[int, Meta(ge=0, le=BITS)]
Level = Annotated[int, Meta(ge=0, le=BITS)]
LevelVersion = Annotated[int, Meta(ge=0, le=1 << 48)]
"""Version of a tag's replication state; the larger is newer. The bound leaves room to count up."""


class Entry(Message):
    """One consumer's registration under one tag.

    No description means that the consumer is not registered under the tag. Such a tombstone is kept
    until its lease expires, so that an older entry cannot replace it.
    """

    member: Contact
    version: Version
    spot: Code
    description: Description | None
    before: Description | None = None
    """The consumer's previous description. Casts match it for `BEFORE_US` too. Otherwise a cast of
    two terms that finds the new version at one holder and the old one at another could be left out
    by both under the least-term rule.
    """


Entries = Annotated[tuple[Entry, ...], Meta(max_length=TOGETHER_MAX)]
StoredEntry = tuple[Name, Version, Notch]
"""Consumer, stored version of its entry, and the notch where the entry is stored."""
Answer = tuple[Address, int, int]
"""Address to acknowledge to, the requester's token, and the notch that it requested."""


class TagMessage(Message):
    """A routed message about a tag."""

    way: RouteHeader
    tag: Tag


class NotchMessage(Message):
    """A routed message about one notch of a registry."""

    way: RouteHeader
    tag: Tag
    root: Code
    notch: Notch


RECORD, CLOSED, HEADER, ROOT, UNRECOVERED, DOUBTFUL = KINDS = range(6)
"""Kinds of items."""

Key = tuple[str, int, int]
"""Key of a registry: tag, root, notch (thesis Table 8.2)."""
Label = tuple[int, Tag, Code, Notch, Name | None]
"""Key of an item: kind, tag, root, notch, consumer."""
_encode = msgspec.msgpack.Encoder().encode
label_of = msgspec.msgpack.Decoder(Label).decode
UNRECOVERED_KEY = _encode((UNRECOVERED, "", 0, 0, None))
DOUBTFUL_KEY = _encode((DOUBTFUL, "", 0, 0, None))
"""Keys of the only item of these kinds at a peer: a later one replaces it."""
entry_of = msgspec.msgpack.Decoder(Entry).decode
tract_of: Callable[[bytes], tuple[int, ...]] = msgspec.msgpack.Decoder(TractField).decode
uncertainty_of: Callable[[bytes], tuple[tuple[int, ...], int]] = msgspec.msgpack.Decoder(
    tuple[TractField, Micros]
).decode


class ReplicationHeader(NamedTuple):
    """Replication state of a tag at its original root. The larger number is newer."""

    number: LevelVersion = 0
    level: Level = 0
    """Level whose roots answer casts."""
    target: Level = 0
    """Level to reach: above `level` while raising, below it while lowering."""
    ready: bool = True
    """Whether all roots of the level are complete and have been told so."""

    @property
    def goal(self) -> int:
        """New records are pushed to all roots of this level."""
        return max(self.level, self.target)


class RootState(NamedTuple):
    """What the original root told a replica root last. The larger number is newer."""

    number: LevelVersion
    level: Level
    ready: bool


header_of = msgspec.msgpack.Decoder(ReplicationHeader).decode
state_of = msgspec.msgpack.Decoder(RootState).decode


def record_item(key: Key, entry: Entry, home: int, gone: bool = False) -> Item:
    """`gone`: the item tells the backups to remove the record."""
    return Item(
        home, home + 1, _encode((RECORD, *key, entry.member.name)), b"" if gone else _encode(entry)
    )


def closed_item(key: Key, closed: Tract) -> Item:
    low, high = (closed[0], closed[-1]) if closed else (key[1], key[1] + 1)
    return Item(low, high, _encode((CLOSED, *key, None)), _encode(closed))


def unrecovered_item(at: Tract, unrecovered: Tract) -> Item:
    """The tract whose registries are lost. `at`: where the item lies, including the part just
    recovered.
    """
    return Item(at[0], at[-1], UNRECOVERED_KEY, _encode(unrecovered) if unrecovered else b"")


def doubtful_item(doubtful: Tract, until_us: int) -> Item:
    """The tract that may lack registrations, and until when."""
    low, high = doubtful[0], doubtful[-1]
    return Item(low, high, DOUBTFUL_KEY, _encode((doubtful, until_us)))


def cut(item: Item, tract: Tract) -> Item:
    """The part of an item that lies in the tract. Only closed parts can span several places."""
    name = label_of(item.key)
    return (
        closed_item(name[1:4], intersect(tract_of(item.body), tract)) if name[0] == CLOSED else item
    )


def header_item(tag: str, header: ReplicationHeader) -> Item:
    address = address_of(tag)
    return Item(address, address + 1, _encode((HEADER, tag, address, 0, None)), _encode(header))


def root_item(tag: str, root: int, state: RootState) -> Item:
    return Item(root, root + 1, _encode((ROOT, tag, root, 0, None)), _encode(state))


def places(items: Iterable[Item]) -> Tract:
    """The tract where the items lie."""
    tracts = [
        tract_of(each.body) if label_of(each.key)[0] == CLOSED else (each.low, each.high)
        for each in items
    ]
    return union(span for each in tracts for span in intervals(each))


def proved(signing: Signing, tag: str, entry: Entry) -> Entry:
    """An entry of this peer, with its proof in a signed network."""
    if not signing.signed:
        return entry
    proof = signing.prove(_about(tag, entry, entry.before), _described(entry, entry.before))
    return Entry(
        entry.member, entry.version, entry.spot, entry.description, embed_proof(entry.before, proof)
    )


def is_proved(signing: Signing, tag: str, entry: Entry) -> bool:
    """Whether the consumer of the entry has signed it for this tag. Always True in an unsigned
    network.
    """
    if not signing.signed:
        return True
    before, proof = extract_proof(entry.before)
    if entry.spot != spot_of(entry.member.name, tag) or (
        entry.description and tag not in entry.description.tags
    ):
        return False
    return signing.verify_proof(
        entry.member.name, _about(tag, entry, before), proof, _described(entry, before)
    )


def all_proved(signing: Signing, tag: str, entries: Sequence[Entry]) -> Sequence[Entry]:
    """The entries that their consumers have signed."""
    return (
        entries
        if not signing.signed
        else [each for each in entries if is_proved(signing, tag, each)]
    )


def _about(tag: str, entry: Entry, before: Description | None) -> tuple[object, ...]:
    under = tag if entry.description is None else ""
    return "entry", entry.member, entry.version, entry.description, before, under


def _described(entry: Entry, before: Description | None) -> Description | None:
    """Union of the current and the previous description: both may need a certificate of the
    authority.
    """
    now = entry.description
    if now is None or before is None:
        return now or before
    return Description((*now.tags, *before.tags), (*now.values, *before.values))
