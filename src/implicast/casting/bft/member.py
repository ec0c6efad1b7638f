"""A member of the Byzantine-tolerant design.

Theory of operation
===================

Paper, section 3: k-redundant key-range multicast over a skip graph, with certificates.

State. A member holds a home place and one place for each of its tags and values; the authority
draws the key within the realm that the member asks for. It keeps the multicasts that it has seen
(`SeenTable`, bounded for each publisher), the revocation list, and while it counts for receipts its
open steps with their coverage.

Invariants:

1. a cast is delivered at most once, and only if its source part is signed by its publisher;
2. if no correct peer lacks an entry, a member in range gets a cast unless its k senders all fail;
3. a receipt counts a member as taken only if the member reported it, directly or through the tree.

To register, a member applies to the authority for the places of its description, joins the graph at
each, and releases the places that it no longer wants 5 s after the new ones have arrived.

| application | becomes | when | what is sent |
|---|---|---|---|
| none | open | `register`, `withdraw`, `join`; every 60 s to renew | `Apply`, until answered |
| open | arriving | `Granted` | the graph's messages for each new place |
| open | none | `Denied` | nothing; `Refused` is delivered |
| arriving | none | all places have arrived | nothing; `Registered` is delivered |

To cast, it sends one multicast for each handle of the target, from the place with the lowest start
level. A step (`CastHop`) goes from place to place, level by level (`multicast.py`).

| step at the sender | becomes | when | what is sent |
|---|---|---|---|
| none | open | a leg is sent | `CastHop` |
| open | open | every 2 s, 21 times | `CastHop`; after 3, a publisher casts anew |
| open | closed | `CastHopAck` | when the last one closes, the report to the parent |
| open | closed | the last attempt, or the receiver left | the same; the member counts as silent |

The receiver checks a step (`validator.py`), accepts it for every place that it concerns, forwards
it, and acknowledges: to its first sender with the counts below it, to the others at once. Without
receipts a step is sent once (`SendOnce`). Where peers are watched, neighbours in range exchange
digests of casts (`digest_exchange.py`), and members gossip revocation lists. FIDELITY.md has the
differences from the paper.
"""

from dataclasses import replace
from typing import Any

from implicast.casting.bft.keys import audience, handles_of
from implicast.casting.bft.multicast import KeyRange
from implicast.casting.bft.multicasts import Multicasts
from implicast.casting.bft.placement import PlacementAgent
from implicast.casting.bft.revocation_lists import RevocationLists
from implicast.casting.bft.settings import BftSettings, MemberKeys
from implicast.casting.bft.validator import ALL_CHECKS, CastHop, HopValidator, Source
from implicast.casting.inbox import Inbox, Outcome
from implicast.language.target import Description, Target
from implicast.overlay.skip_graph.graph import AssembledPlaces, SkipGraph
from implicast.peer.backoff import RepairBudget
from implicast.peer.contract import Address, CastId, Message
from implicast.peer.detector import Ping
from implicast.peer.events import Estimated, Refused
from implicast.peer.identity import Certificate, Revocation, Trust
from implicast.peer.member import DurableState, Member
from implicast.peer.requests import Requests
from implicast.peer.signing import UNSIGNED
from implicast.peer.site import Site

CONTACTS_STORED = 16
"""Neighbours that are stored for a restart, those of the home place first."""


class DurableBft(DurableState):
    """State of a member that survives a crash."""

    certificates: tuple[Certificate, ...]
    contacts: tuple[Address, ...]
    revocation: Revocation | None = None
    """The newest revocation list it knew."""


