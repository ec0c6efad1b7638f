"""The tag rules that a page knows: its own, and the newest list of each name.

A person's rules are one list, cast as a whole to those who say the tags concerned; a person who receives
it keeps the newest list of each name. So a rule counts once for each name that states it, and ends
when its author takes it out.
"""

import sqlite3
from collections.abc import Iterable

from implicast.language.errors import LanguageError
from implicast.language.rules import Offer, Rule, Stated, offers, stated
from implicast.language.tags import tag as folded
from implicast.language.target import Target
from implicast.peer.contract import CastId
from implicast.web.mailbox import Mailbox

NAMES_MIN = 3
"""Distinct names from which on another person's rule is offered."""
RULES_MAX = 256


class Thesaurus:
    """The rules that one page knows."""

    def __init__(self, mailbox: Mailbox, own: str) -> None:
        self._mailbox, self.own = mailbox, own

    @property
    def names_min(self) -> int:
        return int(self._mailbox.get("rule_names", str(NAMES_MIN)))

    def set_names_min(self, number: int) -> None:
        self._mailbox.put("rule_names", str(max(1, min(1000, number))))

    def of(self, publisher: str) -> list[Rule]:
        rows = self._mailbox.rows(
            "select tag, relation, other from rules where publisher = ? order by 1, 2, 3",
            (publisher,),
        )
        return [Rule(*row) for row in rows]

    def state(self, rule: Rule) -> Rule:
        """One more rule of one's own; a `LanguageError` if it is none."""
        rule = Rule(folded(rule.tag), rule.relation, folded(rule.other))
        if rule.tag == rule.other:
            raise LanguageError("a rule relates two tags, and these are one")
        if len(self.of(self.own)) >= RULES_MAX:
            raise LanguageError(f"{RULES_MAX} rules are all that one person may state")
        with self._mailbox.change() as db:
            values = (self.own, rule.tag, rule.relation, rule.other)
            db.execute("insert or ignore into rules values (?, ?, ?, ?)", values)
        return rule

    def retract(self, rule: Rule) -> None:
        with self._mailbox.change() as db:
            db.execute(
                "delete from rules where publisher = ? and tag = ? and relation = ? and other = ?",
                (self.own, rule.tag, rule.relation, rule.other),
            )

    def hear(self, cast: CastId, rules: Iterable[Rule]) -> bool:
        """A person's list; the newest of each name counts."""
        publisher = cast.publisher.hex()
        if publisher == self.own:
            return False
        with self._mailbox.change() as db:
            known = db.execute(
                "select life, serial from rule_lists where publisher = ?", (publisher,)
            ).fetchone()
            if known is not None and (known["life"], known["serial"]) >= (
                cast.incarnation,
                cast.serial,
            ):
                return False
            db.execute(
                "insert or replace into rule_lists values (?, ?, ?)",
                (publisher, cast.incarnation, cast.serial),
            )
            db.execute("delete from rules where publisher = ?", (publisher,))
            db.executemany(
                "insert or ignore into rules values (?, ?, ?, ?)",
                [(publisher, each.tag, each.relation, each.other) for each in _sound(rules)],
            )
        return True

    def offers(self, target: Target) -> list[Offer]:
        """How a target could be widened, the best supported first."""
        return offers(target, self._about, self.own, self.names_min)

    def _about(self, tag: str) -> Stated:
        rows = self._mailbox.rows("select * from rules where tag = ? or other = ?", (tag, tag))
        return stated(
            tag,
            ((row["publisher"], Rule(row["tag"], row["relation"], row["other"])) for row in rows),
        )

    def supported(self) -> list[sqlite3.Row]:
        """All rules, with how many names state each and whether one does so oneself."""
        return self._mailbox.rows(
            "select tag, relation, other, count(*) as names, max(publisher = ?) as own from rules "
            "group by tag, relation, other order by names desc, tag limit 200",
            (self.own,),
        )


def _sound(rules: Iterable[Rule]) -> list[Rule]:
    found = []
    for each in rules:
        try:
            found.append(Rule(folded(each.tag), each.relation, folded(each.other)))
        except LanguageError:
            continue
    return found
