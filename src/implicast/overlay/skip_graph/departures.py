"""Leaving: a signed leave message, repeated until every peer that may list the place has
acknowledged it; and the leave messages and denials of other peers.

A peer that leaves the network sends one `LeaveGraph` for all its places. It keeps serving until all
receivers have acknowledged or failed to answer, and also notifies peers that contact it meanwhile.
Afterwards it answers every request with its signed leave. Only the holder's own signature removes a
place; no peer can leave for another. Follows the ring-upkeep specification, part D.2.
"""

from collections.abc import Callable, Iterable
from typing import Annotated, ClassVar, TypeVar

import msgspec
from msgspec import Meta

from implicast.overlay.skip_graph.members import GraphMembers
from implicast.overlay.skip_graph.places import Claim, Places
from implicast.overlay.skip_graph.table import LevelTable
from implicast.peer.contract import Address, Message, Part, handles
from implicast.peer.identity import Certificate, Key
from implicast.peer.memory import Recent
from implicast.peer.requests import AbstractRequests, PendingRequest, RetryPolicy

GONE, ALL_GONE = b"gone", b"all gone"
"""Verbs of claims: the place is left; all places of the key are left."""
DENIED_MAX = 256
"""Places in one denial."""
LEFT_MAX = 64
"""Left places remembered for later requests: old answers of other peers still name them."""
LEAVE, LEAVE_AGAIN = "leave", "leave again"
RETRY_US = 1_000_000
LEAVE_AGAIN_POLICY = RetryPolicy(RETRY_US, times=10)
LEAVE_ROUNDS = 3
"""A peer that acknowledged nothing may have been frozen or partitioned. It is sent three more
rounds, each signed anew because claims expire.
"""

_encode = msgspec.msgpack.Encoder().encode
Confirmed = tuple[Address, bytes]
"""The receiver of a leave message, and the key of the place it is signed for."""


class ClaimAck(Message):
    """Acknowledges an announcement or a leave message."""

    wire = 0x0B04
    claimant: Key


class LeavePlace(Message):
    """The claimant leaves this place for good."""

    wire = 0x0B05
    verb: ClassVar[bytes] = GONE
    claim: Claim


class LeaveGraph(Message):
    """The claimant leaves with all places of its public key, for good."""

    wire = 0x0B06
    verb: ClassVar[bytes] = ALL_GONE
    claim: Claim


class DenyPlaces(Message):
    """The sender does not hold these places. The claim is for a place that it does hold, or last
    held, at the same address.
    """

    wire = 0x0B07
    places: Annotated[tuple[Key, ...], Meta(max_length=DENIED_MAX)]
    claim: Claim

    def denies(self, certificate: Certificate) -> bool:
        """Whether the denial removes a place: it is later than the place's certificate, and is
        signed with a certificate for the same address, of the same public key or issued later.
        """
        other = self.claim.certificate
        if other.address != certificate.address or certificate.since_us > self.claim.sent_us:
            return False
        return other.public == certificate.public or other.serial > certificate.serial


LeaveMessage = TypeVar("LeaveMessage", bound=LeavePlace | LeaveGraph)


def denial_verb(places: tuple[bytes, ...]) -> bytes:
    """The verb of a claim that denies these places."""
    return b"disown" + _encode(places)


