"""A member of the Byzantine-tolerant design: its places, its casts, and what it does with those of others.

Paper, section 3: k-redundant key-range multicast over a skip graph, with certificates. Describing oneself means to take
a place per tag and value (`settler.py`); casting means one multicast per handle of the target (`multicasts.py`). Of
several places that a target reaches, the one of the least selecting term's handle notifies.
"""

from dataclasses import replace
from typing import Any

from implicast.casting.bft.gate import ALL_CHECKS, Gate
from implicast.casting.bft.keys import audience, handles_of
from implicast.casting.bft.lists import RevocationLists
from implicast.casting.bft.messages import CastHop, Source
from implicast.casting.bft.multicast import Arc
from implicast.casting.bft.multicasts import Multicasts
from implicast.casting.bft.settings import BftSettings, MemberKeys
from implicast.casting.bft.settler import Settler
from implicast.casting.inbox import Inbox, Outcome
from implicast.language.target import Description, Target
from implicast.overlay.skip_graph.graph import SkipGraph
from implicast.overlay.skip_graph.place import StandingGraph
from implicast.peer.asking import Asker
from implicast.peer.contract import Address, CastId, Message
from implicast.peer.events import Estimated, Refused
from implicast.peer.identity import Certificate, Revocation, Trust
from implicast.peer.liveness import Ping
from implicast.peer.member import Keepsake, Member
from implicast.peer.site import Site
from implicast.peer.words import BELIEVED

CONTACTS_KEPT = 16
"""Neighbours of the home place that are written down, for when the member comes back."""


class KeptBft(Keepsake):
    """What outlives a crash of a member."""

    certificates: tuple[Certificate, ...]
    contacts: tuple[Address, ...]
    revocation: Revocation | None = None
    """The newest list of what counts no more that it knew."""


