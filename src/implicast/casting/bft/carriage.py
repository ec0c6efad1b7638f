"""Carries the steps of multicasts until their receivers confirm them, and gathers what became of them.

A receiver confirms when all its places that a step is for have it; a step that it must refuse (its lists are not yet
what the sender's are) it does not confirm, and gets again. Repeats are bounded.

Of the k senders of a place the first becomes its *parent*: the receiver confirms that step only when all whom it serves
itself have confirmed theirs, and says with it how many members below took the cast; the other senders are confirmed at
once. So the steps that came first make a tree whose root, the publisher, learns how its cast ended, without a message
more. A parent that asks again meanwhile is told that work goes on. Who came back does not know whether its last life
was a parent and has reported: of casts older than its life it passes on no counts, for some would count twice.

It may be that the publisher's lists are behind: when somebody leaves, a ring may seem to be all there is because few of
it are in sight. A publisher whose first steps are not taken by somebody who is there casts anew, by its lists as they
are then; whoever was reached by the first attempt recognises the cast.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from implicast.casting.bft.messages import SILENT_MAX, CastHop, HopHeld, Source
from implicast.overlay.skip_graph.absentees import Absentees
from implicast.peer.asking import Asker, Patience, Question
from implicast.peer.contract import Address, CastId, Name, Part, handles
from implicast.peer.events import Settled
from implicast.peer.fields import COUNT_MAX

STEP, REPEATED, INSISTED, DOUBTED = "step", "repeated step", "insisted step", "doubted step"
TOPICS = (STEP, REPEATED, INSISTED, DOUBTED)
REPEAT_US = 2_000_000
ONCE, TWICE, LONG, THRICE = (Patience(REPEAT_US, times) for times in (1, 2, 18, 3))
"""Sent once, then repeated twice, then insisted on: 42 s in all, longer than the freezes and partitions that are to be
outlived. A first step of our own that was repeated twice in vain, to somebody who is there, is refused. To one who is
silent towards us it is sent three times in all."""
WORK_US = 4_000_000
"""Who works on a step has taken it, and is asked anew, with all patience, after this: one lost word is no refusal (two
in five casts were made anew for it)."""
THERE_US = 15_000_000
"""Who was heard so lately is there."""
RECASTS_MAX = 3
"""How often one cast is made anew."""

Step = tuple[Address, int, int, bytes]
"""The other end, query, level, key of the place that forwards."""


@dataclass(slots=True)
class CastReport:
    """What became of a cast among some members."""

    taken: int = 0
    declined: int = 0
    missed: int = 0
    """Out of reach, beyond those that are named."""
    silent: tuple[Name, ...] = ()

    def add(self, other: "CastReport | HopHeld") -> None:
        self.taken, self.declined = self.taken + other.taken, self.declined + other.declined
        self.missed += other.missed
        if other.silent:
            named = tuple(dict.fromkeys((*self.silent, *other.silent)))
            self.silent, self.missed = named[:SILENT_MAX], self.missed + len(named[SILENT_MAX:])


@dataclass(slots=True)
class Duty:
    """The service that one step asks of us: the steps below it that are open, and what the others reported."""

    cast: CastId
    query: int
    parent: Step | None
    """None: a cast of our own."""
    counts: bool = True
    """Whether reports from below are passed on."""
    open: int = 0
    lost: int = 0
    """Steps to members out of range that were never confirmed: what those did with them is not known."""
    tally: CastReport = field(default_factory=CastReport)

    def step(self, more: int, is_lost: bool = False) -> None:
        """So many more steps are open; one that ended may have been lost."""
        self.open += more
        self.lost += is_lost


class Carriage(Part):
    """Unconfirmed steps of one peer. `recast(source)` is called to make a cast of our own anew, `unconfirmed(address)`
    when somebody who is there never confirmed a step. Where steps are not assured, they are sent once and nothing is
    counted. `back_us` is when the member came back, if it did."""

    __slots__ = (
        "_absentees",
        "_asker",
        "_back_us",
        "_endings",
        "_making",
        "_recast",
        "_recasts",
        "_unconfirmed_by",
        "assured",
    )

    def __init__(
        self,
        asker: Asker,
        absentees: Absentees,
        assured: bool,
        recast: Callable[[Source], None],
        unconfirmed: Callable[[Address], None],
        back_us: int | None = None,
    ) -> None:
        super().__init__(asker.address, asker.host)
        self._asker, self._absentees, self.assured, self._back_us = (
            asker,
            absentees,
            assured,
            back_us,
        )
        self._recast, self._unconfirmed_by = recast, unconfirmed
        self._endings: dict[
            CastId, dict[int, Duty]
        ] = {}  # casts of our own, and their multicasts by query
        self._recasts: Counter[CastId] = Counter()  # how often they were made anew
        self._making: CastId | None = None  # of this one not all multicasts have begun
        asker.topic(STEP, ONCE, self._unconfirmed)
        asker.topic(REPEATED, TWICE, self._refused)
        asker.topic(INSISTED, LONG, self._lost)
        asker.topic(DOUBTED, THRICE, self._doubtless)

    # --- casts of our own

    def begin(self, cast: CastId) -> None:
        """A cast of our own: what is sent for it from now on decides how it ends."""
        if self.assured:
            self._endings[cast], self._making = {}, cast

    def duty(self, source: Source, parent: Step | None = None) -> Duty:
        """The service that begins with a step, or with a multicast of our own."""
        counts = self._back_us is None or source.sent_us > self._back_us
        duty = Duty(source.cast, source.query, parent, counts)
        if parent is None and source.cast in self._endings:
            self._endings[source.cast][source.query] = duty
        return duty

    def made(self, cast: CastId) -> None:
        """Everything was sent that the publisher sends."""
        self._making = None
        self._maybe_settled(cast)

    # --- sending

    def send(
        self, wanted: Mapping[Address, Name | None], hop: CastHop, duty: Duty, topic: str = STEP
    ) -> None:
        """Send a step to some addresses. The member there is named if it is in range: it counts when it is out of
        reach."""
        if not self.assured:
            for to in wanted:
                self.host.send(to, hop)
            return
        for to, name in wanted.items():
            duty.step(1)
            step = (to, hop.source.query, hop.level, hop.forwarder.key)
            if not self._asker.ask(topic, step, to, hop, (duty, name)):
                self.host.send(to, hop)  # too much is open: this once, and nobody will know
                self._close(duty, name)

    def drop(self, address: Address) -> None:
        """It has left: nothing need be confirmed any more."""
        for topic in TOPICS:
            for step in [each for each in self._asker.topics(topic) if each[0] == address]:
                question = self._asker.answered(topic, step)
                if question is not None:
                    self._close(question.about[0], None)

    @handles(HopHeld)
    def on_held(self, sender: Address, held: HopHeld) -> None:
        step, asker = (sender, held.query, held.level, held.place), self._asker
        for topic in TOPICS:  # mostly the first
            question = asker.open(topic, step) if held.open else asker.answered(topic, step)
            if question is not None:
                break
        else:
            return
        if held.open:
            asker.postpone(topic, step, WORK_US)
            return
        duty = question.about[0]
        if duty.counts and (
            held.taken or held.declined or held.missed or held.silent
        ):  # one in six
            duty.tally.add(held)
        self._close(duty, None)

    def _unconfirmed(self, step: Step, question: Question) -> None:
        self._absentees.watch(step[0])
        self._asker.ask(REPEATED, step, question.to, question.message, question.about)

    def _refused(self, step: Step, question: Question) -> None:
        hop = question.message
        assert isinstance(hop, CastHop), "steps are hops"
        self._asker.ask(INSISTED, step, question.to, hop, question.about)
        self._absentees.watch(step[0])
        if question.about[0].parent is None and self._absentees.is_there(step[0], 2 * REPEAT_US):
            self._cast_anew(hop.source)

    def _lost(self, step: Step, question: Question) -> None:
        if self._absentees.is_there(step[0], THERE_US):
            self._unconfirmed_by(step[0])
        self._close(question.about[0], question.about[1], is_lost=True)

    def _doubtless(self, step: Step, question: Question) -> None:
        """Who was silent towards us still is; or it speaks again, and is sent the step like any other."""
        if self._absentees.is_there(step[0], THERE_US):
            self._asker.ask(INSISTED, step, question.to, question.message, question.about)
        else:
            self._close(question.about[0], question.about[1], is_lost=True)

    def _cast_anew(self, source: Source) -> None:
        """What is still open of a cast of our own is made anew; what the first attempt counted, the next counts too."""
        duties = self._endings.get(source.cast, {})
        if source.query not in duties or self._recasts[source.cast] == RECASTS_MAX:
            return
        self._recasts[source.cast] += 1
        del duties[source.query]
        for topic in TOPICS:
            for step in [each for each in self._asker.topics(topic) if each[1] == source.query]:
                self._asker.drop(topic, step)
        self._recast(source)
        self._maybe_settled(source.cast)

    # --- confirming

    def confirm(self, sender: Address, hop: CastHop, duty: Duty | None) -> None:
        """Tell a sender that we have it. Its duty, if it is our parent: then with what became of it, or that work goes
        on."""
        source, level, place = hop.source, hop.level, hop.forwarder.key
        held = (
            HopHeld(source.cast, source.query, level, place)
            if duty is None
            else self._report(duty, level, place)
        )
        self.host.send(sender, held)  # nine in ten have no duty

    def _report(self, duty: Duty, level: int, place: bytes) -> HopHeld:
        tally = duty.tally
        taken, declined, missed = tally.taken, tally.declined, tally.missed
        if taken + declined + missed > COUNT_MAX:
            taken, declined, missed = (min(each, COUNT_MAX) for each in (taken, declined, missed))
        return HopHeld(
            duty.cast,
            duty.query,
            level,
            place,
            bool(duty.open),
            taken,
            declined,
            missed,
            tally.silent,
        )

    def _close(self, duty: Duty, missed: Name | None, is_lost: bool = False) -> None:
        """One step of a duty has ended; the last one ends the duty."""
        duty.step(-1, is_lost and missed is None)
        if missed is not None:
            duty.tally.add(CastReport(silent=(missed,)))
        if duty.open:
            return
        if duty.parent is None:
            self._maybe_settled(duty.cast)
        else:
            to, _, level, place = duty.parent
            self.host.send(to, self._report(duty, level, place))

    def _maybe_settled(self, cast: CastId) -> None:
        duties = self._endings.get(cast)
        if duties is None or cast == self._making or any(duty.open for duty in duties.values()):
            return
        del self._endings[cast], self._recasts[cast]
        total = CastReport()
        for duty in duties.values():
            total.add(duty.tally)
        unreachable = (
            total.missed
            + len(total.silent)
            + (not duties or any(duty.lost for duty in duties.values()))
        )
        self.host.deliver(Settled(cast, total.taken, unreachable, total.declined, 0, total.silent))
