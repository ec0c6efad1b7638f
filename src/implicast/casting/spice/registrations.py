"""The verbs `register` and `withdraw`, and the lease: a consumer says again and again that it is there.

A registration is complete when every tag has been confirmed; until then it is asked for again. Tags are renewed one
after the other, each three times in a lease, straight at the peer that confirmed it last (which passes it on if it is
not the owner any more); so renewing costs two messages, and also mends what was misplaced or lost.
"""

from collections.abc import Callable

from implicast.casting.spice.homes import address_of, home, spot_of
from implicast.casting.spice.items import is_proved, proved
from implicast.casting.spice.messages import Entry, StoreAt, StoredAt, StoredLater
from implicast.casting.spice.settings import NO_LIMIT, WAIT_LONGEST_US
from implicast.casting.spice.share import Repeated, Spice, SpicePart
from implicast.casting.spice.stores import OWN
from implicast.casting.spice.trips import Work
from implicast.language.target import Description
from implicast.overlay.ice.estate import Way
from implicast.peer.contract import Address, Message, StandingAlarm, Version, handles
from implicast.peer.events import Registered, Withdrawn
from implicast.peer.member import KeptMember
from implicast.space.tract import WHOLE, Tract, contains

SECRET_BITS = 61
"""Of the tokens of own errands where words are signed. The bit above is set: no other errand has such a token."""
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


class Again(Message):
    """Rings when a registration should have been confirmed."""

    version: Version


class Renew(StandingAlarm):
    """Rings when one more tag should be registered anew, before its lease runs out."""

    version: Version


class Unsaid(Message):
    """Rings when a tag that may be lost should have been confirmed, or is to be said for the first time of so many."""

    tag: str
    version: int
    tries: int