class GraphDepartures(Part):
    """Own leave messages, and those received.

    Calls `place_left(leaver)` when a holder left a place, `peer_left(leaver)` when another peer has
    left with all its places, and `cancel(key)` before an own place is given up at the end.
    """

    __slots__ = (
        "_cancel",
        "_home",
        "_members",
        "_peer_left",
        "_place_left",
        "_places",
        "_requests",
        "leaving",
        "left",
    )

    def __init__(
        self,
        requests: AbstractRequests,
        places: Places,
        members: GraphMembers,
        tries: int,
        place_left: Callable[[Certificate], None],
        peer_left: Callable[[Certificate], None],
        cancel: Callable[[bytes], None],
    ) -> None:
        super().__init__(places.address, places.host)
        self._requests, self._places, self._members = requests, places, members
        self._place_left, self._peer_left, self._cancel = place_left, peer_left, cancel
        # last lists of a left place, for answers to newcomers
        self.left: Recent[bytes, LevelTable[Certificate]] = Recent(LEFT_MAX)
        self.leaving: Callable[[], None] | None = None
        """Called when the leave is complete; None if this peer is not leaving."""
        self._home: Certificate | None = None
        requests.topic(LEAVE, RetryPolicy(RETRY_US, 1 + tries), self._unconfirmed)
        requests.topic(
            LEAVE_AGAIN,
            LEAVE_AGAIN_POLICY,
            lambda key, asked: self._repeat_leave(key, asked, asked.context),
        )

    # --- leaving

    def leave_place(self, key: bytes) -> None:
        """Leave a place, and notify every peer that may list it."""
        self._cancel(key)
        place = self._places.remove(key)
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
        home, addresses = self._places.home, dict[Address, None]()
        for place in self._places.held.values():
            addresses |= dict.fromkeys(place.addresses_to_notify())
        for address, lost in self._members.lost.items():
            if self._members.may_return(lost):  # it may still list our places
                addresses[address] = None
        addresses.pop(self.address, None)
        self._home = home.certificate if home is not None else None
        self.leaving = left
        if home is not None:
            leave_message = self._signed_leave(LeaveGraph, home.certificate)
            for address in addresses:
                self._send_leave(address, leave_message)
        self._maybe_left()

    def _send_leave(self, address: Address, leave_message: LeaveGraph | LeavePlace) -> None:
        key = (address, leave_message.claim.certificate.key)
        self._requests.ask(LEAVE, key, address, leave_message)

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
        if self.leaving is not None and not self._requests.pending_keys(LEAVE):
            left, self.leaving = self.leaving, None
            for key in list(self._places.held):
                self._cancel(key)
                self.left.put(key, self._places.remove(key).wide)
            left()

    def acknowledged(self, sender: Address, claimant: bytes) -> bool:
        """A peer acknowledged a claim; False if it was no leave message."""
        key = (sender, claimant)
        if self._requests.answered(LEAVE, key) is not None:
            self._maybe_left()
            return True
        return self._requests.answered(LEAVE_AGAIN, key) is not None

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
        home = self._home if self.leaving is not None else None
        if home is not None and self._requests.open(LEAVE, (sender, home.key)) is None:
            self._send_leave(sender, self._signed_leave(LeaveGraph, home))

    def answer_about_left(self, sender: Address, asked: Iterable[bytes]) -> None:
        """For each place that is no longer held, send the signed leave. Deny the places that this
        peer neither holds nor remembers: only `LEFT_MAX` left places are remembered, and a peer
        that lists an older one could not remove it otherwise, and would take this peer for silent.
        """
        others, home = [key for key in asked if key not in self._places.held], self._places.home
        for key in others:
            if key in self.left:
                self.host.send(sender, self._signed_leave(LeavePlace, self.left[key].owner))
        denied = tuple([key for key in others if key not in self.left][:DENIED_MAX])
        if not denied:
            return
        self._places.certificate_store.refuse("unknown_place")
        certificate = home.certificate if home is not None else self._home
        if certificate is not None:
            signed = self._places.sign(denial_verb(denied), certificate)
            self.host.send(sender, DenyPlaces(denied, signed))

    # --- leave messages and denials received

    @handles(LeavePlace)
    def on_leave_place(self, sender: Address, leave_message: LeavePlace) -> None:
        """Remove a place, on its holder's signature or because its certificate is revoked."""
        signed, store = leave_message.claim, self._places.certificate_store
        leaver, is_void = signed.certificate, store.trust.is_void
        if not store.has_left(leaver) and (
            is_void(leaver) or store.verifies(leave_message.verb, signed)
        ):
            store.record_left(leaver, signed.sent_us)
            self._place_left(leaver)
        if store.has_left(leaver) and sender != self.address:
            self.host.send(sender, ClaimAck(leaver.key))

    @handles(LeaveGraph)
    def on_leave_graph(self, sender: Address, leave_message: LeaveGraph) -> None:
        """Remove all places of the leaver, on its own signature.

        A leave message for the one place whose certificate signs this one may have come before; it
        says nothing of the other places.
        """
        signed, store = leave_message.claim, self._places.certificate_store
        if not store.has_left_with_all(signed.certificate):
            if not store.verifies_departed(leave_message.verb, signed):
                return
            store.record_left_with_all(signed.certificate, signed.sent_us)
            self._peer_left(signed.certificate)
        self.host.send(sender, ClaimAck(signed.certificate.key))

    @handles(DenyPlaces)
    def on_deny_places(self, sender: Address, denial: DenyPlaces) -> None:
        """Remove places that the present holder of their address denies. Counts only for places of
        that address that we list or asked.
        """
        store, held = self._places.certificate_store, self._places.held.values()
        if not store.verifies_departed(denial_verb(denial.places), denial.claim):
            return
        asked = frozenset(denial.places)
        met = (node for place in held for node in (*place.known.values(), *place.asked.values()))
        found = {node.serial: node for node in met if node.key in asked and node.address == sender}
        for node in found.values():
            if denial.denies(node):
                store.record_left(node, denial.claim.sent_us)
                self._place_left(node)
