"""Joining and probing: how the places of one peer find the nodes that belong into their lists, and
make themselves known. Follows the ring-upkeep specification, part D.1.

A peer holds several places on one address, one for each of its tags and values. Each is a node of
its own, with its own certificate and lists; a certificate is verified once for all of them.

A node named by another peer is listed at once, because its certificate is valid. A searching place
asks it for its lists. Otherwise the node is probed: the probe carries this peer's signed claim, and
a node that does not answer is lost. A probe does not ask for lists; anti-entropy
(`anti_entropy.py`) brings further nodes, and only where two lists differ. A node heard lately is
not probed: it learns of this place when it compares its own lists. Probes from all own places to
all places of one address share a message.
"""

from collections.abc import Callable, Iterable, Sequence

from implicast.overlay.skip_graph.members import (
    HEARD_WITHIN_US,
    GraphMembers,
    GraphSettings,
    LostPeer,
)
from implicast.overlay.skip_graph.messages import (
    PROBED_MAX,
    AnnouncePlace,
    AskNeighbours,
    Neighbours,
    PlacesProbeDue,
    ProbeAck,
    ProbePlaces,
)
from implicast.overlay.skip_graph.place import Place, nearest, unknown_nodes
from implicast.overlay.skip_graph.places import Places
from implicast.peer.contract import Address, Message, Part, handles
from implicast.peer.identity import Certificate
from implicast.peer.memory import Recent
from implicast.peer.requests import AbstractRequests, PendingRequest, RetryPolicy

PARALLEL = 5
"""Requests under way at a time for one place."""
NEIGHBOURS, EXPECT_REPLY = "neighbours", "expect reply"
RETRY_US = 1_000_000
"""Retry interval of requests. A receiver of a probe or comparison that has not answered by then is
probed by the failure detector.
"""
SEARCH_AGAIN_US = 60_000_000
"""Minimum interval between two searches for all own places."""
PROBE_DELAY_US = 200_000
"""Probes planned within 0.2 s share one message for each address."""
PLANNED_MAX = 4_096
"""Probes planned at a time. Nodes beyond the bound come up again in a later comparison."""
DISPUTED_MAX = 512
"""Disputed nodes remembered; the oldest is evicted first."""

Asked = tuple[bytes, bytes]
"""An own place, and the receiver: the key of a place, or `any_place_at` an address."""


