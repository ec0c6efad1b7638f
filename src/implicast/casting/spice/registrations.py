"""The consumer's side: registering, withdrawing and renewing.

A registration is complete when every tag is acknowledged; until then the requests are repeated.
Each tag is renewed three times in a lease, one tag after the other. A renewal goes directly to the
peer that acknowledged the tag last, which forwards it if it does not own the root. It costs two
messages, and also repairs a misplaced or lost record.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from implicast.casting.spice.homes import address_of, home, spot_of
from implicast.casting.spice.items import Entry, is_proved, proved
from implicast.casting.spice.part import SpicePart, StoreBackoff, Tools
from implicast.casting.spice.settings import NO_LIMIT, WAIT_LONGEST_US
from implicast.casting.spice.store_requests import OWN, StoreAck, StoreRequest
from implicast.casting.spice.stores import NewerEntry
from implicast.casting.spice.traversal_messages import ReregisterRequest
from implicast.casting.spice.traversal_state import TraversalTask
from implicast.casting.spice.traversals import Traversals
from implicast.language.target import Description
from implicast.overlay.ice.item_store import RouteHeader
from implicast.peer.contract import Address, Contact, Message, StandingAlarm, Version, handles
from implicast.peer.events import Registered, Withdrawn
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


class RegisteredState(NamedTuple):
    """A complete registration."""

    version: Version
    description: Description
    entries: Mapping[str, Entry] | None
    """By tag: the entry sent. None: computed from the description."""
    holders: Mapping[str, Address]
    """By tag: the peer that acknowledged it."""


Advance = Callable[[Version], Version]


class Registrations(SpicePart):
    """Registers the member of this peer."""

    __slots__ = (
        "_advance",
        "_announced",
        "_backoff",
        "_before",
        "_confirmed_us",
        "_contact",
        "_due",
        "_has_no_extent",
        "_is_leaving",
        "_on_return",
        "_renews",
        "_reregistering",
        "_returning",
        "_reunited_us",
        "_sent_us",
        "_traversals",
        "awaited",
        "description",
        "last_holders",
        "token",
        "version",
    )

    def __init__(
        self,
        tools: Tools,
        contact: Contact,
        traversals: Traversals,
        former: tuple[Description | None, tuple[str, ...]],
        advance: Advance,
        on_return: Callable[[], None],
    ) -> None:
        """`former`: the description of an earlier incarnation, and the tags under which an entry of
        it may be stored. `advance`: takes an incarnation above a version that another peer knows,
        and returns the new version. `on_return`: called when a member with a former description has
        an extent to register from.
        """
        super().__init__(tools)
        self._contact, self._traversals = contact, traversals
        self._advance, self._on_return = advance, on_return
        self._renews = tools.settings.assured
        """Whether registrations have a lease. Then a request goes directly to the last holder."""
        self.version: Version = 0
        self.description, tags = former
        """The description to register, and its version."""
        tombstones = [(tag, Entry(contact, 0, spot_of(contact.name, tag), None)) for tag in tags]
        self._announced: dict[str, Entry] | None = dict(tombstones)
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
        self._returning = self.description is not None
        """Whether the member has a description from an earlier incarnation and no extent yet to
        register from.
        """
        self._is_leaving = False
        """Whether the peer leaves the surface after the withdrawal."""
        self.token = OWN
        if tools.signing.signed:
            self.token = 1 << SECRET_BITS | self.host.rng.getrandbits(SECRET_BITS)
        """Token of own requests. Random in a signed network, so that only peers on the path can
        acknowledge.
        """

    # --- operations

    def announce(
        self,
        version: Version,
        description: Description | None,
        before: Description | None,
        leaves: bool = False,
    ) -> None:
        """Register a new version of the description, or withdraw. Casts match the last complete
        description for a while too.
        """
        before = (self._before or before) if self.awaited and before is not None else before
        self._before, self._returning, self._is_leaving = before, False, self._is_leaving or leaves
        self.description = description
        self.announce_version(version)

    def restore(self, state: RegisteredState) -> None:
        """Take a description as registered."""
        self.version, self.description, entries, holders = state
        self._announced = None if entries is None else dict(entries)
        self.last_holders.update(holders)
        if entries is not None:
            self._confirm_if_complete()

    @property
    def announced(self) -> dict[str, Entry]:
        """By tag: the last entry sent. An entry of this member may be stored under each of these
        tags.
        """
        if self._announced is None:
            what = self.description
            tags = sorted(set(what.tags)) if what is not None else ()
            self._announced = {tag: self._entry(tag, self.version, what) for tag in tags}
        return self._announced

    def _entry(self, tag: str, version: Version, what: Description | None) -> Entry:
        entry = Entry(self._contact, version, spot_of(self._contact.name, tag), what, self._before)
        return proved(self.signing, tag, entry)

    def announce_version(self, version: Version) -> None:
        """Send one new version for every tag, current or former. Former tags get a tombstone."""
        self.version, what = version, self.description
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
        wait_us = self._backoff.next_wait_us() if self._renews else UNASSURED_US
        self.host.after(wait_us, RetryRegistration(version))
        for tag in list(self.awaited):
            self.send_store(tag, self.last_holders.pop(tag, None) if self._renews else None)

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
        if alarm.version == self.version:
            self._request_storage(alarm.version)

    def on_stored(self, sender: Address, stored: StoreAck) -> None:
        """A tag is acknowledged. If a holder stores a newer version than the current one, the
        member has an earlier incarnation that it does not remember: it moves to a version above.
        """
        entry, name = self.announced.get(stored.tag), self._contact.name
        version = max(
            (version for consumer, version, _ in stored.entries if consumer == name), default=0
        )
        if entry is None or version < entry.version:
            return
        if version > self.version:
            if not self.signing.signed:
                self.announce_version(self._advance(version))
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
            self._traversals.finish_one(task)

    @handles(NewerEntry)
    def on_newer_entry(self, sender: Address, newer: NewerEntry) -> None:
        """A holder has a newer signed entry of this member, from an incarnation that it does not
        remember. The signature is verified.
        """
        entry, is_own = newer.entry, newer.entry.member.name == self._contact.name
        is_newer = is_own and 0 < self.version < entry.version
        if is_newer and is_proved(self.signing, newer.tag, entry):
            self.announce_version(self._advance(entry.version))

    def _confirm_if_complete(self) -> None:
        if self.awaited:
            return
        if self.description is not None:
            self.host.deliver(Registered(self.version))
            if self._renews:
                self._schedule_renewal()
        else:
            self.host.deliver(Withdrawn(self.version))
        if self._is_leaving:
            self._is_leaving = False
            self.surface.leave()

    # --- the lease

    def _schedule_renewal(self) -> None:
        pause_us = self.settings.lease_us // RENEWALS / max(1, len(self.announced))
        self.host.after(
            int(pause_us * (0.8 + 0.4 * self.host.rng.random())), RenewTag(self.version)
        )

    @handles(RenewTag)
    def on_renew_tag(self, alarm: RenewTag) -> None:
        if alarm.version != self.version or self.awaited or not self.announced:
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
            self._on_return()
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
            self.timer_wheel.schedule_once(wait_us, self.register_all_again)
            return
        self._reunited_us = self.host.now_us
        for number, tag in enumerate(sorted(self.announced)):
            retry = partial(self.retry_reregister, tag, self.version, REREGISTER_TRIES + 1)
            self.timer_wheel.schedule(REUNION_PAUSE_US * number, retry)

    def register_again(self, lost: Tract, task: TraversalTask | None = None) -> None:
        """Register the tags again whose record could have its home in the lost tract at some notch,
        except those that were requested and acknowledged since the loss. `task`: the recovery
        traversal that waits for it.
        """
        asks = task.traversal if task is not None else None
        assert asks is None or isinstance(asks, ReregisterRequest)
        age_us = asks.age_us if asks is not None else 0
        notches = self.settings.notches() if self.settings.storage_limit < NO_LIMIT else (0,)
        for tag, entry in list(self.announced.items()):
            root = address_of(tag)
            places = [home(root, notch, entry.spot, self.settings.dimensions) for notch in notches]
            if not any(contains(lost, each) for each in places) or self._is_within(
                self._confirmed_us, tag, age_us
            ):
                continue
            if tag not in self._reregistering:
                self._retry_reregister_later(tag, self.version, REREGISTER_TRIES)
            waiting = self._reregistering.setdefault(tag, [])
            if task is not None:
                task.add_pending()
                waiting.append(task)
            if self._is_within(self._sent_us, tag, age_us):
                continue  # requested since the loss
            # The peer that asks owns the lost tract, so it need not be looked for. Any other tag of
            # a registration in progress is requested by that.
            if asks is not None and contains(lost, root):
                self.send_store(tag, asks.leader)
            elif tag not in self.awaited:
                self.send_store(tag, self.last_holders.pop(tag, None))

    def _is_within(self, times_us: dict[str, int], tag: str, age_us: int) -> bool:
        at_us = times_us.get(tag)
        return at_us is not None and 0 <= self.host.now_us - at_us < age_us

    def _retry_reregister_later(self, tag: str, version: Version, tries: int) -> None:
        retry = partial(self.retry_reregister, tag, version, tries - 1)
        self.timer_wheel.schedule(WAIT_LONGEST_US // 2, retry)

    def retry_reregister(self, tag: str, version: Version, tries: int) -> None:
        """Request a tag that may be lost, until it is acknowledged: ownership around the lost tract
        may still be changing. `tries`: attempts left.
        """
        is_first = tries > REREGISTER_TRIES
        if (
            version != self.version
            or tag not in self.announced
            or (is_first and tag in self.awaited)
        ):
            return
        if is_first:
            self._reregistering.setdefault(tag, [])
        if tries and tag in self._reregistering:
            self.send_store(tag, self.last_holders.pop(tag, None) if is_first else None)
            self._retry_reregister_later(tag, version, tries)
        else:
            self._reregistering.pop(tag, None)
