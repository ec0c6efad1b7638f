"""A SPICE peer: an ICE surface, registries and casts on it, and the operations of the application.

Theory of operation (thesis chapters 7 and 8). A tag hashes to a code of the surface, its *root*.
The owner of the root is the rendezvous peer of the tag and holds the tag's *registry*: one record
for each consumer registered under it. A cast goes to the registry of one tag of each of its terms,
and the holders of that registry notify the consumers that the target selects.

- A registry that outgrows `storage_limit` closes and passes its records up to the next *notch*,
  where each has a home in a container 2^d times as large (`stores.py`, `containers.py`). A cast
  follows from notch to notch.
- A root that receives more casts than `frequency_limit` has the tag's *level* raised: the registry
  is copied to 2^(d level) roots spread over the surface (`replicas.py`, `replica_push.py`,
  `levels.py`). A cast uses the nearest copy.
- A traversal visits every holder of a registry and reports its coverage to the peer where it
  started (`traversals.py`). Casts, gathering, copying and recovery use it.

Invariants with receipts. A registration is acknowledged when all backups of its holder have it and,
if the tag is replicated, when all roots have it. A root that is ready has every acknowledged
registration. At each moment a record is stored at its old home, at its new home, or at both. Where
registries are lost, traversals wait until the consumers have registered again.

FIDELITY.md lists the differences from the thesis.
"""

from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta

from implicast.casting.complaints import DurableComplaintLog
from implicast.casting.spice import messages
from implicast.casting.spice.casts import Casts
from implicast.casting.spice.complaints import Complaints
from implicast.casting.spice.containers import Containers
from implicast.casting.spice.fast_path import FastPath
from implicast.casting.spice.homes import home, spot_of
from implicast.casting.spice.items import (
    DOUBTFUL,
    KINDS,
    RECORD,
    UNRECOVERED,
    entry_of,
    label_of,
    tract_of,
)
from implicast.casting.spice.levels import Levels
from implicast.casting.spice.owner_calls import OwnerCalls
from implicast.casting.spice.receiver import (
    DURABLE_NOTIFIERS_MAX,
    RepeatNotifier,
    SpiceReceiver,
)
from implicast.casting.spice.registrations import Registrations
from implicast.casting.spice.registries import Registries
from implicast.casting.spice.registry import VersionCounter
from implicast.casting.spice.registry_copies import RegistryCopies
from implicast.casting.spice.replica_push import ReplicaPushes
from implicast.casting.spice.replicas import Replicas
from implicast.casting.spice.settings import SpiceSettings
from implicast.casting.spice.stores import ASCENDING, Stores
from implicast.casting.spice.traversal_state import TraversalTask
from implicast.casting.spice.traversals import Traversals
from implicast.language.target import Description, Target
from implicast.overlay.ice.durable import DurableSurface
from implicast.overlay.ice.item_store import Item
from implicast.overlay.ice.surface import IceSurface, surface_of
from implicast.peer.contract import Address, CastId, Message, handles
from implicast.peer.lazy_attributes import piecemeal
from implicast.peer.member import DurableState, Member
from implicast.peer.requests import Requests
from implicast.peer.site import Site
from implicast.peer.timer_wheel import TimerWheel
from implicast.peer.wire import UNREADABLE
from implicast.space.tract import Tract, intersect, subtract

PARTS = {
    "surface": IceSurface,
    "requests": Requests,
    "receiver": SpiceReceiver,
    "timer_wheel": TimerWheel,
    "stores": Stores,
    "containers": Containers,
    "traversals": Traversals,
    "fast_path": FastPath,
    "casts": Casts,
    "pushes": ReplicaPushes,
    "calls": OwnerCalls,
    "replicas": Replicas,
    "copies": RegistryCopies,
    "registrations": Registrations,
    "complaints": Complaints,
}
ON_DEMAND = [
    name for name in PARTS if name not in ("surface", "receiver", "registrations", "complaints")
]
"""Parts that are created on first use in a network without receipts."""
TAGS_MAX = 4_096
"""Maximum number of a member's tags in its durable state."""


ARRIVALS: dict[type, Callable[[Any, Tract, Any], None]] = {
    messages.StoreRequest: lambda spice, part, store: spice.stores.on_arrival(part, store),
    messages.ReplicateRequest: lambda spice, part, copy: spice.pushes.on_arrival(part, copy),
    messages.ItemOffer: lambda spice, part, offer: spice.calls.on_offer(part, offer),
    messages.LoadHint: lambda spice, part, rate: spice.replicas.on_load_hint(rate),
    messages.LoadQuery: lambda spice, part, ask: spice.replicas.on_load_query(part, ask),
    messages.ReplicaActivation: lambda spice, part, ready: spice.replicas.on_activation(
        part, ready
    ),
    messages.LevelAnnouncement: lambda spice, part, depth: spice.levels.learn_depth(depth.level),
    messages.VetoRequest: lambda spice, part, ask: spice.replicas.on_veto_request(part, ask),
}
"""Handlers of routed messages that have reached a part of this peer's own tract."""


