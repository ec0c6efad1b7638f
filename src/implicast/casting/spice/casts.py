"""Casting: find a registry of one tag of each term, walk through all of it, notify whom the target selects.

Thesis section 8.1.3 and Listing 12; with no limits it is Listing 5. A cast goes to the nearest place where a copy of
the deepest level could be, where there is none to the next lower level, and at last to the original; it stops at the
first copy that it meets on its way. With receipts the publisher knows the end: when everything is covered, and every
member that was found has answered or was silent through all patience.
"""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from implicast.casting.inbox import Outcome
from implicast.casting.spice.alarms import CastWatch
from implicast.casting.spice.homes import address_of, nearest_root
from implicast.casting.spice.messages import CastAgain, CastTo
from implicast.casting.spice.registry import Held, Registry, fits
from implicast.casting.spice.settings import CAST_US
from implicast.casting.spice.share import Spice, SpicePart
from implicast.casting.spice.trips import Walk, Work
from implicast.casting.telling import Got, GotAgain, Notify, NotifyAgain, Word
from implicast.language.target import Target
from implicast.overlay.ice.estate import Way
from implicast.peer.asking import Patience, Question
from implicast.peer.contract import Address, CastId, Contact, Life, Name, handles
from implicast.peer.events import Estimated, Refused, Settled
from implicast.peer.memory import Recent
from implicast.space.tract import EMPTY, Tract

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
PUBLISHING_MAX = 65_536
"""Casts of one publisher that have not ended; further ones are refused."""
TAGS_MAX = 64
"""Tags of one term that are tried when the rarest is looked for."""


ToldOf = tuple[CastId, Name] | tuple[CastId, Name, Life]
"""Who is told of what; and for which life of the publisher, if that carries it on."""

if TYPE_CHECKING:
    from implicast.casting.spice.complaints import Complaints


