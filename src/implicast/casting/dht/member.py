"""A member of the designs `dht` and `dht-naive`: where its tags are listed, which lists a cast
reads, which members they select.

A list (`replicated_lists/`) contains the members with a tag; in `dht`, with all their tags.
"""

from collections import Counter
from collections.abc import Sequence, Set
from functools import lru_cache
from itertools import chain

import msgspec

from implicast.casting.notifier import Notify
from implicast.casting.replicated_lists import Fetch, RingMember
from implicast.casting.replicated_lists.entries import (
    DECODED_MAX,
    Found,
    Listing,
    ListRange,
    Slot,
    key_of_value,
    reader,
)
from implicast.language.target import Description, Scalar, Target, Term
from implicast.peer.contract import CastId, Contact, Name, Version
from implicast.peer.site import Site

VERSIONS = 127
"""Versions of a description that entries of the naive design tell apart, in one byte. A prime, so
that the first versions of two incarnations differ too.
"""
TAGS = "t"
"""Namespace of the lists of tags."""
tags_of = reader(frozenset[str], frozenset[str]())
"""Decodes all tags of a registration."""

Lists = dict[str, list[Found]]
"""By fetched tag: the members with it, each with all its tags encoded (in the naive design, with the
version of its description).
"""


@lru_cache(DECODED_MAX)
def packed_of(description: Description, naive: bool, version: Version = 0) -> bytes:
    """Return the content of a member's entries: all its tags; in the naive design what tells entries
    of a description from those of the one before it.
    """
    return msgspec.msgpack.encode(version % VERSIONS if naive else description.tags)


class Dht(RingMember):
    """A member that holds the lists of the tags that hash to it."""

    __slots__ = ("naive",)

    def __init__(self, site: Site, naive: bool) -> None:
        super().__init__(site)
        self.naive = naive

    def key_of(self, attribute: str, value: Scalar) -> int:
        return key_of_value(value)

    def entries_for(self, description: Description) -> list[Listing]:
        packed = packed_of(description, self.naive, self.version if self.naive else 0)
        return [((TAGS, "", tag, tag, False), 0, packed) for tag in description.tags]

    def described(self, slot: Slot, packed: bytes) -> Description | None:
        if not packed:
            return None
        tags = frozenset() if self.naive else tags_of(packed)
        return Description(tuple(sorted(tags | {str(slot[2])})))

    def fetch_for(self, target: Target, payload: bytes) -> Fetch | str:
        if any(term.where or not term.has for term in target.terms):
            return "every term needs at least one tag, and this design supports tags only"
        if self.naive:  # excluded tags too: their members are subtracted
            tags = {tag: None for term in target.terms for tag in (*term.has, *term.lacks)}
        else:  # thesis: "any single tag in the term can be looked up"
            tags = {term.has[0]: None for term in target.terms}
        return Fetch((target, payload), [_list_of(tag) for tag in tags])

    def sizes(self, target: Target) -> list[list[list[ListRange]]]:
        return [[[_list_of(tag)] for tag in term.has] for term in target.terms]

    def on_lists(self, cast: CastId, fetch: Fetch) -> None:
        target, payload = fetch.about
        self.notify(Notify(cast, target, payload), self.select(fetch, fetch.lists))

    def select(self, fetch: Fetch, lists: Sequence[Sequence[Found]]) -> dict[Name, Contact]:
        target, _ = fetch.about
        by_tag = {
            str(each[2]): list(found) for each, found in zip(fetch.ranges, lists, strict=True)
        }
        select = intersected if self.naive else filtered
        selected: dict[Name, Contact] = {}
        for term in target.terms:
            selected |= select(term, by_tag)
        return selected

    def unclear(self, fetch: Fetch) -> Set[Name]:
        """In the naive design entries do not state the description that they belong to."""
        if not self.naive or len(fetch.ranges) == 1:
            return frozenset()
        lists = (*fetch.lists, *fetch.silent)
        seen = {(owner.name, packed) for found in lists for owner, _, packed in found}
        versions = Counter(name for name, _ in seen)
        return {name for name, count in versions.items() if count > 1}


def _list_of(tag: str) -> ListRange:
    return TAGS, "", tag, tag, False


def intersected(term: Term, lists: Lists) -> dict[Name, Contact]:
    """Return the members in the list of every wanted tag and of no excluded one."""
    first, *others = ({owner.name: owner for owner, _, _ in lists[tag]} for tag in term.has)
    excluded = [{owner.name for owner, _, _ in lists[tag]} for tag in term.lacks]
    names = set(first).intersection(*others).difference(*excluded)
    return {name: first[name] for name in names}


def filtered(term: Term, lists: Lists) -> dict[Name, Contact]:
    """Return the members that satisfy a term, by their entries in the lists of all terms: a member
    that changes may be in the list of another term with its new tags already.
    """
    wanted, excluded = frozenset(term.has), frozenset(term.lacks)
    likely = list(chain.from_iterable(lists.values()))
    for letters in map(
        str.encode, term.has
    ):  # a tag whose bytes do not occur is absent: most entries need no decoding
        likely = [entry for entry in likely if letters in entry[2]]
    return {
        owner.name: owner
        for owner, _, packed in likely
        if wanted <= (tags := tags_of(packed)) and not excluded & tags
    }
