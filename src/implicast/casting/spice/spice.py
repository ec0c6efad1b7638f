"""A SPICE peer: an ICE surface, registries and casts on it, and the operations of the application.

Theory of operation (thesis chapters 7 and 8). A tag hashes to a code of the surface, its *root*.
The owner of the root is the rendezvous peer of the tag and holds the tag's *registry*: one record
for each consumer registered under it. A cast goes to the registry of one tag of each of its terms,
and the holders of that registry notify the consumers that the target selects.

- A registry that outgrows `storage_limit` closes and passes its records up to the next *notch*,
  where each has a home in a container 2^d times as large (`stores.py`, `containers.py`). A cast
  follows from notch to notch.
- A root that receives more casts than `frequency_limit` has the tag's *level* raised: the registry
  is copied to 2^(d level) roots spread over the surface (`replicas.py`, `pushes.py`, `loads.py`,
  `levels.py`). A cast uses the nearest copy.
- A traversal visits every holder of a registry and reports its coverage to the peer where it
  started (`traversals.py`). Casts, gathering, copying and recovery use it.

Invariants with receipts. A registration is acknowledged when all backups of its holder have it and,
if the tag is replicated, when all roots have it. A root that is ready has every acknowledged
registration. At each moment a record is stored at its old home, at its new home, or at both. Where
registries are lost, traversals wait until the consumers have registered again.

FIDELITY.md lists the differences from the thesis.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from implicast.casting.complaints import ComplaintLog, DurableComplaintLog
from implicast.casting.spice import calls, loads, pushes, replicas, traversal_messages
from implicast.casting.spice.calls import CallAck, OwnerCalls
from implicast.casting.spice.casts import COUNT_ONLY, Casts
from implicast.casting.spice.complaints import Complaints
from implicast.casting.spice.containers import Containers
from implicast.casting.spice.finder import RegistryFinder
from implicast.casting.spice.items import Answer, Entry, Key, Tag
from implicast.casting.spice.part import Tools
from implicast.casting.spice.pushes import PushCollected, ReplicaPushes
from implicast.casting.spice.receiver import (
    DURABLE_NOTIFIERS_MAX,
    RepeatNotifier,
    SpiceReceiver,
)
from implicast.casting.spice.recovery import Recovery
from implicast.casting.spice.registrations import RegisteredState, Registrations
from implicast.casting.spice.registries import Registries, RegistryState
from implicast.casting.spice.registry import Record
from implicast.casting.spice.replicas import Replicas
from implicast.casting.spice.settings import SpiceSettings
from implicast.casting.spice.store_requests import ASCENDING, Grouping, StoreAck, StoreRequest
from implicast.casting.spice.stores import AboveState, Stores
from implicast.casting.spice.traversals import Traversals
from implicast.language.target import Description, Target
from implicast.overlay.ice.durable import DurableSurface
from implicast.overlay.ice.item_store import Item
from implicast.overlay.ice.surface import IceSurface, surface_of
from implicast.peer.contract import Address, CastId, Message, handles
from implicast.peer.member import DurableState, Member
from implicast.peer.policy import UNLIMITED
from implicast.peer.requests import Requests
from implicast.peer.site import Site
from implicast.peer.timer_wheel import TimerWheel
from implicast.space.built import built
from implicast.space.tract import Tract, intersect

_BUILT = built("casting.spice._records")
PARTS = {
    "surface": IceSurface,
    "requests": Requests,
    "timer_wheel": TimerWheel,
    "receiver": SpiceReceiver,
    "stores": Stores,
    "traversals": Traversals,
    "replicas": Replicas,
    "complaints": Complaints,
    "casts": Casts,
    "registrations": Registrations,
}
_ASSURED = (traversal_messages.GatherRequest, traversal_messages.ReregisterRequest)
REMOTE_KINDS: dict[tuple[bool, bool], tuple[type, ...]] = {
    (False, False): (),
    (False, True): (traversal_messages.CopyRequest,),
    (True, False): _ASSURED,
    (True, True): (*_ASSURED, traversal_messages.CopyRequest),
}
"""Traversals of other peers that are processed, besides casts: with receipts, and where levels
change.
"""
TAGS_MAX = 4_096
"""Maximum number of a member's tags in its durable state."""
INCARNATION_SHIFT, INCARNATION_MASK = 24, 0xFFFF

ARRIVALS: dict[type, Callable[[Any, Tract, Any], None]] = {
    StoreRequest: lambda spice, part, store: spice.pushes.on_store(part, store),
    pushes.ReplicateRequest: lambda spice, part, copy: spice.pushes.on_arrival(part, copy),
    calls.ItemOffer: lambda spice, part, offer: spice.recovery.on_offer(part, offer),
    loads.LoadHint: lambda spice, part, hint: spice.replicas.loads.on_hint(hint),
    loads.LoadQuery: lambda spice, part, ask: spice.replicas.loads.on_query(part, ask),
    calls.ReplicaActivation: lambda spice, part, ready: spice.replicas.on_activation(part, ready),
    replicas.LevelAnnouncement: lambda spice, part, depth: spice.levels.learn_depth(depth.level),
    calls.VetoRequest: lambda spice, part, ask: spice.replicas.on_veto_request(part, ask),
}
"""Handlers of routed messages that have reached a part of this peer's own tract."""
ROUTED = tuple(kind for kind in ARRIVALS if kind is not StoreRequest)
"""Messages that are processed only where their way ends."""


