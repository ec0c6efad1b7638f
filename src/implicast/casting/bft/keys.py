"""Descriptions as places on the circle of keys, and targets as arcs of it.

A peer takes one place per tag and per attribute value it has, at the key (tag, peer) or (attribute, value, peer), and
one more, its home, by which it casts and by which casts to everyone reach it. The part before the peer is the *realm*;
the rest the authority draws. A term becomes the arc of one of its tags or of one of its ranges: its *handle*; which
one is the publisher's choice, and every peer reached checks the whole target.

About how many that are is reckoned from the lists of one member's places. A ring of level l holds every alpha^l-th
place, drawn at random: so the share of a ring that lies in the range of a tag is about the tag's share of all places;
the lowest ring whose list shows the whole range is the one that is counted. The places of one member are in different
rings: their mean is taken. Tags of one term are taken for independent.
"""

import re
from collections.abc import Collection, Sequence
from math import prod

from implicast.casting.bft.multicast import Arc, inside
from implicast.language.target import Description, Predicate, Target, Term, Value
from implicast.overlay.skip_graph.table import LevelTable, Node
from implicast.peer.fields import COUNT_MAX

HOME = b"h"
NUMBER_BYTES = 17
"""Whole numbers of grid steps up to 2^127 either way keep their order as bytes."""
_MIDDLE = 1 << 127
_WORD = rb"(?:[^\x00\x01]|\x01[\x01\x02])*\x00"
_REALM = re.compile(rb"h|t%b|v%b(?:s%b|n.{%d})" % (_WORD, _WORD, _WORD, NUMBER_BYTES), re.DOTALL)


def realms(description: Description | None) -> list[bytes]:
    """Where a peer with this description has its places: its home, then its tags, then its values."""
    if description is None:
        return [HOME]
    return [HOME, *map(tag_realm, description.tags), *map(value_realm, description.values)]


def is_realm(realm: bytes) -> bool:
    """Whether these bytes name a realm. Free bytes would let a liar choose a place inside the realm of another."""
    return _REALM.fullmatch(realm) is not None


def tag_realm(tag: str) -> bytes:
    return b"t" + _word(tag)


def value_realm(value: Value) -> bytes:
    if isinstance(value.value, str):
        return b"v" + _word(value.attribute) + b"s" + _word(value.value)
    return b"v" + _word(value.attribute) + b"n" + _number(value.value)


def said_in(places: Collection[bytes]) -> Description:
    """What a peer says of itself by having places in these realms: `realms` the other way round."""
    tags = [_text(realm[1:-1]) for realm in places if realm[:1] == b"t"]
    values = [_value(realm) for realm in places if realm[:1] == b"v"]
    return Description(tuple(tags), tuple(values))


def _value(realm: bytes) -> Value:
    attribute, _, rest = realm[1:].partition(b"\x00")
    if rest[:1] == b"s":
        return Value(_text(attribute), _text(rest[1:-1]))
    return Value(_text(attribute), int.from_bytes(rest[1:], "big") - _MIDDLE)


def handles_of(term: Term) -> list[Arc]:
    """The arcs any of which reaches all whom a term can select: one per tag, then one per range, or else everyone."""
    tags = [within(tag_realm(tag)) for tag in term.has]
    return [*tags, *map(_range, term.where)] or [within(HOME)]


def _range(predicate: Predicate) -> Arc:
    attribute = b"v" + _word(predicate.attribute)
    if isinstance(predicate.low, str):
        return within(attribute + b"s" + _word(predicate.low))
    assert not isinstance(predicate.high, str), "a range has two ends of one kind"
    low = attribute + b"n" if predicate.low is None else attribute + b"n" + _number(predicate.low)
    high = (
        attribute + b"o"
        if predicate.high is None
        else attribute + b"n" + _number(predicate.high + 1)
    )
    return Arc(low, high)


def within(realm: bytes) -> Arc:
    """All keys that begin with a realm."""
    return Arc(realm, realm[:-1] + bytes([realm[-1] + 1]))


def _word(word: str) -> bytes:
    """A word with its end marked, so that no realm is the beginning of another."""
    return word.encode().replace(b"\x01", b"\x01\x02").replace(b"\x00", b"\x01\x01") + b"\x00"


def _text(word: bytes) -> str:
    """Of `_word`, without its end. What is no text stands for itself: no target can name it."""
    return word.replace(b"\x01\x01", b"\x00").replace(b"\x01\x02", b"\x01").decode(errors="replace")


def _number(number: int) -> bytes:
    return max(0, min(2 * _MIDDLE, number + _MIDDLE)).to_bytes(NUMBER_BYTES, "big")


def audience(
    tables: Sequence[LevelTable[Node]], target: Target, alpha: int, k: int, assured: bool
) -> tuple[int, int]:
    """Members that a target selects, and messages that a cast to it takes."""
    everyone = max(1.0, places_in(tables, within(HOME), alpha))
    shares = [
        [places_in(tables, arc, alpha) / everyone for arc in handles_of(term)]
        for term in target.terms
    ]
    members = sum(everyone * prod(min(1.0, share) for share in some) for some in shares)
    arcs = dict.fromkeys(handles_of(term)[0] for term in target.terms)
    messages = sum(k * places_in(tables, arc, alpha) for arc in arcs) * (2 if assured else 1)
    return round(min(everyone, members)), min(COUNT_MAX, round(messages))


def places_in(tables: Sequence[LevelTable[Node]], arc: Arc, alpha: int) -> float:
    """Places in an arc, by the mean of what several places see."""
    return sum(_seen_in(table, arc, alpha) for table in tables) / len(tables)


def _seen_in(table: LevelTable[Node], arc: Arc, alpha: int) -> int:
    """Exactly if the lowest list shows both ends of the arc, else by the rings above it; the top one is shown whole."""
    for number, level in enumerate(table.levels):
        if level.full or (level.spans(arc.low) and level.spans(arc.high)):
            return sum(inside(level, arc)) * int(alpha**number)
    raise AssertionError("the list of the top level is full")
