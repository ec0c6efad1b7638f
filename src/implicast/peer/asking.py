"""Asks, waits, asks again, gives up: the one place where a peer repeats itself.

    self.asker = Asker(address, host)
    self.asker.topic("claim", Patience(500_000, times=5), lost=self._claim_lost)
    self.asker.ask("claim", neighbour.name, neighbour.address, Claim(me))
    ...
    if self.asker.answered("claim", neighbour.name) is not None: ...        # in the handler of the answer

A question is a value: topic, key, where to, message, how often it was asked, when it is due again. Questions that are
answered are dropped; those that were asked `times` times and never answered are lost, and the owner of the topic is
told. One alarm serves all questions; it cannot be cancelled, and one that rings too early finds nothing due.

Every hop of a message with receipts is a question: where the package was compiled, so is what is done for each of them
(`_asking.pyx`, for which `OpenQuestions` is the law).
"""

from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from typing import Any, ClassVar, NamedTuple, Protocol

import msgspec

from implicast.peer.contract import Address, Host, Message, Part, handles
from implicast.space.built import built

_BUILT = built("peer._asking")
QUESTIONS_MAX = 65_536
"""Questions open at one peer; more are refused, and whoever would ask has to come again later."""


class Patience(NamedTuple):
    """How long one waits for an answer, and how often one asks."""

    first_us: int
    times: int
    """Asked so many times in all; then the question is lost."""
    factor: float = 1.0
    """Each wait is so many times as long as the one before, ..."""
    most_us: int = 1 << 62
    """... and none longer than this."""

    def wait_us(self, asked: int) -> int:
        """How long to wait after asking for the so-manieth time, 1 being the first."""
        if self.factor == 1.0:
            return self.first_us
        return min(int(self.first_us * self.factor ** (asked - 1)), self.most_us)


class Late(Message):
    """Rings when some question may have waited long enough."""


class UpkeepLate(Message):
    """The same for questions of standing upkeep."""

    upkeep: ClassVar[bool] = True


class Question(msgspec.Struct):
    """One question under way. Several are made at every step of whatever is assured: a struct costs a third of a
    dataclass with slots to make."""

    to: Address
    message: Message
    about: Any
    asked: int
    due_us: int
    begun_us: int

    def again(self, due_us: int) -> None:
        """It is put once more, and should be answered by then."""
        self.asked += 1
        self.due_us = due_us

    def rest(self, until_us: int) -> None:
        """It is not put before this time."""
        self.asked, self.due_us = 0, until_us

    def begin_anew(self) -> None:
        """As if it had been put for the first time."""
        self.asked = 1


Lost = Callable[[Any, Question], None]
"""Told of a key and a question that nobody answered."""
Asked = tuple[str, Hashable]
RoundTrip = Callable[[Address, int], None]
Topics = dict[str, tuple[int, Patience, Lost]]
"""With the first wait, which nearly all questions end with."""


def _nothing(key: Any, question: Question) -> None:
    """Nobody wants to know."""


class OpenQuestions:
    """The open questions of one peer, and when its alarm rings for them: the law of what is compiled."""

    __slots__ = (
        "_alarm",
        "_alarm_us",
        "_bound",
        "_due",
        "_host",
        "_open",
        "_round_trip_us",
        "_serial",
        "_topics",
    )

    def __init__(
        self,
        host: Host,
        alarm: Message,
        topics: Topics,
        questions: dict[Asked, Question],
        bound: int,
        round_trip_us: RoundTrip,
    ) -> None:
        self._host, self._alarm, self._bound, self._round_trip_us = (
            host,
            alarm,
            bound,
            round_trip_us,
        )
        self._topics, self._open = topics, questions
        self._due: list[tuple[int, int, Asked]] = []
        self._serial = 0
        self._alarm_us = -1

    def ask(
        self, topic: str, key: Hashable, to: Address, message: Message, about: Any = None
    ) -> bool:
        """Ask until it is answered, in the place of what was asked under this key. False when too much is open."""
        asked, host, questions = (topic, key), self._host, self._open
        if len(questions) >= self._bound and asked not in questions:
            return False
        now_us = host.now_us
        due_us = now_us + self._topics[topic][0]
        questions[asked] = Question(to, message, about, 1, due_us, now_us)
        self._note(due_us, asked)
        host.send(to, message)
        return True

    def open(self, topic: str, key: Hashable) -> Question | None:
        """The question that awaits an answer under this key."""
        return self._open.get((topic, key))

    def answered(self, topic: str, key: Hashable) -> Question | None:
        """The question that this answers, or None if nobody asks it (any more)."""
        question = self._open.pop((topic, key), None)
        if question is not None and question.asked == 1:
            self._round_trip_us(question.to, self._host.now_us - question.begun_us)
        return question

    def postpone(self, topic: str, key: Hashable, wait_us: int) -> None:
        """The one who is asked works on it: ask no more until then, and then as patiently as in the beginning."""
        question = self._open.get((topic, key))
        if question is not None:
            question.rest(self._host.now_us + wait_us)
            self._note(question.due_us, (topic, key))

    def ask_again(self) -> None:
        """The alarm rang: repeat what is due."""
        now_us, due = self._host.now_us, self._due
        if now_us >= self._alarm_us:
            self._alarm_us = -1
        while due and due[0][0] <= now_us:
            due_us, _, asked = heappop(due)
            question = self._open.get(asked)
            if question is not None and question.due_us == due_us:
                self._again(asked, question)
        self._arm()

    def _again(self, asked: Asked, question: Question) -> None:
        _, patience, lost = self._topics[asked[0]]
        if question.asked >= patience.times:
            del self._open[asked]
            lost(asked[1], question)
            return
        question.again(self._host.now_us + patience.wait_us(question.asked + 1))
        self._note(question.due_us, asked)
        self._host.send(question.to, question.message)

    def _note(self, due_us: int, asked: Asked) -> None:
        self._serial += 1
        heappush(self._due, (due_us, self._serial, asked))
        if not 0 <= self._alarm_us <= due_us:  # else it rings in time as it is
            self._arm()

    def _arm(self) -> None:
        due, is_open = self._due, self._open.get
        while due:
            due_us, _, asked = due[0]
            question = is_open(asked)
            if question is not None and question.due_us == due_us:
                if self._alarm_us < 0 or due_us < self._alarm_us:
                    self._alarm_us = due_us
                    self._host.after(max(0, due_us - self._host.now_us), self._alarm)
                return
            heappop(due)  # answered, or put off, meanwhile


