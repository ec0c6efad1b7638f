"""A condcast peer: its value is part of the aggregates in other peers' finger tables, and casts are
routed by aggregates.

Parts: one place on a ring (`links`), fingers with aggregates (`ring`), casts under way
(`forwarder`), and the delay before `Registered` (`visibility`). With receipts the ring is repaired,
tables are refreshed in rounds, aggregates expire, and casts are retried until every arc is covered.
Without receipts every message is sent once. With `settle=flows`, tables are refreshed by the
paper's update flows (`flows`) instead.

Until a peer has registered, its value is *unknown*, not empty: aggregates that include it are
unknown and prune nothing. A withdrawal completes at once, because the peer itself decides last
whether it is selected. A stale aggregate costs messages, never a missing notice.
"""

from collections.abc import Sequence
from typing import Any

from implicast.casting.condcast.flows import Flows
from implicast.casting.condcast.forwarder import CastForwarder
from implicast.casting.condcast.messages import Query
from implicast.casting.condcast.place import key_of
from implicast.casting.condcast.settings import CondcastSettings, settings_of
from implicast.casting.condcast.visibility import VisibilityDelay
from implicast.casting.inbox import Inbox, Outcome
from implicast.language.aggregate import TargetQuery, aggregate_of
from implicast.language.target import Description, Target
from implicast.overlay.chord_sharp import ChordSharp, FingerValue
from implicast.overlay.chord_sharp.table import combine
from implicast.overlay.links import Links, Ref, RingListener
from implicast.peer.contract import Address, CastId
from implicast.peer.events import Joined, Left, Refused, Withdrawn
from implicast.peer.member import DurableState, Member
from implicast.peer.site import Site
from implicast.space.ring import Arc


class DurableCondcast(DurableState):
    """Durable state: the member, and its neighbours on the ring, successor first."""

    neighbours: tuple[Ref, ...] = ()


