"""A peer of SPICE: the surface below, registries and casts on it, and the verbs of the application."""

from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta

from implicast.casting.complaints import KeptDocket
from implicast.casting.spice import messages
from implicast.casting.spice.calls import Calls
from implicast.casting.spice.casts import Casts, Ears
from implicast.casting.spice.complaints import Complaints
from implicast.casting.spice.containers import Containers
from implicast.casting.spice.copies import Copies
from implicast.casting.spice.crossings import Crossings
from implicast.casting.spice.homes import home, spot_of
from implicast.casting.spice.items import KINDS, LACKING, RECORD, entry_of, label_of, tract_of
from implicast.casting.spice.levels import Levels
from implicast.casting.spice.registrations import Registrations
from implicast.casting.spice.registry import Stock
from implicast.casting.spice.replicas import Replicas
from implicast.casting.spice.settings import Settings
from implicast.casting.spice.shelf import Shelf
from implicast.casting.spice.stores import RISING, Stores
from implicast.casting.spice.trips import Work
from implicast.casting.spice.walks import Walks
from implicast.language.target import Description, Target
from implicast.overlay.ice.estate import Item
from implicast.overlay.ice.messages import KeptSurface
from implicast.overlay.ice.surface import Surface
from implicast.peer.asking import Asker
from implicast.peer.contract import Address, CastId, Message, handles
from implicast.peer.late import piecemeal
from implicast.peer.later import Later
from implicast.peer.member import Keepsake, Member
from implicast.peer.site import Site
from implicast.peer.wire import UNREADABLE
from implicast.space.tract import Tract, intersect, subtract

PARTS = {
    "surface": Surface,
    "asker": Asker,
    "ears": Ears,
    "later": Later,
    "stores": Stores,
    "containers": Containers,
    "walks": Walks,
    "crossings": Crossings,
    "casts": Casts,
    "copies": Copies,
    "calls": Calls,
    "replicas": Replicas,
    "registrations": Registrations,
    "complaints": Complaints,
}
LATER = [name for name in PARTS if name not in ("surface", "ears", "registrations", "complaints")]
"""Parts that a peer of a network without receipts may never need."""
TAGS_MAX = 4_096
"""Tags of one member that are written down."""


ARRIVALS: dict[type, Callable[[Any, Tract, Any], None]] = {
    messages.StoreAt: lambda spice, part, store: spice.stores.arrived(part, store),
    messages.CopyTo: lambda spice, part, copy: spice.copies.arrived(part, copy),
    messages.Offer: lambda spice, part, offer: spice.calls.offered(part, offer),
    messages.RateAt: lambda spice, part, rate: spice.replicas.hinted(rate),
    messages.AskRate: lambda spice, part, ask: spice.replicas.asked(part, ask),
    messages.ReadyAt: lambda spice, part, ready: spice.replicas.ready_arrived(part, ready),
    messages.DepthIs: lambda spice, part, depth: spice.levels.learn_depth(depth.level),
    messages.AskVeto: lambda spice, part, ask: spice.replicas.veto_arrived(part, ask),
}
"""Who decides on a routed message that has come to ground that answers."""


class KeptSpice(Keepsake):
    """What outlives a crash: who we were, whom we knew on the surface, the tags under which we are listed, and the
    complaints that we have heard."""

    surface: KeptSurface
    tags: Annotated[tuple[messages.Tag, ...], Meta(max_length=TAGS_MAX)] = ()
    docket: KeptDocket = ()


