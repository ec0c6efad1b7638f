"""Questions until they are answered.

One rule for every question: send, wait, twice as long each time, so many times in all; then the other is *suspect*
until any word comes from it (`circle.py`). How long a question waits first follows from the round trips measured.
An alarm that rings late says that we slept, not the other: that attempt does not count.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING

import msgspec

from implicast.overlay.ice.share import Share
from implicast.peer.contract import Address, Message, handles

if TYPE_CHECKING:
    from implicast.overlay.ice.surface import Surface

Asked = tuple[str, Hashable]
"""The topic of a question, and what tells it from others on that topic."""


class Unanswered(Message):
    """Rings when questions, by their names, have not been answered for their wait."""

    keys: tuple[Asked, ...]
    due_us: int


class Question(msgspec.Struct):
    """An open question. A struct, because one is made for every greeting and hop: a third of the cost."""

    asked: Asked
    to: Address
    message: Message
    left: int
    wait_us: int
    sent_us: int
    repeated: bool = False

    def renew(self, left: int) -> None:
        self.left = left

    def repeat(self, now_us: int, cap_us: int, late: bool) -> None:
        """It is asked again; an attempt that we slept through does not count."""
        self.left -= 0 if late else 1
        self.repeated, self.sent_us = True, now_us
        self.wait_us = min(2 * self.wait_us, cap_us)


Lost = Callable[[Question], None]
"""What is done about a question that nobody answered."""


class Correspondence(Share):
    """Repeats questions and measures round trips."""

    __slots__ = ("_open", "_topics")

    def __init__(self, surface: "Surface") -> None:
        super().__init__(surface)
        self._open: dict[Asked, Question] = {}
        self._topics: dict[str, tuple[int, Lost]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def topic(self, topic: str, times: int, lost: Lost) -> None:
        """Declare what is asked about: how often, and what is done when nobody answers."""
        self._topics[topic] = (times, lost)

    def open(self, topic: str, key: Hashable) -> bool:
        """Is an answer awaited under this key?"""
        return (topic, key) in self._open

    def ask(self, topic: str, key: Hashable, to: Address, message: Message) -> None:
        """Send until answered, as often as the topic says; anew if the same was asked before."""
        self.host.send(to, message)
        wait_us = self._pose((topic, key), to, message)
        if wait_us:
            self.host.after(wait_us, Unanswered(((topic, key),), self.host.now_us + wait_us))

    def ask_all(self, topic: str, questions: Iterable[tuple[Address, Message]]) -> None:
        """`ask` of several at once, by their addresses: those that wait equally long share an alarm."""
        waits: dict[int, tuple[Asked, ...]] = {}
        send, pose = self.host.send, self._pose
        for to, message in questions:
            send(to, message)
            asked = (topic, to)
            wait_us = pose(asked, to, message)
            waits[wait_us] = (*waits[wait_us], asked) if wait_us in waits else (asked,)
        now_us = self.host.now_us
        for wait_us, keys in waits.items():
            if wait_us:
                self.host.after(wait_us, Unanswered(keys, now_us + wait_us))

    def _pose(self, asked: Asked, to: Address, message: Message) -> int:
        """Note a question that was sent; how long it waits, or 0: there is no room for it."""
        questions, timers = self._open, self.timers
        if len(questions) >= timers.asks_max and asked not in questions:
            return 0
        wait_us = self.surface.circle.wait_us(to)
        questions[asked] = Question(asked, to, message, self._topics[asked[0]][0] - 1, wait_us, self.host.now_us)
        return wait_us

    def answered(self, topic: str, key: Hashable, sender: Address) -> Question | None:
        """The question that this answers, or None if nobody awaits it (any more)."""
        question = self._open.get((topic, key))
        if question is None or question.to != sender:
            return None
        del self._open[topic, key]
        if not question.repeated:
            self.surface.circle.took(sender, self.host.now_us - question.sent_us or 1)
        return question

    def drop(self, topic: str, key: Hashable) -> None:
        """It need not be answered any more."""
        self._open.pop((topic, key), None)

    def go_on(self, topic: str, key: Hashable, sender: Address) -> None:
        """The other is alive and busy: the attempts made so far do not count."""
        question = self._open.get((topic, key))
        if question is not None and question.to == sender:
            question.renew(self._topics[topic][0])

    @handles(Unanswered)
    def on_unanswered(self, alarm: Unanswered) -> None:
        questions = self._open
        for asked in alarm.keys:
            question = questions.get(asked)
            if question is not None and alarm.due_us == question.sent_us + question.wait_us:
                self._again(question, late=self.host.now_us - alarm.due_us > self.timers.rto_us)

    def _again(self, question: Question, late: bool) -> None:
        if question.left <= 0 and not late:
            del self._open[question.asked]
            self._topics[question.asked[0]][1](question)
            return
        question.repeat(self.host.now_us, self.timers.cap_us, late)
        self.host.send(question.to, question.message)
        self.host.after(question.wait_us, Unanswered((question.asked,), question.sent_us + question.wait_us))
