"""Load of replica roots: casts counted in windows, and reports to the original root.

A root that may be busy or idle sends a hint to the original root, which asks the root itself: a
hint is not authenticated, and the question is routed to the owner of the root.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from implicast.casting.spice.homes import address_of
from implicast.casting.spice.items import Level, LevelVersion, RootState, TagMessage
from implicast.casting.spice.levels import Levels
from implicast.casting.spice.part import SpiceTable, Tools
from implicast.casting.spice.pushes import roots_in
from implicast.overlay.ice.item_store import Code, RouteHeader
from implicast.peer.contract import Address, Message, StandingAlarm
from implicast.peer.fields import Token
from implicast.peer.memory import Recent
from implicast.space.tract import Tract

LOADS_MAX = 4_096
"""Maximum number of roots whose casts are counted."""
TOKEN_BITS = 62
IDLE_WINDOWS = 4
"""Number of successive idle windows after which a root counts as idle."""


class LoadHint(TagMessage):
    """A root tells the original root that it may be busy or idle. The hint is not authenticated, so
    the original root asks the root itself (`LoadQuery`).
    """

    wire = 0x0A0C

    root: Code


class LoadQuery(TagMessage):
    """The original root of a tag asks another root for its load. The message is routed to the
    root's owner, so that only that owner learns the token.
    """

    wire = 0x0A11

    reply: Address
    token: Token


class LoadReport(Message):
    """A root's answer: busy (True), idle (False) or neither (None)."""

    wire = 0x0A12

    token: Token
    busy: bool | None
    number: LevelVersion
    level: Level
    """The tag's level as the root knows it, with its version. An original root that lost its header
    recovers it from this.
    """


class RootOverloaded(StandingAlarm):
    """Fires immediately when a root is busy. An alarm separates the cost of raising a level from
    the cast that triggered it.
    """

    tag: str
    root: int


@dataclass(slots=True)
class RootLoad:
    """Casts at one root. Busy is decided at each cast, idle at the end of windows.

    A root is busy when more casts than the limit allows in a window arrive within one window. It is
    idle when its rate stays below the lower limit for `IDLE_WINDOWS` windows. The two limits differ
    by a factor of 2^(d + 1), so that a raised level does not fall at once.
    """

    _count: int = 0
    _idle: int = 0
    _times_us: deque[int] | None = None
    """Times of the last casts, as many as decide. None while empty, since most roots of a deep
    level receive no cast.
    """
    per_s: float = 0.0
    """Exponential average over windows with weight 1/2."""
    finding: bool | None = None
    """The last finding: busy (True), idle (False), or None after it was reported."""

    def is_busy(self, now_us: int, window_us: int, most: int) -> bool:
        """Count a cast. Returns whether the window has more casts than allowed, and then starts
        anew.
        """
        self._count += 1
        times_us = self._times_us = self._times_us or deque()
        times_us.append(now_us)
        if len(times_us) <= most or now_us - times_us.popleft() > window_us:
            return False
        self._times_us, self.finding = None, True
        return True

    def is_idle(self, window_us: int, limit: float) -> bool:
        """End a window. Returns whether the rate has been below the limit for `IDLE_WINDOWS`
        windows.
        """
        if not self._count:
            self._times_us = None  # all casts are older than a window
        self.per_s = (self.per_s + self._count * 1e6 / window_us) / 2
        self._count = 0
        self._idle = self._idle + 1 if self.per_s < limit else 0
        if self._idle < IDLE_WINDOWS:
            return False
        self._idle, self.finding = 0, False
        return True

    def take_finding(self) -> bool | None:
        """Return the finding and clear it."""
        finding, self.finding = self.finding, None
        return finding


OnLoad = Callable[[str, int, bool | None, RootState], None]