class Spice(Member, parts=PARTS):
    """One participant; all are alike."""

    __slots__ = (
        "_packed",
        "heeded",
        "levels",
        "settings",
        "shelf",
        "stock",
        *sorted(PARTS.keys() - {"complaints"}),
    )
    asker: Asker
    later: Later
    stores: Stores
    containers: Containers
    walks: Walks
    crossings: Crossings
    casts: Casts
    copies: Copies
    calls: Calls
    replicas: Replicas

    def __init__(self, site: Site, settings: Settings) -> None:
        super().__init__(site)
        kept: KeptSpice | None = site.kept
        before, tags = (kept.member, kept.tags) if kept is not None else (None, ())
        self.settings, self.stock = settings, Stock()
        self.heeded: Complaints | None = None
        """Complaints, once there has been one."""
        self._packed: tuple[int, Tract, tuple[Item, ...]] = (-1, (), ())
        self.surface = Surface(
            site.address, site.host, self, settings.terms, kept.surface if kept else None
        )
        self.shelf, self.levels = (
            Shelf(site.host, settings, self.stock, self.words),
            Levels(settings, self.stock),
        )
        if not settings.assured:
            self.__class__ = piecemeal(Spice, Spice.make)
        for name in LATER if settings.assured else ():
            self.make(name)
        self.ears = Ears(self, before.heard if before is not None else ())
        self.registrations = Registrations(self, before, tags)
        if kept is not None and kept.docket:
            Complaints(self, kept.docket)

    def make(self, name: str) -> Any:
        """A part that has not been needed until now."""
        if name not in LATER:
            raise AttributeError(name)
        kind: Any = PARTS[name]
        part = kind(self.address, self.host) if kind is Asker else kind(self)
        setattr(self, name, part)
        return part

    @property
    def complaints(self) -> Complaints:
        """Made by the first of them."""
        return self.heeded or Complaints(self)

    def kept(self) -> KeptSpice:
        heard, tags = self.ears.inbox.seen.heard(), tuple(self.registrations.told)[:TAGS_MAX]
        docket = self.heeded.docket.kept() if self.heeded is not None else ()
        return KeptSpice(self.kept_member(heard), self.surface.kept(), tags, docket)

    def heed(self, complaints: Complaints) -> None:
        """A member has complained: from now on every cast that passes here is checked against the complaints."""
        self.heeded = complaints
        self.crossings.heed()

    # --- the verbs

    def join(self, introducers: tuple[Address, ...]) -> None:
        self.surface.join(introducers)

    def leave(self) -> None:
        """Withdraw, wait until that is complete, then hand over the ground with all that is kept on it."""
        self.registrations.say(self.describe(None), None, leaves=True)

    def register(self, description: Description) -> None:
        before = self.description
        self.registrations.say(self.describe(description), before)

    def withdraw(self) -> None:
        self.registrations.say(self.describe(None), None)

    def cast(self, target: Target, payload: bytes) -> CastId:
        cast = self.next_cast()
        self.casts.publish(cast, target, self.words.seal(cast, target, payload))
        return cast

    def complain(self, cast: CastId) -> bool:
        return self.complaints.complain(cast)

    def estimate(self, target: Target) -> int:
        """Walk as a cast would, and only count."""
        token = self.stores.token()
        asked = CastId(self.name, self.incarnation, token)
        self.casts.publish(
            asked, target, self.words.seal(asked, (messages.ASKED, target), b""), asks=True
        )
        return token

    # --- what comes back to one of several

    @handles(messages.StoredAt)
    def on_stored(self, sender: Address, stored: messages.StoredAt) -> None:
        if stored.token == self.registrations.token:
            self.registrations.stored(sender, stored)
        elif stored.token == RISING:
            self.containers.stored(stored)
        elif not (self.copies.stored(sender, stored) or self.containers.moved(stored)):
            self.stores.stored(sender, stored)

    @handles(*messages.ROUTED)
    def on_routed(self, sender: Address, message: Any) -> None:
        if message.way.number or not self.settings.assured:
            self.surface.routes.carry(sender, message)
        else:
            self.surface.send(message)  # straight from one that knows us as the owner

    # --- as keeper of a surface

    @property
    def known(self) -> Tract:
        """Our ground as far as we know who is registered there: walks look nowhere else."""
        ground, lacking = self.surface.ground, self.shelf.lacking
        return subtract(ground, lacking) if lacking else ground

    def pack(self, tract: Tract) -> tuple[Item, ...]:
        """The very same tuple while nothing changes: whoever looks from outside knows it by that."""
        version = self.stock.version
        if self._packed[0] != version or self._packed[1] != tract:
            self._packed = (version, tract, (*self.shelf.pack(tract), *self.levels.pack(tract)))
        return self._packed[2]

    def reads(self, item: Item) -> bool:
        """Can an owner keep this item: of a known kind, in a registry that can exist, and a record under its own
        consumer's name and at that consumer's home?"""
        try:
            kind, tag, root, notch, consumer = label_of(item.key)
            entry = entry_of(item.body) if kind == RECORD and item.body else None
        except UNREADABLE:
            return False
        if kind == LACKING:
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
        """Take in an item; one that cannot be read, or lies where nothing can be, is counted and dropped."""
        try:
            label = label_of(item.key)
            if label[0] == LACKING:
                self.calls.lost(intersect(tract_of(item.body), tract))
            elif not self.settings.is_place(*label[1:4]):
                self.drop_stray()
            elif not self.shelf.unite(label, item, tract, safe):
                self.levels.unite(label, item)
        except UNREADABLE:
            self.drop_stray()

    def drop(self, tract: Tract) -> None:
        self.shelf.drop(tract)
        self.levels.drop(tract)

    def yielded(self, tract: Tract) -> None:
        self.calls.yielded(tract)
        self.registrations.yielded()

    def lost(self, tract: Tract) -> None:
        self.calls.lost(tract)

    def settled(self) -> None:
        """The ground that answers has changed."""
        self.containers.settled()
        if self.settings.live:
            self.replicas.settled()
        self.registrations.settled()

    def reopened(self) -> None:
        """Ground that did not answer may do so now."""
        self.walks.reopened()

    def reunited(self) -> None:
        """A partition seems to have ended."""
        self.registrations.reunited()

    def register_again(self, lost: Tract, work: Work | None = None) -> None:
        if self.settings.live:
            self.replicas.copy_again(lost)
        self.registrations.register_again(lost, work)

    def arrived(self, sender: Address, part: Tract, message: Message) -> None:
        """A routed message has come to ground that answers."""
        ARRIVALS[type(message)](self, part, message)

    def holdings(self) -> Any:
        return self.surface.holdings(), self.shelf.holdings(), *self.levels.holdings()
