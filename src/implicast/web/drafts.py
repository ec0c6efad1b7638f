"""What is being written, and what is on its way: drafts are kept as they are typed; a letter sent
waits a moment.

Before a letter is cast, the name that its cast will have is written down. So after a crash between
the node's commit and the page's, the node's outbox says whether the letter has gone: it goes once,
whatever happens.
"""

import secrets
import sqlite3
from dataclasses import dataclass

from implicast.web.letter import File, Kind, Letter, packed
from implicast.web.mailbox import Mailbox

FILE_NAME_MAX = 200


@dataclass(frozen=True, slots=True)
class Words:
    """What is typed into the page's fields."""

    target: str = ""
    subject: str = ""
    body: str = ""
    thread: str = ""
    alone: bool = False


class Drafts:
    """The drafts of one page."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox

    def all(self) -> list[sqlite3.Row]:
        return self._mailbox.rows("select * from drafts order by at_us desc limit 200")

    def get(self, number: int) -> sqlite3.Row | None:
        return self._mailbox.row("select * from drafts where id = ?", (number,))

    def begin(self, words: Words, now_us: int) -> int:
        with self._mailbox.change() as db:
            values = (words.target, words.subject, words.body, words.thread, words.alone, now_us)
            put = db.execute(
                "insert into drafts (target, subject, body, thread, alone, at_us) values (?, ?, ?, ?, ?, ?)",
                values,
            )
            return put.lastrowid or 0

    def save(self, number: int, words: Words, now_us: int) -> bool:
        """False: there is no such draft any more."""
        with self._mailbox.change() as db:
            put = db.execute(
                "update drafts set target = ?, subject = ?, body = ?, at_us = ? where id = ?",
                (words.target, words.subject, words.body, now_us, number),
            )
            return bool(put.rowcount)

    def drop(self, number: int) -> None:
        with self._mailbox.change() as db:
            _drop(db, number)

    def files(self, number: int) -> list[sqlite3.Row]:
        return self._mailbox.rows(
            "select id, name, length(content) as size from draft_files where draft = ? order by id",
            (number,),
        )

    def attach(self, number: int, name: str, content: bytes) -> None:
        with self._mailbox.change() as db:
            db.execute(
                "insert into draft_files (draft, name, content) values (?, ?, ?)",
                (number, plain_name(name), content),
            )

    def detach(self, number: int, file: int) -> None:
        with self._mailbox.change() as db:
            db.execute("delete from draft_files where draft = ? and id = ?", (number, file))

    def attached(self, number: int) -> tuple[File, ...]:
        rows = self._mailbox.rows(
            "select name, content from draft_files where draft = ? order by id", (number,)
        )
        return tuple(File(row["name"], bytes(row["content"])) for row in rows)


def plain_name(name: str) -> str:
    """A file's name without its folders and without what cannot be seen."""
    last = name.replace("\\", "/").rpartition("/")[2]
    shown = "".join(each for each in last if each.isprintable()).strip(". ")
    return shown[-FILE_NAME_MAX:] or "file"


class Outgoing:
    """Letters on their way."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox

    def put(self, letter: Letter, kind: Kind, draft: int | None, due_us: int, now_us: int) -> str:
        """On its way from `due_us` on; the draft stays until then, out of sight."""
        with self._mailbox.change() as db:
            values = (
                letter.uid,
                draft,
                kind,
                letter.target,
                letter.subject,
                packed(letter),
                due_us,
                now_us,
            )
            db.execute(
                "insert into outgoing values (?, ?, ?, ?, ?, ?, ?, null, null, null, ?)", values
            )
        return letter.uid

    def take_back(self, uid: str) -> int | None:
        """Its draft again, if it has not gone yet; None: too late."""
        with self._mailbox.change() as db:
            row = db.execute(
                "select draft from outgoing where uid = ? and due_us > 0 and cast_id is null",
                (uid,),
            ).fetchone()
            if row is None or row["draft"] is None:
                return None
            db.execute("delete from outgoing where uid = ?", (uid,))
            return int(row["draft"])

    def due(self, now_us: int) -> list[sqlite3.Row]:
        """What is to go now; `due_us` 0 says that the node may have it already."""
        return self._mailbox.rows(
            "select * from outgoing where cast_id is null and error is null and due_us <= ? "
            "order by at_us",
            (now_us,),
        )

    def next_due_us(self) -> int | None:
        row = self._mailbox.row(
            "select min(due_us) as due from outgoing where cast_id is null and error is null"
        )
        return None if row is None else row["due"]

    def going(self, uid: str, cast: str) -> None:
        """It is about to be cast under this name; from here on it cannot be taken back."""
        with self._mailbox.change() as db:
            db.execute("update outgoing set due_us = 0, tried = ? where uid = ?", (cast, uid))

    def gone(self, uid: str, cast: str) -> None:
        with self._mailbox.change() as db:
            row = db.execute("select draft from outgoing where uid = ?", (uid,)).fetchone()
            db.execute("update outgoing set cast_id = ?, due_us = 0 where uid = ?", (cast, uid))
            if row is not None and row["draft"] is not None:
                _drop(db, row["draft"])

    def failed(self, uid: str, why: str) -> None:
        with self._mailbox.change() as db:
            db.execute("update outgoing set error = ?, due_us = 0 where uid = ?", (why, uid))

    def dismiss(self, uid: str) -> None:
        """A letter that could not be sent is a draft again."""
        with self._mailbox.change() as db:
            db.execute("delete from outgoing where uid = ? and error is not null", (uid,))

    def get(self, uid: str) -> sqlite3.Row | None:
        return self._mailbox.row(
            "select uid, draft, kind, target, subject, due_us, cast_id, error, at_us "
            "from outgoing where uid = ?",
            (uid,),
        )

    def all(self, most: int = 100) -> list[sqlite3.Row]:
        return self._mailbox.rows(
            "select uid, draft, kind, target, subject, due_us, cast_id, error, at_us from outgoing "
            "where kind = 'letter' order by at_us desc limit ?",
            (most,),
        )

    def held(self) -> set[int]:
        """Drafts whose letters are on their way."""
        rows = self._mailbox.rows(
            "select draft from outgoing where draft is not null and cast_id is null"
        )
        return {int(row["draft"]) for row in rows}


def _drop(db: sqlite3.Connection, number: int) -> None:
    db.execute("delete from drafts where id = ?", (number,))
    db.execute("delete from draft_files where draft = ?", (number,))


def new_uid() -> str:
    return secrets.token_hex(12)
