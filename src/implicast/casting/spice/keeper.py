"""What a SPICE peer keeps for others, and how it moves when places change hands."""

from typing import Any

import msgspec

from implicast.casting.inbox import Inbox
from implicast.casting.spice.homes import address_of
from implicast.casting.spice.messages import Record
from implicast.casting.spice.registry import Key, Registry
from implicast.casting.spice.settings import Settings
from implicast.overlay.ice.ice import Ice
from implicast.peer.contract import Address, Host, Message
from implicast.peer.member import Member
from implicast.space.tract import Tract, container, contains, intersect, unite


class Parcel(msgspec.Struct, frozen=True, array_like=True):
    """A registry's share of a place that is handed over."""

    tag: str
    root: int
    notch: int
    closed: tuple[int, ...]
    passed: int
    records: tuple[Record, ...]
    past: tuple[tuple[int, Record], ...]
    """Replaced versions, with the time they are still answered from."""
    ready: bool
    """May casts stop here? (notch 0)"""


class Header(msgspec.Struct, array_like=True):
    """What the original root of a tag knows of its replicas: the level that answers, and the one that is filled."""

    tag: str
    level: int = 0
    goal: int = 0


class Luggage(msgspec.Struct, frozen=True, array_like=True):
    """All that is kept for a place."""

    parcels: tuple[Parcel, ...]
    headers: tuple[Header, ...]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Luggage)


class Keeper(Member, parts={"surface": Ice}):
    """Registries by tag, root and notch."""

    __slots__ = ("copies", "headers", "inbox", "registries", "sealed", "settings", "surface", "unready")

    def __init__(self, address: Address, host: Host, settings: Settings) -> None:
        super().__init__(address, host)
        self.settings = settings
        self.surface = Ice(address, host, self, settings.dimensions, settings.cosine, settings.merge)
        self.inbox = Inbox(self)
        self.registries: dict[Key, Registry] = {}
        self.copies: dict[str, tuple[int, ...]] = {}
        """Roots of a tag's registries that begin here: where a cast may stop looking."""
        self.unready: set[tuple[str, int]] = set()
        """Replicas that are still being filled (only where levels are measured live)."""
        self.headers: dict[str, Header] = {}
        self.sealed: dict[tuple[str, int], int] = {}
        """Notches up to this one are closed and their containers all ours: one number for what would be, with full
        hashes, a dozen closed registries inside one peer."""

    def registry(self, tag: str, root: int, notch: int) -> Registry:
        """The registry of this name, made when it is first needed."""
        found = self.registries.get((tag, root, notch))
        if found is None:
            found = self.registries[tag, root, notch] = Registry(root, notch, self.settings.dimensions)
            if notch == 0:
                self.copies[tag] = (*self.copies.get(tag, ()), root)
                if self.settings.live and root != address_of(tag):
                    self.unready.add((tag, root))
        return found

    def copy_here(self, tag: str) -> int | None:
        """The root of a registry of this tag that begins on our firm ground."""
        surface = self.surface
        for root in self.copies.get(tag, ()):
            ours = surface.low <= root < surface.high or contains(surface.firm, root)
            if ours and (tag, root) not in self.unready:
                return root
        return None

    def holdings(self) -> Any:
        titles = list(self.surface.atlas.titles.values())
        return (
            titles,
            [
                (*key, registry.closed, registry.passed, list(registry.records.values()))
                for key, registry in self.registries.items()
            ],
            list(self.sealed.items()),
        )

    # --- as a tenant of the surface

    def pack(self, tract: Tract) -> bytes:
        self._unseal(tract)
        parcels = []
        for (tag, root, notch), registry in self.registries.items():
            records, closed = tuple(registry.within(tract)), intersect(registry.closed, tract)
            past = tuple((until_us - self.host.now_us, each) for until_us, each in registry.past_within(tract))
            if records or closed or past:
                ready = (tag, root) not in self.unready
                parcels.append(Parcel(tag, root, notch, closed, registry.passed, records, past, ready))
        headers = tuple(each for tag, each in self.headers.items() if contains(tract, address_of(tag)))
        return _encoder.encode(Luggage(tuple(parcels), headers))

    def _unseal(self, tract: Tract) -> None:
        """The ground is about to change: write out what the numbers stand for."""
        dimensions = self.settings.dimensions
        for (tag, root), through in list(self.sealed.items()):
            if intersect(container(root, through, dimensions), tract):
                del self.sealed[tag, root]
                for notch in range(through + 1):
                    self.registry(tag, root, notch).closed = container(root, notch, dimensions)

    def unpack(self, luggage: bytes) -> None:
        unpacked = _decoder.decode(luggage)
        self.headers.update({each.tag: each for each in unpacked.headers})
        for parcel in unpacked.parcels:
            registry = self.registry(parcel.tag, parcel.root, parcel.notch)
            # A merge of an open with a closed part is a union of both: homes are fixed, so nothing else moves.
            registry.closed = unite(registry.closed, parcel.closed)
            registry.passed = max(registry.passed, parcel.passed)
            for record in parcel.records:
                registry.keep(record, self.host.now_us)
            if parcel.notch == 0 and parcel.ready:
                self.unready.discard((parcel.tag, parcel.root))
            registry.past += [(self.host.now_us + left_us, record) for left_us, record in parcel.past]

    def forget(self, tract: Tract) -> None:
        self.headers = {tag: each for tag, each in self.headers.items() if not contains(tract, address_of(tag))}
        for key, registry in list(self.registries.items()):
            registry.drop(tract)
            if registry.idle:
                self.discard(key)

    def discard(self, key: Key) -> None:
        tag, root, notch = key
        del self.registries[key]
        if notch == 0:
            self.unready.discard((tag, root))
            rest = tuple(each for each in self.copies[tag] if each != root)
            if rest:
                self.copies[tag] = rest
            else:
                del self.copies[tag]

    def settled(self) -> None:
        """Records in closed parts of new ground go up (`climbing.py`)."""

    def resume(self, message: Message) -> None:
        self.receive(self.address, message)

    def routed(self, payload: bytes) -> None:
        """SPICE routes its own kinds of messages; plain payloads are for ICE used alone."""