class DurableSpice(DurableState):
    """State that survives a crash: identity, known neighbours on the surface, tags under which the
    member may be registered, and the complaint log.
    """

    surface: DurableSurface
    tags: Annotated[tuple[messages.Tag, ...], Meta(max_length=TAGS_MAX)] = ()
    complaint_log: DurableComplaintLog = ()
    repeats: Annotated[tuple[RepeatNotifier, ...], Meta(max_length=DURABLE_NOTIFIERS_MAX)] = ()
    """Notifiers of casts that were counted again lately."""


class Spice(Member, parts=PARTS):
    """One peer. All peers have the same role."""

    __slots__ = (
        "_packed",
        "complaints_seen",
        "levels",
        "settings",
        "registries",
        "counter",
        *sorted(PARTS.keys() - {"complaints"}),
    )
    requests: Requests
    timer_wheel: TimerWheel
    stores: Stores
    containers: Containers
    traversals: Traversals
    fast_path: FastPath
    casts: Casts
    pushes: ReplicaPushes
    calls: OwnerCalls
    replicas: Replicas
    copies: RegistryCopies

    def __init__(self, site: Site, settings: SpiceSettings) -> None:
        super().__init__(site)
        durable: DurableSpice | None = site.durable_state
        before, tags = (durable.member, durable.tags) if durable is not None else (None, ())
        self.settings, self.counter = settings, VersionCounter()
        self.complaints_seen: Complaints | None = None
        """None until the first complaint."""
        self._packed: tuple[int, Tract, tuple[Item, ...]] = (-1, (), ())
        self.surface = surface_of(
            site.address, site.host, self, settings.terms, durable.surface if durable else None
        )
        self.registries, self.levels = (
            Registries(site.host, settings, self.counter, self.signing),
            Levels(settings, self.counter),
        )
        if not settings.assured:
            self.__class__ = piecemeal(Spice, Spice.make)
        for name in ON_DEMAND if settings.assured else ():
            self.make(name)
        self.receiver = SpiceReceiver(self, site, durable.repeats if durable is not None else ())
        self.registrations = Registrations(self, before, tags)
        if durable is not None and durable.complaint_log:
            Complaints(self, durable.complaint_log)

    def make(self, name: str) -> Any:
        """Create a part on first use."""
        if name not in ON_DEMAND:
            raise AttributeError(name)
        kind: Any = PARTS[name]
        part = kind(self.address, self.host) if kind is Requests else kind(self)
        setattr(self, name, part)
        return part

    @property
    def complaints(self) -> Complaints:
        """Created on first use."""
        return self.complaints_seen or Complaints(self)

    def durable_state(self) -> DurableSpice:
        heard, tags = (
            self.receiver.inbox.seen.blocks(),
            tuple(self.registrations.announced)[:TAGS_MAX],
        )
        complaint_log = (
            self.complaints_seen.complaint_log.durable_state()
            if self.complaints_seen is not None
            else ()
        )
        return DurableSpice(
            self.durable_member(heard),
            self.surface.durable_state(),
            tags,
            complaint_log,
            self.receiver.repeat_notifiers(),
        )

    def on_first_complaint(self, complaints: Complaints) -> None:
        """Check every cast that passes here against the complaint log from now on."""
        self.complaints_seen = complaints
        self.fast_path.disable()

    # --- operations of the application

    def join(self, introducers: tuple[Address, ...]) -> None:
        self.surface.join(introducers)

    def leave(self) -> None:
        """Withdraw, wait for the acknowledgements, then hand off the own extents with everything
        stored there.
        """
        self.registrations.announce(self.describe(None), None, leaves=True)

    def register(self, description: Description) -> None:
        before = self.description
        self.registrations.announce(self.describe(description), before)

    def withdraw(self) -> None:
        self.registrations.announce(self.describe(None), None)

    def cast(self, target: Target, payload: bytes, expiry_us: int = 0) -> CastId:
        cast = self.next_cast()
        self.casts.publish(cast, target, self.seal(cast, target, payload, expiry_us))
        return cast

    def complain(self, cast: CastId) -> bool:
        return self.complaints.complain(cast)

    def estimate(self, target: Target) -> int:
        """Run the traversal of a cast that counts the members and notifies none."""
        token = self.stores.next_token()
        asked = CastId(self.name, self.incarnation, token)
        self.casts.publish(
            asked,
            target,
            self.seal(asked, (messages.COUNT_ONLY, target), b""),
            count_only=True,
        )
        return token

    # --- answers that may belong to several parts

    @handles(messages.StoreAck)
    def on_stored(self, sender: Address, stored: messages.StoreAck) -> None:
        if stored.token == self.registrations.token:
            self.registrations.on_stored(sender, stored)
        elif stored.token == ASCENDING:
            self.containers.on_stored_above(stored)
        elif not (self.pushes.on_stored(sender, stored) or self.containers.on_moved(stored)):
            self.stores.on_stored(sender, stored)

    @handles(*messages.ROUTED)
    def on_routed(self, sender: Address, message: Any) -> None:
        if message.way.number or not self.settings.assured:
            self.surface.routing.on_routed(sender, message)
        else:
            self.surface.send(message)  # sent directly by a peer that knows this one as the owner

    # --- store of the surface: called by ICE

    @property
    def known(self) -> Tract:
        """The part of the own tract with complete registries. Traversals visit only this part."""
        own, unrecovered = self.surface.committed, self.registries.unrecovered
        return subtract(own, unrecovered) if unrecovered else own

    def pack(self, tract: Tract) -> tuple[Item, ...]:
        """Items stored in the tract. The same tuple object is returned until something changes, so
        that callers can compare by identity.
        """
        version = self.counter.version
        if self._packed[0] != version or self._packed[1] != tract:
            self._packed = (
                version,
                tract,
                (*self.registries.pack(tract), *self.levels.pack(tract)),
            )
        return self._packed[2]

    def can_decode(self, item: Item) -> bool:
        """Whether an item is well formed: a known kind, a registry that can exist, and a record
        under its own consumer's name at that consumer's home.
        """
        try:
            kind, tag, root, notch, consumer = label_of(item.key)
            entry = entry_of(item.body) if kind == RECORD and item.body else None
        except UNREADABLE:
            return False
        if kind in (UNRECOVERED, DOUBTFUL):
            return consumer is None
        if (
            kind not in KINDS
            or (kind == RECORD) == (consumer is None)
            or not self.settings.is_place(tag, root, notch)
        ):
            return False
        if consumer is None:
            return True
        spot = entry.spot if entry is not None else spot_of(consumer, tag)
        whose = entry.member.name if entry is not None else consumer
        return whose == consumer and item.low == home(root, notch, spot, self.settings.dimensions)

    def accept(self, items: tuple[Item, ...], tract: Tract) -> None:
        for item in items:
            if item.body and intersect(tract, (item.low, item.high)):
                self.unite(item, tract, True)

    def unite(self, item: Item, tract: Tract, safe: bool) -> None:
        """Merge an item. An item that cannot be decoded, or whose registry cannot exist, is counted
        and dropped.
        """
        try:
            label = label_of(item.key)
            if label[0] == UNRECOVERED:
                self.calls.lost(intersect(tract_of(item.body), tract))
            elif label[0] != DOUBTFUL and not self.settings.is_place(*label[1:4]):
                self.drop_stray()
            elif not self.registries.unite(label, item, tract, safe):
                self.levels.unite(label, item)
        except UNREADABLE:
            self.drop_stray()

    def drop(self, tract: Tract) -> None:
        self.registries.drop(tract)
        self.levels.drop(tract)

    def on_tract_lost(self, tract: Tract) -> None:
        self.calls.on_tract_lost(tract)
        self.registrations.on_tract_lost()

    def lost(self, tract: Tract) -> None:
        self.calls.lost(tract)

    def settled(self) -> None:
        """The tract that this peer answers for has changed."""
        self.containers.settled()
        if self.settings.live:
            self.replicas.settled()
        self.registrations.settled()

    def retry_waiting(self) -> None:
        """A tract that did not answer may answer now."""
        self.traversals.retry_waiting()

    def on_partition_healed(self) -> None:
        """A partition seems to have healed."""
        self.registrations.register_all_again()

    def register_again(self, lost: Tract, task: TraversalTask | None = None) -> None:
        """Registries of a tract were lost. `task`: the recovery traversal that waits for it."""
        traversal = task.traversal if task is not None else None
        age_us = traversal.age_us if isinstance(traversal, messages.ReregisterRequest) else 0
        if self.settings.live:
            self.replicas.recopy_after_loss(lost, age_us)
        self.registrations.register_again(lost, task, age_us)

    def on_arrival(self, sender: Address, part: Tract, message: Message) -> None:
        """A routed message has reached a part of the own tract."""
        ARRIVALS[type(message)](self, part, message)

    def holdings(self) -> Any:
        return self.surface.holdings(), self.registries.holdings(), *self.levels.holdings()
