"""A member that runs on Chord and holds lists for others: the common part of all designs on a
hashed ring.

A design defines which entries a description needs, which lists a cast reads, and which members they
select. The parts of this package make that survive joins, leaves and crashes.
"""

from abc import abstractmethod
from collections.abc import Sequence, Set
from math import log2
from typing import Any

from msgspec.structs import replace as replace_fields

from implicast.casting import notifier
from implicast.casting.coverage import CastTally
from implicast.casting.notifier import Notify, Receiver, acknowledge_nothing
from implicast.casting.replicated_lists.anti_entropy import AntiEntropy
from implicast.casting.replicated_lists.described_entries import ADDED, DescribedEntries
from implicast.casting.replicated_lists.doubtful_casts import DoubtfulCasts
from implicast.casting.replicated_lists.durable import DurableRing
from implicast.casting.replicated_lists.entry_proofs import EntryProofs
from implicast.casting.replicated_lists.fetches import Fetch, Fetches
from implicast.casting.replicated_lists.holder import ListHolder
from implicast.casting.replicated_lists.holder_state import HolderState
from implicast.casting.replicated_lists.lease_renewals import LeaseRenewals
from implicast.casting.replicated_lists.messages import Found, Slot
from implicast.casting.replicated_lists.own_entries import OwnEntries
from implicast.casting.replicated_lists.own_entry import ListRange, OwnEntry
from implicast.casting.replicated_lists.owner_probes import OwnerProbes
from implicast.casting.replicated_lists.range_handoff import RangeHandoff
from implicast.casting.replicated_lists.ring_broadcast import RingBroadcast
from implicast.casting.replicated_lists.settings import list_settings, refresh_us, ring_settings
from implicast.language.target import Description, Scalar, Target
from implicast.overlay.chord import Chord
from implicast.overlay.links import Links
from implicast.peer.contract import (
    Address,
    CastId,
    Contact,
    Incarnation,
    Message,
    Name,
    handles,
)
from implicast.peer.detector import Detector
from implicast.peer.events import Estimated, Joined, Refused, Registered, Withdrawn
from implicast.peer.member import Member
from implicast.peer.name import version_of
from implicast.peer.requests import Requests, UpkeepRequests
from implicast.peer.site import Site
from implicast.space.ring import ID_BITS, hashed

OWN_CASTS_US, OWN_CASTS_CHECK_US = 20_000_000, 250_000
"""How long a leaving member waits for its own casts, which need the ring; how often it checks."""


class LeaveCheck(Message):
    """Fires while a leaving member waits for its own casts."""


