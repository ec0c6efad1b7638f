"""Casting: find a registry of one tag of each term, walk through all of it, notify whom the target selects.

Thesis section 8.1.3 and Listing 12; with no limits it is Listing 5. A cast goes to the nearest place where a copy of
the deepest level could be, where there is none to the next lower level, and at last to the original; it stops at the
first copy that it meets on its way. With receipts the publisher knows the end: when everything is covered, and every
member that was found has answered or was silent through all patience.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from implicast.casting.inbox import Outcome
from implicast.casting.spice.homes import address_of, nearest_root
from implicast.casting.spice.messages import CastAgain, CastTo, Covered, CoveredAgain
from implicast.casting.spice.registry import Held, Registry, fits
from implicast.casting.spice.settings import CAST_US
from implicast.casting.spice.share import Spice, SpicePart
from implicast.casting.spice.trips import Work
from implicast.casting.telling import Got, GotAgain, Hearing, Notify, NotifyAgain, Word
from implicast.language.target import Target
from implicast.overlay.ice.estate import Way
from implicast.peer.asking import Patience, Question
from implicast.peer.contract import Address, CastId, Contact, Incarnation, Message, Name, handles
from implicast.peer.events import Estimated, Refused, Settled
from implicast.peer.member import Member
from implicast.peer.memory import HORIZON_US, HeardBlock, Recent, place_of
from implicast.peer.policy import FREE
from implicast.space.built import built
from implicast.space.tract import EMPTY, Tract, contains

_BUILT = built("casting.spice._records")
NOTIFY, NOTIFY_SILENT = "notify", "notify the silent"
PATIENCE = Patience(500_000, times=13, factor=1.35)
"""Forty seconds of patience with a member: freezes and partitions are to be outlived."""
SHORT_PATIENCE = Patience(500_000, times=3, factor=2.0)
"""With a member that was silent through all of it lately."""
COUNTED_MAX = 8_192
"""Answers of members remembered; the oldest is forgotten."""
SILENT_MAX = 4_096
"""Members that did not answer lately, remembered; the one noted first is forgiven first."""
PATIENCE_US = 3_000_000
"""How often a publisher looks whether a cast has lived too long."""
RECOUNTS = 3
"""How often a cast is counted anew while things change so much that members are told by several peers."""
PUBLISHING_MAX = 65_536
"""Casts of one publisher that have not ended; further ones are refused."""
TOLD_MAX = 256
"""Casts lately taken of which it is known who told them; of older ones a repeat counts for no peer."""
TAGS_MAX = 64
"""Tags of one term that are tried when the rarest is looked for."""


ToldOf = tuple[CastId, Name, Incarnation | None]
"""Who is told of what; and for which life of the publisher, if that carries it on."""


class CastWatch(Message):
    """Rings now and then until a publisher's cast has ended."""

    cast: CastId


class Ears(Hearing):
    """A member's side: takes what fits, once, and remembers for a while which peer told it.

    A record may be met at two peers while it moves from one to the other, and both tell its consumer. Only the first of
    them may count it, however often it asks: to the second the member says that it was told before.
    """

    __slots__ = ("_is_plain", "_told")

    def __init__(self, member: Member, heard: tuple[HeardBlock, ...] = ()) -> None:
        super().__init__(member, heard)
        self._told: Recent[tuple[CastId, Incarnation | None], Address] | None = None
        """Who told casts; and of those that were carried on, who did so first in which life of their publishers."""
        self._is_plain = (
            _BUILT is not None
            and not (member.assured or member.words.signed)
            and member.policy is FREE
        )
        """Is nothing confirmed and nothing checked? Then what can be taken is, by compiled code (`Inbox.take`)."""

    @handles(Notify, NotifyAgain)
    def on_notify(self, sender: Address, word: Notify | NotifyAgain) -> None:
        if (
            self._is_plain
            and type(word) is Notify
            and _BUILT.take(
                self.inbox, self.member, word.cast, word.target, word.payload, place_of, HORIZON_US
            )
        ):
            return
        cast, again, by = word.cast, getattr(word, "again", None), self.member.name
        outcome = self.inbox.take(cast, word.target, word.payload)
        if again is None and not self.member.assured:
            return
        if outcome == Outcome.TAKEN:
            self._tellers()[cast, None] = sender
        if outcome != Outcome.TAKEN or again is not None:
            outcome = self.heard(sender, cast, again, outcome)
        got = Got(cast, by, outcome) if again is None else GotAgain(cast, by, outcome, again)
        self.host.send(sender, self.member.words.say(got))

    def heard(
        self, sender: Address, cast: CastId, again: Incarnation | None, outcome: Outcome
    ) -> Outcome:
        """What became of it for this teller; in every life in which its publisher carries it on, it counts once."""
        if outcome not in (Outcome.TAKEN, Outcome.REPEAT):
            return outcome
        if again is not None:
            self._tellers().once((cast, again), sender)
        return Outcome.TAKEN if self._tellers().get((cast, again)) == sender else Outcome.REPEAT

    def teller(self, cast: CastId) -> Address | None:
        """Who told of this cast; None: that is not known any more."""
        return None if self._told is None else self._told.get((cast, None))

    def _tellers(self) -> Recent[tuple[CastId, Incarnation | None], Address]:
        if self._told is None:
            self._told = Recent(TOLD_MAX)
        return self._told


