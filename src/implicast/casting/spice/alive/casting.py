"""Casting on a living surface: every branch covered, every notification confirmed (thesis section 8.1.3, Listing 12).

A cast goes to the nearest place where a copy of the deepest level could be; a root that is not ready passes it to the
next lower level; the original root is always ready. The publisher knows the end: when everything is covered, everybody
who was found has confirmed, or was silent through all patience.
"""

from collections import deque
from functools import lru_cache

import msgspec

from implicast.casting.spice.alive.keeper import arrives
from implicast.casting.spice.alive.messages import CastTo, Notified, Patience
from implicast.casting.spice.alive.registry import Held, Registry, fits
from implicast.casting.spice.alive.settings import (
    BRANCH_US,
    CAST_US,
    NOTIFY_LONGEST_US,
    NOTIFY_TRIES,
    NOTIFY_US,
    SILENT_TRIES,
    LivingSettings,
)
from implicast.casting.spice.alive.walking import Walk, Walking, Work
from implicast.casting.spice.homes import address_of, nearest_root
from implicast.casting.spice.messages import Notify
from implicast.language.target import Target
from implicast.overlay.ice.alive.estate import Way
from implicast.peer.contract import Address, CastId, Host, handles
from implicast.peer.events import Refused, Settled
from implicast.space.morton import Place, box
from implicast.space.tract import EMPTY, Tract, prefixes

WINDOW = 256

TELLING_MAX = 65_536
"""Notifications that await confirmation at one peer; further ones are sent once and not waited for."""
SILENT_MAX = 4_096
"""Consumers that did not answer lately, remembered; the one noted first is forgiven first."""
CENTRES_REMEMBERED = 1 << 14
WAITING_MAX = 4_096
"""Casts of ours that wait until earlier ones have ended; further ones are refused."""


@lru_cache(CENTRES_REMEMBERED)
def centre_of(tract: Tract, dimensions: int) -> Place:
    """The middle of the largest aligned piece of a tract, in half units; the same few are asked for at every cast."""
    low, high = box(*min(prefixes(tract), key=lambda piece: piece[1]), dimensions)
    return tuple(one + other for one, other in zip(low, high, strict=True))


class Telling:
    """One notification and the works that wait for it."""

    __slots__ = ("notify", "tries", "wait_us", "works")

    def __init__(self, notify: Notify, work: Work, tries: int) -> None:
        self.notify, self.works, self.tries, self.wait_us = notify, [work], tries, NOTIFY_US