class DurableSpice(DurableState):
    """State that survives a crash: identity, known neighbours on the surface, tags under which the
    member may be registered, and the complaint log.
    """

    surface: DurableSurface
    tags: Annotated[tuple[Tag, ...], Meta(max_length=TAGS_MAX)] = ()
    complaint_log: DurableComplaintLog = ()
    repeats: Annotated[tuple[RepeatNotifier, ...], Meta(max_length=DURABLE_NOTIFIERS_MAX)] = ()
    """Notifiers of casts that were counted again lately."""


class SpiceState(NamedTuple):
    """What the registrations of all members leave behind at one peer."""

    registered: RegisteredState
    registries: tuple[RegistryState, ...] = ()
    above: tuple[AboveState, ...] = ()
    """Holders of records that this peer has passed up."""
    copied: Mapping[str, tuple[Entry, ...]] = {}
    """By tag whose original root is local: entries that all its roots have."""


class Spice(Member, parts=PARTS):
    """One peer. All peers have the same role."""

    __slots__ = (
        "_complaint_log",
        "_on_routed",
        "calls",
        "containers",
        "levels",
        "pushes",
        "recovery",
        "registries",
        "settings",
        *PARTS,
    )

    def __init__(self, site: Site, settings: SpiceSettings) -> None:
        super().__init__(site)
        durable: DurableSpice | None = site.durable_state
        self.settings, assured = settings, settings.assured
        surface = self.surface = surface_of(
            site.address, site.host, self, settings.terms, durable.surface if durable else None
        )
        self.timer_wheel = TimerWheel(site.address, site.host)
        self.requests = Requests(site.address, site.host)
        first = (self.incarnation & INCARNATION_MASK) << INCARNATION_SHIFT if assured else 0
        # Tokens of different incarnations differ, so that an answer to an earlier one is ignored.
        next_token = partial(next, count(ASCENDING + first + 1))
        tools = Tools(settings, surface, self.timer_wheel, self.signing, next_token)

        registries = self.registries = Registries(site.host, settings, self.signing)
        self.levels = registries.levels
        repeats = durable.repeats if durable is not None else ()
        self.receiver = SpiceReceiver(site, self.policy, self.fit, self._described, repeats)
        together = (
            None
            if assured
            else Grouping(
                tools,
                registries,
                on_local=self._store_entries,
                on_waiting=self._schedule_flush,
            )
        )
        self.stores = Stores(
            tools,
            registries,
            together,
            on_kept=self._on_records_stored,
            on_acked=self.on_stored,
        )
        traversals = self.traversals = Traversals(tools, registries)
        self.containers = Containers(tools, registries, self.stores, traversals)
        self.pushes = ReplicaPushes(tools, registries, self.stores, traversals, together)
        self.calls = OwnerCalls(tools, self.levels)
        self.replicas = Replicas(tools, registries, traversals, self.pushes, self.calls)
        log = self._complaint_log = ComplaintLog(
            self._now_us, durable.complaint_log if durable is not None else ()
        )
        self.complaints = Complaints(
            tools,
            self.name,
            log,
            self.receiver,
            traversals,
            is_publishing=self._is_publishing,
            on_first=self._check_casts,
        )
        self.casts = Casts(
            tools,
            self.name,
            self.policy,
            self.requests,
            self.receiver,
            registries,
            traversals,
            self.containers,
            RegistryFinder(tools, registries, self.replicas.loads, log),
            self.complaints,
            log,
        )
        self.registrations = Registrations(
            tools,
            self.contact,
            traversals,
            (self.description, durable.tags if durable is not None else ()),
            advance=self.advance_incarnation,
            on_return=self._register_again,
        )
        self.recovery = Recovery(
            tools,
            registries,
            traversals,
            self.containers,
            self.calls,
            self.replicas,
            self.registrations,
            on_stray=self.drop_stray,
        )
        users = (self.casts, self.containers, self.replicas, self.recovery)
        traversals.serve(users, REMOTE_KINDS[assured, settings.live])
        self._on_routed = self._route_assured if assured else self._route_plain
        if not assured and not self.signing.signed and self.policy is UNLIMITED and _BUILT:
            self.casts.use_compiled(_BUILT.FastTraversal)
        if log.accounts:
            self.complaints.activate()

    # Reports of the parts. Bound methods take a third of the memory of closures.

    def _described(self) -> Description | None:
        return self.description

    def _now_us(self) -> int:
        return self.host.now_us

    def _store_entries(
        self, tag: str, root: int, notch: int, entries: Sequence[Entry], answer: Answer
    ) -> None:
        self.stores.store_entries(tag, root, notch, entries, answer)

    def _schedule_flush(self) -> None:
        self.stores.schedule_flush()

    def _on_records_stored(self, key: Key, records: Sequence[Record]) -> None:
        self.containers.on_records_stored(key, records)

    def _is_publishing(self, cast: CastId) -> bool:
        return cast in self.casts.publishing

    def _check_casts(self) -> None:
        """There is a complaint: the compiled handler of casts does not check for it."""
        self.casts.use_compiled(None)

    def restore(self, state: SpiceState) -> None:
        """Take the state that registrations leave behind."""
        self.describe(state.registered.description)
        self.registrations.restore(state.registered)
        self.registries.restore(state.registries, self.surface.committed)
        self.stores.restore(state.above)
        self.pushes.restore(state.copied)
        self.containers.schedule_sweep()

    def durable_state(self) -> DurableSpice:
        return DurableSpice(
            self.durable_member(self.receiver.inbox.seen.blocks()),
            self.surface.durable_state(),
            tuple(self.registrations.announced)[:TAGS_MAX],
            self._complaint_log.durable_state(),
            self.receiver.repeat_notifiers(),
        )

    # --- operations of the application

    def join(self, introducers: tuple[Address, ...]) -> None:
        self.surface.join(introducers)

    def leave(self) -> None:
        """Withdraw, wait for the acknowledgements, then hand off the own extents with everything
        stored there.
        """
        self.registrations.announce(self.describe(None), None, None, leaves=True)

    def register(self, description: Description) -> None:
        before = self.description
        self.registrations.announce(self.describe(description), description, before)

    def withdraw(self) -> None:
        self.registrations.announce(self.describe(None), None, None)

    def _register_again(self) -> None:
        """Register the description of an earlier incarnation."""
        self.registrations.announce(self.next_version(), self.description, None)

    def cast(self, target: Target, payload: bytes, expiry_us: int = 0) -> CastId:
        cast = self.next_cast()
        sealed = self.seal(cast, target, payload, expiry_us)
        self.casts.publish(cast, target, sealed, self.incarnation)
        return cast

    def complain(self, cast: CastId) -> bool:
        return self.complaints.complain(cast)

    def estimate(self, target: Target) -> int:
        """Run the traversal of a cast that counts the members and notifies none."""
        token = self.stores.next_token()
        asked = CastId(self.name, self.incarnation, token)
        sealed = self.seal(asked, (COUNT_ONLY, target), b"")
        self.casts.publish(asked, target, sealed, self.incarnation, count_only=True)
        return token

    # --- messages that concern several parts

    @handles(StoreRequest)
    def on_store(self, sender: Address, store: StoreRequest) -> None:
        if store.notch <= self.settings.last_notch and not self.pushes.on_direct(store):
            self._on_routed(sender, store)

    @handles(StoreAck)
    def on_stored(self, sender: Address, stored: StoreAck) -> None:
        if stored.token == self.registrations.token:
            self.registrations.on_stored(sender, stored)
        elif stored.token == ASCENDING:
            self.containers.on_stored_above(stored)
        elif not (self.pushes.on_stored(sender, stored) or self.containers.on_moved(stored)):
            self.stores.on_stored(sender, stored)

    @handles(PushCollected)
    def on_push_collected(self, alarm: PushCollected) -> None:
        self.pushes.send_collected()

    @handles(CallAck)
    def on_call_ack(self, sender: Address, ack: CallAck) -> None:
        self.calls.on_call_ack(ack)

    @handles(*ROUTED)
    def on_routed(self, sender: Address, message: Any) -> None:
        self._on_routed(sender, message)

    def _route_plain(self, sender: Address, message: Any) -> None:
        self.surface.routing.on_routed(sender, message)

    def _route_assured(self, sender: Address, message: Any) -> None:
        """A message without number is sent directly by a peer that knows this one as the owner."""
        if message.way.number:
            self.surface.routing.on_routed(sender, message)
        else:
            self.surface.send(message)

    # --- store of the surface: called by ICE

    def pack(self, tract: Tract) -> tuple[Item, ...]:
        return self.registries.pack(tract)

    def can_decode(self, item: Item) -> bool:
        return self.registries.can_decode(item)

    def accept(self, items: tuple[Item, ...], tract: Tract) -> None:
        for item in items:
            if item.body and intersect(tract, (item.low, item.high)):
                self.recovery.unite(item, tract, True)

    def drop(self, tract: Tract) -> None:
        self.registries.drop(tract)

    def on_tract_lost(self, tract: Tract) -> None:
        self.recovery.on_tract_lost(tract)

    def lost(self, tract: Tract) -> None:
        self.recovery.lost(tract)

    def settled(self) -> None:
        self.recovery.settled()

    def retry_waiting(self) -> None:
        self.traversals.retry_waiting()

    def on_partition_healed(self) -> None:
        self.registrations.register_all_again()

    def on_arrival(self, sender: Address, part: Tract, message: Message) -> None:
        ARRIVALS[type(message)](self, part, message)

    def holdings(self) -> Any:
        return self.surface.holdings(), *self.registries.holdings()