class AskVerb(Protocol):
    """`OpenQuestions.ask`."""

    def __call__(
        self, topic: str, key: Hashable, to: Address, message: Message, about: Any = None
    ) -> bool: ...


class Asking(Part):
    """What one peer asks: its topics, and its open questions. Verbs that are needed for every question are those of
    `OpenQuestions`, compiled where that was built: a run with receipts takes a twentieth less (`bench/designs.py`)."""

    __slots__ = ("_open", "_topics", "answered", "ask", "ask_again", "open", "postpone")
    alarm: ClassVar[Message]
    ask: AskVerb
    open: Callable[[str, Hashable], Question | None]
    answered: Callable[[str, Hashable], Question | None]
    postpone: Callable[[str, Hashable, int], None]
    ask_again: Callable[[], None]

    def __init__(
        self,
        address: Address,
        host: Host,
        bound: int = QUESTIONS_MAX,
        round_trip_us: RoundTrip | None = None,
    ) -> None:
        """`round_trip_us`: told how long an answer took that came after one question (liveness learns from it)."""
        super().__init__(address, host)
        self._topics: Topics = {}
        self._open: dict[Asked, Question] = {}
        kind = OpenQuestions if _BUILT is None else _BUILT.OpenQuestions
        verbs: OpenQuestions = kind(
            host, self.alarm, self._topics, self._open, bound, round_trip_us or _no_matter
        )
        self.ask, self.open, self.answered = verbs.ask, verbs.open, verbs.answered
        self.postpone, self.ask_again = verbs.postpone, verbs.ask_again

    def __len__(self) -> int:
        return len(self._open)

    def topic(self, topic: str, patience: Patience, lost: Lost = _nothing) -> None:
        """Declare what is asked about: how patiently, and who is told when nobody answers."""
        self._topics[topic] = patience.wait_us(1), patience, lost

    def topics(self, topic: str) -> list[Any]:
        """The keys under which this is being asked, in the order of asking."""
        return [key for about, key in self._open if about == topic]

    def encourage(self, topic: str, key: Hashable) -> None:
        """The other says that it works on the answer: it is asked on as if for the first time."""
        question = self._open.get((topic, key))
        if question is not None:
            question.begin_anew()

    def drop(self, topic: str, key: Hashable) -> None:
        """It need not be answered any more."""
        self._open.pop((topic, key), None)


class Asker(Asking):
    """What a peer asks on behalf of its application, or of others."""

    __slots__ = ()
    alarm = Late()

    @handles(Late)
    def on_late(self, alarm: Late) -> None:
        self.ask_again()


class UpkeepAsker(Asking):
    """What a peer asks by itself, now and then. Apart from the others: one alarm serves all, and what it causes counts
    as upkeep, and no run waits for it."""

    __slots__ = ()
    alarm = UpkeepLate()

    @handles(UpkeepLate)
    def on_upkeep_late(self, alarm: UpkeepLate) -> None:
        self.ask_again()


def _no_matter(to: Address, took_us: int) -> None:
    """Nobody wants to know."""