class Casting(Walking):
    """The verb `cast`, and a peer's part in the casts of others."""

    __slots__ = ("_silent", "_telling", "_unfinished", "_waiting", "publishing")

    def __init__(self, address: Address, host: Host, settings: LivingSettings) -> None:
        super().__init__(address, host, settings)
        self._telling: dict[tuple[CastId, Address], Telling] = {}
        self._silent: dict[Address, None] = {}
        self.publishing: dict[int, Work] = {}
        """Our own casts that have not ended, by serial."""
        self._unfinished: dict[int, None] = {}
        self._waiting: deque[tuple[CastId, Target, bytes]] = deque()

    # --- publishing

    def cast(self, target: Target, payload: bytes) -> CastId:
        cast = self.next_cast()
        if not all(term.has for term in target.terms):
            self.host.deliver(Refused("cast", "a term without a positive tag has no rendezvous"))
        elif len(self._waiting) >= WAITING_MAX:
            self.host.deliver(Refused("cast", f"{WAITING_MAX} casts wait for earlier ones to end"))
        else:
            self._unfinished[cast.serial] = None
            self._waiting.append((cast, target, payload))
            self._publish_next()
        return cast

    def _publish_next(self) -> None:
        """Serials more than a window apart are never under way together: consumers could not tell repeats then."""
        while self._waiting and self._waiting[0][0].serial < next(iter(self._unfinished)) + WINDOW:
            self._publish(*self._waiting.popleft())

    def _publish(self, cast: CastId, target: Target, payload: bytes) -> None:
        first = CastTo(Way(EMPTY), cast, target, 0, "", 0, 0, 0, payload, self.address, 0)
        work = self.publishing[cast.serial] = Work(first, EMPTY, self.host.now_us)
        self.host.after(BRANCH_US, Patience(cast.serial))
        for term, conjunction in enumerate(target.terms):
            branch = msgspec.structs.replace(first, term=term, tag=conjunction.has[0])
            self._look(work, branch, self.settings.deepest)
        self.close_one(work)

    @handles(Patience)
    def on_patience(self, alarm: Patience) -> None:
        work = self.publishing.get(alarm.serial)
        if work is not None:
            self.host.after(BRANCH_US, alarm)
            if self.host.now_us - work.begun_us > CAST_US:
                self.give_up(work)

    def finished(self, work: Work) -> None:
        super().finished(work)
        self._ended(work, work.silent)

    def abandoned(self, work: Work) -> None:
        super().abandoned(work)
        self._ended(work, max(1, work.silent))

    def _ended(self, work: Work, silent: int) -> None:
        walk = work.walk
        if isinstance(walk, CastTo) and self.publishing.get(walk.cast.serial) is work:
            del self.publishing[walk.cast.serial], self._unfinished[walk.cast.serial]
            self.host.deliver(Settled(walk.cast, work.told, silent))
            self._publish_next()

    # --- finding a registry

    def _look(self, work: Work, walk: CastTo, level: int) -> None:
        """Send a cast to the nearest root of a level, as a branch of a work."""
        root = self._nearest(walk.tag, level)
        there = msgspec.structs.replace(walk, way=Way((root, root + 1)), level=level, root=root, notch=0)
        self.branch(work, there, 0, EMPTY)

    def _nearest(self, tag: str, level: int) -> int:
        address = address_of(tag)
        centre = self._centre() if level else None
        return nearest_root(address, level, centre) if centre is not None else address

    def _centre(self) -> Place | None:
        """The middle of our largest piece, in half units."""
        tract = self.surface.tract
        return centre_of(tract, self.settings.dimensions) if tract else None

    def is_ready(self, tag: str, root: int) -> bool:
        """May casts stop at this root of ours?"""
        state = self.roots.get((tag, root))
        return root == address_of(tag) or (state is not None and state.ready)

    @handles(CastTo)
    def on_cast(self, sender: Address, cast: CastTo) -> None:
        self.surface.carry(sender, cast)

    @arrives(CastTo)
    def _cast_arrived(self, part: Tract, cast: CastTo) -> None:
        self.walk_arrived(part, cast)

    def begin(self, work: Work, walk: Walk, part: Tract) -> None:
        if isinstance(walk, CastTo) and walk.notch == 0:
            while not self.is_ready(walk.tag, walk.root):
                root = self._nearest(walk.tag, walk.level - 1)
                if not self.surface.answers(root):
                    self._look(work, walk, walk.level - 1)
                    return
                walk = work.walk = msgspec.structs.replace(walk, level=walk.level - 1, root=root)
            part = (walk.root, walk.root + 1)
            self.count_cast(walk.tag, walk.root)
        super().begin(work, walk, part)

    def count_cast(self, tag: str, root: int) -> None:
        """A cast has come to a root of ours (`replicating.py`)."""

    # --- notifying

    def visit(self, work: Work, walk: Walk, registry: Registry, part: Tract) -> None:
        super().visit(work, walk, registry, part)
        if isinstance(walk, CastTo):
            for consumer in registry.selected(walk.target, walk.term, part, self.host.now_us):
                self._tell(work, walk, consumer)

    def show(self, work: Work, registry: Registry, held: Held) -> None:
        super().show(work, registry, held)
        walk = work.walk
        if isinstance(walk, CastTo) and fits(held, walk.target, walk.term, self.host.now_us):
            self._tell(work, walk, held.entry.consumer)

    def _tell(self, work: Work, walk: CastTo, consumer: Address) -> None:
        if consumer == self.address:
            self.inbox.take(walk.cast, walk.target, walk.payload)
            work.told += 1
            return
        telling = self._telling.get((walk.cast, consumer))
        if telling is not None:
            if work not in telling.works:
                telling.works.append(work)
                work.open += 1
            return
        notify = Notify(walk.cast, walk.target, walk.payload)
        if len(self._telling) < TELLING_MAX:
            tries = SILENT_TRIES if consumer in self._silent else NOTIFY_TRIES
            self._telling[walk.cast, consumer] = Telling(notify, work, tries)
            work.open += 1
            self._notify(consumer, walk.cast)
        else:
            self.host.send(consumer, notify)

    def _notify(self, consumer: Address, cast: CastId) -> None:
        telling = self._telling.get((cast, consumer))
        if telling is None:
            return
        if not telling.tries:
            self._silent[consumer] = None
            if len(self._silent) > SILENT_MAX:
                del self._silent[next(iter(self._silent))]
            self._told(cast, consumer, False)
            return
        telling.tries -= 1
        self.host.send(consumer, telling.notify)
        self.later(telling.wait_us, lambda: self._notify(consumer, cast))
        telling.wait_us = min(2 * telling.wait_us, NOTIFY_LONGEST_US)

    def _told(self, cast: CastId, consumer: Address, answered: bool) -> None:
        telling = self._telling.pop((cast, consumer), None)
        for work in telling.works if telling is not None else ():
            work.told += answered
            work.silent += not answered
            self.close_one(work)

    @handles(Notified)
    def on_notified(self, sender: Address, notified: Notified) -> None:
        self._silent.pop(sender, None)
        self._told(notified.cast, sender, True)

    @handles(Notify)
    def on_notify(self, sender: Address, notify: Notify) -> None:
        self.inbox.take(notify.cast, notify.target, notify.payload)
        self.host.send(sender, Notified(notify.cast))
