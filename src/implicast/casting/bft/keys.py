"""Descriptions as keys of places, and targets as key ranges.

A peer holds one place for each tag and each attribute value it has, at the key (tag, peer) or
(attribute, value, peer), and a home place, from which it casts and through which casts to all peers
reach it. The part of a key before the peer is the *realm*; the authority draws the rest at random.
A term of a target becomes the key range of one of its tags or ranges, its *handle*. The publisher
chooses the handle; every peer reached evaluates the whole target.

The audience of a target is estimated from the lists of one member's places. The ring of level l
holds a random one in alpha^l of all places, so the share of a ring within a tag's range estimates
the tag's share of all places. The estimate counts the lowest ring whose list shows the whole range,
and takes the mean over the member's places, which are in different rings. Tags of one term are
assumed to be independent.
"""

import re
from collections.abc import Collection, Sequence
from math import prod

from implicast.casting.bft.multicast import KeyRange, inside
from implicast.language.target import Description, Predicate, Target, Term, Value
from implicast.overlay.skip_graph.table import LevelTable, Node
from implicast.peer.fields import COUNT_MAX

HOME = b"h"
NUMBER_BYTES = 17
"""Numbers of grid steps within 2^127 of zero keep their order as bytes."""
_MIDDLE = 1 << 127
_TEXT = rb"(?:[^\x00\x01]|\x01[\x01\x02])*\x00"
_REALM = re.compile(rb"h|t%b|v%b(?:s%b|n.{%d})" % (_TEXT, _TEXT, _TEXT, NUMBER_BYTES), re.DOTALL)


def realms(description: Description | None) -> list[bytes]:
    """The realms of a peer with this description: home, then tags, then values."""
    if description is None:
        return [HOME]
    return [HOME, *map(tag_realm, description.tags), *map(value_realm, description.values)]


def is_realm(realm: bytes) -> bool:
    """Whether these bytes are a realm. Arbitrary bytes would let a liar choose its place within
    another realm.
    """
    return _REALM.fullmatch(realm) is not None


def tag_realm(tag: str) -> bytes:
    return b"t" + _encode_text(tag)


def value_realm(value: Value) -> bytes:
    if isinstance(value.value, str):
        return b"v" + _encode_text(value.attribute) + b"s" + _encode_text(value.value)
    return b"v" + _encode_text(value.attribute) + b"n" + _number(value.value)


def description_of(places: Collection[bytes]) -> Description:
    """The description that places in these realms stand for; the inverse of `realms`."""
    tags = [_decode_text(realm[1:-1]) for realm in places if realm[:1] == b"t"]
    values = [_value(realm) for realm in places if realm[:1] == b"v"]
    return Description(tuple(tags), tuple(values))


def _value(realm: bytes) -> Value:
    attribute, _, rest = realm[1:].partition(b"\x00")
    if rest[:1] == b"s":
        return Value(_decode_text(attribute), _decode_text(rest[1:-1]))
    return Value(_decode_text(attribute), int.from_bytes(rest[1:], "big") - _MIDDLE)


def handles_of(term: Term) -> list[KeyRange]:
    """The key ranges each of which reaches all peers that a term can select: one for each tag, then
    one for each range; if there are none, all home places.
    """
    tags = [prefix_range(tag_realm(tag)) for tag in term.has]
    return [*tags, *map(_range, term.where)] or [prefix_range(HOME)]


def is_one_handle(term: Term) -> bool:
    """Whether a term selects every peer in the key range of its handle."""
    return len(term.has) + len(term.where) <= 1 and not term.lacks


def _range(predicate: Predicate) -> KeyRange:
    attribute = b"v" + _encode_text(predicate.attribute)
    if isinstance(predicate.low, str):
        return prefix_range(attribute + b"s" + _encode_text(predicate.low))
    assert not isinstance(predicate.high, str), "a range has two ends of one kind"
    low = attribute + b"n" if predicate.low is None else attribute + b"n" + _number(predicate.low)
    high = (
        attribute + b"o"
        if predicate.high is None
        else attribute + b"n" + _number(predicate.high + 1)
    )
    return KeyRange(low, high)


def prefix_range(realm: bytes) -> KeyRange:
    """All keys that begin with a realm."""
    return KeyRange(realm, realm[:-1] + bytes([realm[-1] + 1]))


def _encode_text(text: str) -> bytes:
    """A text with an end mark, so that no realm is a prefix of another."""
    return text.encode().replace(b"\x01", b"\x01\x02").replace(b"\x00", b"\x01\x01") + b"\x00"


def _decode_text(text: bytes) -> str:
    """The inverse of `_encode_text`, without the end mark. Bytes that are not UTF-8 become
    replacement characters, which match no target.
    """
    return text.replace(b"\x01\x01", b"\x00").replace(b"\x01\x02", b"\x01").decode(errors="replace")


def _number(number: int) -> bytes:
    return max(0, min(2 * _MIDDLE, number + _MIDDLE)).to_bytes(NUMBER_BYTES, "big")


def audience(
    tables: Sequence[LevelTable[Node]], target: Target, alpha: int, copies: int
) -> tuple[int, int]:
    """Estimated members that a target selects, and messages that a cast to it takes: `copies` for
    each place in range.
    """
    everyone = max(1.0, places_in(tables, prefix_range(HOME), alpha))
    shares = [
        [places_in(tables, key_range, alpha) / everyone for key_range in handles_of(term)]
        for term in target.terms
    ]
    members = sum(everyone * prod(min(1.0, share) for share in some) for some in shares)
    key_ranges = dict.fromkeys(handles_of(term)[0] for term in target.terms)
    messages = copies * sum(places_in(tables, key_range, alpha) for key_range in key_ranges)
    return round(min(everyone, members)), min(COUNT_MAX, round(messages))


def places_in(tables: Sequence[LevelTable[Node]], key_range: KeyRange, alpha: int) -> float:
    """Estimated number of places in a key range: the mean over the tables of several places."""
    return sum(_seen_in(table, key_range, alpha) for table in tables) / len(tables)


def _seen_in(table: LevelTable[Node], key_range: KeyRange, alpha: int) -> int:
    """Places in a range by one table: exact if the lowest list shows both ends, else extrapolated
    from a higher ring. The top list is the whole ring.
    """
    for number, level in enumerate(table.levels):
        if level.full or (level.spans(key_range.low) and level.spans(key_range.high)):
            return sum(inside(level, key_range)) * int(alpha**number)
    raise AssertionError("the list of the top level is full")
