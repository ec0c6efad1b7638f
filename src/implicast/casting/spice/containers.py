"""Full registries close: what they keep goes to the next notch (thesis section 8.1.1, Listing 10).

Heirs know first: the closed part is backed up before anything is passed up by it. Then every record in it is sent to
its home above, and kept and answered from until that is confirmed. A mover deletes its copy only when the confirmation
says that the record is kept at *another* notch; if it came back to ours, the move has lapsed.
"""

from collections.abc import Sequence
from functools import partial

from implicast.casting.spice.items import Key
from implicast.casting.spice.messages import Entry, StoredAt
from implicast.casting.spice.registry import Registry
from implicast.casting.spice.share import Repeated, Spice, SpicePart
from implicast.casting.spice.stores import RISING
from implicast.peer.contract import Message, handles
from implicast.space.tract import Tract, container, contains, intersect, within

CLOSING_US = 10_000_000
"""A closing that heirs have not confirmed in this time may be tried again."""
SWEEPS = 10
"""So many times in a lease one looks for records that have run out."""


class RiseAgain(Message):
    """Rings when records that go up should have been confirmed."""

    tag: str
    root: int
    notch: int


class Sweep(Message):
    """Rings ten times in a lease: forget what has run out."""


class Containers(SpicePart):
    """A peer's part in spreading large registries, and in forgetting."""

    __slots__ = ("_risings", "_sweeping")

    def __init__(self, spice: Spice) -> None:
        super().__init__(spice)
        self._risings: dict[Key, Repeated] = {}
        """Registries whose records go up."""
        self._sweeping = False

    def stand(self, key: Key, records: Sequence[Entry], closed: bool) -> None:
        """What a registry has from the start: records, or a closed part through which these went up."""
        shelf = self.spice.shelf
        if closed:
            shelf.close(key, intersect(container(key[1], key[2], self.settings.dimensions), self.surface.ground))
            if self.settings.rarest and not key[2]:
                shelf.registry(key).pass_by(len(records))
            return
        shelf.stand(key, records)
        self._sweep_later()

    # --- closing

    def kept(self, key: Key, registry: Registry) -> None:
        self._sweep_later()
        self.close_if_crowded(key, registry)

    def close_if_crowded(self, key: Key, registry: Registry) -> None:
        if len(registry.records) <= self.settings.storage_limit:
            return
        if key[2] == self.settings.last_notch or self.spice.shelf.is_closing(key):
            return
        count = registry.living()
        if count > self.settings.storage_limit:
            self._close(key, count)

    def _close(self, key: Key, count: int) -> None:
        """This registry, and those above it that would be too full at once and lie wholly on our ground."""
        tag, root, notch = key
        tracts: dict[Key, Tract] = {}
        while count > self.settings.storage_limit and notch < self.settings.last_notch:
            inside = container(root, notch, self.settings.dimensions)
            if tracts and not within(inside, self.surface.ground):
                break
            tracts[tag, root, notch] = intersect(inside, self.surface.ground)
            notch = self.settings.above(notch)
            above = self.spice.shelf.registries.get((tag, root, notch))
            count += above.living() if above is not None else 0
        items = self.spice.shelf.close_soon(tracts, self.host.now_us + CLOSING_US)
        self.surface.batch(items, partial(self._shut, tracts))

    def _shut(self, tracts: dict[Key, Tract]) -> None:
        """Heirs know: close, and let the records go up."""
        for key, tract in tracts.items():
            self.spice.shelf.close(key, intersect(tract, self.surface.tract))
        for key in tracts:
            self.rise(key)

    # --- rising

    def rise(self, key: Key) -> None:
        """Send up what lies in the closed part, unless that is under way."""
        if key not in self._risings:
            self._risings[key] = Repeated()
            self._rise(key)

    def _rise(self, key: Key) -> None:
        registry = self.spice.shelf.registries.get(key)
        rising = registry.rising() if registry is not None else []
        if not rising:
            del self._risings[key]
            return
        if self.settings.assured:
            self.spice.later.put(self._risings[key].wait_longer(), RiseAgain(*key))
        else:
            del self._risings[key]
        ours = [each.entry for each in rising if self.surface.answers(each.home)]
        self.spice.stores.take(*key, ours, (self.address, RISING, key[2]))

    @handles(RiseAgain)
    def on_rise_again(self, alarm: RiseAgain) -> None:
        key = (alarm.tag, alarm.root, alarm.notch)
        if key in self._risings:
            self._rise(key)

    def stop_rising(self, key: Key) -> None:
        """Moves from this registry lapse."""
        self._risings.pop(key, None)

    def stored(self, stored: StoredAt) -> None:
        """What another notch has may go; a late word must not delete what has been drawn down again (`passing`)."""
        key = (stored.tag, stored.root, stored.notch)
        for consumer, version, at in stored.kept:
            held = self.spice.shelf.held(key, consumer)
            if held is None or at == stored.notch or held.entry.version > version:
                continue
            if contains(self.spice.shelf.registries[key].passing, held.home) and self.surface.answers(held.home):
                self.spice.shelf.forget(key, held)

    def settled(self) -> None:
        """The ground has changed: what lies in closed parts of new ground goes up."""
        for key, registry in self.spice.shelf.all():
            if registry.closed:
                self.rise(key)
            self.close_if_crowded(key, registry)
        self._sweep_later()

    # --- forgetting

    def _sweep_later(self) -> None:
        if not self._sweeping and self.settings.assured:
            self._sweeping = True
            self.spice.later.put(self.settings.lease_us // SWEEPS, Sweep())

    @handles(Sweep)
    def on_sweep(self, alarm: Sweep) -> None:
        """Forget records whose consumers have not renewed them; tombstones go the same way."""
        self._sweeping = False
        now_us = self.host.now_us
        for key, registry in self.spice.shelf.all():
            for held in registry.run_out(now_us):
                if self.surface.answers(held.home):
                    self.spice.shelf.forget(key, held)
        if self.settings.live:
            self.spice.replicas.swept()
        if self.spice.shelf.registries:
            self._sweep_later()
