"""The skip graph of one peer: its places, and the parts that keep them in the right lists.

Theory of operation
===================

State. A *place* is one node of the graph: a key, a membership vector, and a certificate that binds
both to the peer's address. A peer holds one place for each of its tags and values, and a home
place. The ring of level i holds the places whose vectors share i digits. At each level a place has
two lists: that of the paper (`table`: k-1 places of its next ring on each side) and a wider one
(`wide`: k-1 of every digit class), which is symmetric.

Invariants at rest, with P the places present:

1. both lists of every place equal their definition over P;
2. an entry has a certificate of the authority that is valid, and its holder has not left;
3. a message of a third peer only adds entries. An entry goes with the signed leave or denial of its
   holder, a revocation, or a failed probe of this peer.

A place, and an entry of another peer:

| place | becomes | when | what is sent |
|---|---|---|---|
| none | searching | `take_place` | `AskNeighbours` to introducers, then to each node named |
| searching | announcing | no node is left to ask | `AnnouncePlace` to the rest of the wide lists |
| announcing | held | all requests are closed | nothing; `arrived` is called |
| held | left | `leave_place`, `leave_graph` | `LeavePlace`, `LeaveGraph`, repeated until `ClaimAck` |

| entry | becomes | when | what is sent |
|---|---|---|---|
| unknown | listed | named with a valid certificate | `ProbePlaces`, unless heard within 15 s |
| listed | lost | all probes unanswered | `SuspicionReport` to the contacts, which probe |
| lost | listed | it sends a message within 3 min | `SuspicionReport` to it: it checks its lists |
| lost | forgotten | 1 h without a message | probes until then, at growing intervals |
| listed | left | its signed leave, or its denial | `ClaimAck` |

Who sends what when. Each peer watches the two nearest peers on each side of its home place
(`members`). A place whose list has changed sends it to the nearest place of another peer on each
side (`anti_entropy`: `CompareLists`, answered by `ListDifferences`) until both agree; at rest
nothing is compared. As a last resort a random entry is asked for its lists every `turn_us`.
Parts, each using only those before it: `places` (certificates, claims), `members`, `silent`,
`departures`, `probes`, `search`, `anti_entropy`. FIDELITY.md has the differences from the paper.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from implicast.overlay.skip_graph.anti_entropy import ListAntiEntropy
from implicast.overlay.skip_graph.departures import GraphDepartures
from implicast.overlay.skip_graph.members import GraphMembers, GraphSettings
from implicast.overlay.skip_graph.place import ADDRESS, WholeGraph
from implicast.overlay.skip_graph.places import PUBLIC, Places, nodes_with, revoked_keys
from implicast.overlay.skip_graph.probes import PlaceProbes
from implicast.overlay.skip_graph.search import Search
from implicast.overlay.skip_graph.silent_places import SilentPlaces
from implicast.peer.contract import Address, Host, Message, Part, StandingAlarm, handles
from implicast.peer.identity import Certificate, Revocation, Trust
from implicast.peer.lease import OWED_US
from implicast.peer.requests import AbstractRequests
from implicast.peer.signatures import Signer
from implicast.space.vector import Vectors

WATCHED = 2
"""Neighbours of the home place watched on each side. A crash goes unnoticed only if three adjacent
peers crash together.
"""
SLEPT_US = 2_000_000
"""A peer whose watch alarm fires more than 2 s late was frozen and may have missed messages."""
CATCH_UP_US = 10_000_000
"""Minimum interval between two catch-ups. Without it, peers that keep reporting us as lost would
cause endless probing.
"""


class GraphRequestDue(Message):
    """Fires when a request of the graph may be due for a retry."""


class GraphWatchDue(StandingAlarm):
    """Fires when neighbours of the home place are to be checked and lost peers probed."""


class RefreshEntryDue(StandingAlarm):
    """Fires when one more entry is to be asked for its lists."""


@dataclass(frozen=True, slots=True)
class AssembledPlaces:
    """Places of one peer in a converged graph, from which their lists are read until they change."""

    certificates: Sequence[Certificate]
    whole: WholeGraph


class GraphRequests(AbstractRequests):
    """Requests of the graph, retried on an alarm of their own: on a shared alarm, retries of
    maintenance would be accounted to the application's verb, and the other way round.
    """

    __slots__ = ()
    alarm = GraphRequestDue()

    @handles(GraphRequestDue)
    def on_graph_request_due(self, alarm: GraphRequestDue) -> None:
        """Repeat what is due."""
        self.resend_due()


class SkipGraph(
    Part,
    parts={
        "requests": GraphRequests,
        "members": GraphMembers,
        "departures": GraphDepartures,
        "probes": PlaceProbes,
        "search": Search,
        "anti_entropy": ListAntiEntropy,
    },
):
    """The places of one peer and the parts that maintain their lists.

    Calls `arrived(key)` when every peer that must list a new place knows it, `isolated()` when no
    introducer of a new place answered, and `peer_left(address)` when a peer has left with a signed
    message.
    """

    __slots__ = (
        "_caught_up_us",
        "_peer_left",
        "_refreshes",
        "_settings",
        "_watch_us",
        "anti_entropy",
        "departures",
        "members",
        "places",
        "probes",
        "requests",
        "search",
        "silent",
    )

    def __init__(
        self,
        address: Address,
        host: Host,
        k: int,
        vectors: Vectors,
        trust: Trust,
        signer: Signer,
        settings: GraphSettings,
        arrived: Callable[[bytes], None] = lambda key: None,
        isolated: Callable[[], None] = lambda: None,
        peer_left: Callable[[Address], None] = lambda address: None,
    ) -> None:
        super().__init__(address, host)
        self._settings, self._peer_left = settings, peer_left
        self.requests = GraphRequests(address, host)
        self.places = Places(address, host, k, vectors, trust, signer)
        common = self.requests, self.places
        self.members = GraphMembers(
            self.places,
            settings,
            self.lose_peer,
            lambda: self.anti_entropy.schedule_round(),
            self._catch_up,
        )
        self.silent = SilentPlaces(self.places, self.members)
        self.departures = GraphDepartures(
            *common,
            self.members,
            settings.asks,
            lambda leaver: self.search.forget_place(leaver),
            self._on_peer_left,
            lambda key: self.search.cancel(key),
        )
        self.probes = PlaceProbes(*common, self.members, self.departures, settings.look_us)
        self.search = Search(
            *common,
            self.members,
            self.silent,
            self.departures,
            self.probes,
            settings.asks,
            arrived,
            isolated,
        )
        self.anti_entropy = ListAntiEntropy(
            self.places,
            self.members,
            self.departures,
            self.probes,
            self.search,
            settings.look_us,
        )
        self._caught_up_us = self._watch_us = host.now_us
        self._refreshes = 0

    def restore(self, assembled: AssembledPlaces) -> None:
        """Hold places of an assembled world."""
        for certificate in assembled.certificates:
            self.places.add(certificate, assembled.whole)

    # --- for the casting layer

    def joined_places(self) -> list[bytes]:
        """Places from which a cast may start. A place that is still joining has empty lists and
        takes itself for the whole ring; it is used only if all places are joining.
        """
        held, joining = self.places.held, self.search.joining
        return [key for key in held if key not in joining] or list(held)

    def is_agreed(self, key: bytes, number: int) -> bool:
        """Whether the neighbours of a place confirmed its list of a level. After a departure a list
        may look like the whole ring because only few of its nodes are known. A list without other
        peers counts as confirmed only if none was lost.
        """
        place, members = self.places.held[key], self.members
        if place.assembled is not None:
            return True
        none_lost = not members.lost or not members.addresses_lost_within(OWED_US)
        return place.agreement.is_agreed(place.wide, number, self.address, none_lost)

    def certificates(self) -> list[Certificate]:
        """Certificates of own places in key order."""
        held = self.places.held
        return [held[key].certificate for key in sorted(held)]

    # --- joining, renewing and revoking places

    def has_arrived(self, key: bytes) -> bool:
        """Whether this peer holds the place and every peer that must list it knows it."""
        return key in self.places.held and key not in self.search.joining

    def is_alone(self, key: bytes) -> bool:
        """Whether an own place knows no other peer."""
        return not self.places.held[key].addresses.keys() - {self.address}

    def expires_soon(self, key: bytes) -> bool:
        """Whether less than a third of the certificate's validity is left."""
        certificate = self.places.held[key].certificate
        return (
            certificate.until_us - self.host.now_us
            < (certificate.until_us - certificate.since_us) // 3
        )

    def renew(self, certificate: Certificate) -> None:
        """Replace the certificate of a place by a newer one, and announce it to all peers that may
        list the place.
        """
        place = self.places.held.get(certificate.key)
        if place is not None and place.certificate.serial < certificate.serial:
            place.renew(certificate)
            self.places.insert(certificate)
            self.search.announce(place, place.addresses_to_notify())

    def search_home_via(self, peers: Sequence[Address]) -> None:
        """Ask peers that are not neighbours about the home place. This merges rings that were
        partitioned.
        """
        home = self.places.home
        for address in peers:
            if home is not None and address != self.address and address not in self.members.lost:
                self.search.ask(home, address)

    def learn_revocation(self, revocation: Revocation) -> bool:
        """Remove entries whose certificates were revoked. False if the list is not newer than the
        known one, or is forged.
        """
        if not self.places.certificate_store.trust.learn(revocation):
            return False
        revoked, expelled = frozenset(revocation.serials), frozenset(revocation.names)
        for place in list(self.places.held.values()):
            removed = revoked_keys(place.known, revoked, expelled)
            if removed:  # true for about one place in ten
                self.members.drop_entries(place, removed)
        return True

    # --- messages received, peers lost, peers left

    def on_heard_from(self, sender: Address) -> None:
        """Record a sign of life. Called for every message, which spares most probes."""
        members = self.members
        if members.reports:
            members.forget_reports(sender)
        members.detector.heard_from(sender)
        if sender in members.lost:
            self.search.readmit(sender, members.reinstate(sender))

    def lose_peer(self, address: Address) -> None:
        """Remove a peer that failed its probes from all lists, and store its certificates."""
        removed = nodes_with(self.places.held.values(), ADDRESS, address)
        self.members.record_lost(address, removed)
        self._remove_entries(address, removed)
        if removed:
            self.members.report_silent(address)

    def _on_peer_left(self, leaver: Certificate) -> None:
        """Remove a peer whose signed message says that it left with all its places."""
        self.members.on_left(leaver.address)
        self.silent.forget(leaver.address)
        removed = nodes_with(self.places.held.values(), PUBLIC, leaver.public)
        self._remove_entries(leaver.address, removed)
        self.members.report_silent(leaver.address)
        self._peer_left(leaver.address)

    def _remove_entries(self, address: Address, removed: Mapping[bytes, Certificate]) -> None:
        """Remove entries from the lists of all places before any search goes on, so that no place
        learns them from another.
        """
        for place in self.places.held.values():
            listed = [key for key in removed if key in place.known]
            if listed:
                self.members.drop_entries(place, listed)
        self.search.give_up_on(address)

    def _catch_up(self) -> None:
        """Probe all contacts and offer all lists again. Called when this peer was frozen, or
        unreachable for another.
        """
        if self.host.now_us - self._caught_up_us < CATCH_UP_US or not self.places.held:
            return
        self._caught_up_us = self.host.now_us
        for address in self.places.contact_addresses():
            self.members.check_alive(address)
        for place in self.places.held.values():
            place.agreement.forget()

    # --- periodic maintenance

    def start_maintenance(self) -> None:
        """Start the periodic alarms, each at a random phase."""
        self.host.after(int(self._settings.watch_us * self.host.rng.random()), GraphWatchDue())
        self.host.after(int(self._settings.turn_us * self.host.rng.random()), RefreshEntryDue())
        self.anti_entropy.start_rounds()

    @handles(GraphWatchDue)
    def on_watch_due(self, alarm: GraphWatchDue) -> None:
        now_us, watch_us = self.host.now_us, self._settings.watch_us
        self.host.after(watch_us, alarm)
        if now_us - self._watch_us > watch_us + SLEPT_US:
            self._catch_up()
        self._watch_us = now_us
        for address in self._watched():
            self.members.detector.check(address, watch_us)
        self.members.probe_lost()

    def _watched(self) -> list[Address]:
        home = self.places.home
        if home is None:
            return []
        level, found = home.table.levels[0], dict[Address, None]()
        nodes, own = level.nodes, level.own
        for side in (
            (*nodes[own + 1 :], *nodes[:own]),
            (*reversed(nodes[:own]), *reversed(nodes[own + 1 :])),
        ):
            others = dict.fromkeys(node.address for node in side if node.address != self.address)
            found.update(dict.fromkeys(list(others)[:WATCHED]))
        return list(found)

    @handles(RefreshEntryDue)
    def on_refresh_entry_due(self, alarm: RefreshEntryDue) -> None:
        """Ask a random entry of the next place in turn for its lists."""
        self.host.after(self._settings.turn_us, alarm)
        places = [place for place in self.places.held.values() if not place.is_searching]
        if not places:
            return
        self._refreshes += 1
        place = places[self._refreshes % len(places)]
        level = self.host.rng.choice(place.wide.levels)
        node = self.host.rng.choice(level.nodes)
        if node.address != self.address and node.key not in place.waiting:
            self.search.ask(place, node.address, node.key)
