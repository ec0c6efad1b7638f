"""A condcast peer: its value goes into the aggregates of those behind it, casts find their way by aggregates.

One place on a ring (`links`), fingers with aggregates (`ring`), casts under way (`carrier`), and what `Registered`
promises (`promises`). With receipts the ring heals, tables are kept in rounds, aggregates grow old, and casts are
carried until every arc is covered. Without them every message is sent once. With `settle=flows` tables are kept by the
paper's update flows (`flows`) instead.

Until a peer has said what it is, its value is *unknown*, not empty: aggregates over it are unknown and hide nobody. A
withdrawal is complete at once: the peer itself decides last, and a value that fell costs messages, never a notice.
"""

from typing import Any

from implicast.casting.condcast.carrier import Carrier
from implicast.casting.condcast.flows import Flows
from implicast.casting.condcast.messages import Query
from implicast.casting.condcast.place import key_of
from implicast.casting.condcast.promises import Promises
from implicast.casting.condcast.settings import CondcastSettings, settings_of
from implicast.casting.inbox import Inbox, Outcome
from implicast.language.portrait import Sought, portrait
from implicast.language.target import Description, Target
from implicast.overlay.chord_sharp import ChordSharp, Freight
from implicast.overlay.chord_sharp.table import combine
from implicast.overlay.links import Above, Links, Ref
from implicast.peer.contract import Address, CastId
from implicast.peer.events import Joined, Left, Refused, Withdrawn
from implicast.peer.member import Keepsake, Member
from implicast.peer.site import Site
from implicast.space.ring import Arc


class KeptCondcast(Keepsake):
    """What outlives a crash: the member, and who stood next to it, its right neighbour first."""

    neighbours: tuple[Ref, ...] = ()


class Condcast(
    Member,
    Above,
    parts={
        "links": Links,
        "ring": ChordSharp,
        "carrier": Carrier,
        "promises": Promises,
        "flows": Flows,
    },
):
    """One peer, a value of its own, and casts to arcs."""

    __slots__ = (
        "_flows",
        "_landmarks",
        "_network",
        "carrier",
        "inbox",
        "joined",
        "links",
        "own",
        "promises",
        "ring",
        "settings",
    )

    def __init__(
        self, site: Site, key: int | None = None, settings: CondcastSettings | None = None
    ) -> None:
        super().__init__(site)
        kept: KeptCondcast | None = site.kept
        self.settings = settings or settings_of(site.parameters, site.resting)
        self._landmarks: tuple[str, ...] = site.credentials or ()
        self._network = site.network
        self.inbox = Inbox(self, kept.member.heard if kept else ())
        self._flows: Flows | None = None
        self.joined = False
        self.make_parts(self._key() if key is None else key, kept.neighbours if kept else ())

    def make_parts(self, key: int, neighbours: tuple[Ref, ...] = ()) -> None:
        self.own: Freight | None = self._portrait(self.description) if self.description else None
        self.links = Links(
            self.address, self.host, key, self.settings.links, self.incarnation, neighbours
        )
        self.ring = ChordSharp(self.address, self.host, self.links, self.settings.sharp, self)
        self.carrier = Carrier(self)
        self.promises = Promises(self)

    def stand(self, value: Freight) -> None:
        """In an assembled population every table holds this value from the start."""
        self.own = value

    @property
    def flows(self) -> Flows:
        """Made when they are first needed: most populations have none."""
        if self._flows is None:
            self._flows = Flows(self.ring, self.settings.flows)
        return self._flows

    @property
    def flowing(self) -> bool:
        """Whether this peer takes part in update flows."""
        return self._flows is not None and self._flows.running

    # --- verbs of the application

    def join(self, introducers: tuple[Address, ...]) -> None:
        """A peer that comes back is what it was; where there are landmarks it stands by its tags, once said."""
        if self._landmarks:
            self.links.move(self._key())
        self.links.join(introducers)
        if self.description is not None and not self.version:
            self.register(self.description)

    def leave(self) -> None:
        self.links.leave()

    def register(self, description: Description) -> None:
        self.become(description)
        self.set_value(self._portrait(description))

    def set_value(self, value: Freight) -> None:
        """Hold this value from now on, as `register` does with a portrait; `Registered` follows likewise."""
        known = self._adds_nothing(value)
        self.own = value
        self.next_version()
        self.promises.begin(known)

    def withdraw(self) -> None:
        version = self.next_version()
        self.become(None)
        if self.own is not None:
            self.own = self._portrait(None)
        self.promises.give(Withdrawn(version))

    def cast(self, target: Target, payload: bytes) -> CastId:
        key = self.links.me.key
        return self.condcast(
            Arc(key, key), Sought(target, self.settings.bits, self.settings.hashes), payload
        )

    def condcast(self, arc: Arc, query: Query, payload: bytes) -> CastId:
        """Cast to whoever matches among the keys of an arc."""
        cast = self.next_cast()
        self.carrier.cast(cast, arc, query, self.words.seal(cast, query, payload))
        return cast

    def estimate(self, target: Target) -> int:
        self.host.deliver(
            Refused("estimate", "aggregates tell where somebody may match, not how many do")
        )
        return 0

    def holdings(self) -> Any:
        """The table with its aggregates, and the neighbours."""
        table = self.ring.table
        return table.nodes, table.ends, table.values, self.links.left, self.links.lefts

    def kept(self) -> KeptCondcast:
        return KeptCondcast(self.kept_member(self.inbox.seen.heard()), self.links.near())

    # --- values and casts

    def _portrait(self, description: Description | None) -> Freight:
        return portrait(description, self.settings.bits, self.settings.hashes)

    def _key(self) -> int:
        return key_of(self._network, self.name, self.description, self._landmarks)

    def value(self) -> Freight | None:
        return self.own

    def _adds_nothing(self, value: Freight) -> bool:
        """Whether a value adds nothing to what every table holds of this peer. Where tables rest an unknown value
        hides nobody, so that nothing need be told of the first one."""
        before = self.own
        if before is None:
            return not self.settings.sharp.rounds and not self.flowing
        if not self.promises.is_given:
            return False
        return before.alike(value) and combine(before, value) == before

    def tell(self, cast: CastId, query: Query, payload: bytes) -> Outcome:
        """The news, if the peer is selected. Exact, by what the peer is now; aggregates only bring a cast here."""
        if isinstance(query, Sought):
            selected = self.description is not None and query.target.selects(self.description)
        else:
            selected = self.own is not None and query.match(self.own)
        return self.inbox.admit(cast, query, payload, selected)

    # --- what the overlay tells

    def entered(self) -> None:
        if not self.settings.sharp.rounds:
            self.flows.start()
        if not self.joined:
            self.joined = True
            self.host.deliver(Joined())
        self.promises.entered()

    def departed(self) -> None:
        """Off the ring; the table stays, so that casts already under way to this peer find their way on."""
        if self._flows is not None:
            self._flows.stop()
        self.become(None)
        self.own = None
        self.joined = False
        self.carrier.hand_back()
        self.host.deliver(Left())

    def refreshed(self) -> None:
        if self.flowing:
            self.promises.passed()
            self.flows.refreshed()

    def silent(self, ref: Ref) -> None:
        self.carrier.silent(ref)

    def moved(self) -> None:
        self.carrier.moved()

    def overlooked(self) -> None:
        self.promises.restart()