class Bft(
    Member,
    parts={
        "requests": Requests,
        "graph": SkipGraph,
        "lists": RevocationLists,
        "placement": PlacementAgent,
        "multicasts": Multicasts,
    },
    first="on_any_message",
):
    """One member. It trusts only the authority's signature."""

    __slots__ = (
        "_durable",
        "_estimates",
        "_unheard",
        "graph",
        "inbox",
        "keys",
        "lists",
        "multicasts",
        "placement",
        "requests",
    )

    def __init__(self, site: Site, checks: frozenset[int] = ALL_CHECKS) -> None:
        super().__init__(replace(site, signing=UNSIGNED))  # this design has its own signatures
        keys, settings = site.credentials, BftSettings.of(site.parameters)
        at, durable = (site.address, site.host), site.durable_state
        assert isinstance(keys, MemberKeys), "a member is enrolled and has keys"
        self.keys, self._estimates = keys, 0
        self._durable = durable if isinstance(durable, DurableBft) else None
        # without receipts no peer is watched: a step is no news of its sender
        self._unheard = None if site.assured else CastHop
        trust = Trust(keys.scheme, keys.authority, settings.vectors, keys.checked)
        validator = HopValidator(trust, settings.vectors, settings.halves, checks)
        self.requests = Requests(*at, budget=RepairBudget.of(site.parameters))
        self.graph = SkipGraph(
            *at,
            settings.k,
            settings.vectors,
            trust,
            keys.signer,
            settings.graph,
            arrived=lambda key: self.placement.arrived(key),
            isolated=lambda: self.placement.request_introducers(),
            peer_left=lambda address: self.multicasts.delivery.drop_peer(address),
        )
        authority = site.infrastructure["authority"][0]
        if self._durable is not None and self._durable.revocation is not None:
            trust.learn(self._durable.revocation)
        self.lists = RevocationLists(*at, self.graph, trust, authority, validator.refuse)
        self.placement = PlacementAgent(
            self.requests,
            self.graph,
            self.lists.on_revocation,
            keys,
            authority,
            site.incarnation,
            site.signing,
            self._durable.certificates if self._durable is not None else (),
        )
        self.multicasts = Multicasts(
            self.requests,
            self.graph,
            validator,
            keys.signer,
            settings,
            self.assured,
            self._deliver,
            self._lacks if site.watched else None,
            site.host.now_us if self._durable is not None else None,
        )
        self.inbox = Inbox(replace(site, signing=UNSIGNED), self.policy, self.fit)
        if site.watched:
            self.lists.start_gossip()
            self.graph.start_maintenance()
            self.placement.start_renewals()

    @property
    def public(self) -> bytes:
        return self.keys.signer.public

    def restore(self, assembled: AssembledPlaces) -> None:
        """Hold the places of an assembled world."""
        self.placement.restore(assembled.certificates)
        self.graph.restore(assembled)

    # --- verbs

    def join(self, introducers: tuple[Address, ...]) -> None:
        known = self._durable.contacts if self._durable is not None else ()
        self.graph.silent.expect(known)
        self.placement.begin_join(tuple(dict.fromkeys((*introducers, *known))))
        if self.description is not None and not self.version:
            self.register(self.description)

    def leave(self) -> None:
        self.become(None)
        self.placement.leave_places()

    def register(self, description: Description) -> None:
        self.placement.place_description(self.describe(description), description)

    def withdraw(self) -> None:
        self.placement.place_description(self.describe(None), None)

    def cast(self, target: Target, payload: bytes, expiry_us: int = 0) -> CastId:
        cast = self.next_cast()
        if self._may_cast():
            self.multicasts.cast(cast, target, self.seal(cast, target, payload, expiry_us))
        return cast

    def cast_range(self, low: bytes, high: bytes, payload: bytes) -> CastId:
        """Cast to every peer with a place at a key in [low, high), registered or not: the verb of
        the paper. The range wraps if low is above high, and is the full circle if they are equal.
        """
        cast = self.next_cast()
        if self._may_cast():
            sealed = self.seal(cast, (low, high), payload)
            self.multicasts.cast_range(cast, KeyRange(low, high), sealed)
        return cast

    def _may_cast(self) -> bool:
        """Whether a cast is possible now; if not, the application is told why."""
        reason = "" if self.graph.places.held else "this peer has no place in the graph yet"
        if not reason and self.multicasts.seen.is_full(self.name, self.host.now_us):
            reason = "this peer has used up its share of casts; others would refuse more"
        if reason:
            self.host.deliver(Refused("cast", reason))
        return not reason

    def estimate(self, target: Target) -> int:
        """Estimate the audience from own lists. The result is delivered at once."""
        self._estimates += 1
        home = self.graph.places.home
        if home is None:
            self.host.deliver(Refused("estimate", "this peer has no place in the graph yet"))
        else:
            tables = [place.table for place in self.graph.places.held.values()]
            copies = home.k * (1 + self.assured)  # with receipts each is acknowledged
            members, messages = audience(tables, target, home.vectors.alpha, copies)
            self.host.deliver(Estimated(self._estimates, members, messages))
        return self._estimates

    def misbehaviour(self) -> dict[Address, int]:
        """Addresses that did what no honest member does, and since when; for operators."""
        return dict(self.multicasts.misbehaviour)

    def holdings(self) -> Any:
        """The places of other peers in all lists, each once; the every-class lists where they are
        maintained.
        """
        held, contacts = self.graph.places.held, dict[bytes, Certificate]()
        for place in held.values():
            contacts.update(place.named(wide=self.assured))
        return [contacts[key] for key in sorted(contacts) if key not in held]

    def stored_bytes(self) -> int | None:
        return self.graph.places.stored_bytes(wide=self.assured)

    def durable_state(self) -> DurableBft:
        places = self.graph.places
        tables = [each.table for each in (places.home, *places.held.values()) if each is not None]
        near = dict.fromkeys(node.address for each in tables for node in each.levels[0].nodes)
        near.pop(self.address, None)
        # without them a member that was cut off would restart as if it were the whole network
        contacts = (tuple(near) or self.graph.silent.addresses())[:CONTACTS_STORED]
        seen, trust = self.durable_member(self.inbox.seen.blocks()), places.certificate_store.trust
        return DurableBft(seen, tuple(self.graph.certificates()), contacts, trust.revocation)

    # --- messages received

    def on_any_message(self, sender: Address, message: Message) -> bool:
        """Record a sign of life. False for a ping after this peer has left: it was answered with
        the signed leave.
        """
        kind = type(message)
        if kind is not self._unheard:
            self.graph.on_heard_from(sender)
        return kind is not Ping or not self.graph.departures.has_left(sender)

    def _lacks(self, cast: CastId) -> bool:
        return self.description is not None and not self.inbox.seen.met(cast)

    def _deliver(self, source: Source, key_range: KeyRange) -> Outcome | None:
        """Deliver a cast under the key range of the first term that selects this peer; ignore its
        other ranges.

        While places are being taken or released, any range delivers. The inbox filters duplicates.
        """
        if not source.target.terms:
            return self.inbox.admit(source.cast, source.target, source.payload, fits=True)
        description = self.description
        for term, index in zip(source.target.terms, source.handles, strict=True):
            if description is not None and term.selects(description):
                if handles_of(term)[index] == key_range or self.placement.moving:
                    return self.inbox.take(source.cast, source.target, source.payload)
                break
        return None
