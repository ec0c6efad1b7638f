"""Tag rules (thesis, 10.2.2): USE, UF (used for), RT (related), NT (narrower), BT (broader).

A person's rules are one list, cast as a whole to those who say the tags concerned; whoever receives it keeps the
newest list of each name. So a rule counts once for each name that states it, and ends when its author takes it out.
One's own rules are offered at once, others' from so many distinct names on. Offers are shown; nothing widens by itself.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from implicast.language.errors import LanguageError
from implicast.language.parse import parse
from implicast.language.tags import tag as folded
from implicast.language.target import Target, Term
from implicast.peer.contract import CastId
from implicast.web.letter import Relation, Rule
from implicast.web.shelf import Shelf

NAMES_MIN = 3
"""Distinct names from which on somebody else's rule is offered."""
RULES_MAX = 256
OPPOSITE: dict[Relation, Relation] = {"USE": "UF", "UF": "USE", "RT": "RT", "NT": "BT", "BT": "NT"}
SAID: dict[str, str] = {
    "USE": "is better said", "UF": "is also said", "RT": "is related to", "NT": "includes the narrower",
    "BT": "belongs to the broader",
}  # fmt: skip
RELATIONS: tuple[Relation, ...] = ("USE", "UF", "RT", "NT", "BT")


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


class Thesaurus:
    """The rules that one page knows."""

    def __init__(self, shelf: Shelf, own: str) -> None:
        self._shelf, self.own = shelf, own

    @property
    def names_min(self) -> int:
        return int(self._shelf.get("rule_names", str(NAMES_MIN)))

    def set_names_min(self, number: int) -> None:
        self._shelf.put("rule_names", str(max(1, min(1000, number))))

    def of(self, publisher: str) -> list[Rule]:
        rows = self._shelf.rows("select tag, relation, other from rules where publisher = ? order by 1, 2, 3",
                                (publisher,))  # fmt: skip
        return [Rule(*row) for row in rows]

    def state(self, rule: Rule) -> Rule:
        """One more rule of one's own; a `LanguageError` if it is none."""
        rule = Rule(folded(rule.tag), rule.relation, folded(rule.other))
        if rule.tag == rule.other:
            raise LanguageError("a rule relates two tags, and these are one")
        if len(self.of(self.own)) >= RULES_MAX:
            raise LanguageError(f"{RULES_MAX} rules are all that one person may state")
        with self._shelf.change() as db:
            values = (self.own, rule.tag, rule.relation, rule.other)
            db.execute("insert or ignore into rules values (?, ?, ?, ?)", values)
        return rule

    def retract(self, rule: Rule) -> None:
        with self._shelf.change() as db:
            db.execute("delete from rules where publisher = ? and tag = ? and relation = ? and other = ?",
                       (self.own, rule.tag, rule.relation, rule.other))  # fmt: skip

    def hear(self, cast: CastId, rules: Iterable[Rule]) -> bool:
        """Somebody's list; the newest of each name counts."""
        publisher = cast.publisher.hex()
        if publisher == self.own:
            return False
        with self._shelf.change() as db:
            known = db.execute("select life, serial from rule_lists where publisher = ?", (publisher,)).fetchone()
            if known is not None and (known["life"], known["serial"]) >= (cast.life, cast.serial):
                return False
            db.execute("insert or replace into rule_lists values (?, ?, ?)", (publisher, cast.life, cast.serial))
            db.execute("delete from rules where publisher = ?", (publisher,))
            db.executemany("insert or ignore into rules values (?, ?, ?, ?)",
                           [(publisher, each.tag, each.relation, each.other) for each in _sound(rules)])  # fmt: skip
        return True

    def offers(self, target: Target) -> list[Offer]:
        """How a target could be widened, the best supported first."""
        wanted = sorted({tag for term in target.terms for tag in term.has})
        found = [offer for tag in wanted for offer in self._about(tag)
                 if not all(_has_both(target, term, offer) for term in target.terms if tag in term.has)]  # fmt: skip
        return sorted(found, key=lambda each: (not each.own, -each.names, each.tag, each.other))[:12]

    def _about(self, tag: str) -> list[Offer]:
        names: dict[tuple[str, str], set[str]] = defaultdict(set)
        for row in self._shelf.rows("select * from rules where tag = ?", (tag,)):
            names[row["relation"], row["other"]].add(row["publisher"])
        for row in self._shelf.rows("select * from rules where other = ?", (tag,)):
            names[OPPOSITE[row["relation"]], row["tag"]].add(row["publisher"])
        offers = [Offer(tag, relation, other, len(who), self.own in who) for (relation, other), who in names.items()]
        return [each for each in offers if each.own or each.names >= self.names_min]

    def supported(self) -> list[sqlite3.Row]:
        """All rules, with how many names state each and whether one does so oneself."""
        return self._shelf.rows(
            "select tag, relation, other, count(*) as names, max(publisher = ?) as own from rules "
            "group by tag, relation, other order by names desc, tag limit 200", (self.own,))  # fmt: skip


def _sound(rules: Iterable[Rule]) -> list[Rule]:
    found = []
    for each in rules:
        try:
            found.append(Rule(folded(each.tag), each.relation, folded(each.other)))
        except LanguageError:
            continue
    return found


def _exchanged(term: Term, tag: str, other: str) -> Term:
    return replace(term, has=tuple(sorted({other if each == tag else each for each in term.has})))


def _has_both(target: Target, term: Term, offer: Offer) -> bool:
    """Is the target as wide as the offer would make it, at this term?"""
    return offer.other in term.has or _exchanged(term, offer.tag, offer.other) in target.terms


def widened(target: Target, tag: str, other: str) -> Target:
    """Wherever the tag is asked for, the other one will do as well."""
    more = [_exchanged(term, tag, other) for term in target.terms if tag in term.has and other not in term.lacks]
    return parse(" | ".join(map(str, [*target.terms, *more])))
