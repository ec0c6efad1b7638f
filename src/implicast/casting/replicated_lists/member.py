"""A member that runs on Chord and holds lists for others: the common part of all designs on a
hashed ring.

A design defines which entries a description needs, which lists a cast reads, and which members they
select. The parts of this package make that survive joins, leaves and crashes.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from math import log2
from typing import Any

from msgspec.structs import replace

from implicast.casting import notifier
from implicast.casting.coverage import SILENT_MAX, CastTally
from implicast.casting.notifier import Notify, Receiver, acknowledge_nothing
from implicast.casting.replicated_lists.anti_entropy import AntiEntropy
from implicast.casting.replicated_lists.durable import DurableRing
from implicast.casting.replicated_lists.entries import (
    Found,
    ListEntry,
    Listing,
    ListRange,
    OwnEntry,
    Slot,
)
from implicast.casting.replicated_lists.entry_proofs import EntryProofs
from implicast.casting.replicated_lists.holder import ListHolder
from implicast.casting.replicated_lists.holder_state import HolderState
from implicast.casting.replicated_lists.own_entries import OwnEntries
from implicast.casting.replicated_lists.own_table import OwnEntriesState
from implicast.casting.replicated_lists.owner_probes import OwnerProbes
from implicast.casting.replicated_lists.range_handoff import RangeHandoff
from implicast.casting.replicated_lists.reads import Fetch, Reads
from implicast.casting.replicated_lists.ring_broadcast import RingBroadcast
from implicast.casting.replicated_lists.settings import (
    ReplicatedListSettings,
    list_settings,
    refresh_us,
    ring_settings,
)
from implicast.language.target import Description, Scalar, Target
from implicast.overlay.chord import Chord
from implicast.overlay.links import Links
from implicast.peer.backoff import RepairBudget
from implicast.peer.contract import (
    Address,
    CastId,
    Contact,
    Incarnation,
    Message,
    Name,
    Version,
    handles,
)
from implicast.peer.detector import Detector
from implicast.peer.events import Estimated, Joined, Refused, Registered, Settled, Withdrawn
from implicast.peer.member import Member
from implicast.peer.name import version_of
from implicast.peer.policy import UNLIMITED
from implicast.peer.requests import Requests, UpkeepRequests
from implicast.peer.site import Site
from implicast.space.ring import ID_BITS, hashed

OWN_CASTS_US, OWN_CASTS_CHECK_US = 20_000_000, 250_000
"""How long a leaving member waits for its own casts, which need the ring; how often it checks."""


class LeaveCheck(Message):
    """Fires while a leaving member waits for its own casts."""


@dataclass(frozen=True, slots=True)
class RingMemberState:
    """State of a member of a ring at rest, beside its place on the ring."""

    own: OwnEntriesState = field(default_factory=OwnEntriesState)
    stored: Iterable[ListEntry] = ()
    """Entries that this node stores, as holder or as copy."""
    serves: bool = False
    """The node has all entries of its range, and its periodic upkeep starts now."""


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
        "reads": Reads,
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
        "_pending_version",
        "_per_member",
        "_token",
        "anti_entropy",
        "broadcast",
        "chord",
        "detector",
        "holder",
        "holder_state",
        "links",
        "notifier",
        "own_entries",
        "owner_probes",
        "range_handoff",
        "reads",
        "receiver",
        "requests",
        "upkeep_requests",
    )

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        disk: DurableRing | None = site.durable_state
        near = disk.neighbours if disk is not None else ()
        acknowledge = notifier.Acks(site).acknowledge if site.assured else acknowledge_nothing
        self.receiver = Receiver(site, self.policy, self.fit, acknowledge)
        self._leave_by_us = self._token = self._pending_version = 0
        """`_pending_version`: of the removals that an earlier incarnation did not complete."""
        self._doubtful: dict[CastId, Fetch] = {}
        """By own cast under way, its fetch, if holders removed entries of silent owners or may lack
        entries, or if entries of one member are of several descriptions.
        """
        self._per_member = 2 if site.assured else 1
        """Messages that notify one member."""
        address, host, key = self.address, self.host, hashed("peer", site.network, site.name)
        self.links = Links(address, host, key, ring_settings(site), neighbours=near)
        self.detector = self.links.detector
        self.chord = Chord(address, host, self.links, ID_BITS, refresh_us(site))
        budget = RepairBudget.of(site.parameters)
        self.requests = Requests(address, host, budget=budget)
        self.upkeep_requests = UpkeepRequests(address, host, budget=budget)
        self._make_lists(list_settings(site))
        on_fetched = self._on_counted if site.assured else self._on_fetched
        self.reads = Reads(self.holder_state, on_fetched)
        notifying = notifier.Notifier if site.assured else notifier.UncountedNotifier
        self.notifier = notifying(address, host, self.requests, self._settled, self.signing)
        if disk is not None:
            self._pending_version = disk.member.version
            self.own_entries.restore(OwnEntriesState(self.description, disk.entries))

    def _make_lists(self, settings: ReplicatedListSettings) -> None:
        proofs = EntryProofs(self.signing, self.described, self.is_number_of)
        node = (self.contact, self.host, self.chord, self.key_of)
        self.holder_state = state = HolderState(*node, settings, proofs)
        upkeep = self.upkeep_requests
        # lambdas where a part reports to a part that is created after it
        self.owner_probes = OwnerProbes(state, upkeep, lambda: self.own_entries.put_all_again())
        self.holder = ListHolder(
            state, self.owner_probes, lambda *ack: self.own_entries.on_put_ack(*ack)
        )
        self.own_entries = own = OwnEntries(state, self.holder, upkeep, self, self.incarnation)
        self.anti_entropy = AntiEntropy(state, own.renew_all)
        self.broadcast = RingBroadcast(state, own.on_range_lost, self._on_suspect)
        repair = self.anti_entropy, self.broadcast
        self.range_handoff = RangeHandoff(state, *repair, self.on_joined)

    def _on_suspect(self, where: Address) -> None:
        self.own_entries.on_suspect(where)
        self.owner_probes.probe_at(where)

    def on_joined(self) -> None:
        """Called when this node has joined the ring and has the entries that it owns."""
        self.host.deliver(Joined())
        self.reads.serve_waiting()
        self.own_entries.remove_pending(self._on_pending_removed)

    # State

    def durable_state(self) -> DurableRing:
        member = self.durable_member(self.receiver.inbox.seen.blocks())
        member = replace(member, version=member.version or self._pending_version)
        return DurableRing(member, self.own_entries.state().entries, self.links.nearby_nodes())

    def restore(self, state: RingMemberState) -> None:
        """Take over the state of a member of a ring at rest."""
        if state.own.listed_as is not None:
            self.describe(state.own.listed_as)
            self.own_entries.restore(state.own)
        self.holder_state.store(state.stored)
        if state.serves:
            self.range_handoff.restore()

    def holdings(self) -> Any:
        links, fingers = self.links, self.chord.table.fingers()
        neighbours = (links.left, links.right, links.lefts, fingers)
        return (neighbours, list(self.holder_state.all_entries()))

    # What a design defines

    @abstractmethod
    def key_of(self, attribute: str, value: Scalar) -> int:
        """Return the ring key of a value's list. Raises `RemoteError` if it has none."""

    @abstractmethod
    def entries_for(self, description: Description) -> list[Listing]:
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
        """Return the members whose entries in these lists are of several descriptions. The target
        may select none of these.
        """
        return frozenset()

    @abstractmethod
    def described(self, slot: Slot, packed: bytes) -> Description | None:
        """Return what an entry states about its owner, for the check of protected tags, which need
        the authority's signature. None: nothing.
        """

    def is_number_of(self, owner: Name, number: int) -> bool:
        """Whether an entry of this owner may have this number."""
        return not number

    def numbered_entries(self) -> list[OwnEntry]:
        """Return the entries in lists that do not belong to the description."""
        return []

    # Verbs

    def join(self, introducers: tuple[Address, ...]) -> None:
        self.links.join(introducers)

    def leave(self) -> None:
        """Leave in this order: stop receiving casts, remove the own entries, complete the own
        casts, hand the range off, leave the ring.
        """
        self.become(None)
        self._leave_by_us = self.host.now_us + OWN_CASTS_US
        self.own_entries.remove_all(lambda: self.on_leave_check(LeaveCheck()))

    @handles(LeaveCheck)
    def on_leave_check(self, alarm: LeaveCheck) -> None:
        is_busy = self.reads.open or self.notifier.casts
        if is_busy and self.host.now_us < self._leave_by_us:
            self.host.after(OWN_CASTS_CHECK_US, alarm)
        else:
            self.range_handoff.leave()

    def register(self, description: Description) -> None:
        self._put_description(self.describe(description))

    def withdraw(self) -> None:
        self._put_description(self.describe(None))

    def _put_description(self, version: Version) -> None:
        then = partial(self._on_put, version)
        self.own_entries.put_description(self.description, version, then)

    def _on_put(self, version: Version) -> None:
        """The lists state the description of this version."""
        if version == self.version:
            done = Withdrawn if self.description is None else Registered
            self.host.deliver(done(version))

    def _on_pending_removed(self) -> None:
        if self.description is None and not self.version:
            self.host.deliver(Withdrawn(self._pending_version))

    def on_later_incarnation(self, incarnation: Incarnation) -> None:
        """A holder has entries of a later incarnation than this one: the member restarted from an
        old copy of its disk. Continue above that incarnation and put everything again.
        """
        has_spoken = bool(self.version)
        version = self.advance_incarnation(version_of(incarnation, 0))
        self.own_entries.table.set_incarnation(self.incarnation)
        if has_spoken:
            self._put_description(version)
        self.own_entries.put_all_again()

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
            self.reads.start(cast, fetch, "cast", verified)
        return cast

    def _on_counted(self, cast: CastId, fetch: Fetch, is_whole: bool) -> None:
        """The lists of a cast with a receipt have arrived, or the time is over."""
        if not fetch.counts and (fetch.uncertain or fetch.has_silent() or self.unclear(fetch)):
            self._doubtful[cast] = fetch
        self._on_fetched(cast, fetch, is_whole)

    def _on_fetched(self, cast: CastId, fetch: Fetch, is_whole: bool) -> None:
        if fetch.counts:
            self._on_sizes(fetch, is_whole)
        else:
            self.on_lists(cast, fetch)

    def notify(self, message: Notify, members: dict[Name, Contact]) -> None:
        """Notify the selected members; deliver locally if this member is one of them. Refused above
        the policy's `audience_max`.
        """
        if self.policy is not UNLIMITED and not self.policy.allows_audience(len(members)):
            self._doubtful.pop(message.cast, None)
            self.host.deliver(
                Refused("cast", f"it selects {len(members)} members, more than audience_max allows")
            )
            return
        here, fetch = None, self._doubtful.get(message.cast)
        is_silent = fetch is not None and self.name in fetch.silent_members(self.select)
        if members.pop(self.name, None) is not None or is_silent:
            here = self.receiver.inbox.take(message.cast, message.target, message.payload)
        # another name at this member's address: an earlier peer, which is gone
        others = [members[name] for name in sorted(members)]
        others = [each for each in others if each.address != self.address]
        self.notifier.notify_members(message, others, here)

    def _settled(self, cast: CastId, counts: CastTally) -> None:
        """Deliver the receipt of a cast. Selected members whose entries were removed because they
        are silent count as unreachable. A member that did not answer counts as an uncertain region
        if it is unclear whether it is selected, or if there may be another ring.
        """
        fetch, silent, uncertain = self._doubtful.pop(cast, None), counts.silent, 0
        unclear: Set[Name] = frozenset()
        if fetch is not None:
            removed = fetch.silent_members(self.select) - {self.name}
            silent, uncertain = (*silent, *sorted(removed)), fetch.uncertain
            unclear = self.unclear(fetch) & set(silent)
        if unclear or self.links.liveness.silent.are_uncertain():
            uncertain = max(uncertain, 1)
        unreachable = counts.unreachable + len(silent) - len(counts.silent) - len(unclear)
        named = tuple(name for name in silent if name not in unclear)[:SILENT_MAX]
        counted = counts.notified, unreachable, counts.declined, counts.open
        self.host.deliver(Settled(cast, *counted, named, uncertain))

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
            self.reads.start(CastId(self.name, 0, self._token), counting, "estimate")
        return self._token

    def _on_sizes(self, fetch: Fetch, is_whole: bool) -> None:
        token, terms, lookups = fetch.about
        if not is_whole:
            self.host.deliver(Refused("estimate", "some lists could not be fetched"))
            return
        counted = map(sum, fetch.lists)
        members = sum(
            min(sum(next(counted) for _ in one) for one in constraints) for constraints in terms
        )
        hops = log2(max(2.0, self.chord.nodes_estimate())) / 2 + 2
        messages = int(lookups * hops) + members * self._per_member
        self.host.deliver(Estimated(token, members, messages))
