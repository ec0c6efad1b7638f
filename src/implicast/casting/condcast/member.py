"""What every condcast peer does alike, in a kind world and where peers crash: its verbs, and who is selected."""

from abc import abstractmethod
from typing import Any, Protocol

from implicast.casting.condcast.messages import Query
from implicast.casting.inbox import Seen
from implicast.language.portrait import Sought, portrait
from implicast.language.target import Description, Target
from implicast.overlay.chord_sharp import ChordSharp, Freight, LivingSharp, Passenger, combine
from implicast.overlay.links import Links
from implicast.peer.contract import Address, CastId, Host
from implicast.peer.events import Notice, Withdrawn
from implicast.peer.member import Member
from implicast.space.ring import Arc


class PortraitSettings(Protocol):
    """How descriptions become values."""

    @property
    def bits(self) -> int: ...

    @property
    def hashes(self) -> int: ...


class CondcastMember(Member, Passenger):
    """One place on a ring, a value there, and casts to arcs."""

    __slots__ = ("links", "own", "promised", "seen")

    links: Links
    ring: ChordSharp | LivingSharp
    settings: PortraitSettings

    def __init__(self, address: Address, host: Host) -> None:
        super().__init__(address, host)
        self.own: Freight | None = None
        self.promised = 0
        """The last version that was promised."""
        self.seen = Seen()

    @abstractmethod
    def set_value(self, value: Freight) -> None:
        """Hold this value from now on, as `register` does with a portrait; `Registered` follows likewise."""

    @abstractmethod
    def condcast(self, arc: Arc, query: Query, payload: bytes) -> CastId:
        """Cast to whoever matches among the keys of an arc."""

    def join(self, introducers: tuple[Address, ...]) -> None:
        self.links.join(introducers)

    def leave(self) -> None:
        self.links.leave()

    def register(self, description: Description) -> None:
        self.description = description
        self.set_value(portrait(description, self.settings.bits, self.settings.hashes))

    def withdraw(self) -> None:
        version = self.next_version()
        self.description = None
        if self.own is not None:
            self.own = portrait(None, self.settings.bits, self.settings.hashes)
        self.promised = version
        self.host.deliver(Withdrawn(version))

    def cast(self, target: Target, payload: bytes) -> CastId:
        key = self.links.me.key
        return self.condcast(Arc(key, key), Sought(target, self.settings.bits, self.settings.hashes), payload)

    def holdings(self) -> Any:
        """The table with its aggregates, and the neighbours."""
        table = self.ring.table
        return table.nodes, table.ends, table.values, self.links.left, self.links.lefts

    def value(self) -> Freight | None:
        return self.own

    def adds_nothing(self, value: Freight) -> bool:
        """Whether a value adds nothing to the present one, and that has been promised."""
        before = self.own
        if before is None or self.promised != self.version:
            return False
        return before.alike(value) and combine(before, value) == before

    def tell(self, cast: CastId, query: Query, payload: bytes) -> bool:
        """Whether the peer is selected, and the news if it is. Exact, by what the peer is now; aggregates only bring a
        cast here."""
        if isinstance(query, Sought):
            selected = self.description is not None and query.target.selects(self.description)
        else:
            selected = self.own is not None and query.match(self.own)
        if selected and self.seen.first(cast):
            self.host.deliver(Notice(cast, payload))
        return selected
