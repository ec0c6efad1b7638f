"""Replication measured live: busy roots have a tag's level raised, idle ones have it lowered unless another objects.

Thesis section 8.1.2, with an order of steps that is safe while registrations, casts and crashes go on. The original
root leads and keeps a header (level, target, ready) at its heirs; whoever takes over its place goes on from there.

- Raise: target = level + 1; from then on registrations go to the new roots too; then a walk acknowledged by coverage
  copies the whole registry; then the new level answers, and its roots are told that they are ready until all confirm.
- Lower: all roots are asked; a veto, or silence, ends it. Else the roots of the deeper level are told that they are not
  ready until all confirm; only then do registrations to them cease. Their records run out.

Ready is granted after updates have begun and withdrawn before they cease: a ready root has every complete registration.
"""

from functools import partial

from implicast.casting.spice.alive.calling import Calling
from implicast.casting.spice.alive.closing import SWEEPS
from implicast.casting.spice.alive.items import Header, RootState, header_item, root_item
from implicast.casting.spice.alive.keeper import arrives
from implicast.casting.spice.alive.messages import AskVeto, CopyFrom, RateAt, ReadyAt
from implicast.casting.spice.alive.registry import Held, Registry
from implicast.casting.spice.alive.settings import HOLD_WINDOWS, STORE_US, VETO_US, LivingSettings
from implicast.casting.spice.alive.walking import Walk, Work
from implicast.casting.spice.homes import address_of
from implicast.overlay.ice.estate import Way
from implicast.peer.contract import Address, Host, handles
from implicast.space.tract import EMPTY, Tract, intervals, union

BUSY_WINDOWS, IDLE_WINDOWS = 2, 4
"""A level is raised after so many busy windows in a row, and its lowering proposed after so many idle ones."""
RATES_MAX = 4_096
"""Roots whose casts are counted; further ones are not."""


class Rate:
    """How often casts come to one root."""

    __slots__ = ("busy", "count", "idle", "per_s")

    def __init__(self) -> None:
        self.count = self.busy = self.idle = 0
        self.per_s = 0.0


