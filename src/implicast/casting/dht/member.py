"""A member of the two designs on hashed tags: says where its tags are listed, which lists to fetch, whom they select.

A list (`keeping/`) holds who has the tag; in `dht` with all its tags.
"""

from functools import lru_cache

import msgspec

from implicast.casting.keeping import Fetch, Piece, RingMember
from implicast.casting.keeping.messages import Found, Slot
from implicast.casting.keeping.pieces import DECODED_MAX, HERE, Range, key_of_value, reader
from implicast.casting.telling import Notify
from implicast.language.target import Description, Scalar, Target, Term
from implicast.peer.contract import CastId, Contact, Name
from implicast.peer.site import Site

TAGS = "t"
"""The shelf of the lists of tags."""
tags_of = reader(frozenset[str], frozenset[str]())
"""All tags of a registration."""

Lists = dict[str, list[Found]]
"""Per tag that was asked for: who has it, with all its tags packed (none in the naive design)."""


@lru_cache(DECODED_MAX)
def packed_of(description: Description, naive: bool) -> bytes:
    """What an entry says of its owner."""
    return HERE if naive else msgspec.msgpack.encode(description.tags)


class Dht(RingMember):
    """A member that keeps, for the tags hashed to it, who has them."""

    __slots__ = ("naive",)

    def __init__(self, site: Site, naive: bool) -> None:
        super().__init__(site)
        self.naive = naive

    def key_of(self, attribute: str, value: Scalar) -> int:
        return key_of_value(value)

    def entries(self, description: Description) -> list[Piece]:
        packed = packed_of(description, self.naive)
        return [self.layings.piece(_list_of(tag), 0, packed) for tag in description.tags]

    def described(self, slot: Slot, packed: bytes) -> Description | None:
        if not packed:
            return None
        tags = frozenset() if self.naive else tags_of(packed)
        return Description(tuple(sorted(tags | {str(slot[2])})))

    def question(self, target: Target, payload: bytes) -> Fetch | str:
        if any(term.where or not term.has for term in target.terms):
            return "a term needs a tag, and tags are all that this design speaks of"
        if self.naive:  # the excluded ones too: they are subtracted
            tags = {tag: None for term in target.terms for tag in (*term.has, *term.lacks)}
        else:  # "any single tag in the term can be looked up"
            tags = {term.has[0]: None for term in target.terms}
        return Fetch((target, payload), [_list_of(tag) for tag in tags])

    def sizes(self, target: Target) -> list[list[list[Range]]]:
        return [[[_list_of(tag)] for tag in term.has] for term in target.terms]

    def found(self, cast: CastId, question: Fetch) -> None:
        target, payload = question.about
        lists = {
            str(each[2]): found for each, found in zip(question.ranges, question.lists, strict=True)
        }
        select = intersected if self.naive else filtered
        selected: dict[Name, Contact] = {}
        for term in target.terms:
            selected |= select(term, lists)
        self.tell(Notify(cast, target, payload), selected)


def _list_of(tag: str) -> Range:
    return TAGS, "", tag, tag, False


def intersected(term: Term, lists: Lists) -> dict[Name, Contact]:
    """Those in the list of every wanted tag and of no excluded one."""
    first, *others = ({owner.name: owner for owner, _, _ in lists[tag]} for tag in term.has)
    excluded = [{owner.name for owner, _, _ in lists[tag]} for tag in term.lacks]
    names = set(first).intersection(*others).difference(*excluded)
    return {name: first[name] for name in names}


def filtered(term: Term, lists: Lists) -> dict[Name, Contact]:
    """Those in the list of the term's first tag that the whole term selects."""
    wanted, excluded = frozenset(term.has), frozenset(term.lacks)
    likely = lists[term.has[0]]
    for letters in map(
        str.encode, term.has[1:]
    ):  # where they do not occur the tag is not there: most are not decoded
        likely = [entry for entry in likely if letters in entry[2]]
    return {
        owner.name: owner
        for owner, _, packed in likely
        if wanted <= (tags := tags_of(packed)) and not excluded & tags
    }