class Registrations(SpicePart):
    """A consumer's part."""

    __slots__ = (
        "_before",
        "_doors",
        "_due",
        "_going",
        "_homeless",
        "_patience",
        "_returning",
        "_reunited_us",
        "_told",
        "_unsaid",
        "awaited",
        "token",
    )

    def __init__(self, spice: Spice, kept: KeptMember | None, tags: tuple[str, ...]) -> None:
        """`tags`: under which something of an earlier life may be stored."""
        super().__init__(spice)
        kept_under = [
            (tag, Entry(spice.contact, 0, spot_of(spice.name, tag), None)) for tag in tags
        ]
        self._told: dict[str, Entry] | None = dict(kept_under)
        self.awaited: dict[str, Entry] = {}
        self._before: Description | None = None
        self._patience = Repeated()
        self._doors: dict[str, Address] = {}
        """Who confirmed a tag last."""
        self._unsaid: dict[str, list[Work]] = {}
        """Tags to be registered again because they may be lost, and whose calls for that are not covered before."""
        self._due: list[str] = []
        """Tags yet to be renewed in this round."""
        self._homeless = False
        """Did we lose all our ground to others, and have none yet?"""
        self._reunited_us = -REUNITED_US
        self._returning = kept is not None and kept.description is not None
        """Has the member a description from an earlier life, and no place yet to say it from?"""
        self._going = False
        """Is the peer to leave the surface when it has withdrawn?"""
        self.token = (
            1 << SECRET_BITS | spice.host.rng.getrandbits(SECRET_BITS)
            if spice.words.signed
            else OWN
        )
        """Names our own errands. Who does not pass them on must not be able to confirm them."""

    # --- the verbs

    def say(self, version: Version, before: Description | None, leaves: bool = False) -> None:
        """The member is something else now, or nothing any more; what all knew it to be is answered from a while."""
        before = (self._before or before) if self.awaited and before is not None else before
        self._before, self._returning, self._going = before, False, self._going or leaves
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
        self._told = None

    @property
    def told(self) -> dict[str, Entry]:
        """Tags under which something of ours may be stored, and what we said last."""
        if self._told is None:
            what = self.spice.description
            assert what is not None, "one who stands is described"
            self._told = {
                tag: self._entry(tag, self.spice.version, what) for tag in sorted(set(what.tags))
            }
        return self._told

    def _entry(self, tag: str, version: Version, what: Description | None) -> Entry:
        entry = Entry(
            self.spice.contact, version, spot_of(self.spice.name, tag), what, self._before
        )
        return proved(self.spice.words, tag, entry)

    def _say(self, version: Version) -> None:
        """One new version for every tag, old or new; where the tag is no longer ours, that we are not there."""
        what = self.spice.description
        both = sorted({*(what.tags if what else ()), *self.told})
        self.awaited = {
            tag: self._entry(tag, version, what if what and tag in what.tags else None)
            for tag in both
        }
        self.told.update(self.awaited)
        self._due = []
        self._confirm_if_complete()
        self._patience = Repeated()
        self._ask(version)

    def _ask(self, version: Version) -> None:
        if not self.awaited:
            return
        self.host.after(
            self._patience.wait_longer() if self.settings.assured else UNASSURED_US, Again(version)
        )
        for tag in list(self.awaited):
            self._store(tag, self._doors.pop(tag, None) if self.settings.assured else None)

    def _store(self, tag: str, door: Address | None) -> None:
        address, entries = address_of(tag), (self.told[tag],)
        store = StoreAt(
            Way((address, address + 1)), tag, address, 0, entries, self.address, self.token, True
        )
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
        version = max(
            (version for consumer, version, _ in stored.kept if consumer == name), default=0
        )
        if entry is None or version < entry.version:
            return
        if version > self.spice.version:
            if not self.spice.words.signed:
                self._say(self.spice.outlive(version))
            return
        self._doors[stored.tag] = sender
        calls = self._unsaid.pop(stored.tag, ())
        if entry.description is None:
            del self.told[stored.tag], self._doors[stored.tag]
        if self.awaited.pop(stored.tag, None) is not None:
            self._confirm_if_complete()
        for work in calls:
            self.spice.walks.close_one(work)

    @handles(StoredLater)
    def on_stored_later(self, sender: Address, later: StoredLater) -> None:
        """Our own word, of a life that we have forgotten: it must be ours to be believed."""
        entry, spice = later.entry, self.spice
        is_later = (
            spice.version and entry.member.name == spice.name and entry.version > spice.version
        )
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
        if self._going:
            self._going = False
            self.surface.leave()

    # --- the lease

    def _renew_later(self) -> None:
        pause_us = self.settings.lease_us // RENEWALS / max(1, len(self.told))
        self.host.after(
            int(pause_us * (0.8 + 0.4 * self.host.rng.random())), Renew(self.spice.version)
        )

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
            self.spice.later.put(
                REUNION_PAUSE_US * number, Unsaid(tag, self.spice.version, SAY_AGAIN_TRIES + 1)
            )

    def register_again(self, lost: Tract, work: Work | None = None) -> None:
        """Say again what may be lost: tags under which our record could have its home there, at any notch. `work`: our
        part in the call for it."""
        notches = self.settings.notches() if self.settings.storage_limit < NO_LIMIT else (0,)
        for tag, entry in list(self.told.items()):
            places = [
                home(address_of(tag), notch, entry.spot, self.settings.dimensions)
                for notch in notches
            ]
            if any(contains(lost, each) for each in places):
                unsaid = self._unsaid.setdefault(tag, [])
                if work is not None:
                    work.wait()
                    unsaid.append(work)
                self.on_unsaid(Unsaid(tag, self.spice.version, SAY_AGAIN_TRIES))

    @handles(Unsaid)
    def on_unsaid(self, alarm: Unsaid) -> None:
        """Until it is confirmed: the ground around what was lost may not have settled yet."""
        tag, is_first = alarm.tag, alarm.tries > SAY_AGAIN_TRIES
        if (
            alarm.version != self.spice.version
            or tag not in self.told
            or (is_first and tag in self.awaited)
        ):
            return
        if is_first:
            self._unsaid.setdefault(tag, [])
        if alarm.tries and tag in self._unsaid:
            self._store(tag, self._doors.pop(tag, None) if is_first else None)
            self.spice.later.put(WAIT_LONGEST_US // 2, Unsaid(tag, alarm.version, alarm.tries - 1))
        else:
            self._unsaid.pop(tag, None)
