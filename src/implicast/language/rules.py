"""Tag rules (thesis, 10.2.2): relations of two tags, as a thesaurus has them, and how they widen a
target.

    ml USE machine-learning      ml is better said machine-learning        UF: the other way round
    overlay RT routing           related
    privacy NT anonymity         privacy includes the narrower anonymity   BT: the other way round

A rule weighs as much as there are names that state it. Offers are for people to take: nothing
widens by itself.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from implicast.language.parse import parse
from implicast.language.target import Target, Term

Relation = Literal["USE", "UF", "RT", "NT", "BT"]
Line = Annotated[str, Meta(max_length=256)]
RELATIONS: tuple[Relation, ...] = ("USE", "UF", "RT", "NT", "BT")
OPPOSITE: dict[str, Relation] = {"USE": "UF", "UF": "USE", "RT": "RT", "NT": "BT", "BT": "NT"}
SAID: dict[str, str] = {
    "USE": "is better said",
    "UF": "is also said",
    "RT": "is related to",
    "NT": "includes the narrower",
    "BT": "belongs to the broader",
}
OFFERS_MAX = 12
"""Offers to widen one target; those with the most support come first."""


class Rule(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A relation of two tags."""

    tag: Line
    relation: Relation
    other: Line

    def __str__(self) -> str:
        return f"{self.tag} {self.relation} {self.other}"

    def read_from(self, tag: str) -> tuple[str, str] | None:
        """The relation and the other tag, as one reads the rule from this tag; None if it is not
        about it.
        """
        if tag == self.tag:
            return self.relation, self.other
        return (OPPOSITE[self.relation], self.tag) if tag == self.other else None


@dataclass(frozen=True, slots=True)
class Offer:
    """One way to widen a target."""

    tag: str
    relation: str
    other: str
    names: int
    own: bool

    @property
    def said(self) -> str:
        return SAID[self.relation]


Stated = Mapping[tuple[str, str], set[str]]
"""By relation and other tag: the names that state it."""


def stated(tag: str, rules: Iterable[tuple[str, Rule]]) -> Stated:
    """What names say of a tag, each with its rule."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for name, rule in rules:
        reading = rule.read_from(tag)
        if reading is not None:
            found[reading].add(name)
    return found


def offers(target: Target, about: Callable[[str], Stated], own: str, names_min: int) -> list[Offer]:
    """How a target could be widened: by own rules at once, by others' from so many names on."""
    found = []
    for tag in sorted({tag for term in target.terms for tag in term.has}):
        for (relation, other), names in about(tag).items():
            offer = Offer(tag, relation, other, len(names), own in names)
            if (offer.own or offer.names >= names_min) and not _is_as_wide(target, offer):
                found.append(offer)
    return sorted(found, key=lambda each: (not each.own, -each.names, each.tag, each.other))[
        :OFFERS_MAX
    ]


def _is_as_wide(target: Target, offer: Offer) -> bool:
    """Is the target as wide already as the offer would make it?"""
    asking = [term for term in target.terms if offer.tag in term.has]
    return all(
        offer.other in term.has or _exchanged(term, offer.tag, offer.other) in target.terms
        for term in asking
    )


def _exchanged(term: Term, tag: str, other: str) -> Term:
    return replace(term, has=tuple(sorted({other if each == tag else each for each in term.has})))


def widened(target: Target, tag: str, other: str) -> Target:
    """Wherever the tag is asked for, the other one will do as well."""
    more = [
        _exchanged(term, tag, other)
        for term in target.terms
        if tag in term.has and other not in term.lacks
    ]
    return parse(" | ".join(map(str, [*target.terms, *more])))