class Condcast(
    Member,
    RingListener,
    parts={
        "links": Links,
        "ring": ChordSharp,
        "forwarder": CastForwarder,
        "visibility": VisibilityDelay,
        "flows": Flows,
    },
):
    """One condcast peer: the verbs, its own value, and the callbacks of the overlay."""

    __slots__ = (
        "_flows",
        "_landmarks",
        "_network",
        "forwarder",
        "inbox",
        "joined",
        "links",
        "own",
        "ring",
        "settings",
        "visibility",
    )

    def __init__(
        self, site: Site, key: int | None = None, settings: CondcastSettings | None = None
    ) -> None:
        super().__init__(site)
        state: DurableCondcast | None = site.durable_state
        self.settings = settings or settings_of(site.parameters, site.resting)
        self._landmarks: tuple[str, ...] = site.credentials or ()
        self._network = site.network
        self.inbox = Inbox(site, self.policy, self.fit)
        self._flows: Flows | None = None
        self.joined = False
        self.make_parts(self._key() if key is None else key, state.neighbours if state else ())

    def make_parts(self, key: int, neighbours: tuple[Ref, ...] = ()) -> None:
        self.own: FingerValue | None = (
            self._aggregate(self.description) if self.description else None
        )
        self.links = Links(
            self.address, self.host, key, self.settings.links, self.incarnation, neighbours
        )
        self.ring = ChordSharp(self.address, self.host, self.links, self.settings.sharp, self)
        self.forwarder = CastForwarder(self)
        self.visibility = VisibilityDelay(self)

    def restore_value(self, value: FingerValue) -> None:
        """Set the value in an assembled population, whose tables already include it."""
        self.own = value

    @property
    def flows(self) -> Flows:
        """Created on first use: most populations run without update flows."""
        if self._flows is None:
            self._flows = Flows(self.ring, self.settings.flows)
        return self._flows

    @property
    def flowing(self) -> bool:
        """Whether this peer takes part in update flows."""
        return self._flows is not None and self._flows.running

    # --- verbs of the application

    def join(self, introducers: tuple[Address, ...]) -> None:
        """Join the ring. A restarted peer registers its former description. With landmarks, a peer
        that has a description takes the key that its tags give.
        """
        if self._landmarks:
            self.links.set_key(self._key())
        self.links.join(introducers)
        if self.description is not None and not self.version:
            self.register(self.description)

    def leave(self) -> None:
        self.links.leave()

    def register(self, description: Description) -> None:
        self.become(description)
        self.set_value(self._aggregate(description))

    def set_value(self, value: FingerValue) -> None:
        """Replace the peer's value, as `register` does with the aggregate of a description;
        `Registered` follows likewise.
        """
        known = self._adds_nothing(value)
        self.own = value
        self.next_version()
        self.visibility.on_value_set(known)

    def withdraw(self) -> None:
        version = self.next_version()
        self.become(None)
        if self.own is not None:
            self.own = self._aggregate(None)
        self.visibility.announce(Withdrawn(version))

    def cast(self, target: Target, payload: bytes, expiry_us: int = 0) -> CastId:
        key, settings = self.links.me.key, self.settings
        query = TargetQuery(target, settings.bits, settings.hashes)
        return self.condcast(Arc(key, key), query, payload, expiry_us)

    def condcast(self, arc: Arc, query: Query, payload: bytes, expiry_us: int = 0) -> CastId:
        """Cast to all peers in an arc of keys whose value matches the query."""
        cast = self.next_cast()
        self.forwarder.cast(cast, arc, query, self.seal(cast, query, payload, expiry_us))
        return cast

    def estimate(self, target: Target) -> int:
        self.host.deliver(
            Refused(
                "estimate", "not supported: aggregates show where a peer may match, not how many do"
            )
        )
        return 0

    def holdings(self) -> Any:
        """Return the table with its aggregates, and the neighbours."""
        table = self.ring.table
        return *table.state(), self.links.left, self.links.lefts

    def durable_state(self) -> DurableCondcast:
        return DurableCondcast(
            self.durable_member(self.inbox.seen.blocks()), self.links.nearby_nodes()
        )

    # --- values and casts

    def _aggregate(self, description: Description | None) -> FingerValue:
        return aggregate_of(description, self.settings.bits, self.settings.hashes)

    def _key(self) -> int:
        return key_of(self._network, self.name, self.description, self._landmarks)

    def value(self) -> FingerValue | None:
        """The value that aggregates include. It is unknown while nodes beside this one are silent:
        so every cast reaches this peer, which reports the gap.
        """
        return None if self.links.liveness.silent.are_beside() else self.own

    def _adds_nothing(self, value: FingerValue) -> bool:
        """Whether every table already covers this value. Without refreshes (tables at rest) an
        unknown value prunes nothing, so the first value needs no announcement.
        """
        before = self.own
        if before is None:
            return not self.settings.sharp.rounds and not self.flowing
        if not self.visibility.is_announced:
            return False
        return before.alike(value) and combine(before, value) == before

    def notify(self, cast: CastId, query: Query, payload: bytes) -> Outcome:
        """Deliver the cast if the peer is selected. Exact, by the present description or value;
        aggregates only route a cast here.
        """
        if isinstance(query, TargetQuery):
            selected = self.description is not None and query.target.selects(self.description)
        else:
            selected = self.own is not None and query.match(self.own)
        return self.inbox.admit(cast, query, payload, selected)

    # --- callbacks of the overlay

    def on_joined(self) -> None:
        if not self.settings.sharp.rounds:
            self.flows.start()
        if not self.joined:
            self.joined = True
            self.host.deliver(Joined())
        self.visibility.on_joined()

    def on_departed(self) -> None:
        """Called off the ring. The table is retained, so that casts already under way to this peer
        are forwarded.
        """
        if self._flows is not None:
            self._flows.stop()
        self.become(None)
        self.own = None
        self.joined = False
        self.forwarder.return_tasks()
        self.host.deliver(Left())

    def on_table_refreshed(self) -> None:
        if self.flowing:
            self.visibility.on_update_passed()
            self.flows.on_table_refreshed()

    def on_node_suspected(self, ref: Ref) -> None:
        self.forwarder.on_node_suspected(ref)

    def on_neighbours_changed(self) -> None:
        self.forwarder.on_neighbours_changed()

    def on_bypassed(self) -> None:
        self.visibility.restart()

    def on_right_bypassed(self, old: Ref, new: Ref, others: Sequence[Ref]) -> None:
        liveness = self.links.liveness
        if silent := [ref for ref in (old, *others) if ref not in liveness.departed]:
            liveness.silent.add_beside(silent)
