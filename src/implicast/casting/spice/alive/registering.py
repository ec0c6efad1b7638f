"""The verbs `register` and `withdraw`, and the lease: a consumer says again and again that it is there.

A registration is complete when every tag has been confirmed; until then it is asked for again. Tags are renewed one
after the other, each three times in a lease, straight at the peer that confirmed it last (which passes it on if it is
not the owner any more); so renewing costs two messages, and also mends what was misplaced or lost.
"""

from functools import partial

from implicast.casting.spice.alive.messages import Again, Entry, Renew, StoreAt, StoredAt
from implicast.casting.spice.alive.replicating import Replicating
from implicast.casting.spice.alive.settings import STORE_US, WAIT_LONGEST_US, LivingSettings
from implicast.casting.spice.homes import address_of, home, spot_of
from implicast.language.target import Description
from implicast.overlay.ice.estate import Way
from implicast.peer.contract import Address, Host, handles
from implicast.peer.events import Registered, Withdrawn
from implicast.space.tract import WHOLE, Tract, contains

RENEWALS = 3
"""In one lease."""
SAY_AGAIN_TRIES = 6
"""Half a minute of asking for what may be lost; then renewals must do."""
REUNITED_US = 60_000_000
"""How often everything is said again at most because a partition has ended."""
REUNION_PAUSE_US = 300_000
"""From one tag to the next then."""
OWN = 0
"""The token of a consumer's own registration."""


class Registering(Replicating):
    """A consumer's part."""

    __slots__ = ("_before", "_doors", "_due", "_homeless", "_reunited_us", "_stores", "_unsaid", "_wait_us", "awaited",
                 "told")  # fmt: skip

    def __init__(self, address: Address, host: Host, settings: LivingSettings) -> None:
        super().__init__(address, host, settings)
        self.told: dict[str, Entry] = {}
        """Tags under which something of ours may be stored, and what we said last."""
        self.awaited: dict[str, Entry] = {}
        self._before: Description | None = None
        self._wait_us = STORE_US
        self._doors: dict[str, Address] = {}
        """Who confirmed a tag last."""
        self._stores: dict[str, StoreAt] = {}
        """How we said it last."""
        self._unsaid: dict[str, None] = {}
        """Tags to be registered again because they may be lost."""
        self._due: list[str] = []
        """Tags yet to be renewed in this round."""
        self._homeless = False
        """Did we lose all our ground to others, and have none yet?"""
        self._reunited_us = -REUNITED_US

    # --- the verbs

    def register(self, description: Description) -> None:
        self._before, self.description = self.description, description
        self._say(self.next_version())

    def withdraw(self) -> None:
        self._before = self.description = None
        self._say(self.next_version())

    def _say(self, version: int) -> None:
        """One new version for every tag, old or new; where the tag is no longer ours, that we are not there."""
        tags = self.description.tags if self.description is not None else ()
        self.awaited = {}
        for tag in sorted({*tags, *self.told}):
            what = self.description if tag in tags else None
            self.awaited[tag] = Entry(self.address, version, spot_of(self.address, tag), what, self._before)
        self.told.update(self.awaited)
        self._due = []
        self._confirm_if_complete()
        self._wait_us = STORE_US
        self._ask(version)

    def _ask(self, version: int) -> None:
        if not self.awaited:
            return
        self.host.after(self._wait_us, Again(version))
        self._wait_us = min(2 * self._wait_us, WAIT_LONGEST_US)
        for tag in list(self.awaited):
            self._store(tag, None)

    def _store(self, tag: str, door: Address | None) -> None:
        entry, store = self.told[tag], self._stores.get(tag)
        if store is None or store.entries[0] is not entry:  # renewals say the same again and again
            address = address_of(tag)
            store = StoreAt(Way((address, address + 1)), tag, address, 0, (entry,), self.address, OWN, True)
            self._stores[tag] = store
        if door is None or door == self.address:
            self.surface.send(store)
        else:
            self.host.send(door, store)

    @handles(Again)
    def on_again(self, alarm: Again) -> None:
        if alarm.version == self.version:
            self._ask(alarm.version)

    @handles(StoredAt)
    def on_stored(self, sender: Address, stored: StoredAt) -> None:
        if stored.token != OWN:
            super().on_stored(sender, stored)
            return
        entry = self.told.get(stored.tag)
        if entry is None or max([version for _, version, _ in stored.kept]) < entry.version:
            return
        self._doors[stored.tag] = sender
        self._unsaid.pop(stored.tag, None)
        if entry.description is None:
            del self.told[stored.tag], self._doors[stored.tag]
            self._stores.pop(stored.tag, None)
        if self.awaited.pop(stored.tag, None) is not None:
            self._confirm_if_complete()

    def _confirm_if_complete(self) -> None:
        if self.awaited:
            return
        if self.description is not None:
            self.host.deliver(Registered(self.version))
            self._renew_later()
        else:
            self.host.deliver(Withdrawn(self.version))

    # --- the lease

    def _renew_later(self) -> None:
        rounds_us = self.settings.lease_us // RENEWALS
        pause_us = rounds_us / max(1, len(self.told))
        self.host.after(int(pause_us * (0.8 + 0.4 * self.host.rng.random())), Renew(self.version))

    @handles(Renew)
    def on_renew(self, alarm: Renew) -> None:
        if alarm.version != self.version or self.awaited or not self.told:
            return
        self._due = self._due or sorted(self.told)
        tag = self._due.pop()
        if tag in self.told:
            self._store(tag, self._doors.pop(tag, None))
        self._renew_later()

    # --- after we were cut off: who was registered where records were lost was called, and we did not hear it

    def yielded(self, tract: Tract) -> None:
        super().yielded(tract)
        self._homeless = self._homeless or not self.surface.pieces

    def settled(self) -> None:
        super().settled()
        if self._homeless and self.surface.ground:
            self._homeless = False
            self.register_again(WHOLE)

    def reunited(self) -> None:
        """Say everything again, but not too often: what is where it should be is only renewed."""
        if self.host.now_us - self._reunited_us < REUNITED_US:
            return
        self._reunited_us = self.host.now_us
        for number, tag in enumerate(sorted(self.told)):
            self.later(REUNION_PAUSE_US * number, partial(self._say_once, tag, self.version))

    def _say_once(self, tag: str, version: int) -> None:
        if tag in self.told and version == self.version and tag not in self.awaited:
            self._store(tag, self._doors.pop(tag, None))

    def register_again(self, lost: Tract) -> None:
        super().register_again(lost)
        for tag, entry in list(self.told.items()):
            if self._is_there(tag, entry, lost):
                self._unsaid[tag] = None
                self._say_again(tag, self.version, SAY_AGAIN_TRIES)

    def _say_again(self, tag: str, version: int, tries: int) -> None:
        """Until it is confirmed: the ground around what was lost may not have settled yet."""
        if tag in self._unsaid and version == self.version and tag in self.told and tries:
            self._store(tag, None)
            self.later(WAIT_LONGEST_US // 2, lambda: self._say_again(tag, version, tries - 1))
        else:
            self._unsaid.pop(tag, None)

    def _is_there(self, tag: str, entry: Entry, lost: Tract) -> bool:
        """Could our record under this tag have its home there, at any notch?"""
        address, dimensions = address_of(tag), self.settings.dimensions
        notches = self.settings.notches() if self.settings.spreads else (0,)
        return any(contains(lost, home(address, notch, entry.spot, dimensions)) for notch in notches)
