"""Full registries close: what they keep goes to the next notch (thesis section 8.1.1, Listing 10).

Heirs know first: the closed part is backed up before anything is passed up by it. Then every record in it is sent to
its home above, and kept and answered from until that is confirmed. A mover deletes its copy only when the confirmation
says that the record is kept at *another* notch; if it came back to ours, the move has lapsed.
"""

from implicast.casting.spice.alive.items import closed_item
from implicast.casting.spice.alive.messages import StoredAt
from implicast.casting.spice.alive.registry import Held, Key, Registry
from implicast.casting.spice.alive.settings import STORE_US, WAIT_LONGEST_US, LivingSettings
from implicast.casting.spice.alive.storing import Storing
from implicast.peer.contract import Address, Host, handles
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


class Closing(Storing):
    """A peer's part in spreading large registries, and in forgetting."""

    __slots__ = ("_risings", "_sweeping")

    def __init__(self, address: Address, host: Host, settings: LivingSettings) -> None:
        super().__init__(address, host, settings)
        self._risings: dict[int, Rising] = {}
        self._sweeping = False

    # --- closing

    def kept(self, key: Key, registry: Registry, held: Held) -> None:
        super().kept(key, registry, held)
        if not self._sweeping:
            self._sweep_later()
        self._close_if_crowded(key, registry)

    def _close_if_crowded(self, key: Key, registry: Registry) -> None:
        if len(registry.records) <= self.settings.storage_limit:
            return
        if key[2] == self.settings.last_notch or self.closing.get(key, (0,))[0] > self.host.now_us:
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
            above = self.registries.get((tag, root, notch))
            count += above.living() if above is not None else 0
        now_us = self.host.now_us
        self.closing = {each: soon for each, soon in self.closing.items() if soon[0] > now_us}
        self.closing.update({each: (now_us + CLOSING_US, tract) for each, tract in tracts.items()})
        items = tuple(closed_item(each, self.closed_soon(each)) for each in tracts)
        self.surface.batch(items, lambda: self._shut(tracts))

    def _shut(self, tracts: dict[Key, Tract]) -> None:
        """Heirs know: close, and let the records go up."""
        for key, tract in tracts.items():
            self.closing.pop(key, None)
            if closing := intersect(tract, self.surface.tract):
                registry = self.registry(key)
                registry.shut(unite(registry.closed, closing))
        for key in tracts:
            self.rise(key)

    # --- rising

    def rise(self, key: Key) -> None:
        """Send up what lies in the closed part, unless that is under way."""
        if not any(each.key == key for each in self._risings.values()):
            registry = self.registries.get(key)
            if registry is not None and registry.closed and registry.rising():
                token = self.token()
                self._risings[token] = Rising(key)
                self._rise(token)

    def _rise(self, token: int) -> None:
        rising = self._risings.get(token)
        if rising is None:
            return
        registry = self.registries.get(rising.key)
        entries = registry.rising() if registry is not None else []
        if not entries:
            del self._risings[token]
            return
        tag, root, notch = rising.key
        self.later(rising.wait_us, lambda: self._rise(token))
        rising.wait_us = min(2 * rising.wait_us, WAIT_LONGEST_US)
        assert registry is not None
        ours = [each for each in entries if self.surface.answers(registry.records[each.consumer].home)]
        self.take(tag, root, notch, ours, (self.address, token, notch))

    def stop_rising(self, key: Key) -> None:
        """Moves from this registry lapse: a late confirmation of one must not delete what has come down again."""
        self._risings = {token: each for token, each in self._risings.items() if each.key != key}

    @handles(StoredAt)
    def on_stored(self, sender: Address, stored: StoredAt) -> None:
        rising = self._risings.get(stored.token)
        if rising is None:
            super().on_stored(sender, stored)
            return
        registry = self.registries.get(rising.key)
        for consumer, version, at in stored.kept:
            held = registry.records.get(consumer) if registry is not None else None
            if registry is None or held is None or at == registry.notch or held.entry.version > version:
                continue
            if contains(registry.passing, held.home) and self.surface.answers(held.home):
                self.forget(rising.key, held)

    def settled(self) -> None:
        super().settled()
        for key, registry in self._registries():
            if registry.closed:
                self.rise(key)
            self._close_if_crowded(key, registry)
        self._sweep_later()

    # --- forgetting

    def _sweep_later(self) -> None:
        if not self._sweeping:
            self._sweeping = True
            self.later(self.settings.lease_us // SWEEPS, self._sweep)

    def swept(self) -> None:
        """Another tenth of a lease has passed."""

    def _sweep(self) -> None:
        """Forget records whose consumers have not renewed them; tombstones go the same way."""
        self._sweeping = False
        now_us = self.host.now_us
        for key, registry in self._registries():
            for held in registry.run_out(now_us):
                if self.surface.answers(held.home):
                    self.forget(key, held)
        self.swept()
        if self.registries:
            self._sweep_later()
