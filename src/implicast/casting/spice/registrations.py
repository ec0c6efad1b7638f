"""The consumer's side: registering, withdrawing and renewing.

A registration is complete when every tag is acknowledged; until then the requests are repeated.
Each tag is renewed three times in a lease, one tag after the other. A renewal goes directly to the
peer that acknowledged the tag last, which forwards it if it does not own the root. It costs two
messages, and also repairs a misplaced or lost record.
"""

from collections.abc import Callable

from implicast.casting.spice.homes import address_of, home, spot_of
from implicast.casting.spice.items import is_proved, proved
from implicast.casting.spice.messages import (
    Entry,
    NewerEntry,
    ReregisterRequest,
    StoreAck,
    StoreRequest,
)
from implicast.casting.spice.part import Spice, SpicePart, StoreBackoff
from implicast.casting.spice.settings import NO_LIMIT, WAIT_LONGEST_US
from implicast.casting.spice.stores import OWN
from implicast.casting.spice.traversal_state import TraversalTask
from implicast.language.target import Description
from implicast.overlay.ice.item_store import RouteHeader
from implicast.peer.contract import Address, Message, StandingAlarm, Version, handles
from implicast.peer.events import Registered, Withdrawn
from implicast.peer.member import DurableMember
from implicast.space.tract import WHOLE, Tract, contains

SECRET_BITS = 61
"""Bits of the random token of own requests in a signed network. The bit above is set, so that no
other token is equal.
"""
RENEWALS = 3
"""Renewals of a tag in one lease."""
UNASSURED_US = 30_000_000
"""Without receipts, unacknowledged tags are requested again after this time."""
REREGISTER_TRIES = 6
"""Attempts to register a tag again that may be lost, one every 4 s. After that the renewals have to
repair it.
"""
REUNITED_US = 60_000_000
"""Minimum time between two rounds of registering all tags again after a partition."""
REUNION_PAUSE_US = 300_000
"""Pause between two tags in such a round."""


class RetryRegistration(Message):
    """Fires when a registration should have been acknowledged."""

    version: Version


class RenewTag(StandingAlarm):
    """Fires when the next tag is to be renewed."""

    version: Version


class RegisterAllAgain(Message):
    """Fires when all tags are to be registered again, `REUNITED_US` after the last time."""


class RetryReregister(Message):
    """Fires when a tag that may be lost is to be requested, for the first time or again. `tries`:
    attempts left.
    """

    tag: str
    version: int
    tries: int