class Search(Part):
    """Requests and probes of one peer's places.

    Calls `lose(address)` when a peer leaves a request unanswered, `arrived(key)` when every peer
    that must list a new place knows it, and `isolated()` when no introducer of a new place
    answered.
    """

    __slots__ = (
        "_arrived",
        "_disputed",
        "_isolated",
        "_look_us",
        "_lose",
        "_planned",
        "_searched_us",
        "joining",
        "members",
        "places",
        "requests",
    )

    def __init__(
        self,
        requests: AbstractRequests,
        places: Places,
        members: GraphMembers,
        settings: GraphSettings,
        lose: Callable[[Address], None],
        arrived: Callable[[bytes], None],
        isolated: Callable[[], None],
    ) -> None:
        super().__init__(requests.address, requests.host)
        self.requests, self.places, self.members, self._look_us = (
            requests,
            places,
            members,
            settings.look_us,
        )
        self._lose, self._arrived, self._isolated = lose, arrived, isolated
        # own places that are joining -> their introducers
        self.joining: dict[bytes, Sequence[Address]] = {}
        self._searched_us = -SEARCH_AGAIN_US
        # nodes that a neighbour does not list: time of the first dispute, and whether probed since
        self._disputed: Recent[bytes, tuple[int, bool]] = Recent(DISPUTED_MAX)
        # own place and node to probe -> whether the probe introduces the own place
        self._planned: dict[tuple[bytes, bytes], bool] = {}
        requests.topic(NEIGHBOURS, RetryPolicy(RETRY_US, settings.asks), self._on_unanswered)
        requests.topic(
            EXPECT_REPLY,
            RetryPolicy(RETRY_US, 1),
            lambda shown, asked: members.probe_with(asked.to, asked.message),
        )

    # --- joining

    def take_place(self, certificate: Certificate, introducers: Sequence[Address]) -> None:
        """Join the graph at a certified place. `arrived` is called when every peer that must list
        it knows it. Until then its lists are empty and it takes itself for the whole ring.
        """
        self.cancel_search(certificate.key)
        place = self.places.add(certificate)
        self.joining[place.key] = introducers
        place.search(nearest(place.key, self.places.near(), place.k))
        for introducer in introducers:
            if introducer != self.address:
                self.ask(place, introducer)
        self.advance_search(place)

    def cancel_search(self, key: bytes) -> None:
        """Cancel the requests of a place that is being left or joined again."""
        self.joining.pop(key, None)
        place = self.places.held.get(key)
        for whom in place.waiting if place is not None else ():
            self.requests.drop(NEIGHBOURS, (key, whom))

    # --- requests

    def ask(self, place: Place, to: Address, whom: bytes = b"") -> None:
        """Ask for the lists of one place at an address, or of any place there."""
        self._request(
            place, whom or any_place_at(to), to, AskNeighbours(whom, self.places.claim(place))
        )

    def _request(
        self, place: Place, whom: bytes, to: Address, message: AskNeighbours | AnnouncePlace
    ) -> None:
        """Send a message that is retried until answered."""
        if self.requests.ask(NEIGHBOURS, (place.key, whom), to, message):
            place.waiting[whom] = None

    def announce(self, place: Place, addresses: Iterable[Address]) -> None:
        """Announce a new or renewed place to peers that may list it."""
        announce = AnnouncePlace(self.places.claim(place))
        for address in addresses:
            if address == self.address:
                self.places.insert(place.certificate)
            else:
                self._request(place, any_place_at(address), address, announce)

    def advance_search(self, place: Place) -> None:
        """Ask queued nodes, five at a time, until none is left; then announce the place to listed
        nodes that were not asked; then report the arrival.
        """
        while (
            place.is_searching
            and len(place.waiting) < PARALLEL
            and (node := place.next_to_ask()) is not None
        ):
            if node.address != self.address:
                self.ask(place, node.address, node.key)
            elif (own := self.places.held.get(node.key)) is not None:  # own place: asked by a call
                own.insert(place.certificate)
                self.learn_nodes(
                    place, self.members.listable(place, own.neighbours_of(place.certificate))
                )
        if place.waiting:
            return
        if not place.known and self.joining.get(place.key):
            # a place that found no node though introducers exist must not take itself for the whole
            # network
            self._isolated()
            return
        if place.is_searching:
            place.end_search()
            # nodes that were asked have listed the place; the others of the wide lists are notified
            if place.key in self.joining:
                others = [
                    node.address for node in place.wide.contacts() if node.key not in place.asked
                ]
                self.announce(place, dict.fromkeys(others))
        if not place.waiting and self.joining.pop(place.key, None) is not None:
            self._arrived(place.key)

    # --- nodes learned

    @handles(Neighbours)
    def on_neighbours(self, sender: Address, answer: Neighbours) -> None:
        place = self.places.held.get(answer.claimant)
        asked = (answer.place, any_place_at(sender))
        if place is None or not any(self.close_request(place, whom, sender) for whom in asked):
            self.places.certificate_store.refusals["unasked_answer"] += 1
            return
        self.members.silent_nodes.learn(answer.silent)
        self.learn_nodes(place, self.members.listable(place, answer.nodes))
        self.advance_search(place)

    def learn_nodes(self, place: Place, named: Sequence[Certificate]) -> None:
        """Add nodes that another peer named and that may be listed. A search asks them; otherwise
        those not heard lately are probed.
        """
        new_nodes = place.learn_nodes(named)
        if new_nodes:
            self.members.lists_changed()
        addresses, since_us = (
            {node.address for node in new_nodes} - {self.address},
            self.host.now_us - HEARD_WITHIN_US,
        )
        silent = self.members.detector.silent_since(addresses, since_us + 1)
        for node in new_nodes if silent else ():
            if node.address in silent:
                place.unconfirmed[node.key] = self.host.now_us
                if not place.is_searching:
                    self._plan_probe(place, node, is_new=True)

    def learn_new(self, place: Place, named: Iterable[Certificate]) -> None:
        """Learn the nodes that are not known yet and may be listed."""
        known, own = place.known, place.key
        others = [
            node
            for node in unknown_nodes(known, named)
            if node.key not in known and node.key != own
        ]
        new_nodes = self.members.listable(place, others) if others else others
        # true for about one call in five
        if new_nodes or place.is_searching or own in self.joining:
            self.learn_nodes(place, new_nodes)
            self.advance_search(place)

    def on_announce_ack(self, sender: Address, claimant: bytes) -> None:
        """A peer acknowledged an announcement."""
        place = self.places.held.get(claimant)
        if place is not None and self.close_request(place, any_place_at(sender), sender):
            self.advance_search(place)

    def readmit(self, address: Address, lost: LostPeer) -> None:
        """Put a lost peer that sent a message back into the lists. A search under way asks it
        again, since it may know other nodes.
        """
        nodes = [
            node for node in lost.nodes.values() if self.places.certificate_store.is_valid(node)
        ]
        for place in list(self.places.held.values()):
            place.forget_asked(lost.nodes)
            self.learn_nodes(place, nodes)
            self.advance_search(place)
        if not self.members.may_return(lost):
            self._search_again(address)

    def _search_again(self, address: Address) -> None:
        """Search for all own places through a peer that was lost for longer than its places are
        stored. After a long partition the two sides may know only a home place or two of each
        other, so each place searches like a newcomer.
        """
        if self.host.now_us - self._searched_us < SEARCH_AGAIN_US:
            return
        self._searched_us = self.host.now_us
        near = self.places.near()
        for place in list(self.places.held.values()):
            if not place.is_searching and any_place_at(address) not in place.waiting:
                place.search(nearest(place.key, near, place.k))
                self.ask(place, address)

    # --- answers and timeouts

    def close_request(self, place: Place, whom: bytes, by: Address | None = None) -> bool:
        """Close an open request. False if it was not open, or was sent to another address than
        `by`.
        """
        pending = self.requests.open(NEIGHBOURS, (place.key, whom))
        if pending is None or (by is not None and pending.to != by):
            return False
        self.requests.answered(NEIGHBOURS, (place.key, whom))
        place.waiting.pop(whom, None)
        return True

    def _on_unanswered(self, asked: Asked, pending: PendingRequest) -> None:
        """A request was retried up to its limit: the receiver is suspect."""
        place = self.places.held.get(asked[0])
        if place is None:
            return
        place.waiting.pop(asked[1], None)
        self.members.detector.suspect(pending.to)
        self.advance_search(place)

    def give_up_on(self, address: Address) -> None:
        """Close all requests to a peer that is lost or has left."""
        for place in list(self.places.held.values()):
            if [whom for whom in list(place.waiting) if self.close_request(place, whom, address)]:
                self.advance_search(place)

    # --- probes

    def send_expecting_reply(self, address: Address, message: Message) -> None:
        """Send a message once; if it is not answered, the failure detector probes the receiver with
        it.
        """
        self.requests.ask(EXPECT_REPLY, (address, type(message).wire), address, message)

    def probe_disputed(self, place: Place, disputed: Iterable[Certificate]) -> None:
        """Probe listed nodes that a neighbour does not list."""
        for node in disputed:
            if self._is_probe_due(node):
                self._plan_probe(place, node, is_new=False)

    def _plan_probe(self, place: Place, node: Certificate, is_new: bool) -> None:
        if node.address == self.address or len(self._planned) >= PLANNED_MAX:
            return
        if not self._planned:
            self.host.after(PROBE_DELAY_US, PlacesProbeDue())
        both = (place.key, node.key)
        self._planned[both] = is_new or self._planned.get(both, False)

    def _is_probe_due(self, node: Certificate) -> bool:
        """Whether to probe a disputed node, at most once in `HEARD_WITHIN_US`: a neighbour that
        never agrees must not cause endless probes.

        Usually the neighbour's list is too short, and our answer completes it. A node heard lately
        is therefore probed only if the dispute lasts for more than half a round. This saves seven
        probes in ten.
        """
        now_us, disputed = self.host.now_us, self._disputed
        first_us, asked = disputed.get(node.key, (-HEARD_WITHIN_US, False))
        if first_us <= now_us - HEARD_WITHIN_US:
            first_us, asked = now_us, False
            disputed.pop(node.key, None)
        was_heard = self.members.was_heard_since(node.address, now_us - HEARD_WITHIN_US + 1)
        asks = not asked and (now_us - first_us > self._look_us // 2 or not was_heard)
        disputed[node.key] = (first_us, asked or asks)
        disputed.drop_while(lambda each: each[0] <= now_us - HEARD_WITHIN_US)
        return asks

    @handles(PlacesProbeDue)
    def on_places_probe_due(self, alarm: PlacesProbeDue) -> None:
        """Send the planned probes for nodes that are still listed."""
        planned, self._planned = self._planned, {}
        introduced: dict[Address, dict[bytes, None]] = {}
        theirs: dict[Address, dict[bytes, None]] = {}
        held = self.places.held
        for (key, other), is_new in planned.items():
            node = held[key].listed(other) if key in held else None
            if node is not None:
                theirs.setdefault(node.address, {})[other] = None
                if is_new:
                    introduced.setdefault(node.address, {})[key] = None
        for address, asked in theirs.items():
            claims = [self.places.claim(held[key]) for key in introduced.get(address, ())]
            self.send_expecting_reply(
                address, ProbePlaces(tuple(claims[:PROBED_MAX]), tuple(asked)[:PROBED_MAX])
            )

    @handles(ProbeAck)
    def on_probe_ack(self, sender: Address, probed: ProbeAck) -> None:
        """The receiver of a probe is alive."""
        self.requests.answered(EXPECT_REPLY, (sender, ProbePlaces.wire))


def any_place_at(address: Address) -> bytes:
    """A stand-in for the key of any place at an address."""
    return b"@" + str(address).encode()
