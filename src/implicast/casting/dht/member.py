"""A member of the two designs on hashed tags: says where its tags are listed, whom lists select, and what to fetch.

A list (`keeping/`) holds who has the tag; in `dht` with all its tags.
"""

from functools import lru_cache

import msgspec

from implicast.casting.designs import Plan
from implicast.casting.keeping import Piece, Question, RingMember
from implicast.language.target import Description, Scalar, Target, Term
from implicast.peer.contract import Address, CastId
from implicast.space.ring import hashed

TAGS = "t"
"""The shelf of the lists of tags."""
REFERENCE = msgspec.msgpack.encode(None)
"""What is packed in the naive design: nothing but that it is there."""

DECODED_MAX = 4096
"""Lists of tags that are remembered as decoded: those of busy tags come again and again."""
_tags = lru_cache(DECODED_MAX)(msgspec.msgpack.Decoder(frozenset[str]).decode)

Holders = dict[str, dict[Address, frozenset[str]]]
"""Per tag that was asked for: who has it, with all its tags (none in the naive design)."""


class Dht(RingMember):
    """A member that keeps, for the tags hashed to it, who has them."""

    __slots__ = ("naive",)

    def __init__(self, plan: Plan, address: int, naive: bool) -> None:
        super().__init__(address, plan.host(address), plan.seed, plan.parameters)
        self.naive = naive

    def key_of(self, attribute: str, value: Scalar) -> int:
        return hashed(value)

    def entries(self, description: Description) -> list[Piece]:
        assert isinstance(self.address, int), "entries are named by addresses"
        packed = REFERENCE if self.naive else msgspec.msgpack.encode(description.tags)
        return [self.layings.piece(TAGS, "", tag, tag, self.address, packed, False) for tag in description.tags]

    def question(self, target: Target, payload: bytes) -> Question | str:
        if any(term.where or not term.has for term in target.terms):
            return "a term needs a tag, and tags are all that this design speaks of"
        if self.naive:  # the excluded ones too: they are subtracted
            tags = {tag: None for term in target.terms for tag in (*term.has, *term.lacks)}
        else:  # "any single tag in the term can be looked up"
            tags = {term.has[0]: None for term in target.terms}
        return Question((target, payload), [(TAGS, "", tag, tag, False) for tag in tags])

    def found(self, cast: CastId, question: Question) -> None:
        target, payload = question.about
        holders: Holders = {}
        for piece, (_, _, tag, _, _) in enumerate(question.ranges):
            assert isinstance(tag, str), "tags are texts"
            holders[tag] = {name: self._tags(packed) for name, packed in question.found(piece)}
        select = intersected if self.naive else filtered
        consumers = set().union(*(select(term, holders) for term in target.terms))
        self.tell_all(cast, target, payload, sorted(consumers, key=repr))

    def _tags(self, packed: bytes) -> frozenset[str]:
        return frozenset() if self.naive else _tags(packed)


def intersected(term: Term, holders: Holders) -> set[Address]:
    """Those in the list of every wanted tag and of no excluded one."""
    found = [set(holders[tag]) for tag in term.has]
    return found[0].intersection(*found[1:]).difference(*(holders[tag] for tag in term.lacks))


def filtered(term: Term, holders: Holders) -> set[Address]:
    """Those in the list of the term's first tag that the whole term selects."""
    wanted, excluded = frozenset(term.has), frozenset(term.lacks)
    return {who for who, tags in holders[term.has[0]].items() if wanted <= tags and not excluded & tags}
