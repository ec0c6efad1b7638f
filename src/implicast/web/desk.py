"""The page's hands on the node: takes in what arrives, sends what is due, asks what a target means
and reaches.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.x509 import load_pem_x509_certificate
from msgspec.structs import replace

from implicast.front.words import in_words
from implicast.language.errors import LanguageError
from implicast.language.parse import description, parse
from implicast.language.rules import Offer
from implicast.language.tags import written
from implicast.language.target import Target
from implicast.net.application.events import Receipt
from implicast.net.identity.signing import grant_in
from implicast.net.node import InboxMessage, Node, NodeError
from implicast.peer.errors import ImplicastError
from implicast.web.blocks import Blocks
from implicast.web.drafts import Drafts, Outgoing, Words, new_uid
from implicast.web.letter import Kind, Letter, named, unpacked
from implicast.web.letters import Letters, cast_id, cast_text, know, tags_of
from implicast.web.mailbox import Mailbox
from implicast.web.reading import ReadingError, read, text_of
from implicast.web.thesaurus import Thesaurus

log = logging.getLogger("implicast")

TAKE_BACK_S = 5.0
ESTIMATE_S = 2.0
WATCH_S = 3.0
OFFERED_MAX = 200


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a target's text means, or what is wrong with it."""

    text: str
    target: Target | None = None
    words: str = ""
    error: str = ""
    column: int | None = None
    reach: int | None = None
    messages: int | None = None
    unknown: tuple[str, ...] = ()
    offers: tuple[Offer, ...] = ()

    @property
    def normal(self) -> str:
        return str(self.target) if self.target is not None else ""


class Proven(NamedTuple):
    """Something that the authority vouches for; attribute "": a tag."""

    attribute: str
    value: int | str
    until_us: int


