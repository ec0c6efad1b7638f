"""The verbs `register` and `withdraw`, and the lease: a consumer says again and again that it is there.

A registration is complete when every tag has been confirmed; until then it is asked for again. Tags are renewed one
after the other, each three times in a lease, straight at the peer that confirmed it last (which passes it on if it is
not the owner any more); so renewing costs two messages, and also mends what was misplaced or lost.
"""

from collections.abc import Callable
from typing import Any

from implicast.casting.spice.alarms import Again, Renew, SayOnce, Unsaid
from implicast.casting.spice.homes import address_of, home, spot_of
from implicast.casting.spice.messages import Entry, StoreAt, StoredAt, StoredLater
from implicast.casting.spice.proofs import is_proved, proved
from implicast.casting.spice.settings import STORE_US, WAIT_LONGEST_US
from implicast.casting.spice.share import Spice, SpicePart
from implicast.casting.spice.stores import OWN
from implicast.language.target import Description
from implicast.overlay.ice.estate import Way
from implicast.peer.contract import Address, Version, handles
from implicast.peer.events import Registered, Withdrawn
from implicast.peer.member import KeptMember
from implicast.space.tract import WHOLE, Tract, contains

SECRET_BITS = 61
SECRET = 1 << SECRET_BITS
"""Set in the tokens of own errands where words are signed: no other errand has such a token."""
RENEWALS = 3
"""In one lease."""
UNASSURED_US = 30_000_000
"""Without receipts what peers that come and go have mislaid is asked for again after this time."""
SAY_AGAIN_TRIES = 6
"""Half a minute of asking for what may be lost; then renewals must do."""
REUNITED_US = 60_000_000
"""How often everything is said again at most because a partition has ended."""
REUNION_PAUSE_US = 300_000
"""From one tag to the next then."""


