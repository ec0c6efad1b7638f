"""Joining: how the places of one peer find the nodes that belong into their lists, and make
themselves known; and the answers to the requests of others. Follows the ring-upkeep specification,
part D.1.

A peer holds several places on one address, one for each of its tags and values. Each is a node of
its own, with its own certificate and lists; a certificate is verified once for all of them. A
searching place asks each node that it is told of for its lists; other places probe such a node
(`probes.py`).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated

from msgspec import Meta

from implicast.overlay.skip_graph.agreement import Named
from implicast.overlay.skip_graph.departures import ClaimAck, GraphDepartures
from implicast.overlay.skip_graph.members import HEARD_WITHIN_US, GraphMembers, LostPeer
from implicast.overlay.skip_graph.place import Place, answer, nearest, unknown_nodes
from implicast.overlay.skip_graph.places import PRESENT, Claim, Places
from implicast.overlay.skip_graph.probes import PlaceProbes
from implicast.overlay.skip_graph.silent_places import SILENT_MAX, SilentPlace, SilentPlaces
from implicast.peer.contract import Address, Message, Part, handles
from implicast.peer.identity import Certificate, Key
from implicast.peer.requests import AbstractRequests, PendingRequest, RetryPolicy

PARALLEL = 5
"""Requests under way at a time for one place."""
NEIGHBOURS = "neighbours"
RETRY_US = 1_000_000
"""Retry interval of requests."""
SEARCH_AGAIN_US = 60_000_000
"""Minimum interval between two searches for all own places."""

Asked = tuple[bytes, bytes]
"""An own place, and the receiver: the key of a place, or `any_place_at` an address."""


class AskNeighbours(Message):
    """Asks a place for the nodes near the claimant by its lists. An empty `place` asks any place of
    the receiver.
    """

    wire = 0x0B01
    place: Key
    claim: Claim


class Neighbours(Message):
    """Answer to `AskNeighbours`: the k nearest nodes on each side of the claimant, and the lists of
    all levels that the asked place shares with it. The claimant does not list silent places; its
    receipts are uncertain where they are.
    """

    wire = 0x0B02
    place: Key
    claimant: Key
    nodes: Named
    silent: Annotated[tuple[SilentPlace, ...], Meta(max_length=SILENT_MAX)] = ()


class AnnouncePlace(Message):
    """Announces a place that was taken or renewed; the receiver inserts it into its lists where it
    fits.
    """

    wire = 0x0B03
    claim: Claim


class Search(Part):
    """Requests of one peer's places, and answers to those of others.

    Calls `arrived(key)` when every peer that must list a new place knows it, and `isolated()` when
    no introducer of a new place answered.
    """

    __slots__ = (
        "_arrived",
        "_departures",
        "_isolated",
        "_members",
        "_places",
        "_probes",
        "_requests",
        "_searched_us",
        "_silent",
        "joining",
    )

    def __init__(
        self,
        requests: AbstractRequests,
        places: Places,
        members: GraphMembers,
        silent: SilentPlaces,
        departures: GraphDepartures,
        probes: PlaceProbes,
        asks: int,
        arrived: Callable[[bytes], None],
        isolated: Callable[[], None],
    ) -> None:
        super().__init__(places.address, places.host)
        self._requests, self._places, self._members = requests, places, members
        self._silent, self._departures, self._probes = silent, departures, probes
        self._arrived, self._isolated = arrived, isolated
        # own places that are joining -> their introducers
        self.joining: dict[bytes, Sequence[Address]] = {}
        self._searched_us = -SEARCH_AGAIN_US
        requests.topic(NEIGHBOURS, RetryPolicy(RETRY_US, asks), self._on_unanswered)

    # --- joining

    def take_place(self, certificate: Certificate, introducers: Sequence[Address]) -> None:
        """Join the graph at a certified place. `arrived` is called when every peer that must list
        it knows it. Until then its lists are empty and it takes itself for the whole ring.
        """
        self.cancel(certificate.key)
        place = self._places.add(certificate)
        self.joining[place.key] = introducers
        place.search(nearest(place.key, self._places.near(), place.k))
        for introducer in introducers:
            if introducer != self.address:
                self.ask(place, introducer)
        self.advance_search(place)

    def cancel(self, key: bytes) -> None:
        """Cancel the requests of a place that is being left or joined again."""
        self.joining.pop(key, None)
        place = self._places.held.get(key)
        for whom in place.waiting if place is not None else ():
            self._requests.drop(NEIGHBOURS, (key, whom))

    # --- requests

    def ask(self, place: Place, to: Address, whom: bytes = b"") -> None:
        """Ask for the lists of one place at an address, or of any place there."""
        self._request(
            place, whom or any_place_at(to), to, AskNeighbours(whom, self._places.claim(place))
        )

    def _request(
        self, place: Place, whom: bytes, to: Address, message: AskNeighbours | AnnouncePlace
    ) -> None:
        """Send a message that is retried until answered."""
        if self._requests.ask(NEIGHBOURS, (place.key, whom), to, message):
            place.await_answer(whom)

    def announce(self, place: Place, addresses: Iterable[Address]) -> None:
        """Announce a new or renewed place to peers that may list it."""
        announce = AnnouncePlace(self._places.claim(place))
        for address in addresses:
            if address == self.address:
                self._places.insert(place.certificate)
            else:
                self._request(place, any_place_at(address), address, announce)

    def advance_search(self, place: Place) -> None:
        """Ask queued nodes, five at a time, until none is left; then announce the place to listed
        nodes that were not asked; then report the arrival.
        """
        held = self._places.held
        while place.is_searching and len(place.waiting) < PARALLEL:
            node = place.next_to_ask()
            if node is None:
                break
            if node.address != self.address:
                self.ask(place, node.address, node.key)
            elif node.key in held:  # own place: asked by a call
                held[node.key].insert(place.certificate)
                self.learn_nodes(place, held[node.key].neighbours_of(place.certificate))
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
            others = place.wide.contacts() if place.key in self.joining else ()
            unasked = {node.address: None for node in others if node.key not in place.asked}
            if unasked:
                self.announce(place, unasked)
        if not place.waiting and self.joining.pop(place.key, None) is not None:
            self._arrived(place.key)

    # --- nodes learned

    @handles(Neighbours)
    def on_neighbours(self, sender: Address, answer: Neighbours) -> None:
        """Learn the nodes of an answer that was asked for."""
        place, whom = self._places.held.get(answer.claimant), any_place_at(sender)
        if place is None or not (
            self.close_request(place, answer.place, sender)
            or self.close_request(place, whom, sender)
        ):
            self._places.certificate_store.refuse("unasked_answer")
            return
        if answer.silent:
            self._silent.learn(answer.silent)
        self.learn_nodes(place, answer.nodes)
        self.advance_search(place)

    def learn_nodes(self, place: Place, named: Sequence[Certificate]) -> None:
        """Add the nodes named by another peer that may be listed. A search asks them; otherwise
        those not heard lately are probed.

        Only certificates not verified before, and places of lost peers, are checked one by one. A
        searching place gets known nodes too, since it follows every answer.
        """
        lost, store = self._members.lost, self._places.certificate_store
        fresh = unknown_nodes(place.known, named)
        unverified = store.unverified(fresh)
        if lost:
            unverified += [node for node in fresh if node.address in lost]
        chosen, refused = named if place.is_searching else fresh, set[bytes]()
        for node in unverified:
            may_list = self._members.may_list if node.address in lost else store.is_valid
            if not may_list(node):
                refused.add(node.key)
        if refused:
            chosen = [node for node in chosen if node.key not in refused]
        new_nodes = place.learn_nodes(chosen)
        if not new_nodes:
            return
        self._members.lists_changed()
        addresses = {node.address for node in new_nodes} - {self.address}
        since_us = self.host.now_us - HEARD_WITHIN_US + 1
        silent = self._members.detector.silent_since(addresses, since_us)
        for node in new_nodes if silent else ():
            if node.address in silent:
                place.note_unconfirmed(node.key, self.host.now_us)
                if not place.is_searching:
                    self._probes.plan_probe(place, node, is_new=True)

    def learn_new(self, place: Place, named: Iterable[Certificate]) -> None:
        """Learn the nodes that are not known yet and may be listed."""
        others = [
            node
            for node in unknown_nodes(place.known, named)
            if node.key not in place.known and node.key != place.key
        ]
        # true for about one call in five
        if others or place.is_searching or place.key in self.joining:
            self.learn_nodes(place, others)
            self.advance_search(place)

    def readmit(self, address: Address, lost: LostPeer) -> None:
        """Put a lost peer that sent a message back into the lists. A search under way asks it
        again, since it may know other nodes.
        """
        is_valid = self._places.certificate_store.is_valid
        nodes = [node for node in lost.nodes.values() if is_valid(node)]
        for place in list(self._places.held.values()):
            place.forget_asked(lost.nodes)
            self.learn_nodes(place, nodes)
            self.advance_search(place)
        if not self._members.may_return(lost):
            self._search_again(address)

    def _search_again(self, address: Address) -> None:
        """Search for all own places through a peer that was lost for longer than its places are
        stored. After a long partition the two sides may know only a home place or two of each
        other, so each place searches like a newcomer.
        """
        if self.host.now_us - self._searched_us < SEARCH_AGAIN_US:
            return
        self._searched_us = self.host.now_us
        near = self._places.near()
        for place in list(self._places.held.values()):
            if not place.is_searching and any_place_at(address) not in place.waiting:
                place.search(nearest(place.key, near, place.k))
                self.ask(place, address)

    # --- acknowledgements and timeouts

    @handles(ClaimAck)
    def on_claim_ack(self, sender: Address, ack: ClaimAck) -> None:
        """A leave message or an announcement was acknowledged."""
        if not self._departures.acknowledged(sender, ack.claimant):
            place = self._places.held.get(ack.claimant)
            if place is not None and self.close_request(place, any_place_at(sender), sender):
                self.advance_search(place)

    def close_request(self, place: Place, whom: bytes, by: Address | None = None) -> bool:
        """Close an open request. False if it was not open, or was sent to another address than
        `by`.
        """
        pending = self._requests.open(NEIGHBOURS, (place.key, whom))
        if pending is None or (by is not None and pending.to != by):
            return False
        self._requests.answered(NEIGHBOURS, (place.key, whom))
        place.end_wait(whom)
        return True

    def _on_unanswered(self, asked: Asked, pending: PendingRequest) -> None:
        """A request was retried up to its limit: the receiver is suspect."""
        place = self._places.held.get(asked[0])
        if place is not None:
            place.end_wait(asked[1])
            self._members.detector.suspect(pending.to)
            self.advance_search(place)

    def give_up_on(self, address: Address) -> None:
        """Close all requests to a peer that is lost or has left."""
        for place in list(self._places.held.values()):
            if [whom for whom in list(place.waiting) if self.close_request(place, whom, address)]:
                self.advance_search(place)

    def forget_place(self, leaver: Certificate) -> None:
        """Remove a place from all lists after its holder left or denied it."""
        for place in list(self._places.held.values()):
            known = place.known.get(leaver.key)
            place.dequeue(leaver.key)
            was_asked = self.close_request(place, leaver.key)
            if known is not None and known.serial <= leaver.serial:
                self._members.drop_entries(place, (leaver.key,))
            if was_asked:
                self.advance_search(place)

    # --- requests by other peers

    @handles(AskNeighbours)
    def on_ask(self, sender: Address, ask: AskNeighbours) -> None:
        """Answer from the lists of the asked place. A request to any place is also told of the own
        places on both sides of the claimant: if all other neighbours of the claimant restarted with
        it, no other peer knows them.
        """
        about, places = ask.claim.certificate, self._places
        asked = places.held.get(ask.place) if ask.place else places.home
        is_genuine = places.certificate_store.verifies(PRESENT, ask.claim)
        if is_genuine and asked is None:
            self._answer_for_left(sender, ask.place, about)
        elif is_genuine and asked is not None:
            listed, was_heard = asked.neighbours_of(about), self._members.was_heard_since
            nodes = asked.confirmed_nodes(listed, was_heard)
            if not ask.place:
                beside = nearest(about.key, places.certificates(), 1)
                named = [node.key for node in nodes] if beside else ()
                nodes += tuple([node for node in beside if node.key not in named])
            asked.record_asker(about, is_candidate=True)
            spans = asked.wide.levels[0].spans
            has_silent = self._members.lost or self._silent.named or asked.unconfirmed
            silent = self._silent.near(asked, spans) if has_silent else ()
            self.host.send(sender, Neighbours(asked.key, about.key, nodes, silent))
        if self._departures.leaving is not None:
            self._departures.tell_latecomer(sender)

    def _answer_for_left(self, sender: Address, key: bytes, about: Certificate) -> None:
        """Answer from the last lists of a left place. A newcomer whose introducers are all leaving
        would otherwise find no peer.
        """
        left, places = self._departures.left, self._places
        found = key or next(reversed(left), b"")
        if found in left or not found:
            nodes = answer(left[found], places.vectors, places.k, about) if found else ()
            # these lists are no longer maintained
            near = [
                each
                for each in nodes
                if each.key not in left
                and (each.address == self.address or self._members.is_present(each))
            ]
            self.host.send(sender, Neighbours(key, about.key, tuple(near)))
        if found:
            self._departures.answer_about_left(sender, (found,))
        self._departures.has_left(sender)

    @handles(AnnouncePlace)
    def on_announce(self, sender: Address, announce: AnnouncePlace) -> None:
        """Insert an announced place."""
        if self._places.certificate_store.verifies(PRESENT, announce.claim):
            self._places.insert(announce.claim.certificate)
            self.host.send(sender, ClaimAck(announce.claim.certificate.key))
        self._departures.tell_latecomer(sender)


def any_place_at(address: Address) -> bytes:
    """A stand-in for the key of any place at an address."""
    return b"@" + str(address).encode()