class Bft(
    Member,
    parts={
        "asker": Asker,
        "graph": SkipGraph,
        "lists": RevocationLists,
        "settler": Settler,
        "multicasts": Multicasts,
    },
    first="hears",
):
    """One participant that trusts nobody but the authority."""

    __slots__ = (
        "_estimates",
        "_kept",
        "_keys",
        "asker",
        "graph",
        "inbox",
        "lists",
        "multicasts",
        "settler",
    )

    def __init__(self, site: Site, checks: frozenset[int] = ALL_CHECKS) -> None:
        super().__init__(replace(site, words=BELIEVED))  # this design signs by itself
        keys, settings, at = (
            site.credentials,
            BftSettings.of(site.parameters),
            (site.address, site.host),
        )
        assert isinstance(keys, MemberKeys), "a member is enrolled and has keys"
        self._keys = keys
        self._kept = site.kept if isinstance(site.kept, KeptBft) else None
        trust = Trust(keys.scheme, keys.authority, settings.vectors, keys.checked)
        gate = Gate(trust, settings.vectors, settings.halves, checks)
        self.asker = Asker(*at)
        self.graph = SkipGraph(
            *at,
            settings.k,
            settings.vectors,
            trust,
            keys.signer,
            settings.upkeep,
            arrived=lambda key: self.settler.arrived(key),
            lonely=lambda: self.settler.find_introducers(),
            gone=lambda address: self.multicasts.carriage.drop(address),
        )
        kept, office = (
            self._kept.certificates if self._kept is not None else (),
            site.infrastructure["authority"][0],
        )
        if self._kept is not None and self._kept.revocation is not None:
            trust.learn(self._kept.revocation)
        self.lists = RevocationLists(*at, self.graph, trust, office, gate.refuse)
        self.settler = Settler(
            self.asker, self.graph, self.lists, keys, office, site.incarnation, site.words, kept
        )
        self.multicasts = Multicasts(
            self.asker,
            self.graph,
            gate,
            keys.signer,
            settings,
            self.assured,
            self._take,
            self._lacks if site.watched else None,
            self._kept is not None,
        )
        self.inbox = Inbox(self, self._kept.member.heard if self._kept is not None else ())
        self._estimates = 0
        if site.watched:
            self.lists.begin()
            self.graph.begin()
            self.settler.start()

    @property
    def public(self) -> bytes:
        return self._keys.signer.public

    def stand(self, certificate: Certificate, standing: StandingGraph) -> None:
        """A place of an assembled world is there already, among all who belong into its lists."""
        self.settler.stand(certificate)
        self.graph.places.add(certificate, standing)

    # --- verbs

    def join(self, introducers: tuple[Address, ...]) -> None:
        known = self._kept.contacts if self._kept is not None else ()
        self.settler.begin(tuple(dict.fromkeys((*introducers, *known))))
        if self.description is not None and not self.version:
            self.register(self.description)

    def leave(self) -> None:
        self.become(None)
        self.settler.depart()

    def register(self, description: Description) -> None:
        self.settler.settle(self.describe(description), description)

    def withdraw(self) -> None:
        self.settler.settle(self.describe(None), None)

    def cast(self, target: Target, payload: bytes) -> CastId:
        cast = self.next_cast()
        if self._may_cast():
            self.multicasts.cast(cast, target, payload)
        return cast

    def cast_range(self, low: bytes, high: bytes, payload: bytes) -> CastId:
        """To every peer with a place at a key in [low, high), registered or not: the paper's own verb. It wraps where
        low is above high, and is the full circle where they are equal."""
        cast = self.next_cast()
        if self._may_cast():
            self.multicasts.reach(cast, Arc(low, high), payload)
        return cast

    def _may_cast(self) -> bool:
        """Said to the application if not."""
        if not self.graph.places.held:
            self.host.deliver(Refused("cast", "this peer has no place in the graph yet"))
        elif self.multicasts.seen.is_full(self.name, self.host.now_us):
            self.host.deliver(
                Refused("cast", "this peer has cast so much of late that others would refuse it")
            )
        else:
            return True
        return False

    def estimate(self, target: Target) -> int:
        """Told at once, from how many of one's own ring are in range."""
        self._estimates += 1
        home = self.graph.places.home
        if home is None:
            self.host.deliver(Refused("estimate", "this peer has no place in the graph yet"))
        else:
            tables = [place.table for place in self.graph.places.held.values()]
            members, messages = audience(tables, target, home.vectors.alpha, home.k, self.assured)
            self.host.deliver(Estimated(self._estimates, members, messages))
        return self._estimates

    def grievances(self) -> dict[Address, int]:
        """Addresses that did what no honest member does, and since when; for whoever watches over the network."""
        return dict(self.multicasts.grievances)

    def holdings(self) -> Any:
        """Every other's place once, however many lists it is in; the wider lists where they are kept up."""
        held, contacts = self.graph.places.held, dict[bytes, Certificate]()
        for place in held.values():
            contacts.update(place.named(wide=self.assured))
        return [contacts[key] for key in sorted(contacts) if key not in held]

    def stored_bytes(self) -> int | None:
        return self.graph.places.stored_bytes(wide=self.assured)

    def kept(self) -> KeptBft:
        home = self.graph.places.home
        near = [node.address for node in home.table.levels[0].nodes] if home is not None else []
        contacts = tuple(each for each in dict.fromkeys(near) if each != self.address)[
            :CONTACTS_KEPT
        ]
        heard, revocation = (
            self.kept_member(self.inbox.seen.heard()),
            self.graph.places.belief.trust.revocation,
        )
        return KeptBft(heard, tuple(self.graph.certificates()), contacts, revocation)

    # --- what comes in

    def hears(self, sender: Address, message: Message) -> bool:
        """Whoever speaks is there. One that has left is not answered."""
        kind = type(message)
        if self.assured or kind is not CastHop:
            self.graph.heard(sender)
        return kind is not Ping or not self.graph.farewells.has_left(sender)

    def _lacks(self, cast: CastId) -> bool:
        return self.description is not None and not self.inbox.seen.met(cast)

    def _take(self, source: Source, arc: Arc) -> Outcome | None:
        """The least-term rule: of all arcs that reach this peer, that of the least selecting term notifies.

        While places come and go any arc that reaches it will do: the inbox lets nothing pass twice.
        """
        if not source.target.terms:
            return self.inbox.admit(source.cast, source.target, source.payload, fits=True)
        description = self.description
        if description is None:
            return None
        chosen = zip(source.target.terms, source.handles, strict=True)
        least = next(
            (handles_of(term)[index] for term, index in chosen if term.selects(description)), None
        )
        if least is None or not (self.settler.moving or least == arc):
            return None
        return self.inbox.take(source.cast, source.target, source.payload)
