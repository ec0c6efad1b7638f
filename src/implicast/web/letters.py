"""Letters that came and letters that went: folders by target, threads, search, what was read."""

import re
import sqlite3
from dataclasses import dataclass
from typing import Any

from implicast.language.errors import LanguageError
from implicast.language.parse import parse
from implicast.peer.contract import CastId
from implicast.web.blocks import Blocks
from implicast.web.letter import Letter
from implicast.web.mailbox import Mailbox

PAGE = 50
"""Letters on one page of a folder."""
FOUND_MAX = 50
ALONE = "to me alone"
"""The folder of answers to this person."""
PLAIN = "without a target"
"""The folder of casts that are no letters, or name a target that does not fit: whom they were for
is not known.
"""
FIELDS = (
    "id, cast_id, uid, thread, own, publisher, author, target, subject, substr(body, 1, 200) as body, at_us, "
    "alone, read, hidden, complained"
)


@dataclass(frozen=True, slots=True)
class LetterFolder:
    target: str
    count: int
    unread: int


def cast_text(cast: CastId) -> str:
    return f"{cast.publisher.hex()}.{cast.incarnation}.{cast.serial}"


def cast_id(text: str) -> CastId:
    publisher, incarnation, serial = text.split(".")
    return CastId(bytes.fromhex(publisher), int(incarnation), int(serial))


def normal(target: str) -> str:
    """The normal form of a target's text; a text that cannot be read stays as it is."""
    try:
        return str(parse(target))
    except LanguageError:
        return target