class RingMember(
    Member,
    parts={
        "links": Links,
        "detector": Detector,
        "chord": Chord,
        "anti_entropy": AntiEntropy,
        "broadcast": RingBroadcast,
        "range_handoff": RangeHandoff,
        "owner_probes": OwnerProbes,
        "holder": ListHolder,
        "own_entries": OwnEntries,
        "described_entries": DescribedEntries,
        "lease_renewals": LeaseRenewals,
        "fetches": Fetches,
        "requests": Requests,
        "upkeep_requests": UpkeepRequests,
        "notifier": notifier.Notifier,
        "receiver": Receiver,
    },
):
    """Ring, fingers, replicated lists and notification, and the verbs that use them."""

    __slots__ = (
        "_doubtful",
        "_leave_by_us",
        "_pending_removals",
        "_pending_version",
        "_site",
        "_token",
        "anti_entropy",
        "broadcast",
        "chord",
        "described_entries",
        "detector",
        "fetches",
        "holder",
        "holder_state",
        "lease_renewals",
        "links",
        "notifier",
        "own_entries",
        "owner_probes",
        "range_handoff",
        "receiver",
        "requests",
        "upkeep_requests",
    )

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        durable = site.durable_state
        acknowledge = notifier.Acks(site).acknowledge if site.assured else acknowledge_nothing
        self.receiver = Receiver(site, self.policy, self.fit, acknowledge)
        self._leave_by_us = self._token = 0
        self._doubtful = DoubtfulCasts(self.unclear)
        self._pending_removals: list[OwnEntry] = []
        self._pending_version = 0
        """Removals that an earlier incarnation did not complete, and their version."""
        self._site: Site | None = site
        if site.assured or not site.resting:
            self.make_parts()
        if durable is not None:
            self.described_entries.listed_as = self.description
            self._pending_removals = self.own_entries.restore(durable.entries)
            self._pending_version = durable.member.version

    def __getattr__(self, name: str) -> Any:
        """Create the parts on first use. In a population at rest most members only receive
        notifications and never need them.
        """
        if name not in _LAZY_PARTS or self._site is None:
            raise AttributeError(name)
        self.make_parts()
        return getattr(self, name)

    def make_parts(self) -> None:
        site, self._site = self._site, None
        assert site is not None, "parts are made once"
        address, host = self.address, self.host
        settings = list_settings(site)
        key, near = (
            hashed("peer", site.network, site.name),
            site.durable_state.neighbours if site.durable_state is not None else (),
        )
        self.links = Links(address, host, key, ring_settings(site), neighbours=near)
        self.detector = self.links.detector
        self.chord = Chord(address, host, self.links, ID_BITS, refresh_us(site))
        self.requests, self.upkeep_requests = Requests(address, host), UpkeepRequests(address, host)
        proofs = EntryProofs(self.signing, self.described, self.is_number_of)
        # Lambdas where a part calls a part that is created after it.
        state = HolderState(self.contact, host, self.chord, self.key_of, settings, proofs)
        self.holder_state = state
        self.anti_entropy = AntiEntropy(state, lambda: self.lease_renewals.renew_all())
        self.broadcast = RingBroadcast(
            state, lambda *lost: self.own_entries.on_range_lost(*lost), self._on_suspect
        )
        self.range_handoff = RangeHandoff(state, self.anti_entropy, self.broadcast, self.on_joined)
        self.owner_probes = OwnerProbes(
            state, self.upkeep_requests, lambda: self.own_entries.put_all_again()
        )
        self.holder = ListHolder(state, self.owner_probes, self.receive)
        self.own_entries = OwnEntries(
            state, self.holder, self.incarnation, self.on_put_done, self._on_later_incarnation
        )
        self.described_entries = DescribedEntries(
            state, self.own_entries, self.entries_for, self.all_put
        )
        self.lease_renewals = LeaseRenewals(
            state, self.holder, self.upkeep_requests, self.own_entries
        )
        self.fetches = Fetches(state, self.holder, self._on_fetched)
        notifying = notifier.Notifier if self.assured else notifier.UncountedNotifier
        self.notifier = notifying(address, host, self.requests, self._settled, self.signing)

    def _on_suspect(self, where: Address) -> None:
        self.own_entries.on_suspect(where)
        self.owner_probes.probe_at(where)

    def on_joined(self) -> None:
        """Called when this node has joined the ring and has the entries that it owns."""
        self.host.deliver(Joined())
        self.holder.serve_waiting()
        pending, self._pending_removals = self._pending_removals, []
        if pending:
            self.own_entries.put(("pending", self._pending_version, 0), pending)

    # What a design defines

    @abstractmethod
    def key_of(self, attribute: str, value: Scalar) -> int:
        """Return the ring key of a value's list. Raises `RemoteError` if it has none."""

    @abstractmethod
    def entries_for(self, description: Description) -> list[OwnEntry]:
        """Return the entries to put for a description."""

    @abstractmethod
    def fetch_for(self, target: Target, payload: bytes) -> Fetch | str:
        """Return the lists to read for a cast, or the reason for refusing it."""

    @abstractmethod
    def sizes(self, target: Target) -> list[list[list[ListRange]]]:
        """For each term and each of its constraints, return lists that together contain every
        member that satisfies the constraint. A design may leave constraints out.
        """

    @abstractmethod
    def on_lists(self, cast: CastId, fetch: Fetch) -> None:
        """Called when all lists of a cast have been read."""

    @abstractmethod
    def select(self, fetch: Fetch, lists: Sequence[Sequence[Found]]) -> dict[Name, Contact]:
        """Return the members that the target of a fetch selects in these lists; none for an event."""

    def unclear(self, fetch: Fetch) -> Set[Name]:
        """Return the members whose entries in these lists are of several descriptions."""
        return frozenset()

    @abstractmethod
    def described(self, slot: Slot, packed: bytes) -> Description | None:
        """Return what an entry states about its owner, for the check of protected tags, which need
        the authority's signature. None: nothing.
        """

    def is_number_of(self, owner: Name, number: int) -> bool:
        """Whether an entry of this owner may have this number."""
        return not number

    # Verbs

    def join(self, introducers: tuple[Address, ...]) -> None:
        self.links.join(introducers)

    def leave(self) -> None:
        """Leave in this order: stop receiving casts, remove the own entries, complete the own
        casts, hand the range off, leave the ring.
        """
        self.become(None)
        self._leave_by_us = self.host.now_us + OWN_CASTS_US
        self.own_entries.put("leave", self.described_entries.forget())

    @handles(LeaveCheck)
    def on_leave_check(self, alarm: LeaveCheck) -> None:
        is_busy = self.fetches.open or self.notifier.casts
        if is_busy and self.host.now_us < self._leave_by_us:
            self.host.after(OWN_CASTS_CHECK_US, alarm)
        else:
            self.range_handoff.leave()

    def register(self, description: Description) -> None:
        version = self.describe(description)
        self.described_entries.put(self.description, version)

    def withdraw(self) -> None:
        self.described_entries.put(None, self.describe(None))

    def restore_listed(self, description: Description) -> None:
        """Set the description in an assembled population, where the holders already store its
        entries.
        """
        self.described_entries.listed_as = description
        self.describe(description)

    def all_put(self) -> list[OwnEntry]:
        """Return the entries that this member has in lists. Without leases `OwnEntries` does not
        retain them; they are computed from the description.
        """
        if self.holder_state.settings.lease_us:
            return [each for each in self.own_entries.by_serial.values() if each.packed]
        listed_as = self.described_entries.listed_as
        return [] if listed_as is None else self.entries_for(listed_as)

    def on_put_done(self, group: Any) -> None:
        """Called when all puts of a group are acknowledged: the removals of a leave, one version of
        the description, or removals of an earlier incarnation.
        """
        if group == "leave":
            self.on_leave_check(LeaveCheck())
        elif isinstance(group, tuple) and group[0] == ADDED:
            self.described_entries.on_added(group[1])
        elif isinstance(group, tuple):
            if self.description is None and not self.version:
                self.host.deliver(Withdrawn(group[1]))
        elif group == self.version:
            done = Withdrawn if self.description is None else Registered
            self.host.deliver(done(self.version))

    def _on_later_incarnation(self, incarnation: Incarnation) -> None:
        """A holder has entries of a later incarnation than this one: the member restarted from an
        old copy of its disk. Continue above that incarnation and put everything again.
        """
        has_spoken = bool(self.version)
        version = self.advance_incarnation(version_of(incarnation, 0))
        self.own_entries.set_incarnation(self.incarnation)
        if has_spoken:
            self.described_entries.put(self.description, version)
        self.own_entries.put_all_again()

    def durable_state(self) -> DurableRing:
        removals = [
            own_entry for own_entry in self.own_entries.by_serial.values() if not own_entry.packed
        ]
        entries = tuple(
            own_entry.durable_state()
            for own_entry in (*self.all_put(), *removals, *self._pending_removals)
        )
        member = self.durable_member(self.receiver.inbox.seen.blocks())
        return DurableRing(
            replace_fields(member, version=member.version or self._pending_version),
            entries,
            self.links.nearby_nodes(),
        )

    # Casting

    def cast_verified(self, target: Target, payload: bytes, expiry_us: int = 0) -> CastId:
        return self.cast(target, payload, expiry_us, verified=True)

    def cast(
        self, target: Target, payload: bytes, expiry_us: int = 0, verified: bool = False
    ) -> CastId:
        cast = self.next_cast()
        fetch = self.fetch_for(target, self.seal(cast, target, payload, expiry_us))
        if isinstance(fetch, str):
            self.host.deliver(Refused("cast", fetch))
        else:
            self.fetches.start(cast, fetch, "cast", verified)
        return cast

    def _on_fetched(self, cast: CastId, fetch: Fetch, is_whole: bool) -> None:
        if fetch.counts:
            self._estimated(fetch, is_whole)
            return
        if not is_whole:
            fetch.note_missing()
        if self.assured:
            self._doubtful.note(cast, fetch)
        self.on_lists(cast, fetch)

    def notify(self, message: Notify, members: dict[Name, Contact]) -> None:
        """Notify the selected members; deliver locally if this member is one of them. Refused above
        the policy's `audience_max`.
        """
        if not self.policy.allows_audience(len(members)):
            self._doubtful.pop(message.cast, None)
            self.host.deliver(
                Refused("cast", f"it selects {len(members)} members, more than audience_max allows")
            )
            return
        here = None
        is_silent = self._doubtful.is_silent(message.cast, self.name, self.select)
        if members.pop(self.name, None) is not None or is_silent:
            here = self.receiver.inbox.take(message.cast, message.target, message.payload)
        named = (members[name] for name in sorted(members))
        # another name at this member's address: an earlier peer, which is gone
        others = [each for each in named if each.address != self.address]
        self.notifier.notify_members(message, others, here)

    def _settled(self, cast: CastId, counts: CastTally) -> None:
        is_uncertain = self.links.liveness.silent.are_uncertain()
        self.host.deliver(
            self._doubtful.settled(cast, counts, self.select, self.name, is_uncertain)
        )

    # Estimating

    def estimate(self, target: Target) -> int:
        """Estimate from list sizes: of each term, the size of its smallest constraint."""
        self._token += 1
        fetch = self.fetch_for(target, b"")
        if isinstance(fetch, str):
            self.host.deliver(Refused("estimate", fetch))
        else:
            terms = self.sizes(target)
            about = (self._token, terms, len(fetch.ranges))
            ranges = [each for of_term in terms for constraint in of_term for each in constraint]
            counting = Fetch(about, ranges, counts=True)
            self.fetches.start(CastId(self.name, 0, self._token), counting, "estimate")
        return self._token

    def _estimated(self, fetch: Fetch, is_whole: bool) -> None:
        token, terms, lookups = fetch.about
        if not is_whole:
            self.host.deliver(Refused("estimate", "some lists could not be fetched"))
            return
        counted = map(sum, fetch.lists)
        members = sum(
            min(sum(next(counted) for _ in one) for one in constraints) for constraints in terms
        )
        hops = log2(max(2.0, self.chord.nodes_estimate())) / 2 + 2
        messages = int(lookups * hops) + members * (2 if self.assured else 1)
        self.host.deliver(Estimated(token, members, messages))

    def holdings(self) -> Any:
        links, fingers = self.links, self.chord.table.fingers()
        neighbours = (links.left, links.right, links.lefts, fingers)
        return (neighbours, list(self.holder_state.all_entries()))


_LAZY_PARTS = frozenset({*RingMember.parts, "holder_state"} - {"receiver"})
