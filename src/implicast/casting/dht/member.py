"""A member of the two designs on hashed tags: says where its tags are listed, which lists to fetch, whom they select.

A list (`keeping/`) holds who has the tag; in `dht` with all its tags.
"""

from functools import lru_cache

import msgspec

from implicast.casting.keeping import Piece, Question, RingMember
from implicast.casting.keeping.questions import Range
from implicast.casting.telling import Notify
from implicast.language.target import Description, Scalar, Target, Term
from implicast.peer.contract import CastId, Contact
from implicast.peer.site import Site
from implicast.space.ring import hashed

TAGS = "t"
"""The shelf of the lists of tags."""
REFERENCE = msgspec.msgpack.encode(None)
"""What is packed in the naive design: nothing but that it is there."""
DECODED_MAX = 4096
"""Lists of tags that are remembered as decoded: those of busy tags come again and again."""
_decoder = msgspec.msgpack.Decoder(frozenset[str])

Holders = dict[str, dict[Contact, frozenset[str]]]
"""Per tag that was asked for: who has it, with all its tags (none in the naive design)."""


@lru_cache(DECODED_MAX)
def tags_of(packed: bytes) -> frozenset[str]:
    """All tags of a registration; none where a stranger wrote nonsense."""
    try:
        return _decoder.decode(packed)
    except msgspec.MsgspecError:
        return frozenset()


class Dht(RingMember):
    """A member that keeps, for the tags hashed to it, who has them."""

    __slots__ = ("naive",)

    def __init__(self, site: Site, naive: bool) -> None:
        super().__init__(site)
        self.naive = naive

    def key_of(self, attribute: str, value: Scalar) -> int:
        return hashed(value)

    def entries(self, description: Description) -> list[Piece]:
        packed = REFERENCE if self.naive else msgspec.msgpack.encode(description.tags)
        return [self.layings.piece(TAGS, "", tag, tag, 0, packed, False) for tag in description.tags]

    def question(self, target: Target, payload: bytes) -> Question | str:
        if any(term.where or not term.has for term in target.terms):
            return "a term needs a tag, and tags are all that this design speaks of"
        if self.naive:  # the excluded ones too: they are subtracted
            tags = {tag: None for term in target.terms for tag in (*term.has, *term.lacks)}
        else:  # "any single tag in the term can be looked up"
            tags = {term.has[0]: None for term in target.terms}
        return Question((target, payload), [_list_of(tag) for tag in tags])

    def sizes(self, target: Target) -> list[list[list[Range]]]:
        return [[[_list_of(tag)] for tag in term.has] for term in target.terms]

    def found(self, cast: CastId, question: Question) -> None:
        target, payload = question.about
        holders: Holders = {}
        for piece, (_, _, tag, _, _) in enumerate(question.ranges):
            assert isinstance(tag, str), "tags are texts"
            found = question.found(piece)
            holders[tag] = {owner: frozenset() if self.naive else tags_of(packed) for owner, _, packed in found}
        select = intersected if self.naive else filtered
        consumers = set().union(*(select(term, holders) for term in target.terms))
        self.tell(Notify(cast, target, payload), consumers)


def _list_of(tag: str) -> Range:
    return TAGS, "", tag, tag, False


def intersected(term: Term, holders: Holders) -> set[Contact]:
    """Those in the list of every wanted tag and of no excluded one."""
    found = [set(holders[tag]) for tag in term.has]
    return found[0].intersection(*found[1:]).difference(*(holders[tag] for tag in term.lacks))


def filtered(term: Term, holders: Holders) -> set[Contact]:
    """Those in the list of the term's first tag that the whole term selects."""
    wanted, excluded = frozenset(term.has), frozenset(term.lacks)
    return {who for who, tags in holders[term.has[0]].items() if wanted <= tags and not excluded & tags}
