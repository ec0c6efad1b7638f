"""Full registries close: what they keep goes to the next notch (thesis section 8.1.1, Listing 10).

Heirs know first: the closed part is backed up before anything is passed up by it. Then every record in it is sent to
its home above, and kept and answered from until that is confirmed. A mover deletes its copy only when the confirmation
says that the record is kept at *another* notch; if it came back to ours, the move has lapsed.
"""

from functools import partial
from typing import Protocol

from implicast.casting.spice.later import Later
from implicast.casting.spice.messages import RiseAgain, StoredAt, Sweep
from implicast.casting.spice.registry import Held, Key, Registry
from implicast.casting.spice.settings import STORE_US, WAIT_LONGEST_US, Settings
from implicast.casting.spice.shelf import Shelf
from implicast.casting.spice.stores import Stores
from implicast.overlay.ice.alive.ice import LivingIce
from implicast.peer.contract import Address, Host, Part, handles
from implicast.space.tract import Tract, container, contains, intersect, unite, within

CLOSING_US = 10_000_000
"""A closing that heirs have not confirmed in this time may be tried again."""
SWEEPS = 10
"""So many times in a lease one looks for records that have run out."""


class Rising:
    """The records of one closed part, on their way up."""

    __slots__ = ("key", "wait_us")

    def __init__(self, key: Key) -> None:
        self.key, self.wait_us = key, STORE_US


class Sweeper(Protocol):
    """Whoever forgets when others do."""

    def swept(self) -> None:
        """Another tenth of a lease has passed."""


class Containers(Part):
    """A peer's part in spreading large registries, and in forgetting."""

    __slots__ = ("_risings", "_settings", "_shelf", "_stores", "_surface", "_sweeper", "_sweeping", "later")

    def __init__(
        self, address: Address, host: Host, settings: Settings, shelf: Shelf, surface: LivingIce, stores: Stores,
        later: Later,
    ) -> None:  # fmt: skip
        super().__init__(address, host)
        self._settings, self._shelf, self._surface, self._stores = settings, shelf, surface, stores
        self.later = later
        self._risings: dict[int, Rising] = {}
        self._sweeping = False

    def meet(self, sweeper: Sweeper) -> None:
        self._sweeper = sweeper

    # --- closing

    def kept(self, key: Key, registry: Registry, held: Held) -> None:
        if not self._sweeping:
            self._sweep_later()
        self.close_if_crowded(key, registry)

    def close_if_crowded(self, key: Key, registry: Registry) -> None:
        if len(registry.records) <= self._settings.storage_limit:
            return
        if key[2] == self._settings.last_notch or self._shelf.is_closing(key):
            return
        count = registry.living()
        if count > self._settings.storage_limit:
            self._close(key, count)

    def _close(self, key: Key, count: int) -> None:
        """This registry, and those above it that would be too full at once and lie wholly on our ground."""
        tag, root, notch = key
        tracts: dict[Key, Tract] = {}
        while count > self._settings.storage_limit and notch < self._settings.last_notch:
            inside = container(root, notch, self._settings.dimensions)
            if tracts and not within(inside, self._surface.ground):
                break
            tracts[tag, root, notch] = intersect(inside, self._surface.ground)
            notch = self._settings.above(notch)
            above = self._shelf.registries.get((tag, root, notch))
            count += above.living() if above is not None else 0
        items = self._shelf.close_soon(tracts, self.host.now_us + CLOSING_US)
        self._surface.batch(items, partial(self._shut, tracts))

    def _shut(self, tracts: dict[Key, Tract]) -> None:
        """Heirs know: close, and let the records go up."""
        for key, tract in tracts.items():
            self._shelf.close(key, intersect(tract, self._surface.tract))
        for key in tracts:
            self.rise(key)

    # --- rising

    def rise(self, key: Key) -> None:
        """Send up what lies in the closed part, unless that is under way."""
        if not any(each.key == key for each in self._risings.values()):
            registry = self._shelf.registries.get(key)
            if registry is not None and registry.closed and registry.rising():
                token = self._stores.token()
                self._risings[token] = Rising(key)
                self._rise(token)

    @handles(RiseAgain)
    def on_rise_again(self, alarm: RiseAgain) -> None:
        self._rise(alarm.token)

    def _rise(self, token: int) -> None:
        rising = self._risings.get(token)
        if rising is None:
            return
        registry = self._shelf.registries.get(rising.key)
        entries = registry.rising() if registry is not None else []
        if not entries:
            del self._risings[token]
            return
        tag, root, notch = rising.key
        self.later.put(rising.wait_us, RiseAgain(token))
        rising.wait_us = min(2 * rising.wait_us, WAIT_LONGEST_US)
        assert registry is not None
        ours = [each for each in entries if self._surface.answers(registry.records[each.consumer].home)]
        self._stores.take(tag, root, notch, ours, (self.address, token, notch))

    def stop_rising(self, key: Key) -> None:
        """Moves from this registry lapse: a late confirmation of one must not delete what has come down again."""
        self._risings = {token: each for token, each in self._risings.items() if each.key != key}

    def stored(self, stored: StoredAt) -> bool:
        """Is this about a rising of ours? Then what the next notch has may go."""
        rising = self._risings.get(stored.token)
        if rising is None:
            return False
        registry = self._shelf.registries.get(rising.key)
        for consumer, version, at in stored.kept:
            held = registry.records.get(consumer) if registry is not None else None
            if registry is None or held is None or at == registry.notch or held.entry.version > version:
                continue
            if contains(registry.passing, held.home) and self._surface.answers(held.home):
                self._shelf.forget(rising.key, held)
        return True

    def settled(self) -> None:
        """The ground has changed: what lies in closed parts of new ground goes up."""
        for key, registry in self._shelf.all():
            if registry.closed:
                self.rise(key)
            self.close_if_crowded(key, registry)
        self._sweep_later()

    # --- forgetting

    def _sweep_later(self) -> None:
        if not self._sweeping:
            self._sweeping = True
            self.later.put(self._settings.lease_us // SWEEPS, Sweep())

    @handles(Sweep)
    def on_sweep(self, alarm: Sweep) -> None:
        """Forget records whose consumers have not renewed them; tombstones go the same way."""
        self._sweeping = False
        now_us = self.host.now_us
        for key, registry in self._shelf.all():
            for held in registry.run_out(now_us):
                if self._surface.answers(held.home):
                    self._shelf.forget(key, held)
        self._sweeper.swept()
        if self._shelf.registries:
            self._sweep_later()