class Registrations(SpicePart):
    """Registers the member of this peer."""

    __slots__ = (
        "_announced",
        "_backoff",
        "_before",
        "_confirmed_us",
        "_due",
        "_has_no_extent",
        "_is_leaving",
        "_reregistering",
        "_returning",
        "_reunited_us",
        "_sent_us",
        "awaited",
        "last_holders",
        "token",
    )

    def __init__(self, spice: Spice, durable: DurableMember | None, tags: tuple[str, ...]) -> None:
        """`tags`: tags under which an entry of an earlier incarnation may be stored."""
        super().__init__(spice)
        stored_under = [
            (tag, Entry(spice.contact, 0, spot_of(spice.name, tag), None)) for tag in tags
        ]
        self._announced: dict[str, Entry] | None = dict(stored_under)
        self.awaited: dict[str, Entry] = {}
        self._before: Description | None = None
        self._backoff = StoreBackoff()
        self.last_holders: dict[str, Address] = {}
        """By tag: the peer that acknowledged it last."""
        self._reregistering: dict[str, list[TraversalTask]] = {}
        """By tag that may be lost: the recovery tasks that wait for its acknowledgement."""
        self._sent_us: dict[str, int] = {}
        """By tag: when the oldest request without an acknowledgement was sent."""
        self._confirmed_us: dict[str, int] = {}
        """By tag: when the request was sent that was acknowledged last, or an earlier one. The time
        of sending counts, because an acknowledgement may arrive long after it was given.
        """
        self._due: list[str] = []
        """Tags still to renew in this round."""
        self._has_no_extent = False
        """Whether the peer lost all its extents and has none yet."""
        self._reunited_us = -REUNITED_US
        self._returning = durable is not None and durable.description is not None
        """Whether the member has a description from an earlier incarnation and no extent yet to
        register from.
        """
        self._is_leaving = False
        """Whether the peer leaves the surface after the withdrawal."""
        self.token = (
            1 << SECRET_BITS | spice.host.rng.getrandbits(SECRET_BITS)
            if spice.signing.signed
            else OWN
        )
        """Token of own requests. Random in a signed network, so that only peers on the path can
        acknowledge.
        """

    # --- operations

    def announce(self, version: Version, before: Description | None, leaves: bool = False) -> None:
        """Register a new version of the description, or withdraw. Casts match the last complete
        description for a while too.
        """
        before = (self._before or before) if self.awaited and before is not None else before
        self._before, self._returning, self._is_leaving = before, False, self._is_leaving or leaves
        self.announce_version(version)

    def restore(
        self, description: Description, holder: Callable[[str], Address]
    ) -> dict[str, Entry]:
        """Take a description as registered. Returns the entry under each tag. `holder`: the peer
        that holds a tag's root.
        """
        self.restore_lazily(description)
        for tag in self.announced if self.settings.assured else ():
            self.last_holders[tag] = holder(tag)
        self._confirm_if_complete()
        return self.announced

    def restore_lazily(self, description: Description) -> None:
        """Take a description as registered, without telling the application. Entries are created on
        first access.
        """
        self.spice.describe(description)
        self._announced = None

    @property
    def announced(self) -> dict[str, Entry]:
        """By tag: the last entry sent. An entry of this member may be stored under each of these
        tags.
        """
        if self._announced is None:
            what = self.spice.description
            assert what is not None, "one who stands is described"
            self._announced = {
                tag: self._entry(tag, self.spice.version, what) for tag in sorted(set(what.tags))
            }
        return self._announced

    def _entry(self, tag: str, version: Version, what: Description | None) -> Entry:
        entry = Entry(
            self.spice.contact, version, spot_of(self.spice.name, tag), what, self._before
        )
        return proved(self.spice.signing, tag, entry)

    def announce_version(self, version: Version) -> None:
        """Send one new version for every tag, current or former. Former tags get a tombstone."""
        what = self.spice.description
        both = sorted({*(what.tags if what else ()), *self.announced})
        self.awaited = {
            tag: self._entry(tag, version, what if what and tag in what.tags else None)
            for tag in both
        }
        self.announced.update(self.awaited)
        self._due = []
        self._confirm_if_complete()
        self._backoff = StoreBackoff()
        self._request_storage(version)

    def _request_storage(self, version: Version) -> None:
        if not self.awaited:
            return
        self.host.after(
            self._backoff.next_wait_us() if self.settings.assured else UNASSURED_US,
            RetryRegistration(version),
        )
        for tag in list(self.awaited):
            self.send_store(
                tag, self.last_holders.pop(tag, None) if self.settings.assured else None
            )

    def send_store(self, tag: str, holder: Address | None) -> None:
        address, entries = address_of(tag), (self.announced[tag],)
        self._sent_us.setdefault(tag, self.host.now_us)
        store = StoreRequest(
            RouteHeader((address, address + 1)),
            tag,
            address,
            0,
            entries,
            self.address,
            self.token,
            True,
        )
        if holder is None or holder == self.address:
            self.surface.send(store)
        else:
            self.host.send(holder, store)

    @handles(RetryRegistration)
    def on_retry_registration(self, alarm: RetryRegistration) -> None:
        if alarm.version == self.spice.version:
            self._request_storage(alarm.version)

    def on_stored(self, sender: Address, stored: StoreAck) -> None:
        """A tag is acknowledged. If a holder stores a newer version than the current one, the
        member has an earlier incarnation that it does not remember: it moves to a version above.
        """
        entry, name = self.announced.get(stored.tag), self.spice.name
        version = max(
            (version for consumer, version, _ in stored.entries if consumer == name), default=0
        )
        if entry is None or version < entry.version:
            return
        if version > self.spice.version:
            if not self.spice.signing.signed:
                self.announce_version(self.spice.advance_incarnation(version))
            return
        self.last_holders[stored.tag] = sender
        if stored.tag in self._sent_us:
            self._confirmed_us[stored.tag] = self._sent_us.pop(stored.tag)
        calls = self._reregistering.pop(stored.tag, ())
        if entry.description is None:
            del self.announced[stored.tag], self.last_holders[stored.tag]
            self._confirmed_us.pop(stored.tag, None)
        if self.awaited.pop(stored.tag, None) is not None:
            self._confirm_if_complete()
        for task in calls:
            self.spice.traversals.finish_one(task)

    @handles(NewerEntry)
    def on_newer_entry(self, sender: Address, newer: NewerEntry) -> None:
        """A holder has a newer signed entry of this member, from an incarnation that it does not
        remember. The signature is verified.
        """
        entry, spice = newer.entry, self.spice
        is_newer = (
            spice.version and entry.member.name == spice.name and entry.version > spice.version
        )
        if is_newer and is_proved(spice.signing, newer.tag, entry):
            self.announce_version(spice.advance_incarnation(entry.version))

    def _confirm_if_complete(self) -> None:
        if self.awaited:
            return
        if self.spice.description is not None:
            self.host.deliver(Registered(self.spice.version))
            if self.settings.assured:
                self._schedule_renewal()
        else:
            self.host.deliver(Withdrawn(self.spice.version))
        if self._is_leaving:
            self._is_leaving = False
            self.surface.leave()

    # --- the lease

    def _schedule_renewal(self) -> None:
        pause_us = self.settings.lease_us // RENEWALS / max(1, len(self.announced))
        self.host.after(
            int(pause_us * (0.8 + 0.4 * self.host.rng.random())), RenewTag(self.spice.version)
        )

    @handles(RenewTag)
    def on_renew_tag(self, alarm: RenewTag) -> None:
        if alarm.version != self.spice.version or self.awaited or not self.announced:
            return
        self._due = self._due or sorted(self.announced)
        tag = self._due.pop()
        if tag in self.announced:
            self.send_store(tag, self.last_holders.pop(tag, None))
        self._schedule_renewal()

    # --- recovery: the peer may have missed a request to register again while it was cut off

    def on_tract_lost(self) -> None:
        self._has_no_extent = self._has_no_extent or not self.surface.extents

    def settled(self) -> None:
        if self._returning and self.surface.committed:
            self.announce(self.spice.next_version(), None)
        if self._has_no_extent and self.surface.committed:
            self._has_no_extent = False
            self.register_again(WHOLE)

    def register_all_again(self) -> None:
        """Register all tags again, at most once in `REUNITED_US`: a partition seems to have healed,
        or another peer claimed an extent of this one, and requests to register again may have gone
        to that peer. For records in place this is a renewal.
        """
        wait_us = self._reunited_us + REUNITED_US - self.host.now_us
        if wait_us > 0:
            self.spice.timer_wheel.schedule_once(wait_us, RegisterAllAgain())
            return
        self._reunited_us = self.host.now_us
        for number, tag in enumerate(sorted(self.announced)):
            self.spice.timer_wheel.schedule(
                REUNION_PAUSE_US * number,
                RetryReregister(tag, self.spice.version, REREGISTER_TRIES + 1),
            )

    @handles(RegisterAllAgain)
    def on_register_all_again(self, alarm: RegisterAllAgain) -> None:
        self.register_all_again()

    def register_again(
        self, lost: Tract, task: TraversalTask | None = None, age_us: int = 0
    ) -> None:
        """Register the tags again whose record could have its home in the lost tract at some notch,
        except those that were requested and acknowledged within `age_us`, the time since the loss.
        `task`: the recovery traversal that waits for it.
        """
        notches = self.settings.notches() if self.settings.storage_limit < NO_LIMIT else (0,)
        for tag, entry in list(self.announced.items()):
            root = address_of(tag)
            places = [home(root, notch, entry.spot, self.settings.dimensions) for notch in notches]
            if not any(contains(lost, each) for each in places) or self._is_within(
                self._confirmed_us, tag, age_us
            ):
                continue
            if tag not in self._reregistering:
                self._retry_reregister_later(tag, self.spice.version, REREGISTER_TRIES)
            waiting = self._reregistering.setdefault(tag, [])
            if task is not None:
                task.add_pending()
                waiting.append(task)
            if self._is_within(self._sent_us, tag, age_us):
                continue  # requested since the loss
            # The peer that asks owns the lost tract, so it need not be looked for. Any other tag of
            # a registration in progress is requested by that.
            asks = task.traversal if task is not None and contains(lost, root) else None
            if isinstance(asks, ReregisterRequest):
                self.send_store(tag, asks.leader)
            elif tag not in self.awaited:
                self.send_store(tag, self.last_holders.pop(tag, None))

    def _is_within(self, times_us: dict[str, int], tag: str, age_us: int) -> bool:
        at_us = times_us.get(tag)
        return at_us is not None and 0 <= self.host.now_us - at_us < age_us

    def _retry_reregister_later(self, tag: str, version: Version, tries: int) -> None:
        self.spice.timer_wheel.schedule(
            WAIT_LONGEST_US // 2, RetryReregister(tag, version, tries - 1)
        )

    @handles(RetryReregister)
    def on_retry_reregister(self, alarm: RetryReregister) -> None:
        """Repeat until acknowledged: ownership around the lost tract may still be changing."""
        tag, is_first = alarm.tag, alarm.tries > REREGISTER_TRIES
        if (
            alarm.version != self.spice.version
            or tag not in self.announced
            or (is_first and tag in self.awaited)
        ):
            return
        if is_first:
            self._reregistering.setdefault(tag, [])
        if alarm.tries and tag in self._reregistering:
            self.send_store(tag, self.last_holders.pop(tag, None) if is_first else None)
            self._retry_reregister_later(tag, alarm.version, alarm.tries)
        else:
            self._reregistering.pop(tag, None)