class Replicating(Calling):
    """A peer's part in raising and lowering levels."""

    __slots__ = ("_hold_us", "_rates", "_resting", "_ticking", "raising")

    def __init__(self, address: Address, host: Host, settings: LivingSettings) -> None:
        super().__init__(address, host, settings)
        self._rates: dict[tuple[str, int], Rate] = {}
        self._ticking = False
        self._hold_us: dict[str, int] = {}
        """Tags whose level is not to be lowered before that time."""
        self.raising: dict[str, Work] = {}
        self._resting: dict[tuple[str, int], int] = {}
        """Roots that are not ready, and for how many sweeps."""

    # --- measuring

    def count_cast(self, tag: str, root: int) -> None:
        if self.settings.frequency_limit <= 0:
            return
        rate = self._rates.get((tag, root))
        if rate is None and len(self._rates) < RATES_MAX:
            rate = self._rates[tag, root] = Rate()
        if rate is not None:
            rate.count += 1
        self._tick_later()

    def _tick_later(self) -> None:
        if not self._ticking and self.settings.frequency_limit > 0:
            self._ticking = True
            self.later(self.settings.rate_us, self._tick)

    def _tick(self) -> None:
        """The end of a window."""
        self._ticking = False
        for (tag, root), rate in list(self._rates.items()):
            if not self.surface.answers(root) or not self.is_ready(tag, root):
                del self._rates[tag, root]
                continue
            rate.per_s = (rate.per_s + rate.count * 1e6 / self.settings.rate_us) / 2
            rate.count = 0
            self._weigh(tag, root, rate)
            if rate.per_s < 1e-9 and root == address_of(tag) and not self.header(tag).goal:
                del self._rates[tag, root]
        if self._rates:
            self._tick_later()

    def _weigh(self, tag: str, root: int, rate: Rate) -> None:
        limit = self.settings.frequency_limit
        rate.busy = rate.busy + 1 if rate.per_s > limit else 0
        rate.idle = rate.idle + 1 if rate.per_s < limit / 2 ** (self.settings.dimensions + 1) else 0
        state = self.roots.get((tag, root), RootState(0, 0, False))
        if rate.busy >= BUSY_WINDOWS or (rate.idle >= IDLE_WINDOWS and (state.level or self.header(tag).level)):
            busy = rate.busy > 0
            rate.busy = rate.idle = 0
            address = address_of(tag)
            self.surface.send(RateAt(Way((address, address + 1)), tag, busy, state.number, state.level))

    @handles(RateAt)
    def on_rate(self, sender: Address, rate: RateAt) -> None:
        self.surface.carry(sender, rate)

    @arrives(RateAt)
    def _rate_arrived(self, part: Tract, rate: RateAt) -> None:
        header = self.header(rate.tag)
        if rate.number > header.number:  # ours was lost with its heirs: the roots remember
            header = Header(rate.number, rate.level, rate.level, True)
            self.headers[rate.tag] = header
        if not header.ready or header.level != header.target:
            self._go_on(rate.tag)
        elif rate.busy and header.level < self.settings.deepest:
            self._aim(rate.tag, header._replace(number=header.number + 1, target=header.level + 1, ready=False))
        elif not rate.busy and header.level and self._hold_us.get(rate.tag, 0) <= self.host.now_us:
            self._ask_veto(rate.tag, header.level)

    def _aim(self, tag: str, header: Header) -> None:
        """A new header; it holds once heirs know."""
        self.aims[tag] = header
        self.surface.batch((header_item(tag, header),), partial(self._aimed, tag, header))

    def _aimed(self, tag: str, header: Header) -> None:
        self.aims.pop(tag, None)
        if header.number >= self.header(tag).number and self.surface.answers(address_of(tag)):
            self.headers[tag] = header
            self._go_on(tag)

    def settled(self) -> None:
        """Whoever takes over the place of an original root goes on where its predecessor stopped."""
        super().settled()
        for tag, header in list(self.headers.items()):
            if not header.ready or header.level != header.target:
                self._go_on(tag)
        if self.roots:
            for tag, root in self.roots:
                if self.is_ready(tag, root) and len(self._rates) < RATES_MAX:
                    self._rates.setdefault((tag, root), Rate())
            self._tick_later()

    def register_again(self, lost: Tract) -> None:
        """Replicas may have been lost with that ground: copy to them again."""
        super().register_again(lost)
        for tag, header in list(self.headers.items()):
            settled = header.level == header.target and header.ready and tag not in self.raising
            if settled and header.goal and self.surface.answers(address_of(tag)):
                self._copy(tag, header)

    def swept(self) -> None:
        """A root that has not been ready for a whole lease has nothing to remember."""
        super().swept()
        resting = [each for each, state in self.roots.items() if not state.ready]
        self._resting = {each: self._resting.get(each, 0) + 1 for each in resting}
        for each in [one for one, sweeps in self._resting.items() if sweeps > SWEEPS]:
            del self.roots[each], self._resting[each]

    def _go_on(self, tag: str) -> None:
        """The next step of a raise or a lowering, unless it is under way."""
        header, address = self.header(tag), address_of(tag)
        if not self.surface.answers(address) or tag in self.raising or self.is_calling(tag):
            return
        if header.target > header.level:
            self._copy(tag, header)
        elif header.target < header.level:
            self._call_roots(tag, header, header.level, False)
        elif not header.ready:
            self._call_roots(tag, header, header.level, True)

    # --- raising

    def new_roots(self, tag: str, level: int) -> list[int]:
        """Roots of a level that are not roots of the level below."""
        return sorted(set(self.roots_at(tag, level)) - set(self.roots_at(tag, level - 1)))

    def _copy(self, tag: str, header: Header) -> None:
        root = address_of(tag)
        walk = CopyFrom(Way((root, root + 1)), tag, root, 0, header.target, self.address, self.token(), self.address, 0)
        work = self.raising[tag] = Work(walk, EMPTY, self.host.now_us)
        self.branch(work, walk, 0, EMPTY)
        self.close_one(work)

    @handles(CopyFrom)
    def on_copy_from(self, sender: Address, walk: CopyFrom) -> None:
        self.surface.carry(sender, walk)

    @arrives(CopyFrom)
    def _copy_from_arrived(self, part: Tract, walk: CopyFrom) -> None:
        self.walk_arrived(part, walk)

    def visit(self, work: Work, walk: Walk, registry: Registry, part: Tract) -> None:
        super().visit(work, walk, registry, part)
        if isinstance(walk, CopyFrom):
            entries = [each.entry for each in registry.within(part)]
            if entries:
                self.copy_out(work, walk.tag, entries, self.new_roots(walk.tag, walk.level))

    def show(self, work: Work, registry: Registry, held: Held) -> None:
        super().show(work, registry, held)
        if isinstance(work.walk, CopyFrom):
            self.copy_out(work, work.walk.tag, [held.entry], self.new_roots(work.walk.tag, work.walk.level))

    def finished(self, work: Work) -> None:
        super().finished(work)
        tag = work.walk.tag
        if isinstance(work.walk, CopyFrom) and self.raising.get(tag) is work:
            del self.raising[tag]
            header = self.header(tag)
            if header.target == work.walk.level:
                self._aim(tag, Header(header.number + 1, header.target, header.target, False))

    def abandoned(self, work: Work) -> None:
        super().abandoned(work)
        if isinstance(work.walk, CopyFrom) and self.raising.get(work.walk.tag) is work:
            del self.raising[work.walk.tag]
            self.later(STORE_US, partial(self._go_on, work.walk.tag))

    # --- telling roots

    def _call_roots(self, tag: str, header: Header, level: int, ready: bool) -> None:
        roots = union((each, each + 1) for each in self.new_roots(tag, level))
        self.call(ReadyAt(Way(roots), tag, header.number, level, ready, self.address, self.token()))

    def _ask_veto(self, tag: str, level: int) -> None:
        self._hold_us = {each: until_us for each, until_us in self._hold_us.items() if until_us > self.host.now_us}
        self._hold_us[tag] = self.host.now_us + HOLD_WINDOWS * self.settings.rate_us
        roots = union((each, each + 1) for each in self.roots_at(tag, level))
        token = self.token()
        self.call(AskVeto(Way(roots), tag, self.address, token))
        self.later(VETO_US, partial(self.end_call, token))

    @handles(ReadyAt)
    def on_ready(self, sender: Address, call: ReadyAt) -> None:
        self.surface.carry(sender, call)

    @arrives(ReadyAt)
    def _ready_arrived(self, part: Tract, call: ReadyAt) -> None:
        roots = [root for low, high in intervals(part) for root in range(low, high)]
        for root in roots:
            self.learn_root(call.tag, root, RootState(call.number, call.level, call.ready))
            if self.is_ready(call.tag, root) and len(self._rates) < RATES_MAX:
                self._rates.setdefault((call.tag, root), Rate())
        self._tick_later()
        items = tuple(root_item(call.tag, root, self.roots[call.tag, root]) for root in roots)
        self.surface.batch(items, lambda: self.heard_call(call.reply, call.token, part))

    @handles(AskVeto)
    def on_ask_veto(self, sender: Address, call: AskVeto) -> None:
        self.surface.carry(sender, call)

    @arrives(AskVeto)
    def _veto_arrived(self, part: Tract, call: AskVeto) -> None:
        """We object if the load of all roots that a lowered level would put on one exceeds half the limit."""
        limit, share = self.settings.frequency_limit, 1 << self.settings.dimensions
        rates = [self._rates.get((call.tag, root)) for low, high in intervals(part) for root in range(low, high)]
        veto = any(rate is not None and rate.per_s * share > limit / 2 for rate in rates)
        self.heard_call(call.reply, call.token, part, veto)

    def called_all(self, message: ReadyAt | AskVeto) -> None:
        """Every root has answered: the step is done."""
        header = self.header(message.tag)
        if isinstance(message, AskVeto):
            if header.level and header.level == header.target and header.ready:
                self._aim(message.tag, header._replace(number=header.number + 1, target=header.level - 1, ready=False))
        elif message.number == header.number:
            level = header.target
            self._aim(message.tag, Header(header.number + 1, level, level, True))
