"""What one does not want to read: publishers, targets, words. Letters they fit are kept apart, not
thrown away.
"""

import re
import sqlite3
from typing import Literal

from implicast.web.mailbox import Mailbox

Kind = Literal["publisher", "target", "words"]
KINDS: tuple[Kind, ...] = ("publisher", "target", "words")


class Blocks:
    """The blocks of one page."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._known: dict[str, list[str]] = {}
        self._read()

    def _read(self) -> None:
        self._known = {kind: [] for kind in KINDS}
        for row in self.all():
            self._known[row["kind"]].append(row["what"])

    def all(self) -> list[sqlite3.Row]:
        return self._mailbox.rows("select kind, what, at_us from blocks order by kind, what")

    def add(self, kind: Kind, what: str, at_us: int) -> None:
        with self._mailbox.change() as db:
            db.execute(
                "insert or ignore into blocks values (?, ?, ?)", (kind, what.strip()[:256], at_us)
            )
        self._read()

    def remove(self, kind: str, what: str) -> None:
        with self._mailbox.change() as db:
            db.execute("delete from blocks where kind = ? and what = ?", (kind, what))
        self._read()

    def reason(self, publisher: str, target: str, text: str) -> str:
        """Which block a letter meets; empty if none."""
        if publisher in self._known["publisher"]:
            return "publisher"
        if target in self._known["target"]:
            return "target"
        return "words" if any(_stands_in(words, text) for words in self._known["words"]) else ""


def _stands_in(words: str, text: str) -> bool:
    """Do these words stand in the text, one after the other, whatever their case?"""
    pattern = r"\W+".join(map(re.escape, re.findall(r"\w+", words)))
    return bool(pattern) and re.search(rf"(?<!\w){pattern}(?!\w)", text, re.IGNORECASE) is not None