class Casts(SpicePart):
    """The verb `cast`, and a peer's part in the casts of others."""

    __slots__ = ("_counted", "_counts", "_silent", "publishing")

    def __init__(self, spice: Spice) -> None:
        super().__init__(spice)
        self._silent: Recent[Name, None] = Recent(SILENT_MAX)
        self._counted: Recent[ToldOf, None] = Recent(COUNTED_MAX)
        """Members that have been counted for a cast: one that is met again does not count again."""
        self.publishing: dict[CastId, Work] = {}
        """Our own casts that have not ended."""
        self._counts: dict[CastId, list[Covered]] = {}
        """What came out before of those that are counted anew: the most is true, since nobody counts twice."""
        if self.settings.assured:
            spice.asker.topic(NOTIFY, PATIENCE, self._lost)
            spice.asker.topic(NOTIFY_SILENT, SHORT_PATIENCE, self._lost)

    # --- publishing

    def publish(self, cast: CastId, target: Target, payload: bytes, asks: bool = False) -> None:
        if not all(term.has for term in target.terms):
            self.host.deliver(Refused("cast", "a term without a positive tag has no rendezvous"))
            return
        if len(self.publishing) >= PUBLISHING_MAX:
            self.host.deliver(Refused("cast", f"{PUBLISHING_MAX} casts have not ended"))
            return
        first = CastTo(Way(EMPTY), cast, target, 0, "", 0, 0, 0, payload, (), asks)
        if cast.incarnation != self.spice.incarnation and self.settings.assured:
            first = CastAgain(
                Way(EMPTY), cast, target, 0, "", 0, 0, 0, payload, again=self.spice.incarnation
            )
        if self.settings.assured or asks:
            self.host.after(PATIENCE_US, CastWatch(cast))
        self._set_out(first)

    def _set_out(self, first: CastTo) -> None:
        """To a registry of each term; with receipts it is known when all of it has ended."""
        work = None
        if self.settings.assured or first.asks:
            work = self.publishing[first.cast] = Work(self.host.now_us, first)
        for term, conjunction in enumerate(first.target.terms):
            cast_term = replace(first, term=term)
            self.spice.walks.send_up(
                work, self._aimed(cast_term, conjunction.has[0], self.spice.levels.depth)
            )
        if work is not None:
            self.spice.walks.close_one(work)

    @handles(CastWatch)
    def on_cast_watch(self, alarm: CastWatch) -> None:
        work = self.publishing.get(alarm.cast)
        if work is not None and self.host.now_us - work.begun_us >= CAST_US:
            self.spice.walks.give_up(work)
        elif work is not None:
            self.host.after(PATIENCE_US, alarm)

    def ended(self, work: Work, is_covered: bool) -> None:
        """If it was a cast of our own the application hears how it ended."""
        if not is_covered:
            work.count(Covered(0, unreachable=1))
        walk, tally = work.walk, work.tally
        assert isinstance(walk, CastTo)
        if is_covered and self.spice.heeded is not None and not walk.asks:
            self.spice.heeded.docket.count(walk.cast, tally.notified)
        if self.publishing.get(walk.cast) is not work:
            if is_covered:
                self.spice.containers.passed(work)
            return
        before = self._counts.pop(walk.cast, [])
        if (
            is_covered
            and isinstance(tally, CoveredAgain)
            and not walk.asks
            and len(before) < RECOUNTS
        ):
            self._counts[walk.cast] = [*before, tally]
            self._count_anew(walk)
            return
        tally = max([tally, *before], key=lambda each: each.notified)
        del self.publishing[walk.cast]
        if walk.asks:
            self.host.deliver(
                Estimated(walk.cast.serial, tally.notified, 2 * (tally.hops + tally.notified))
            )
        else:
            self.host.deliver(
                Settled(
                    walk.cast, tally.notified, tally.unreachable, tally.declined, 0, tally.silent
                )
            )

    def _count_anew(self, walk: CastTo) -> None:
        """Some were told by peers whose answers may never have come: nobody hears it again, but all say so."""
        again = getattr(walk, "again", self.spice.incarnation) + 1
        self._set_out(
            CastAgain(Way(EMPTY), walk.cast, walk.target, 0, "", 0, 0, 0, walk.payload, again=again)
        )

    # --- finding a registry

    def _aimed(self, cast: CastTo, tag: str, level: int) -> CastTo:
        """To the root of a level that is nearest to us."""
        address = address_of(tag)
        root = (
            nearest_root(address, level, self.surface.centre)
            if level and self.surface.tract
            else address
        )
        return replace(cast, way=Way((root, root + 1)), tag=tag, level=level, root=root)

    def seek(self, cast: CastTo) -> tuple[CastTo, bool]:
        """Where a cast that looks for a registry goes from here, and has it found one of ours?

        Who has come late learns from the casts of others how deep it pays to look.
        """
        if self.settings.live and cast.level > self.spice.levels.depth:
            self.spice.levels.learn_depth(cast.level)
        while True:
            root = self._copy_here(cast.tag)
            if root is None and not self._is_known(cast.root):
                return cast, False
            if root is None and cast.level:
                cast = self._aimed(cast, cast.tag, min(cast.level, self.settings.deepest + 1) - 1)
                continue
            root = cast.root if root is None else root
            heeded = self.spice.heeded
            if (
                self.settings.live
                and not cast.asks
                and (heeded is None or not heeded.docket.declines(cast.cast))
            ):
                self.spice.replicas.counted(
                    cast.tag, root
                )  # one that is declined is no reason for more copies
            other = self._rarer(cast, root) if self.settings.rarest else None
            if other is None:
                return replace(cast, way=Way((root, root + 1)), root=root), True
            cast = other

    def _copy_here(self, tag: str) -> int | None:
        """A root of ours at which a cast may stop."""
        for root in self.spice.shelf.copies.get(tag, ()):
            if self._is_known(root) and (
                not self.settings.live or self.spice.levels.is_ready(tag, root)
            ):
                return root
        return None

    def _is_known(self, root: int) -> bool:
        """Do we answer for this place, and is all that was registered there known?"""
        return self.surface.answers(root) and not contains(self.spice.shelf.lacking, root)

    def _rarer(self, cast: CastTo, root: int) -> CastTo | None:
        """Where to look rather than in this large registry: the term's next tag, or the rarest when all were seen."""
        registry = self.spice.shelf.registries.get((cast.tag, root, 0))
        tags = cast.target.terms[cast.term].has[:TAGS_MAX]
        seen = dict(cast.tried)
        if registry is None or not registry.closed or len(seen) == len(tags):
            return None
        seen[cast.tag] = len(registry.records) + registry.passed
        tag = next((each for each in tags if each not in seen), None) or min(
            tags, key=lambda each: (seen[each], each)
        )
        if tag == cast.tag:
            return None
        return replace(self._aimed(cast, tag, self.spice.levels.depth), tried=tuple(seen.items()))

    # --- notifying

    def visit(self, work: Work | None, walk: CastTo, registry: Registry, part: Tract) -> None:
        selected = registry.selected(walk.target, walk.term, part, self.host.now_us)
        if not selected:
            return
        if not self.spice.policy.bears(len(selected)) and not walk.asks:
            for _ in selected:
                self._count(work, Outcome.BLOCKED)
            return
        word = _word(work, walk)
        for member in selected:
            self.tell(work, walk, member, word)

    def show(self, work: Work, registry: Registry, held: Sequence[Held]) -> None:
        walk = work.walk
        for each in held:
            if isinstance(walk, CastTo) and fits(each, walk.target, walk.term, self.host.now_us):
                self.tell(work, walk, each.entry.member, _word(work, walk))

    def tell(self, work: Work | None, walk: CastTo, member: Contact, word: Word) -> None:
        heeded = self.spice.heeded
        if walk.asks:
            assert work is not None
            work.count(Covered(0, notified=1))
        elif heeded is not None and not heeded.docket.tell(walk.cast, member.name, member.address):
            self._count(work, Outcome.BLOCKED)
        elif member.name == self.spice.name:
            outcome = self.spice.ears.inbox.take(walk.cast, walk.target, walk.payload)
            if isinstance(walk, CastAgain):
                outcome = self.spice.ears.heard(self.address, walk.cast, walk.again, outcome)
                if outcome == Outcome.TAKEN and not self._counted.once(
                    _told_of(word, member.name), None
                ):
                    outcome = (
                        Outcome.REPEAT
                    )  # our own record has moved here from one notch to another
            self._count(work, outcome)
        elif member.address == self.address:
            pass  # a peer that was at this address before: it is gone
        elif work is None:
            self.host.send(member.address, word)
        else:
            self._ask(work, member, word)

    def _ask(self, work: Work, member: Contact, word: Word) -> None:
        """Until it confirms. Several works may wait for one answer."""
        key = _told_of(word, member.name)
        known = self.spice.asker.open(NOTIFY, key) or self.spice.asker.open(NOTIFY_SILENT, key)
        if known is not None:
            if work not in known.about:
                known.about.append(work)
                work.wait()
            return
        topic = NOTIFY_SILENT if member.name in self._silent else NOTIFY
        if self.spice.asker.ask(topic, key, member.address, word, [work]):
            work.wait()
        else:
            work.count(Covered(0, unreachable=1, silent=(member.name,)))

    def _count(self, work: Work | None, outcome: Outcome) -> None:
        if work is not None:
            work.hear(outcome)

    @handles(Got, GotAgain)
    def on_got(self, sender: Address, got: Got) -> None:
        """A member that is full is told again; a stranger at the address of a member does not speak for it."""
        key = _told_of(got, got.by)
        asker, words = self.spice.asker, self.spice.words
        topic = NOTIFY if (question := asker.open(NOTIFY, key)) is not None else NOTIFY_SILENT
        question = question or asker.open(topic, key)
        if (
            question is None
            or question.to != sender
            or got.outcome == Outcome.FULL
            or not words.vouches(got)
        ):
            return
        asker.answered(topic, key)
        self._silent.pop(got.by, None)
        outcome = got.outcome if self._counted.once(key, None) else Outcome.REPEAT
        for work in question.about:
            self._count(work, outcome)
            outcome = Outcome.REPEAT  # it counts once, however many works met it
            self.spice.walks.close_one(work)

    def _lost(self, key: ToldOf, question: Question) -> None:
        self._silent.put(key[1], None)
        question.about[0].count(Covered(0, unreachable=1, silent=(key[1],)))
        for work in question.about:
            self.spice.walks.close_one(work)


def _word(work: Work | None, walk: CastTo) -> Word:
    """What members are told."""
    if work is not None and isinstance(walk, CastAgain):
        return NotifyAgain(walk.cast, walk.target, walk.payload, walk.again)
    return Notify(walk.cast, walk.target, walk.payload)


def _told_of(word: Word | Got, name: Name) -> ToldOf:
    return word.cast, name, getattr(word, "again", None)