class RootLoads(SpiceTable):
    """Loads of the local roots."""

    __slots__ = ("_asked", "_levels", "_loads", "_on_load")

    def __init__(self, tools: Tools, levels: Levels, on_load: OnLoad) -> None:
        """`on_load`: called at the original root with the load of one of its roots: busy (True),
        idle (False) or neither (None), and the root's state.
        """
        super().__init__(tools)
        self._levels, self._on_load = levels, on_load
        self._loads: dict[tuple[str, int], RootLoad] = {}
        self._asked: Recent[int, tuple[str, int]] = Recent(LOADS_MAX)
        """By token: tag and root of an open load query."""

    def count_cast(self, tag: str, root: int) -> None:
        load = self._measure(tag, root)
        if load is not None and load.is_busy(
            self.host.now_us, self.settings.rate_us, self.settings.casts_most
        ):
            self.host.after(0, RootOverloaded(tag, root))
        self._schedule_window_end()

    def _measure(self, tag: str, root: int) -> RootLoad | None:
        load = self._loads.get((tag, root))
        if load is None and len(self._loads) < LOADS_MAX:
            load = self._loads[tag, root] = RootLoad()
        return load

    def _schedule_window_end(self) -> None:
        if self.settings.live:
            self.timer_wheel.schedule_once(self.settings.rate_us, self.end_window)

    def measure_ready(self, tag: str, root: int) -> None:
        """A ready root is measured, so that it reports when it is idle."""
        if self._levels.is_ready(tag, root):
            self._measure(tag, root)

    def start_window(self) -> None:
        self._schedule_window_end()

    def end_window(self) -> None:
        """Report idle roots to their original roots."""
        limit = self.settings.frequency_limit / 2 ** (self.settings.dimensions + 1)
        for (tag, root), load in list(self._loads.items()):
            if not self.surface.answers(root) or not self._levels.is_ready(tag, root):
                del self._loads[tag, root]
                continue
            idle = load.is_idle(self.settings.rate_us, limit)
            level = self._levels.header(tag).goal
            if idle and (level or self._levels.state(tag, root).level):
                self.report(tag, root, busy=False)
            if load.per_s < 1e-9 and root == address_of(tag) and not level:
                del self._loads[tag, root]
        if self._loads:
            self._schedule_window_end()

    def report(self, tag: str, root: int, busy: bool) -> None:
        """Report to the original root, which may be local."""
        address = address_of(tag)
        if self.surface.answers(address):
            self._on_load(tag, root, busy, self._levels.state(tag, root))
        else:
            self.surface.send(LoadHint(RouteHeader((address, address + 1)), tag, root))

    def on_hint(self, load: LoadHint) -> None:
        """A root may be busy or idle: ask the root itself."""
        if load.root != address_of(load.tag) and self.settings.is_root(load.tag, load.root):
            token = self.host.rng.getrandbits(TOKEN_BITS)
            self._asked.put(token, (load.tag, load.root))
            way = RouteHeader((load.root, load.root + 1))
            self.surface.send(LoadQuery(way, load.tag, self.address, token))

    def on_query(self, part: Tract, ask: LoadQuery) -> None:
        """Answer with the load of a local root."""
        for root in roots_in(self.settings, ask.tag, part) if ask.reply != self.address else ():
            load, state = self._loads.get((ask.tag, root)), self._levels.state(ask.tag, root)
            busy = load.take_finding() if load is not None else None
            self.host.send(ask.reply, LoadReport(ask.token, busy, state.number, state.level))

    def on_report(self, load: LoadReport) -> None:
        tag, root = self._asked.pop(load.token, (None, 0))
        if tag is not None and self.surface.answers(address_of(tag)):
            self._on_load(tag, root, load.busy, RootState(load.number, load.level, True))

    def exceeds(self, tag: str, part: Tract, limit: float) -> bool:
        """Whether a root of the tag in this part receives more casts per second than the limit."""
        found = [self._loads.get((tag, root)) for root in roots_in(self.settings, tag, part)]
        return any(load is not None and load.per_s > limit for load in found)
