"""Tells members of a cast, one by one, and counts what became of it.

Whoever has found out whom a target selects (a server, a broker, a publisher with lists in its hands, the keeper of a
registry) hands the members to a `Teller`. With receipts each member confirms with what became of it; a member that
says nothing is told again for 40 s, longer than the freezes and partitions that are to be outlived, then it counts as
unreachable; sooner where another member, listed at its address, answers when it is told the second time: one that lost
its disk comes back under a new name, and the old one stays listed for a lease. Without receipts each is told once, and
nothing is counted.

The member's side is `Hearing`.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from implicast.casting.inbox import Inbox, Outcome
from implicast.casting.service import SILENT_MAX
from implicast.language.target import Target
from implicast.peer.asking import Asker, Patience, Question
from implicast.peer.contract import (
    Address,
    CastId,
    Contact,
    Host,
    Incarnation,
    Message,
    Name,
    Part,
    handles,
)
from implicast.peer.fields import Payload
from implicast.peer.member import Member
from implicast.peer.memory import HeardBlock
from implicast.peer.words import BELIEVED, Words, personal

TELLING = "telling"
PATIENCE = Patience(2_000_000, times=21)
"""40 s, a word every two."""
AT_ONCE_MAX = 4_096
"""Members that are being told at the same time; the others of large groups wait for their turn."""


class Word(Message):
    """What a member is told of a cast: it confirms with `Got`."""

    promises = False
    cast: CastId


class Notify(Word):
    """A member is told of a cast that selects it."""

    wire = 0x0101
    target: Target
    payload: Payload


@personal("by")
class Got(Message):
    """The member `by` confirms a notification, with what became of it."""

    wire = 0x0102
    cast: CastId
    by: Name
    outcome: Outcome


class NotifyAgain(Word):
    """A member is told of a cast that its publisher carries on in the life `again`: whoever told it in an earlier life
    counted for that one, and it counts anew."""

    wire = 0x0105
    target: Target
    payload: Payload
    again: Incarnation


@personal("by")
class GotAgain(Got):
    """The member `by` confirms a notification of the life `again`."""

    wire = 0x0106
    again: Incarnation


@dataclass(slots=True)
class Told:
    """How far telling one cast has come."""

    open: int
    notified: int = 0
    declined: int = 0
    unreachable: int = 0
    silent: list[Name] = field(default_factory=list)

    def count(self, outcome: Outcome | None, name: Name = b"") -> None:
        """What became of it at one member; `None`: the one of this name never said."""
        self.open -= 1
        if outcome in (Outcome.TAKEN, Outcome.REPEAT):
            self.notified += 1
        elif outcome is None:
            self.unreachable += 1
            if len(self.silent) < SILENT_MAX:
                self.silent.append(name)
        elif outcome != Outcome.ELSEWHERE:  # it counts where it took it
            self.declined += 1


Ended = Callable[[CastId, Told], None]


class Teller(Part):
    """The notifications of one peer that are under way."""

    __slots__ = (
        "_asker",
        "_asking",
        "_assured",
        "_ended",
        "_together",
        "_waiting",
        "_words",
        "casts",
    )

    def __init__(
        self,
        address: Address,
        host: Host,
        asker: Asker,
        assured: bool,
        ended: Ended,
        words: Words = BELIEVED,
    ) -> None:
        """`ended` is told once of every cast, when nothing is open any more; never without receipts."""
        super().__init__(address, host)
        self._asker, self._assured, self._ended, self._words = asker, assured, ended, words
        self._asking = 0
        self._waiting: deque[tuple[Contact, CastId, Message]] | None = None
        """Made when it is needed: most members never have so many to tell."""
        self.casts: dict[CastId, Told] = {}
        self._together: dict[CastId, dict[Address, list[Name]]] = {}
        """Of casts under way, those who are listed at one address: one lives there, at most."""
        asker.topic(TELLING, PATIENCE, self._lost)

    def tell(self, word: Word, members: Sequence[Contact], here: Outcome | None = None) -> None:
        """Tell these members of a cast; each once, whatever happens. `here`: what became of it at this peer itself."""
        self.tell_each(word.cast, [(member, word) for member in members], here)

    def tell_each(
        self, cast: CastId, messages: Sequence[tuple[Contact, Message]], here: Outcome | None = None
    ) -> None:
        """The same with words of its own for each."""
        if not self._assured:
            for member, message in messages:
                self.host.send(member.address, message)
            return
        self.casts[cast] = told = Told(len(messages) + (here is not None))
        if together := _together([member for member, _ in messages]):
            self._together[cast] = together
        for member, message in messages:
            self._ask(member, cast, message)
        if here is not None:
            told.count(here)
        if not told.open:
            self._end(cast, told)

    def _ask(self, member: Contact, cast: CastId, message: Message) -> None:
        key = (cast, member.name)
        if self._asking < AT_ONCE_MAX and self._asker.ask(TELLING, key, member.address, message):
            self._asking += 1
        else:
            self._waiting = self._waiting or deque()
            self._waiting.append((member, cast, message))

    @handles(Got)
    def on_got(self, sender: Address, got: Got) -> None:
        """A member that is full is told again; a stranger at the address of a member does not speak for it."""
        key = (got.cast, got.by)
        question = self._asker.open(TELLING, key)
        if question is None:
            self._displace(sender, got)
            return
        if question.to != sender or got.outcome == Outcome.FULL or not self._words.vouches(got):
            return
        self._asker.answered(TELLING, key)
        self._count(got.cast, got.by, got.outcome)

    def _displace(self, sender: Address, got: Got) -> None:
        """Who has confirmed before has heard a word once more. Was that for others at its address? Those who were told
        there twice, and said nothing, are gone."""
        listed = self._together[got.cast].get(sender, ()) if got.cast in self._together else ()
        if got.by not in listed or not self._words.vouches(got):
            return
        for name in listed:
            question = self._asker.open(TELLING, (got.cast, name))
            if question is not None and question.asked > 1:
                self._asker.drop(TELLING, (got.cast, name))
                self._count(got.cast, name, None)

    def _lost(self, key: tuple[CastId, Name], question: Question) -> None:
        self._count(*key, None)

    def _count(self, cast: CastId, name: Name, outcome: Outcome | None) -> None:
        self._asking -= 1
        told = self.casts.get(cast)
        if told is not None:
            told.count(outcome, name)
            if not told.open:
                self._end(cast, told)
        if self._waiting:
            self._ask(*self._waiting.popleft())

    def _end(self, cast: CastId, told: Told) -> None:
        del self.casts[cast]
        self._together.pop(cast, None)
        self._ended(cast, told)


def _together(members: Sequence[Contact]) -> dict[Address, list[Name]]:
    """Those who are listed at the address of another one."""
    if len({member.address for member in members}) == len(members):
        return {}
    found: dict[Address, list[Name]] = {}
    for member in members:
        found.setdefault(member.address, []).append(member.name)
    return {address: names for address, names in found.items() if len(names) > 1}


class Hearing(Part):
    """A member's side: takes what fits, once, and confirms it where receipts are wanted."""

    __slots__ = ("inbox", "member")

    def __init__(self, member: Member, heard: tuple[HeardBlock, ...] = ()) -> None:
        super().__init__(member.address, member.host)
        self.member, self.inbox = member, Inbox(member, heard)

    @handles(Notify)
    def on_notify(self, sender: Address, notify: Notify) -> None:
        outcome = self.inbox.take(notify.cast, notify.target, notify.payload)
        if self.member.assured:
            self.host.send(
                sender, self.member.words.say(Got(notify.cast, self.member.name, outcome))
            )