class Letters:
    """All letters of one page."""

    def __init__(self, mailbox: Mailbox, blocks: Blocks) -> None:
        self._mailbox, self._blocks = mailbox, blocks

    # --- coming in

    def take(self, cast: CastId, letter: Letter, at_us: int, own: bool = False) -> bool:
        """Put a letter on the shelf; False if it is there already."""
        publisher = cast.publisher.hex()
        folder = ALONE if letter.alone else normal(letter.target) or PLAIN
        hidden = (
            ""
            if own
            else self._blocks.reason(publisher, folder, f"{letter.subject}\n{letter.text}")
        )
        values = (
            cast_text(cast),
            letter.uid,
            letter.thread or letter.uid,
            own,
            publisher,
            letter.author,
            folder,
            letter.subject,
            letter.text,
            at_us,
            letter.alone,
            own,
            hidden,
        )
        with self._mailbox.change() as db:
            put = db.execute(
                "insert or ignore into letters (cast_id, uid, thread, own, publisher, author, target, subject, body, "
                "at_us, alone, read, hidden) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            )
            if not put.rowcount:
                return False
            self._note(db, put.lastrowid, letter, publisher, at_us)
        return True

    def _note(
        self, db: sqlite3.Connection, number: int | None, letter: Letter, publisher: str, at_us: int
    ) -> None:
        files = [
            (number, place, each.name, each.content) for place, each in enumerate(letter.files)
        ]
        db.executemany("insert into files values (?, ?, ?, ?)", files)
        know(db, [*letter.says, *tags_of(letter.target)])
        if letter.author:
            db.execute(
                "insert or replace into people values (?, ?, ?)", (publisher, letter.author, at_us)
            )

    # --- reading

    def folders(self) -> list[LetterFolder]:
        """With their letters and those not read; the liveliest first."""
        rows = self._mailbox.rows(
            "select target, count(*) as count, max(at_us) as newest from letters where hidden = '' group by target "
            "order by newest desc"
        )
        unread = {
            row["target"]: row["count"]
            for row in self._mailbox.rows(
                "select target, count(*) as count from letters where read = 0 and hidden = '' group by 1"
            )
        }
        return [
            LetterFolder(row["target"], row["count"], unread.get(row["target"], 0)) for row in rows
        ]

    def page(self, folder: str | None, number: int, hidden: bool = False) -> list[sqlite3.Row]:
        """Newest first. `folder` None: all."""
        where = "hidden != ''" if hidden else "hidden = ''"
        chosen, values = ("", []) if folder is None else ("and target = ?", [folder])
        return self._mailbox.rows(
            f"select {FIELDS} from letters where {where} {chosen} order by at_us desc, id desc limit ? offset ?",
            [*values, PAGE + 1, number * PAGE],
        )

    def thread(self, uid: str) -> list[dict[str, Any]]:
        """A conversation, oldest first, whole, with the names of what is attached."""
        rows = [
            dict(row)
            for row in self._mailbox.rows(
                "select * from letters where thread = ? and hidden = '' order by at_us, id limit 500",
                (uid,),
            )
        ]
        for row in rows:
            row["files"] = self._mailbox.rows(
                "select number, name, length(content) as size from files where letter = ? order by number",
                (row["id"],),
            )
        return rows

    def room(self, target: str, most: int = 60) -> list[dict[str, Any]]:
        """The last letters of a target, oldest first."""
        rows = self._mailbox.rows(
            "select * from letters where target = ? and hidden = '' order by at_us desc, id desc limit ?",
            (target, most),
        )
        return [dict(row) for row in reversed(rows)]

    def speakers(self, target: str) -> list[sqlite3.Row]:
        return self._mailbox.rows(
            "select publisher, max(author) as author, count(*) as count, max(at_us) as at_us, max(own) as own "
            "from letters where target = ? and hidden = '' group by publisher order by count desc, author limit 40",
            (target,),
        )

    def letter(self, number: int) -> dict[str, Any] | None:
        row = self._mailbox.row("select * from letters where id = ?", (number,))
        return None if row is None else dict(row)

    def by_cast(self, cast: str) -> dict[str, Any] | None:
        """What a cast brought or took, if one may see it."""
        row = self._mailbox.row(
            "select thread, subject, target from letters where cast_id = ? and hidden = ''", (cast,)
        )
        return None if row is None else dict(row)

    def file(self, letter: int, number: int) -> sqlite3.Row | None:
        return self._mailbox.row(
            "select name, content from files where letter = ? and number = ?", (letter, number)
        )

    def search(self, text: str) -> list[sqlite3.Row]:
        """Letters with all these words, or beginnings of words; newest first."""
        words = [f'"{word}"*' for word in re.findall(r"[\w]+", text)[:12]]
        if not words:
            return []
        return self._mailbox.rows(
            f"select {FIELDS} from letters where id in (select rowid from words where words match ? "
            "order by rowid desc limit 1000) and hidden = '' order by at_us desc limit ?",
            (" ".join(words), FOUND_MAX),
        )

    def unread(self) -> int:
        return self._mailbox.number("select count(*) from letters where read = 0 and hidden = ''")

    def counts(self) -> tuple[int, int]:
        """All, and those hidden by a block."""
        return (
            self._mailbox.number("select count(*) from letters where hidden = ''"),
            self._mailbox.number("select count(*) from letters where hidden != ''"),
        )

    def known_as(self, publisher: str) -> str:
        row = self._mailbox.row("select author from people where publisher = ?", (publisher,))
        return "" if row is None else str(row["author"])

    def namesakes(self, publisher: str, author: str) -> bool:
        """Does another name call itself the same?"""
        return bool(
            self._mailbox.number(
                "select count(*) from people where author = ? and publisher != ?",
                (author, publisher),
            )
        )

    # --- marks

    def mark_read(self, thread: str) -> bool:
        if not self._mailbox.number(
            "select count(*) from letters where thread = ? and read = 0", (thread,)
        ):
            return False
        with self._mailbox.change() as db:
            db.execute("update letters set read = 1 where thread = ?", (thread,))
        return True

    def mark_folder_read(self, target: str) -> None:
        if self._mailbox.number(
            "select count(*) from letters where target = ? and read = 0", (target,)
        ):
            with self._mailbox.change() as db:
                db.execute("update letters set read = 1 where target = ? and read = 0", (target,))

    def mark_complained(self, number: int, at_us: int) -> None:
        with self._mailbox.change() as db:
            db.execute("update letters set complained = ?, read = 1 where id = ?", (at_us, number))

    def judge_again(self) -> None:
        """After blocks have changed: what is hidden, and what is not any more."""
        with self._mailbox.change() as db:
            for row in db.execute(
                "select id, publisher, target, subject, body, hidden from letters where own = 0"
            ):
                reason = self._blocks.reason(
                    row["publisher"], row["target"], f"{row['subject']}\n{row['body']}"
                )
                if reason != row["hidden"]:
                    db.execute("update letters set hidden = ? where id = ?", (reason, row["id"]))


def tags_of(target: str) -> list[str]:
    try:
        return sorted({tag for term in parse(target).terms for tag in (*term.has, *term.lacks)})
    except LanguageError:
        return []


def know(db: sqlite3.Connection, tags: list[str]) -> None:
    """Count tags that were met, to offer them."""
    met = [(tag,) for tag in tags if not tag.startswith("name:")]
    db.executemany(
        "insert into tags values (?, 1) on conflict (tag) do update set times = times + 1", met
    )