class Desk:
    """One person's desk."""

    def __init__(self, node: Node, label: str = "") -> None:
        self.node = node
        self.name = node.name.hex()
        self.mailbox = Mailbox(node.directory / "web.db")
        if label and not self.mailbox.get("author"):
            self.mailbox.put("author", label)
        self.blocks = Blocks(self.mailbox)
        self.letters = Letters(self.mailbox, self.blocks)
        self.drafts, self.outgoing = Drafts(self.mailbox), Outgoing(self.mailbox)
        self.thesaurus = Thesaurus(self.mailbox, self.name)
        self.take_back_s = TAKE_BACK_S
        self._listeners: set[asyncio.Queue[str]] = set()
        self._due = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()

    # --- life

    def start(self) -> None:
        for each in (self._follow(), self._send_due(), self._be_named(), self._watch()):
            self._spawn(each)

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.mailbox.close()

    def _spawn(self, what: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(what)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("the page lost one of its hands", exc_info=task.exception())

    def now_us(self) -> int:
        return time.time_ns() // 1000

    # --- who hears of changes

    def listen(self) -> asyncio.Queue[str]:
        queue: asyncio.Queue[str] = asyncio.Queue(64)
        self._listeners.add(queue)
        return queue

    def unlisten(self, queue: asyncio.Queue[str]) -> None:
        self._listeners.discard(queue)

    def tell(self, what: str) -> None:
        for queue in self._listeners:
            with contextlib.suppress(asyncio.QueueFull):
                queue.put_nowait(what)

    # --- coming in

    async def _follow(self) -> None:
        async for note in self.node.inbox():
            self._take(note)
            await note.done()

    def _take(self, note: InboxMessage) -> None:
        letter = unpacked(note.payload)
        if letter is None:
            letter = Letter(
                uid=cast_text(note.cast)[:80], target="", subject="", text=_plain(note.payload)
            )
        elif letter.kind == "letter" and not self.fits(letter.target):
            letter = replace(
                letter, target="", alone=False
            )  # the author's word on whom it was for, and it is wrong
        if letter.kind == "rules":
            if self.thesaurus.hear(note.cast, letter.rules):
                self.tell("rules")
        elif letter.kind == "ask":
            self._spawn(self._answer_ask(note, letter))
        elif self.letters.take(note.cast, letter, note.arrived_us):
            self.tell("inbox")

    async def _answer_ask(self, note: InboxMessage, letter: Letter) -> None:
        """A newcomer asks for the rules about its tags: who has stated some says so again, to it
        alone.
        """
        asked = set(tags_of(letter.target))
        publisher = note.cast.publisher.hex()
        mine = [each for each in self.thesaurus.of(self.name) if {each.tag, each.other} & asked]
        if mine and publisher != self.name:
            self.say_rules(written(named(publisher)))

    def fits(self, target: str) -> bool:
        """Does this target select what this person says of itself?"""
        said = self.node.description
        try:
            return said is not None and parse(target).selects(said)
        except LanguageError:
            return False

    # --- who this is

    @property
    def author(self) -> str:
        return self.mailbox.get("author")

    def tags(self) -> tuple[str, ...]:
        said = self.node.description
        return () if said is None else tuple(tag for tag in said.tags if tag != named(self.name))

    def values(self) -> list[str]:
        return [] if self.node.description is None else list(map(str, self.node.description.values))

    def rights(self) -> list[Proven]:
        """What the authority vouches for, as the node's certificate says."""
        try:
            certificate = load_pem_x509_certificate((self.node.directory / "node.pem").read_bytes())
        except (OSError, ValueError):
            return []
        word = grant_in(certificate)
        return (
            []
            if word is None
            else [Proven(each.attribute, each.value, each.until_us) for each in word.rights]
        )

    def described(self) -> str:
        """What this person says of itself, as it is written."""
        return ", ".join([*map(written, self.tags()), *self.values()])

    async def describe(self, text: str) -> None:
        """Say what this person is; its own name goes with it, so that it can be answered alone."""
        new = set(description(text).tags) - set(self.tags())
        await self.node.describe(
            f"{text.strip().rstrip(',')}, {written(named(self.name))}".lstrip(", ")
        )
        with self.mailbox.change() as db:
            know(db, sorted(new))
        if new:
            self._ask_for_rules(sorted(new))
        self.tell("me")

    async def _be_named(self) -> None:
        """A node that was described elsewhere can be answered alone from now on; newcomers learn
        the rules.
        """
        while self.node.description is None or not self.node.registered.is_set():
            await asyncio.sleep(0.2)
        if named(self.name) not in self.node.description.tags:
            with contextlib.suppress(NodeError):
                await self.describe(self.described())

    async def _watch(self) -> None:
        """A watched bibliography that has changed is proposed again."""
        seen = self.mailbox.get("watched_seen")
        while True:
            path = self.mailbox.get("watched")
            if path:
                with contextlib.suppress(OSError):
                    stat = Path(path).stat()
                    mark = f"{path}:{stat.st_mtime_ns}:{stat.st_size}"
                    if mark != seen:
                        seen = mark
                        self._reread(Path(path), mark)
            await asyncio.sleep(WATCH_S)

    def _reread(self, path: Path, mark: str) -> None:
        with contextlib.suppress(ReadingError):
            content = read(path)
            self.mailbox.put("bibliography", text_of(content)[0])
            self.mailbox.put("proposed", "1")
            self.tell("me")
        self.mailbox.put("watched_seen", mark)

    # --- what a target means

    async def meaning(self, text: str) -> Meaning:
        if not text.strip():
            return Meaning(text)
        try:
            target = parse(text)
        except LanguageError as error:
            return Meaning(text, error=str(error), column=error.column)
        reach, messages = None, None
        with contextlib.suppress(ImplicastError):
            found = await self.node.estimate(text, ESTIMATE_S)
            if found is not None:
                reach, messages = found.members, found.messages
        return Meaning(
            text,
            target,
            in_words(target),
            reach=reach,
            messages=messages,
            unknown=self._unknown(target),
            offers=tuple(self.thesaurus.offers(target)),
        )

    def _unknown(self, target: Target) -> tuple[str, ...]:
        wanted = sorted(
            {tag for term in target.terms for tag in term.has if not tag.startswith("name:")}
        )
        return tuple(
            tag
            for tag in wanted
            if not self.mailbox.number("select count(*) from tags where tag = ?", (tag,))
            and tag not in self.tags()
        )

    def known_tags(self, most: int = OFFERED_MAX) -> list[str]:
        rows = self.mailbox.rows("select tag from tags order by times desc, tag limit ?", (most,))
        return list(dict.fromkeys([*(row["tag"] for row in rows), *self.tags()]))

    # --- going out

    def send(self, draft: int, words: Words, delay_s: float | None = None) -> str:
        """On its way in five seconds; the uid by which it is known until then."""
        target = words.target if words.alone else str(parse(words.target))
        letter = Letter(
            new_uid(),
            target,
            self.author,
            words.subject.strip()[:256],
            words.body,
            words.thread,
            words.alone,
            says=self.tags()[:18],
            files=self.drafts.attached(draft),
        )
        return self._put(letter, draft, self.take_back_s if delay_s is None else delay_s)

    def say_rules(self, target: str) -> None:
        rules = tuple(self.thesaurus.of(self.name))
        self._put(Letter(new_uid(), target, self.author, kind="rules", rules=rules))

    def _ask_for_rules(self, tags: list[str]) -> None:
        self._put(Letter(new_uid(), " | ".join(map(written, tags[:32])), self.author, kind="ask"))

    def _put(self, letter: Letter, draft: int | None = None, delay_s: float = 0.0) -> str:
        now_us = self.now_us()
        kind: Kind = letter.kind
        uid = self.outgoing.put(letter, kind, draft, max(1, now_us + int(delay_s * 1e6)), now_us)
        self._due.set()
        return uid

    def wake(self) -> None:
        self._due.set()

    async def _send_due(self) -> None:
        await self.node.joined.wait()
        while True:
            self._due.clear()
            for row in self.outgoing.due(self.now_us()):
                await self._send(row["uid"], row["target"], bytes(row["payload"]), row["tried"])
            next_us = self.outgoing.next_due_us()
            wait_s = 60.0 if next_us is None else max(0.0, (next_us - self.now_us()) / 1e6)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._due.wait(), wait_s + 0.01)

    async def _send(self, uid: str, target: str, payload: bytes, tried: str | None) -> None:
        cast = tried if tried is not None and self._has_gone(tried) else None
        try:
            if cast is None:
                self.outgoing.going(uid, cast_text(self.node.upcoming_cast()))
                cast = cast_text((await self.node.cast(target, payload, wait=0.0)).cast)
        except ImplicastError as error:
            self.outgoing.failed(uid, str(error))
            self.tell("sent")
            return
        letter = unpacked(payload)
        if letter is not None and letter.kind == "letter":
            self.letters.take(cast_id(cast), letter, self.now_us(), own=True)
        self.outgoing.gone(uid, cast)
        self.tell("sent")

    def _has_gone(self, cast: str) -> bool:
        """Did the node take a cast of this name before it fell?"""
        named = cast_id(cast)
        return self.node.store.carried(named.incarnation, named.serial) is not None

    def receipt(self, cast: str) -> Receipt:
        return self.node.receipt(cast_id(cast))


def _plain(payload: bytes) -> str:
    try:
        return payload.decode()[:16_384]
    except UnicodeDecodeError:
        return f"{len(payload)} bytes that are no text"
