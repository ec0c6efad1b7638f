"""What is kept on the surface, as items that it moves about: their kinds, their names, and how they are encoded.

A record lies at its home, the closed part of a registry in a tract, the header of a tag at its original root, the state
of a replica root at that root. And where registries were lost, that they were goes with the ground.

In a signed network an entry carries its owner's proof, hidden in what it was before. One proof covers a version of the
owner's description under all its tags; that the owner is not under a tag any more is proved for that tag alone. So each
peer that keeps an entry (the owner of a place, an heir, a replica root) checks it by itself, and it cannot be moved to
another tag, address or version.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from implicast.casting.spice.homes import address_of, spot_of
from implicast.casting.spice.messages import Entry, Level, NewsNumber, Notch, Tag
from implicast.casting.spice.messages import Tract as Field
from implicast.language.target import Description
from implicast.overlay.ice.estate import Code, Item
from implicast.peer.contract import Name
from implicast.peer.words import Words, hide, reveal
from implicast.space.tract import Tract, intersect, intervals, union

RECORD, CLOSED, HEADER, ROOT, LACKING = KINDS = range(5)
"""Kinds of items."""

Key = tuple[str, int, int]
"""Of a registry: tag, root, notch (thesis Table 8.2)."""
Label = tuple[int, Tag, Code, Notch, Name | None]
"""Of an item: kind, tag, root, notch, consumer."""
_encode = msgspec.msgpack.Encoder().encode
label_of = msgspec.msgpack.Decoder(Label).decode
LACKING_KEY = _encode((LACKING, "", 0, 0, None))
"""There is one such item at a peer: what is said later of it replaces what was said before."""
entry_of = msgspec.msgpack.Decoder(Entry).decode
tract_of: Callable[[bytes], tuple[int, ...]] = msgspec.msgpack.Decoder(Field).decode


class Header(NamedTuple):
    """What the original root of a tag knows of its replicas. Larger numbers are newer."""

    number: NewsNumber = 0
    level: Level = 0
    """The level that answers, ..."""
    target: Level = 0
    """... the one that is aimed at, ..."""
    ready: bool = True
    """... and whether all roots concerned have been told, and have all."""

    @property
    def goal(self) -> int:
        """New records go to all roots of this level."""
        return max(self.level, self.target)


class RootState(NamedTuple):
    """What a replica root was last told. Larger numbers are newer."""

    number: NewsNumber
    level: Level
    ready: bool


header_of = msgspec.msgpack.Decoder(Header).decode
state_of = msgspec.msgpack.Decoder(RootState).decode


def record_item(key: Key, entry: Entry, home: int, gone: bool = False) -> Item:
    """`gone`: heirs may forget this record."""
    return Item(
        home, home + 1, _encode((RECORD, *key, entry.member.name)), b"" if gone else _encode(entry)
    )


def closed_item(key: Key, closed: Tract) -> Item:
    low, high = (closed[0], closed[-1]) if closed else (key[1], key[1] + 1)
    return Item(low, high, _encode((CLOSED, *key, None)), _encode(closed))


def lacking_item(at: Tract, lacking: Tract) -> Item:
    """The registries of this ground are lost; `at`: all of it, and where that is said no more."""
    return Item(at[0], at[-1], LACKING_KEY, _encode(lacking) if lacking else b"")


def cut(item: Item, tract: Tract) -> Item:
    """The item as far as it lies in the tract: only closed parts can lie in several places."""
    name = label_of(item.key)
    return (
        closed_item(name[1:4], intersect(tract_of(item.body), tract)) if name[0] == CLOSED else item
    )


def header_item(tag: str, header: Header) -> Item:
    address = address_of(tag)
    return Item(address, address + 1, _encode((HEADER, tag, address, 0, None)), _encode(header))


def root_item(tag: str, root: int, state: RootState) -> Item:
    return Item(root, root + 1, _encode((ROOT, tag, root, 0, None)), _encode(state))


def places(items: Iterable[Item]) -> Tract:
    """Where items lie: records at their homes, closed parts in their tracts."""
    tracts = [
        tract_of(each.body) if label_of(each.key)[0] == CLOSED else (each.low, each.high)
        for each in items
    ]
    return union(span for each in tracts for span in intervals(each))


def proved(words: Words, tag: str, entry: Entry) -> Entry:
    """An entry of this peer's own as it travels."""
    if not words.signed:
        return entry
    proof = words.prove(_about(tag, entry, entry.before), _said(entry, entry.before))
    return Entry(
        entry.member, entry.version, entry.spot, entry.description, hide(entry.before, proof)
    )


def is_proved(words: Words, tag: str, entry: Entry) -> bool:
    """Whether the owner of an entry has said it, under this tag."""
    if not words.signed:
        return True
    before, proof = reveal(entry.before)
    if entry.spot != spot_of(entry.member.name, tag) or (
        entry.description and tag not in entry.description.tags
    ):
        return False
    return words.proved(entry.member.name, _about(tag, entry, before), proof, _said(entry, before))


def all_proved(words: Words, tag: str, entries: Sequence[Entry]) -> Sequence[Entry]:
    """Those of several whose owners have said them."""
    return (
        entries if not words.signed else [each for each in entries if is_proved(words, tag, each)]
    )


def _about(tag: str, entry: Entry, before: Description | None) -> tuple[object, ...]:
    under = tag if entry.description is None else ""
    return "entry", entry.member, entry.version, entry.description, before, under


def _said(entry: Entry, before: Description | None) -> Description | None:
    """All that the owner says of itself there: both may need the authority's word."""
    now = entry.description
    if now is None or before is None:
        return now or before
    return Description((*now.tags, *before.tags), (*now.values, *before.values))