class Casts(SpicePart):
    """The verb `cast`, and a peer's part in the casts of others."""

    __slots__ = ("_complaints", "_counted", "_silent", "publishing")

    def __init__(self, spice: Spice) -> None:
        super().__init__(spice)
        self._silent: Recent[Name, None] = Recent(SILENT_MAX)
        self._counted: Recent[ToldOf, None] = Recent(COUNTED_MAX)
        """Members that have been counted for a cast: one that is met again does not count again."""
        self.publishing: dict[CastId, Work] = {}
        """Our own casts that have not ended."""
        self._complaints: Complaints | None = None
        if self.settings.assured:
            spice.asker.topic(NOTIFY, PATIENCE, self._lost)
            spice.asker.topic(NOTIFY_SILENT, SHORT_PATIENCE, self._lost)

    def mind(self, complaints: "Complaints") -> None:
        """Somebody has complained: from now on complaints are heeded."""
        self._complaints = complaints
        self.spice.crossings.heed()

    def refuses(self, work: Work | None, walk: CastTo) -> bool:
        """Is nobody to be told here and beyond, because too many complained of the publisher?"""
        return self._complaints is not None and not walk.asks and self._complaints.refuses(work, walk)

    def _is_slowed(self, cast: CastTo) -> bool:
        """A cast that will be declined is no reason for more copies."""
        return self._complaints is not None and self._complaints.docket.declines(cast.cast)

    # --- publishing

    def publish(self, cast: CastId, target: Target, payload: bytes, asks: bool = False) -> None:
        if not all(term.has for term in target.terms):
            self.host.deliver(Refused("cast", "a term without a positive tag has no rendezvous"))
            return
        if len(self.publishing) >= PUBLISHING_MAX:
            self.host.deliver(Refused("cast", f"{PUBLISHING_MAX} casts have not ended"))
            return
        first = CastTo(Way(EMPTY), cast, target, 0, "", 0, 0, 0, payload, (), asks)
        if cast.life != self.spice.life and self.settings.assured:
            first = CastAgain(Way(EMPTY), cast, target, 0, "", 0, 0, 0, payload, again=self.spice.life)
        work = self._open(first) if self.settings.assured or asks else None
        for term, conjunction in enumerate(target.terms):
            cast_term = replace(first, term=term)
            self.spice.walks.send_up(work, self._aimed(cast_term, conjunction.has[0], self.spice.levels.depth))
        if work is not None:
            self.spice.walks.close_one(work)

    def _open(self, first: CastTo) -> Work:
        work = self.publishing[first.cast] = Work(first, EMPTY, self.host.now_us)
        self.host.after(PATIENCE_US, CastWatch(first.cast))
        return work

    @handles(CastWatch)
    def on_cast_watch(self, alarm: CastWatch) -> None:
        work = self.publishing.get(alarm.cast)
        if work is None:
            return
        if self.host.now_us - work.begun_us >= CAST_US:
            self.spice.walks.give_up(work)
        else:
            self.host.after(PATIENCE_US, alarm)

    def finished(self, work: Work) -> None:
        if self._complaints is not None:
            self._complaints.finished(work)
        if not self._end(work):
            self.spice.gatherings.passed(work)

    def abandoned(self, work: Work) -> None:
        work.tally.lose()
        self._end(work)

    def _end(self, work: Work) -> bool:
        """Was it a cast of our own? Then the application hears how it ended."""
        walk, tally = work.walk, work.tally
        assert isinstance(walk, CastTo)
        if self.publishing.get(walk.cast) is not work:
            return False
        del self.publishing[walk.cast]
        if walk.asks:
            self.host.deliver(Estimated(walk.cast.serial, tally.notified, 2 * (tally.hops + tally.notified)))
        else:
            ended = Settled(walk.cast, tally.notified, tally.unreachable, tally.declined, 0, tally.silent)
            self.host.deliver(ended)
        return True

    # --- finding a registry

    def _aimed(self, cast: CastTo, tag: str, level: int) -> CastTo:
        """To the root of a level that is nearest to us."""
        address = address_of(tag)
        root = nearest_root(address, level, self.surface.centre) if level and self.surface.tract else address
        return replace(cast, way=Way((root, root + 1)), tag=tag, level=level, root=root)

    def seek(self, cast: CastTo) -> tuple[CastTo, bool]:
        """Where a cast that looks for a registry goes from here, and has it found one of ours?

        Who has come late learns from the casts of others how deep it pays to look.
        """
        if self.settings.live and cast.level > self.spice.levels.depth:
            self.spice.levels.learn_depth(min(cast.level, self.settings.deepest))
        while True:
            root = self._copy_here(cast.tag)
            if root is None and not self.surface.answers(cast.root):
                return cast, False
            if root is None and cast.level:
                cast = self._aimed(cast, cast.tag, min(cast.level, self.settings.deepest + 1) - 1)
                continue
            root = cast.root if root is None else root
            if self.settings.live and not cast.asks and not self._is_slowed(cast):
                self.spice.replicas.counted(cast.tag, root)
            other = self._rarer(cast, root) if self.settings.rarest else None
            if other is None:
                return replace(cast, way=Way((root, root + 1)), root=root), True
            cast = other

    def _copy_here(self, tag: str) -> int | None:
        """A root of ours at which a cast may stop."""
        for root in self.spice.shelf.copies.get(tag, ()):
            if self.surface.answers(root) and (not self.settings.live or self.spice.levels.is_ready(tag, root)):
                return root
        return None

    def _rarer(self, cast: CastTo, root: int) -> CastTo | None:
        """Where to look rather than in this large registry: the term's next tag, or the rarest when all were seen."""
        registry = self.spice.shelf.registries.get((cast.tag, root, 0))
        tags = cast.target.terms[cast.term].has[:TAGS_MAX]
        seen = dict(cast.tried)
        if registry is None or not registry.closed or len(seen) == len(tags):
            return None
        seen[cast.tag] = len(registry.records) + registry.passed
        tag = next((each for each in tags if each not in seen), None) or min(tags, key=lambda each: (seen[each], each))
        if tag == cast.tag:
            return None
        return replace(self._aimed(cast, tag, self.spice.levels.depth), tried=tuple(seen.items()))

    # --- notifying

    def visit(self, work: Work | None, walk: Walk, registry: Registry, part: Tract) -> None:
        assert isinstance(walk, CastTo)
        selected = registry.selected(walk.target, walk.term, part, self.host.now_us)
        if not selected:
            return
        if not self.spice.policy.bears(len(selected)) and not walk.asks:
            for _ in selected:
                self._count(work, Outcome.BLOCKED)
            return
        notify = Notify(walk.cast, walk.target, walk.payload)
        for member in selected:
            self._tell(work, walk, member, notify)

    def show(self, work: Work, registry: Registry, held: Held) -> None:
        walk = work.walk
        if isinstance(walk, CastTo) and fits(held, walk.target, walk.term, self.host.now_us):
            self._tell(work, walk, held.entry.member, Notify(walk.cast, walk.target, walk.payload))

    def _tell(self, work: Work | None, walk: CastTo, member: Contact, notify: Notify) -> None:
        if walk.asks:
            assert work is not None
            work.tally.select()
        elif self._complaints is not None and self._complaints.declines(walk, member):
            self._count(work, Outcome.BLOCKED)
        elif member.name == self.spice.name:
            self._count(work, self._take(walk))
        elif member.address == self.address:
            pass  # a peer that was at this address before: it is gone
        elif work is None:
            self.host.send(member.address, notify)
        else:
            self._ask(work, walk, member)

    def tell_plainly(self, walk: CastTo, member: Contact, notify: Notify) -> None:
        """Without receipts."""
        self._tell(None, walk, member, notify)

    def _take(self, walk: CastTo) -> Outcome:
        """We are selected ourselves."""
        outcome = self.spice.ears.inbox.take(walk.cast, walk.target, walk.payload)
        if isinstance(walk, CastAgain):
            return self.spice.ears.heard_again(self.address, walk.cast, walk.again, outcome)
        return outcome

    def _ask(self, work: Work, walk: CastTo, member: Contact) -> None:
        """Until it confirms. Several works may wait for one answer."""
        key, word = _word(walk, member)
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
            work.tally.lose(member.name)

    def _count(self, work: Work | None, outcome: Outcome) -> None:
        if work is not None:
            work.tally.hear(outcome)

    @handles(Got)
    def on_got(self, sender: Address, got: Got) -> None:
        """A member that is full is told again; a stranger at the address of a member does not speak for it."""
        self._hear((got.cast, got.by), sender, got)

    @handles(GotAgain)
    def on_got_again(self, sender: Address, got: GotAgain) -> None:
        self._hear((got.cast, got.by, got.again), sender, got)

    def _hear(self, key: ToldOf, sender: Address, got: Got) -> None:
        topic = NOTIFY if self.spice.asker.open(NOTIFY, key) is not None else NOTIFY_SILENT
        question = self.spice.asker.open(topic, key)
        if question is None or question.to != sender or got.outcome == Outcome.FULL:
            return
        if not self.spice.words.vouches(got):
            return
        self.spice.asker.answered(topic, key)
        self._silent.pop(got.by, None)
        outcome = got.outcome if self._counted.once(key, None) else Outcome.REPEAT
        for work in question.about:
            self._count(work, outcome)
            outcome = Outcome.REPEAT  # it counts once, however many works met it
            self.spice.walks.close_one(work)

    def _lost(self, key: ToldOf, question: Question) -> None:
        self._silent.put(key[1], None)
        question.about[0].tally.lose(key[1])
        for work in question.about:
            self.spice.walks.close_one(work)


def _word(walk: CastTo, member: Contact) -> tuple[ToldOf, Word]:
    """What a member is told, and how the question is called."""
    if isinstance(walk, CastAgain):
        again = NotifyAgain(walk.cast, walk.target, walk.payload, walk.again)
        return (walk.cast, member.name, walk.again), again
    return (walk.cast, member.name), Notify(walk.cast, walk.target, walk.payload)
