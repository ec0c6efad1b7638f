"""What is kept on the surface, as items that it moves about: their kinds, their names, and how they are encoded.

A record lies at its home, the closed part of a registry in a tract, the header of a tag at its original root, the state
of a replica root at that root.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from implicast.casting.spice.homes import address_of
from implicast.casting.spice.messages import Code, Entry, Level, NewsNumber, Notch, Tag
from implicast.casting.spice.messages import Tract as Field
from implicast.overlay.ice.estate import Item
from implicast.peer.contract import Name
from implicast.space.tract import Tract, intersect, union, unite

RECORD, CLOSED, HEADER, ROOT = KINDS = range(4)
"""Kinds of items."""

Key = tuple[str, int, int]
"""Of a registry: tag, root, notch (thesis Table 8.2)."""
Label = tuple[int, Tag, Code, Notch, Name | None]
"""Of an item: kind, tag, root, notch, consumer."""
_encode = msgspec.msgpack.Encoder().encode
label_of = msgspec.msgpack.Decoder(Label).decode
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
    """... and whether all roots concerned have been told."""

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


def record_item(key: Key, entry: Entry, home: int) -> Item:
    return Item(home, home + 1, _encode((RECORD, *key, entry.member.name)), _encode(entry))


def no_record_item(key: Key, consumer: Name, home: int) -> Item:
    """Heirs may forget this record."""
    return Item(home, home + 1, _encode((RECORD, *key, consumer)), b"")


def closed_item(key: Key, closed: Tract) -> Item:
    low, high = (closed[0], closed[-1]) if closed else (key[1], key[1] + 1)
    return Item(low, high, _encode((CLOSED, *key, None)), _encode(closed))


def cut(item: Item, tract: Tract) -> Item:
    """The item as far as it lies in the tract: only closed parts can lie in several places."""
    name = label_of(item.key)
    return closed_item(name[1:4], intersect(tract_of(item.body), tract)) if name[0] == CLOSED else item


def header_item(tag: str, header: Header) -> Item:
    address = address_of(tag)
    return Item(address, address + 1, _encode((HEADER, tag, address, 0, None)), _encode(header))


def root_item(tag: str, root: int, state: RootState) -> Item:
    return Item(root, root + 1, _encode((ROOT, tag, root, 0, None)), _encode(state))


def places(items: Iterable[Item]) -> Tract:
    """Where items lie: records at their homes, closed parts in their tracts."""
    found: Tract = ()
    spans = []
    for item in items:
        if label_of(item.key)[0] == CLOSED:
            found = unite(found, tract_of(item.body))
        else:
            spans.append((item.low, item.high))
    return unite(found, union(spans))