class Registrations(SpicePart):
    """A consumer's part."""

    __slots__ = (
        "_before", "_doors", "_due", "_homeless", "_returning", "_reunited_us", "_said", "_unsaid", "_wait_us",
        "awaited", "going", "token", "told",
    )  # fmt: skip

    def __init__(self, spice: Spice, kept: KeptMember | None, tags: tuple[str, ...]) -> None:
        """`tags`: under which something of an earlier life may be stored."""
        super().__init__(spice)
        self.told: dict[str, Entry] = {}
        """Tags under which something of ours may be stored, and what we said last."""
        self.awaited: dict[str, Entry] = {}
        self._before: Description | None = None
        self._wait_us = STORE_US
        self._doors: dict[str, Address] = {}
        """Who confirmed a tag last."""
        self._said: dict[str, StoreAt] = {}
        """How we said it last."""
        self._unsaid: dict[str, None] = {}
        """Tags to be registered again because they may be lost."""
        self._due: list[str] = []
        """Tags yet to be renewed in this round."""
        self._homeless = False
        """Did we lose all our ground to others, and have none yet?"""
        self._reunited_us = -REUNITED_US
        self._returning = kept is not None and kept.description is not None
        """Has the member a description from an earlier life, and no place yet to say it from?"""
        for tag in tags:
            self.told[tag] = Entry(spice.contact, 0, spot_of(spice.name, tag), None)
        self.going = False
        """Is the peer to leave when it has withdrawn?"""
        secret = spice.words.signed
        self.token = SECRET | spice.host.rng.getrandbits(SECRET_BITS) if secret else OWN
        """Names our own errands. Who does not pass them on must not be able to confirm them."""

    # --- the verbs

    def say(self, version: Version, before: Description | None) -> None:
        """The member is something else now, or nothing any more; what it was before is answered from for a while."""
        self._before, self._returning = before, False
        self._say(version)

    def stand(self, description: Description, door: Callable[[str], Address]) -> dict[str, Entry]:
        """Be registered as this already: what is stored under each tag. `door`: who would have confirmed it."""
        self.stand_quietly(description)
        for tag in self.told if self.settings.assured else ():
            self._doors[tag] = door(tag)
        self._confirm_if_complete()
        return self.told

    def stand_quietly(self, description: Description) -> None:
        """The same, and the application knows; what was told is made when it is asked for."""
        self.spice.describe(description)
        del self.told

    def __getattr__(self, name: str) -> Any:
        """What was told, where the member stands since the beginning."""
        if name != "told" or self.spice.description is None:
            raise AttributeError(name)
        self.told, spice = {}, self.spice
        for tag in sorted(set(self.spice.description.tags)):
            entry = Entry(spice.contact, spice.version, spot_of(spice.name, tag), spice.description)
            self.told[tag] = proved(spice.words, tag, entry)
        return self.told

    def leave(self) -> None:
        """Leave the surface when the withdrawal, which comes next, is complete."""
        self.going = True

    def _say(self, version: Version) -> None:
        """One new version for every tag, old or new; where the tag is no longer ours, that we are not there."""
        tags = self.spice.description.tags if self.spice.description is not None else ()
        self.awaited = {}
        for tag in sorted({*tags, *self.told}):
            what = self.spice.description if tag in tags else None
            spot = spot_of(self.spice.name, tag)
            entry = Entry(self.spice.contact, version, spot, what, self._before)
            self.awaited[tag] = proved(self.spice.words, tag, entry)
        self.told.update(self.awaited)
        self._due = []
        self._confirm_if_complete()
        self._wait_us = STORE_US
        self._ask(version)

    def _ask(self, version: Version) -> None:
        if not self.awaited:
            return
        if self.settings.assured:
            self.host.after(self._wait_us, Again(version))
            self._wait_us = min(2 * self._wait_us, WAIT_LONGEST_US)
        else:
            self.host.after(UNASSURED_US, Again(version))
        for tag in list(self.awaited):
            self._store(tag, None)

    def _store(self, tag: str, door: Address | None) -> None:
        entry, store = self.told[tag], self._said.get(tag)
        if store is None or store.entries[0] is not entry:  # renewals say the same again and again
            address = address_of(tag)
            store = StoreAt(Way((address, address + 1)), tag, address, 0, (entry,), self.address, self.token, True)
            self._said[tag] = store
        if door is None or door == self.address:
            self.surface.send(store)
        else:
            self.host.send(door, store)

    @handles(Again)
    def on_again(self, alarm: Again) -> None:
        if alarm.version == self.spice.version:
            self._ask(alarm.version)

    def stored(self, sender: Address, stored: StoredAt) -> None:
        """A tag is confirmed; or a holder knows a later version of us than we do: then we have lived before."""
        entry, name = self.told.get(stored.tag), self.spice.name
        version = max((version for consumer, version, _ in stored.kept if consumer == name), default=0)
        if entry is None or version < entry.version:
            return
        if version > self.spice.version:
            if not self.spice.words.signed:
                self._say(self.spice.outlive(version))
            return
        self._doors[stored.tag] = sender
        self._unsaid.pop(stored.tag, None)
        if entry.description is None:
            del self.told[stored.tag], self._doors[stored.tag]
            self._said.pop(stored.tag, None)
        if self.awaited.pop(stored.tag, None) is not None:
            self._confirm_if_complete()

    @handles(StoredLater)
    def on_stored_later(self, sender: Address, later: StoredLater) -> None:
        """Our own word, of a life that we have forgotten: it must be ours to be believed."""
        entry, spice = later.entry, self.spice
        is_later = spice.version and entry.member.name == spice.name and entry.version > spice.version
        if is_later and is_proved(spice.words, later.tag, entry):
            self._say(spice.outlive(entry.version))

    def _confirm_if_complete(self) -> None:
        if self.awaited:
            return
        if self.spice.description is not None:
            self.host.deliver(Registered(self.spice.version))
            if self.settings.assured:
                self._renew_later()
        else:
            self.host.deliver(Withdrawn(self.spice.version))
        if self.going:
            self.going = False
            self.surface.leave()

    # --- the lease

    def _renew_later(self) -> None:
        rounds_us = self.settings.lease_us // RENEWALS
        pause_us = rounds_us / max(1, len(self.told))
        self.host.after(int(pause_us * (0.8 + 0.4 * self.host.rng.random())), Renew(self.spice.version))

    @handles(Renew)
    def on_renew(self, alarm: Renew) -> None:
        if alarm.version != self.spice.version or self.awaited or not self.told:
            return
        self._due = self._due or sorted(self.told)
        tag = self._due.pop()
        if tag in self.told:
            self._store(tag, self._doors.pop(tag, None))
        self._renew_later()

    # --- after we were cut off: who was registered where records were lost was called, and we did not hear it

    def yielded(self) -> None:
        self._homeless = self._homeless or not self.surface.pieces

    def settled(self) -> None:
        if self._returning and self.surface.ground:
            self.say(self.spice.next_version(), None)
        if self._homeless and self.surface.ground:
            self._homeless = False
            self.register_again(WHOLE)

    def reunited(self) -> None:
        """Say everything again, but not too often: what is where it should be is only renewed."""
        if self.host.now_us - self._reunited_us < REUNITED_US:
            return
        self._reunited_us = self.host.now_us
        for number, tag in enumerate(sorted(self.told)):
            self.spice.later.put(REUNION_PAUSE_US * number, SayOnce(tag, self.spice.version))

    @handles(SayOnce)
    def on_say_once(self, alarm: SayOnce) -> None:
        tag, version = alarm.tag, alarm.version
        if tag in self.told and version == self.spice.version and tag not in self.awaited:
            self._unsaid[tag] = None
            self._store(tag, self._doors.pop(tag, None))
            self.spice.later.put(WAIT_LONGEST_US // 2, Unsaid(tag, version, SAY_AGAIN_TRIES))

    def register_again(self, lost: Tract) -> None:
        for tag, entry in list(self.told.items()):
            if self._is_there(tag, entry, lost):
                self._unsaid[tag] = None
                self.on_unsaid(Unsaid(tag, self.spice.version, SAY_AGAIN_TRIES))

    @handles(Unsaid)
    def on_unsaid(self, alarm: Unsaid) -> None:
        """Until it is confirmed: the ground around what was lost may not have settled yet."""
        tag, version, tries = alarm.tag, alarm.version, alarm.tries
        if tag in self._unsaid and version == self.spice.version and tag in self.told and tries:
            self._store(tag, None)
            self.spice.later.put(WAIT_LONGEST_US // 2, Unsaid(tag, version, tries - 1))
        else:
            self._unsaid.pop(tag, None)

    def _is_there(self, tag: str, entry: Entry, lost: Tract) -> bool:
        """Could our record under this tag have its home there, at any notch?"""
        address, dimensions = address_of(tag), self.settings.dimensions
        notches = self.settings.notches() if self.settings.spreads else (0,)
        return any(contains(lost, home(address, notch, entry.spot, dimensions)) for notch in notches)
