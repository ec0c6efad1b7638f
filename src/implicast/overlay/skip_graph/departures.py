"""Answers to requests about own places, and leaving: a signed leave message, repeated until every
peer that may list the place has acknowledged it.

A peer that leaves the network sends one `LeaveGraph` for all its places. It keeps serving until all
receivers have acknowledged or failed to answer, and also notifies peers that contact it meanwhile.
Afterwards it answers every request with its signed leave. Only the holder's own signature removes a
place; no peer can leave for another. Follows the ring-upkeep specification, part D.2.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from implicast.overlay.skip_graph.messages import (
    DENIED_MAX,
    PRESENT,
    AnnouncePlace,
    AskNeighbours,
    ClaimAck,
    DenyPlaces,
    LeaveGraph,
    LeavePlace,
    Neighbours,
    ProbeAck,
    ProbePlaces,
    denial_verb,
)
from implicast.overlay.skip_graph.place import answer, nearest
from implicast.overlay.skip_graph.search import Search
from implicast.overlay.skip_graph.silent_nodes import silent_near
from implicast.overlay.skip_graph.table import LevelTable
from implicast.peer.contract import Address, Part, handles
from implicast.peer.identity import Certificate
from implicast.peer.memory import Recent
from implicast.peer.requests import PendingRequest, RetryPolicy

LEFT_MAX = 64
"""Left places remembered for later requests: old answers of other peers still name them."""
LEAVE, LEAVE_AGAIN = "leave", "leave again"
RETRY_US = 1_000_000
LEAVE_AGAIN_POLICY = RetryPolicy(RETRY_US, times=10)
LEAVE_ROUNDS = 3
"""A peer that acknowledged nothing may have been frozen or partitioned. It is sent three more
rounds, each signed anew because claims expire.
"""

Confirmed = tuple[Address, bytes]
"""The receiver of a leave message, and the key of the place it is signed for."""
LeaveMessage = TypeVar("LeaveMessage", bound=LeavePlace | LeaveGraph)


class Departures(Part):
    """Answers about held and left places, own leave messages, and leave messages received.

    Calls `on_left(leaver)` when another peer has left with all its places.
    """

    __slots__ = (
        "_home",
        "_left_all",
        "_members",
        "_on_left",
        "_places",
        "_requests",
        "_search",
        "left",
    )

    def __init__(self, search: Search, tries: int, on_left: Callable[[Certificate], None]) -> None:
        super().__init__(search.address, search.host)
        self._search, self._on_left = search, on_left
        self._requests, self._places, self._members = search.requests, search.places, search.members
        # last lists of a left place, for answers to newcomers
        self.left: Recent[bytes, LevelTable[Certificate]] = Recent(LEFT_MAX)
        self._left_all: Callable[[], None] | None = None
        self._home: Certificate | None = None
        search.requests.topic(LEAVE, RetryPolicy(RETRY_US, 1 + tries), self._unconfirmed)
        search.requests.topic(
            LEAVE_AGAIN,
            LEAVE_AGAIN_POLICY,
            lambda key, asked: self._repeat_leave(key, asked, asked.context),
        )

    # --- leaving

    def leave_place(self, key: bytes) -> None:
        """Leave a place, and notify every peer that may list it."""
        self._search.cancel_search(key)
        place = self._places.held.pop(key)
        self.left.put(key, place.wide)
        leave_message = self._signed_leave(LeavePlace, place.certificate)
        # for own other places: a peer not yet notified may name it to them
        self.on_leave_place(self.address, leave_message)
        for address in place.addresses_to_notify():
            if address != self.address:
                self._send_leave(address, leave_message)

    def leave_graph(self, left: Callable[[], None]) -> None:
        """Leave with all places. `left` is called when every notified peer has acknowledged or
        failed to answer.
        """
        home, held = self._places.home, self._places.held
        addresses = dict.fromkeys(
            address for place in held.values() for address in place.addresses_to_notify()
        )
        lost, may_return = self._members.lost.items(), self._members.may_return
        # they may still list our places
        addresses.update({address: None for address, each in lost if may_return(each)})
        addresses.pop(self.address, None)
        self._home = home.certificate if home is not None else None
        self._left_all = left
        if home is not None:
            leave_message = self._signed_leave(LeaveGraph, home.certificate)
            for address in addresses:
                self._send_leave(address, leave_message)
        self._maybe_left()

    def _send_leave(self, address: Address, leave_message: LeaveGraph | LeavePlace) -> None:
        self._requests.ask(
            LEAVE, (address, leave_message.claim.certificate.key), address, leave_message
        )

    def _unconfirmed(self, key: Confirmed, pending: PendingRequest) -> None:
        """Go on in separate rounds for a silent receiver, so that leaving can complete."""
        self._repeat_leave(key, pending, LEAVE_ROUNDS)
        self._maybe_left()

    def _repeat_leave(self, key: Confirmed, pending: PendingRequest, rounds: int) -> None:
        leave_message = pending.message
        if rounds and isinstance(leave_message, LeaveGraph | LeavePlace):
            anew = self._signed_leave(type(leave_message), leave_message.claim.certificate)
            self._requests.ask(LEAVE_AGAIN, key, pending.to, anew, rounds - 1)

    def _signed_leave(self, kind: type[LeaveMessage], certificate: Certificate) -> LeaveMessage:
        """A freshly signed leave message for one place or for all."""
        return kind(self._places.sign(kind.verb, certificate))

    def _maybe_left(self) -> None:
        if self._left_all is not None and not self._requests.pending_keys(LEAVE):
            left, self._left_all = self._left_all, None
            for key in list(self._places.held):
                self._search.cancel_search(key)
                self.left.put(key, self._places.held.pop(key).wide)
            left()

    @handles(ClaimAck)
    def on_claim_ack(self, sender: Address, ack: ClaimAck) -> None:
        """A leave message or an announcement was acknowledged."""
        key = (sender, ack.claimant)
        if self._requests.answered(LEAVE, key) is not None:
            self._maybe_left()
        elif self._requests.answered(LEAVE_AGAIN, key) is None:
            self._search.on_announce_ack(sender, ack.claimant)

    # --- answers about held places

    @handles(AskNeighbours)
    def on_ask(self, sender: Address, ask: AskNeighbours) -> None:
        if self._places.certificate_store.verifies(PRESENT, ask.claim):
            self._answer(sender, ask)
        self.tell_latecomer(sender)

    def _answer(self, sender: Address, ask: AskNeighbours) -> None:
        """Answer from the lists of the asked place. A request to any place is also told of the own
        places on both sides of the claimant: if all other neighbours of the claimant restarted with
        it, no other peer knows them.
        """
        about = ask.claim.certificate
        asked = self._places.held.get(ask.place) if ask.place else self._places.home
        if asked is None:
            self._answer_for_left(sender, ask, about)
            return
        nodes = asked.confirmed_nodes(asked.neighbours_of(about), self._members.was_heard_since)
        if not ask.place:
            named = frozenset(node.key for node in nodes)
            beside = nearest(about.key, self._places.certificates(), 1)
            nodes += tuple(node for node in beside if node.key not in named)
        if not asked.record_asker(about):
            asked.note_candidate(about)
        silent = silent_near(asked, self._members.silent_places, self.host.now_us)
        self.host.send(sender, Neighbours(asked.key, about.key, nodes, silent))

    @handles(AnnouncePlace)
    def on_announce(self, sender: Address, announce: AnnouncePlace) -> None:
        if self._places.certificate_store.verifies(PRESENT, announce.claim):
            self._places.insert(announce.claim.certificate)
            self.host.send(sender, ClaimAck(announce.claim.certificate.key))
        self.tell_latecomer(sender)

    @handles(ProbePlaces)
    def on_probe_places(self, sender: Address, probe: ProbePlaces) -> None:
        if not self._places.held:
            if not self.has_left(sender):
                self.answer_about_left(sender, probe.asked)
            return
        probed_places = [self._places.held[key] for key in probe.asked if key in self._places.held]
        for claim in probe.claims:
            if self._places.certificate_store.verifies(PRESENT, claim):
                for place in probed_places:
                    place.record_asker(claim.certificate)
        self.answer_about_left(sender, probe.asked)
        self.host.send(sender, ProbeAck())
        self.tell_latecomer(sender)

    # --- answers about left places

    def has_left(self, sender: Address) -> bool:
        """Whether this peer has left; if so, sends the signed leave instead of an answer."""
        if self._home is None or self._places.held:
            return False
        self.host.send(sender, self._signed_leave(LeaveGraph, self._home))
        return True

    def tell_latecomer(self, sender: Address) -> None:
        """Notify a peer that contacts this one while it is leaving. It was not among the peers
        notified first, and would list this one for ever.
        """
        home = self._home if self._left_all is not None else None
        if home is not None and self._requests.open(LEAVE, (sender, home.key)) is None:
            self._send_leave(sender, self._signed_leave(LeaveGraph, home))

    def answer_about_left(self, sender: Address, asked: Iterable[bytes]) -> None:
        """For each place that is no longer held, send the signed leave; deny the places that are
        not remembered.
        """
        others = [key for key in asked if key not in self._places.held]
        for key in others:
            if key in self.left:
                self.host.send(sender, self._signed_leave(LeavePlace, self.left[key].owner))
        unknown = tuple([key for key in others if key not in self.left])
        if unknown:
            self._deny(sender, unknown)

    def _answer_for_left(self, sender: Address, ask: AskNeighbours, about: Certificate) -> None:
        """Answer from the last lists of a left place. A newcomer whose introducers are all leaving
        would otherwise find no peer.
        """
        if ask.place and ask.place not in self.left:
            self._deny(sender, (ask.place,))
        elif not self.left:
            self.host.send(sender, Neighbours(b"", about.key, ()))
        else:
            table = self.left[ask.place or next(reversed(self.left))]
            nodes = answer(table, self._places.vectors, self._places.k, about)
            # these lists are no longer maintained
            others = [node for node in nodes if node.key not in self.left]
            near = [
                node
                for node in others
                if node.address == self.address or self._members.is_present(node)
            ]
            self.host.send(sender, Neighbours(ask.place, about.key, tuple(near)))
            self.host.send(sender, self._signed_leave(LeavePlace, table.owner))
        self.has_left(sender)

    def _deny(self, sender: Address, places: tuple[bytes, ...]) -> None:
        """Deny places that this peer neither holds nor remembers. Only `LEFT_MAX` left places are
        remembered; a peer that lists an older one could not remove it otherwise, and would take
        this peer for silent.
        """
        self._places.certificate_store.refusals["unknown_place"] += 1
        home = self._places.home
        certificate = home.certificate if home is not None else self._home
        if certificate is not None:
            denied = places[:DENIED_MAX]
            self.host.send(
                sender, DenyPlaces(denied, self._places.sign(denial_verb(denied), certificate))
            )

    # --- leave messages and denials received

    @handles(LeavePlace)
    def on_leave_place(self, sender: Address, leave_message: LeavePlace) -> None:
        leaver, certificate_store = leave_message.claim.certificate, self._places.certificate_store
        is_gone = certificate_store.has_left(leaver)
        if not is_gone and (
            certificate_store.trust.is_void(leaver)
            or certificate_store.verifies(leave_message.verb, leave_message.claim)
        ):
            self._on_place_left(leaver, leave_message.claim.sent_us)
        if certificate_store.has_left(leaver) and sender != self.address:
            self.host.send(sender, ClaimAck(leaver.key))

    @handles(LeaveGraph)
    def on_leave_graph(self, sender: Address, leave_message: LeaveGraph) -> None:
        """Remove all places of the leaver, on its own signature.

        A leave message for the one place whose certificate signs this one may have come before; it
        says nothing of the other places.
        """
        leaver, certificate_store = leave_message.claim.certificate, self._places.certificate_store
        if not certificate_store.has_left_with_all(leaver):
            if not certificate_store.verifies_departed(leave_message.verb, leave_message.claim):
                return
            certificate_store.gone_holders.put(leaver.public, leave_message.claim.sent_us)
            self._on_left(leaver)
        self.host.send(sender, ClaimAck(leaver.key))

    @handles(DenyPlaces)
    def on_deny_places(self, sender: Address, denial: DenyPlaces) -> None:
        """Remove places that the present holder of their address denies. Counts only for places of
        that address that we list or asked.
        """
        certificate_store, held = self._places.certificate_store, self._places.held.values()
        if not certificate_store.verifies_departed(denial_verb(denial.places), denial.claim):
            return
        asked = frozenset(denial.places)
        met = (node for place in held for node in (*place.known.values(), *place.asked.values()))
        found = {node.serial: node for node in met if node.key in asked and node.address == sender}
        for node in found.values():
            if certificate_store.denies(node, denial):
                self._on_place_left(node, denial.claim.sent_us)

    def _on_place_left(self, leaver: Certificate, left_us: int) -> None:
        """Remove a place from all lists after its holder left or denied it."""
        self._places.certificate_store.gone.put(leaver.serial, left_us)
        for place in list(self._places.held.values()):
            known = place.known.get(leaver.key)
            place.queue.pop(leaver.key, None)
            was_asked = self._search.close_request(place, leaver.key)
            if known is not None and known.serial <= leaver.serial:
                self._members.drop_entries(place, (leaver.key,))
            if was_asked:
                self._search.advance_search(place)
