"""Replication measured live: busy roots have a tag's level raised, idle ones have it lowered unless another objects.

Thesis section 8.1.2, with an order of steps that is safe while registrations, casts and crashes go on. The original
root leads and keeps a header (level, target, ready) at its heirs; whoever takes over its place goes on from there.

- Raise: target = level + 1; from then on registrations go to the new roots too; then a walk acknowledged by coverage
  copies the whole registry; then the new level answers, and its roots are told that they are ready until all confirm.
- Lower: all roots are asked; a veto, or silence, ends it. Else the roots of the deeper level are told that they are not
  ready until all confirm; only then do registrations to them cease. Their records run out.

Ready is granted after updates have begun and withdrawn before they cease: a ready root has every complete registration.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from implicast.casting.spice.copies import roots_in
from implicast.casting.spice.homes import address_of
from implicast.casting.spice.items import Header, RootState, header_item, root_item
from implicast.casting.spice.levels import NO_HEADER
from implicast.casting.spice.messages import (
    AskRate,
    AskVeto,
    CopyFrom,
    DepthIs,
    Offer,
    RateAt,
    RateIs,
    ReadyAt,
)
from implicast.casting.spice.registry import Held, Registry
from implicast.casting.spice.settings import HOLD_WINDOWS, STORE_US, VETO_US
from implicast.casting.spice.share import Spice, SpicePart
from implicast.casting.spice.trips import Work
from implicast.overlay.ice.estate import Way
from implicast.peer.contract import Address, Message, StandingAlarm, handles
from implicast.peer.memory import Recent, Repeats
from implicast.space.tract import WHOLE, Tract, contains, union

REPORTS = 4
"""A level is raised when one in so many of its roots is busy within a window: some are nearer to publishers."""
RATES_MAX = 4_096
"""Roots whose casts are counted; further ones are not."""
TOKEN_BITS = 62
IDLE_WINDOWS = 4
"""A lowering is proposed after so many idle windows in a row."""


class Window(Message):
    """Rings at the end of a window in which casts were counted."""


class Overrun(StandingAlarm):
    """Rings at once when a root is too busy: raising a level is upkeep, no part of the cast that showed the need."""

    tag: str
    root: int


class GoOn(Message):
    """Rings when a raise that was given up is tried again."""

    tag: str


@dataclass(slots=True)
class Rate:
    """Casts at one root: too many as soon as the last few came within one window, too few after several windows.

    A root is busy when more casts than the limit allows in a whole window have come within one: a short run of a few is
    not taken for a busy time. It is idle when it has had hardly any for four windows: between the two limits lies a
    factor of 2^(d + 1), so that a level that was raised does not fall at once.
    """

    _count: int = 0
    _idle: int = 0
    _times_us: deque[int] | None = None
    """Of the last casts, as many as decide. Most roots of a deep level never meet one, and an empty deque weighs more
    than all else here."""
    per_s: float = 0.0
    """Averaged over windows, the last one counting as much as all before it."""
    word: bool | None = None
    """What was last found out: busy (True), idle (False), or nothing since another root was told so."""

    def is_busy(self, now_us: int, window_us: int, most: int) -> bool:
        """Count a cast: are these more than there may be in one window? If so, counting begins anew."""
        self._count += 1
        times_us = self._times_us = self._times_us or deque()
        times_us.append(now_us)
        if len(times_us) <= most or now_us - times_us.popleft() > window_us:
            return False
        self._times_us, self.word = None, True
        return True

    def is_idle(self, window_us: int, limit: float) -> bool:
        """The end of a window: has it been below this limit for long?"""
        if not self._count:
            self._times_us = None  # all are past
        self.per_s = (self.per_s + self._count * 1e6 / window_us) / 2
        self._count = 0
        self._idle = self._idle + 1 if self.per_s < limit else 0
        if self._idle < IDLE_WINDOWS:
            return False
        self._idle, self.word = 0, False
        return True

    def take_word(self) -> bool | None:
        """What is to be said of it, once."""
        word, self.word = self.word, None
        return word


class Replicas(SpicePart):
    """A peer's part in raising and lowering levels."""

    __slots__ = ("_asked", "_lowered_us", "_rates", "_reports", "raising")

    def __init__(self, spice: Spice) -> None:
        super().__init__(spice)
        self._rates: dict[tuple[str, int], Rate] = {}
        self._reports: Recent[str, dict[int, int]] = Recent(RATES_MAX)
        """By tag, the roots that were busy lately, and when they said so."""
        self._asked: Recent[int, tuple[str, int]] = Recent(RATES_MAX)
        """Roots that were asked how they are: tag and root, by token."""
        self._lowered_us: Repeats[str] = Repeats(RATES_MAX)
        """Tags of which roots were asked whether their level may be lowered, and when."""
        self.raising: dict[str, Work] = {}

    # --- measuring

    def counted(self, tag: str, root: int) -> None:
        rate = self._rate(tag, root)
        if rate is not None and rate.is_busy(
            self.host.now_us, self.settings.rate_us, self.settings.casts_most
        ):
            self.host.after(0, Overrun(tag, root))
        self._tick_later()

    def _rate(self, tag: str, root: int) -> Rate | None:
        rate = self._rates.get((tag, root))
        if rate is None and len(self._rates) < RATES_MAX:
            rate = self._rates[tag, root] = Rate()
        return rate

    @handles(Overrun)
    def on_overrun(self, alarm: Overrun) -> None:
        self._report(alarm.tag, alarm.root, busy=True)

    def _tick_later(self) -> None:
        if self.settings.live:
            self.spice.later.put_one(self.settings.rate_us, Window())

    @handles(Window)
    def on_window(self, alarm: Window) -> None:
        """The end of a window: who is hardly needed says so."""
        limit = self.settings.frequency_limit / 2 ** (self.settings.dimensions + 1)
        for (tag, root), rate in list(self._rates.items()):
            if not self.surface.answers(root) or not self.spice.levels.is_ready(tag, root):
                del self._rates[tag, root]
                continue
            idle, level = (
                rate.is_idle(self.settings.rate_us, limit),
                self.spice.levels.header(tag).goal,
            )
            if idle and (level or self.spice.levels.state(tag, root).level):
                self._report(tag, root, busy=False)
            if rate.per_s < 1e-9 and root == address_of(tag) and not level:
                del self._rates[tag, root]
        if self._rates:
            self._tick_later()

    def _report(self, tag: str, root: int, busy: bool) -> None:
        """To the original root, which may be ours too."""
        address = address_of(tag)
        if self.surface.answers(address):
            self._weigh(tag, root, busy, self.spice.levels.state(tag, root))
        else:
            self.surface.send(RateAt(Way((address, address + 1)), tag, root))

    def hinted(self, rate: RateAt) -> None:
        """A root of a tag of ours may be busy or idle: what it says itself counts."""
        if rate.root != address_of(rate.tag) and self.settings.is_root(rate.tag, rate.root):
            token = self.host.rng.getrandbits(TOKEN_BITS)
            self._asked.put(token, (rate.tag, rate.root))
            self.surface.send(
                AskRate(Way((rate.root, rate.root + 1)), rate.tag, self.address, token)
            )

    def asked(self, part: Tract, ask: AskRate) -> None:
        """The original root of a tag asks how one of our roots is."""
        for root in roots_in(self.settings, ask.tag, part) if ask.reply != self.address else ():
            rate, state = self._rates.get((ask.tag, root)), self.spice.levels.state(ask.tag, root)
            busy = rate.take_word() if rate is not None else None
            self.host.send(ask.reply, RateIs(ask.token, busy, state.number, state.level))

    @handles(RateIs)
    def on_rate_is(self, sender: Address, rate: RateIs) -> None:
        tag, root = self._asked.pop(rate.token, (None, 0))
        if tag is not None and self.surface.answers(address_of(tag)):
            self._weigh(tag, root, rate.busy, RootState(rate.number, rate.level, True))

    def _weigh(self, tag: str, root: int, busy: bool | None, state: RootState) -> None:
        """Decide what a root's load means for the level of its tag."""
        if (
            state.number > self.spice.levels.header(tag).number
        ):  # ours was lost with its heirs: the roots remember
            level = min(state.level, self.settings.deepest)
            self.spice.levels.set_header(tag, Header(state.number, level, level, True))
            self._doubt(tag)  # what was registered meanwhile went to none of them
        header = self.spice.levels.header(tag)
        if not header.ready or header.level != header.target:
            self._go_on(tag)
        elif busy and header.level < self.settings.deepest:
            if self._are_many(tag, root, header.level) and self._relieves(header.level):
                self._aim(
                    tag,
                    header._replace(number=header.number + 1, target=header.level + 1, ready=False),
                )
        elif busy is False and header.level:
            self._ask_veto(tag, header.level)

    def _are_many(self, tag: str, root: int, level: int) -> bool:
        """Have enough roots of this level said lately that they are busy? One is, if there are no others."""
        since_us = self.host.now_us - self.settings.rate_us
        reports = {
            each: at_us for each, at_us in self._reports.pop(tag, {}).items() if at_us > since_us
        }
        reports[root] = self.host.now_us
        if len(reports) >= max(1, (1 << level * self.settings.dimensions) // REPORTS):
            return True
        self._reports[tag] = reports
        return False

    def _relieves(self, level: int) -> bool:
        """Has the next level no more roots than there are peers? Else several lie at one peer, and each of them costs
        copies of every record, and their renewal. The first level relieves in any case."""
        return not level or self.surface.population >= 1 << (level + 1) * self.settings.dimensions

    def _aim(self, tag: str, header: Header) -> None:
        """A new header; it holds once heirs know."""
        self.surface.batch((self.spice.levels.aim(tag, header),), partial(self._aimed, tag, header))

    def _aimed(self, tag: str, header: Header) -> None:
        self.spice.levels.end_aim(tag)
        if header.number >= self.spice.levels.header(tag).number and self.surface.answers(
            address_of(tag)
        ):
            self.spice.levels.set_header(tag, header)
            self._go_on(tag)

    def settled(self) -> None:
        """Whoever takes over the place of an original root goes on where its predecessor stopped."""
        levels = self.spice.levels
        for tag in [
            tag
            for tag, each in levels.headers.items()
            if not each.ready or each.level != each.target
        ]:
            self._go_on(tag)
        for tag, root in levels.roots:
            if levels.is_ready(tag, root):
                self._rate(tag, root)
        if levels.roots:
            self._tick_later()

    def copy_again(self, lost: Tract) -> None:
        """Replicas may have been lost with that ground: copy to them again. If it was headers, their roots say so."""
        for tag in list(self.spice.levels.headers):
            self._doubt(tag)
            self._go_on(tag)
        for tag, root in [
            each for each in self.spice.levels.roots if contains(lost, address_of(each[0]))
        ]:
            if self.spice.levels.is_ready(tag, root):
                self._report(tag, root, busy=False)

    def came_otherwise(self, tags: Iterable[str]) -> None:
        """Records or headers of these tags came by an offer: one side of a partition may have had replicas that the
        other side knew nothing of. Who keeps only a part of a registry says so to its original root, by offering it no
        header at all. What comes within a moment is copied together."""
        for tag in tags:
            if not self.surface.answers(address := address_of(tag)):
                way, nothing = Way((address, address + 1)), header_item(tag, NO_HEADER)
                self.spice.calls.call(
                    Offer(way, (nothing,), self.address, self.spice.stores.token())
                )
            self._doubt(tag)
            self.spice.later.put(STORE_US, GoOn(tag))

    def _doubt(self, tag: str) -> None:
        """A raise under way is put off: roots that answer casts come before roots that do not yet. The header says so:
        whoever is given the place meanwhile, or inherits it, copies."""
        levels, raising = self.spice.levels, self.raising.get(tag)
        header = levels.header(tag)
        if header.goal and self.surface.answers(address_of(tag)):
            levels.doubted[tag] = None
            if (
                raising is not None
                and isinstance(raising.walk, CopyFrom)
                and raising.walk.level > header.level
            ):
                self.spice.walks.give_up(raising)
            header = levels.aims.get(tag, header)
            if header.level and header.ready:
                levels.end_aim(tag)
                levels.set_header(tag, header._replace(number=header.number + 1, ready=False))
                self.surface.batch((header_item(tag, levels.header(tag)),), lambda: None)

    def _go_on(self, tag: str) -> None:
        """The next step of a raise or a lowering, unless it is under way."""
        header, address = self.spice.levels.header(tag), address_of(tag)
        if (
            not self.surface.answers(address)
            or tag in self.raising
            or self.spice.calls.is_calling(tag)
        ):
            return
        if header.target < header.level:
            self._call_roots(tag, header, False)
        elif tag in self.spice.levels.doubted and header.level:
            del self.spice.levels.doubted[tag]
            self._copy(tag, 1)
        elif header.target > header.level:
            self._copy(tag, header.target)
        elif not header.ready:
            self._call_roots(tag, header, True)

    # --- raising

    def _copy(self, tag: str, level: int) -> None:
        """To the roots that this level adds."""
        root = address_of(tag)
        walk = CopyFrom(
            Way((root, root + 1)), tag, root, 0, level, self.address, self.spice.stores.token()
        )
        work = self.raising[tag] = Work(self.host.now_us, walk)
        self.spice.walks.send_up(work, walk)
        self.spice.walks.close_one(work)

    def show(self, work: Work, registry: Registry, held: Sequence[Held]) -> None:
        walk = work.walk
        assert isinstance(walk, CopyFrom)
        self.spice.copies.copy_out(work, walk, [each.entry for each in held])

    def ended(self, work: Work, is_covered: bool) -> None:
        walk, tag = work.walk, work.walk.tag
        if not isinstance(walk, CopyFrom) or self.raising.get(tag) is not work:
            return
        del self.raising[tag]
        header = self.spice.levels.header(tag)
        if not is_covered:
            if walk.level <= header.level:
                self._doubt(tag)
            self.spice.later.put(STORE_US, GoOn(tag))
            return
        self.spice.copies.raised(tag, walk.level)
        if walk.level < header.level:  # all levels are copied to again, one after the other
            self._copy(tag, walk.level + 1)
        elif header.target == walk.level:
            self._aim(tag, Header(header.number + 1, header.target, header.target, False))
        else:
            self._go_on(tag)

    @handles(GoOn)
    def on_go_on(self, alarm: GoOn) -> None:
        self._go_on(alarm.tag)
        if self.spice.calls.is_calling(alarm.tag) and alarm.tag in self.spice.levels.doubted:
            self.spice.later.put(STORE_US, alarm)

    # --- telling roots

    def _call_roots(self, tag: str, header: Header, ready: bool) -> None:
        level, token = header.level, self.spice.stores.token()
        roots = union(
            (each, each + 1) for each in self.spice.levels.new_roots(tag, level, level - 1)
        )
        self.spice.calls.call(
            ReadyAt(Way(roots), tag, header.number, level, ready, self.address, token)
        )

    def _ask_veto(self, tag: str, level: int) -> None:
        if self._lowered_us.came_by(tag, self.host.now_us, HOLD_WINDOWS * self.settings.rate_us):
            return
        roots = union((each, each + 1) for each in self.spice.levels.roots_at(tag, level))
        self.spice.calls.call(
            AskVeto(Way(roots), tag, self.address, self.spice.stores.token()), VETO_US
        )

    def ready_arrived(self, part: Tract, call: ReadyAt) -> None:
        roots = roots_in(self.settings, call.tag, part)
        for root in roots:
            self.spice.levels.learn_root(
                call.tag, root, RootState(call.number, call.level, call.ready)
            )
            if self.spice.levels.is_ready(call.tag, root):
                self._rate(call.tag, root)
        self._tick_later()
        items = tuple(
            root_item(call.tag, root, self.spice.levels.roots[call.tag, root]) for root in roots
        )
        self.surface.batch(items, partial(self.spice.calls.heard, call.reply, call.token, part))

    def veto_arrived(self, part: Tract, call: AskVeto) -> None:
        """We object if the load of all roots that a lowered level would put on one exceeds half the limit."""
        limit, share = self.settings.frequency_limit, 1 << self.settings.dimensions
        rates = [
            self._rates.get((call.tag, root)) for root in roots_in(self.settings, call.tag, part)
        ]
        veto = any(rate is not None and rate.per_s * share > limit / 2 for rate in rates)
        self.spice.calls.heard(call.reply, call.token, part, veto)

    def called_all(self, message: ReadyAt | AskVeto) -> None:
        """Every root has answered: the step is done."""
        header = self.spice.levels.header(message.tag)
        if isinstance(message, AskVeto):
            if header.level and header.level == header.target and header.ready:
                self._aim(
                    message.tag,
                    header._replace(number=header.number + 1, target=header.level - 1, ready=False),
                )
        elif message.number == header.number:
            level, is_doubted = header.target, message.tag in self.spice.levels.doubted
            self._aim(
                message.tag, Header(header.number + 1, level, level, not (level and is_doubted))
            )
            if level > self.spice.levels.depth:
                self.surface.send(DepthIs(Way(WHOLE), level))
