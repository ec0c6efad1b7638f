"""A condcast peer: its value is part of the aggregates in other peers' finger tables, and casts are
routed by aggregates.

Theory of operation
-------------------
State. One place on a ring (`links`), fingers with aggregates (`ring`), the own value and how long it
has been on the ring (`visibility`), the update flows (`flows`), and casts under way (`forwarder`).

Invariants.
- No aggregate in use lacks a value that was announced (`Registered`): so a later cast reaches every
  member that it selects. Until a peer has registered, its value is *unknown*, not empty, and
  aggregates that include it prune nothing.
- The peer itself decides last whether it is selected: a stale aggregate costs messages, never a
  false notice. So a withdrawal completes at once.
- Of each arc of a cast exactly one branch reports (`casting/coverage.py`).

| event | action |
|---|---|
| register | the value changes; `Registered` when every table must include it (`visibility.py`) |
| withdraw, leave | the value is empty, or unknown; tasks of others are returned (WrongIncarnation) |
| cast | split by aggregates (`split.py`): a ForwardCast for each finger that may lead to a match |
| ForwardCast without a token | notify here if selected, forward the rest once |
| ForwardCast with a token | the same, as a task: ArcsCovered when all its arcs are covered |
| ForwardCast again | ArcsCovered if the task is complete, else ForwardProgress |
| no answer, node suspected | its arcs are split anew, around it |
| arcs beyond a lost successor | wait until the ring is repaired over it (StuckRetry) |
| 45 s after the start | open arcs count as uncertain |
| Update (flows) | refresh the table, hold the update, pass it to the left |
| ValueChanged (tables at rest) | add the value to the aggregates that cover it, and pass it on |

With receipts the ring is repaired, tables are refreshed in rounds, aggregates expire, and casts are
covered. Without receipts every message is sent once. With `settle=flows`, tables are refreshed by
the paper's update flows instead. `FIDELITY.md` lists the differences from the paper.
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
from implicast.overlay.links import Links, Ref, RingListener
from implicast.peer.contract import Address, CastId
from implicast.peer.events import Joined, Left, Refused
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
        "flows": Flows,
        "visibility": VisibilityDelay,
        "forwarder": CastForwarder,
    },
):
    """One condcast peer: the verbs, and the callbacks of the overlay."""

    __slots__ = (
        "_landmarks",
        "_network",
        "flows",
        "forwarder",
        "inbox",
        "joined",
        "links",
        "ring",
        "settings",
        "visibility",
    )

    def __init__(
        self, site: Site, key: int | None = None, settings: CondcastSettings | None = None
    ) -> None:
        super().__init__(site)
        durable: DurableCondcast | None = site.durable_state
        self.settings = settings or settings_of(site.parameters, site.resting)
        self._landmarks: tuple[str, ...] = site.credentials or ()
        self._network = site.network
        self.inbox = Inbox(site, self.policy, self.fit)
        self.joined = False
        self.make_parts(self._key() if key is None else key, durable.neighbours if durable else ())

    def make_parts(self, key: int, neighbours: tuple[Ref, ...] = ()) -> None:
        settings, address, host = self.settings, self.address, self.host
        value = self._aggregate(self.description) if self.description else None
        self.links = Links(address, host, key, settings.links, self.incarnation, neighbours)
        self.ring = ChordSharp(address, host, self.links, settings.sharp)
        self.ring.set_listener(self)
        self.flows = Flows(self.ring, settings.flows)
        self.visibility = VisibilityDelay(self.ring, self.flows, settings, value)
        self.forwarder = CastForwarder(
            self.ring, settings, self.signing, self.notify, self.incarnation
        )

    def restore(self, value: FingerValue | None) -> None:
        """The value in an assembled population, whose tables include it and which is announced."""
        self.visibility.restore(value, self.version)

    @property
    def own(self) -> FingerValue | None:
        """The peer's value, of which its description is one form."""
        return self.visibility.value

    @property
    def flowing(self) -> bool:
        """Whether this peer takes part in update flows."""
        return self.flows.running

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
        self.visibility.set_value(value, self.next_version())

    def withdraw(self) -> None:
        self.become(None)
        self.visibility.withdraw(self._aggregate(None), self.next_version())

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
        self.flows.stop()
        self.become(None)
        self.visibility.forget()
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
        self.links.liveness.note_bypassed((old, *others))
