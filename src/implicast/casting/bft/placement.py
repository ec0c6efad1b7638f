"""The placement agent of a member: it applies to the authority for places, and joins the graph once
for each certificate.

An application is retried until the authority answers. A version of the description is complete when
all its places have arrived. A place that a newer description does not want is kept for 5 s
(`RELEASE_DELAY_US`), because casts under way must find the member at its old or new places. One
application for a version is open at a time; of the descriptions that come meanwhile only the last
counts.

A placed member renews its lease and its certificates, and searches for its home place through peers
drawn by the authority. A leaving member serves until every peer that may list it knows. A restarted
member applies for the places of its stored certificates, and takes them under these certificates if
the authority does not answer.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Annotated

import msgspec
from msgspec import Meta

from implicast.casting.bft.keys import HOME, description_of, realms
from implicast.casting.bft.settings import MemberKeys
from implicast.language.target import Description
from implicast.overlay.skip_graph.graph import SkipGraph
from implicast.peer.contract import (
    Address,
    Incarnation,
    Message,
    Part,
    StandingAlarm,
    Version,
    handles,
)
from implicast.peer.events import Joined, Left, Refused, Registered, Withdrawn
from implicast.peer.fields import Text, Token
from implicast.peer.identity import Certificate, Enrolment, Key, Revocation, Signature
from implicast.peer.name import version_of
from implicast.peer.requests import PendingRequest, Requests, RetryPolicy
from implicast.peer.signing import Signing
from implicast.peer.trust_policy import RIGHTS_MAX, Right

REALMS_MAX = 2_049
"""Realms in one application: home, and all tags and values of a description."""
APPLICATION, RESTART = "application", "restart application"
RETRY, RESTART_RETRY = RetryPolicy(2_000_000, times=1 << 30), RetryPolicy(2_000_000, times=2)
"""A restarted member takes its places under its stored certificates after two attempts."""
RELEASE_DELAY_US = 5_000_000
LEASE_RENEWAL_US = 60_000_000
"""Interval at which a member renews its lease and searches for its home place through peers drawn
by the authority.
"""
INTRODUCERS_US = 2_000_000
"""Delay before a newcomer whose introducers did not answer applies for others."""
JOIN, RENEW, RELEASE = 0, 1, 2
"""Request numbers without a version, all below the lowest version. JOIN: take the home place, or
those of the former incarnation, and no others. RENEW: renew the lease and certificates. RELEASE:
release places; numbers count on from it.
"""

_encode = msgspec.msgpack.Encoder().encode


class Apply(Message):
    """Application to the authority for places in some realms, and release of others. Signed by the
    applicant.
    """

    wire = 0x0C04
    request: Version
    stamp: Version
    """Increases with each application of a peer: a late copy releases nothing."""
    enrolment: Enrolment
    wanted: Annotated[tuple[Key, ...], Meta(max_length=REALMS_MAX)]
    given_up: Annotated[tuple[Key, ...], Meta(max_length=REALMS_MAX)]
    newest: Certificate | None
    """The newest certificate of the applicant: the authority must continue serial numbers above it.
    """
    listed: Token
    """Number of the newest revocation list that the applicant knows."""
    signature: Signature
    rights: Annotated[tuple[Right, ...], Meta(max_length=RIGHTS_MAX)] = ()
    """Rights to the protected tags and values among the realms wanted."""

    def body(self, address: Address) -> bytes:
        """The bytes that the applicant signs."""
        serial = self.newest.serial if self.newest is not None else 0
        fields = (self.request, self.stamp, self.enrolment, self.wanted, self.given_up)
        return b"apply" + _encode((fields, serial, address, self.rights))


class Granted(Message):
    """Grants an application: certificates, introducers drawn by the authority, and its revocation
    list if the applicant's differs.
    """

    wire = 0x0C05
    request: Version
    certificates: Annotated[tuple[Certificate, ...], Meta(max_length=REALMS_MAX)]
    introducers: Annotated[tuple[Address, ...], Meta(max_length=16)]
    revocation: Revocation | None


class Denied(Message):
    """Denies an application, with the reason."""

    wire = 0x0C06
    request: Version
    reason: Text


class ReleaseDue(Message):
    """Fires when places that this version no longer wants are to be released."""

    version: Version


class LeaseRenewalDue(StandingAlarm):
    """Fires when the lease at the authority is to be renewed."""


class IntroducersDue(Message):
    """Fires when a newcomer whose introducers did not answer is to ask the authority for others."""


class PlacementAgent(Part):
    """Keeps the places of a member in step with its description. Calls `on_revocation(sender,
    list)` with the list of the authority.
    """

    __slots__ = (
        "_arriving",
        "_authority",
        "_certificates",
        "_departed",
        "_described",
        "_given_introducers",
        "_graph",
        "_held",
        "_introducers",
        "_joining",
        "_keys",
        "_on_revocation",
        "_open_requests",
        "_releases",
        "_requests",
        "_stamp",
        "_unwanted",
        "_waiting",
        "signing",
    )

    def __init__(
        self,
        requests: Requests,
        graph: SkipGraph,
        on_revocation: Callable[[Address, Revocation], None],
        keys: MemberKeys,
        authority: Address,
        incarnation: Incarnation,
        signing: Signing,
        certificates: Sequence[Certificate] = (),
    ) -> None:
        super().__init__(requests.address, requests.host)
        self._requests, self._graph, self._on_revocation = requests, graph, on_revocation
        self._keys, self._authority, self.signing = keys, authority, signing
        # certificates of the former incarnation
        self._certificates = {each.realm: each for each in certificates}
        self._held: dict[bytes, bytes] = {}  # realm -> key of the own place there
        self._unwanted: dict[bytes, Version] = {}  # realm -> first version that does not want it
        self._given_introducers: tuple[Address, ...] = ()
        self._introducers: tuple[Address, ...] = ()
        self._departed = self._joining = False
        self._open_requests: set[Version] = set()  # that the authority has not answered
        self._releases, self._stamp = RELEASE, version_of(incarnation, 0)
        # request -> keys of places that have not arrived
        self._arriving: dict[Version, set[bytes]] = {}
        # version -> True for a description, False for a withdrawal
        self._described: dict[Version, bool] = {}
        self._waiting: tuple[Version, Description | None] | None = None
        requests.topic(APPLICATION, RETRY)
        requests.topic(RESTART, RESTART_RETRY, self._on_unanswered)

    @property
    def moving(self) -> bool:
        """Whether the places held differ from those of the newest description."""
        return bool(self._unwanted or self._arriving or self._open_requests)

    def start_renewals(self) -> None:
        """Start the lease renewals at a random phase."""
        self.host.after(int(LEASE_RENEWAL_US * self.host.rng.random()), LeaseRenewalDue())

    def restore(self, certificates: Iterable[Certificate]) -> None:
        """Record the places of an assembled world."""
        self._held = {each.realm: each.key for each in certificates}

    def begin_join(self, introducers: tuple[Address, ...]) -> None:
        """Apply for the home place, or for all places of the former incarnation."""
        self._given_introducers = self._introducers = introducers
        self._departed, self._joining = False, True
        wanted = self._entitled(self._certificates) or [HOME]
        self._send(RESTART if self._certificates else APPLICATION, JOIN, wanted)

    def place_description(self, version: Version, description: Description | None) -> None:
        """Hold exactly the places of this description. `Registered` or `Withdrawn` follows."""
        self._described[version] = description is not None
        if self._open_requests:
            self._waiting = (version, description)
            return
        wanted = realms(description)
        unwanted = {**self._unwanted, **dict.fromkeys(self._held, version), **self._unwanted}
        self._unwanted = {realm: at for realm, at in unwanted.items() if realm not in wanted}
        if self._unwanted:
            self.host.after(RELEASE_DELAY_US, ReleaseDue(version))
        lacking = [realm for realm in wanted if realm not in self._held]
        if lacking:
            self._send(APPLICATION, version, lacking)
        else:
            self._await_arrival(version)

    def leave_places(self) -> None:
        """Release all places, including those still to be granted. They serve until every peer that
        may list them knows.
        """
        self._departed, self._waiting = True, None
        self._graph.departures.leave_graph(self._left)

    def _left(self) -> None:
        self._release(list(self._held))
        self._held, self._unwanted = {}, {}
        self.host.deliver(Left())

    # --- applications

    def _send(
        self, topic: str, request: Version, wanted: Sequence[bytes], given_up: Sequence[bytes] = ()
    ) -> None:
        places = self._graph.places
        certificates = [*self._certificates.values(), *places.certificates()]
        known = places.certificate_store.trust.revocation
        mine = description_of(wanted) if self.signing.signed else None
        rights = self.signing.rights_to(mine)[:RIGHTS_MAX] if mine is not None else ()
        self._stamp += 1
        bare = Apply(
            request,
            self._stamp,
            self._keys.enrolment,
            tuple(wanted),
            tuple(given_up),
            max(certificates, key=attrgetter("serial"), default=None),
            0 if known is None else known.number,
            b"",
            rights,
        )
        signature = self._keys.signer.sign(bare.body(self.address))
        if request != RENEW:
            self._open_requests.add(request)
        signed = msgspec.structs.replace(bare, signature=signature)
        self._requests.ask(topic, request, self._authority, signed)

    def _entitled(self, realms: Iterable[bytes]) -> list[bytes]:
        """The realms that this member has the right to: one declined place would cost all others."""
        return [realm for realm in realms if self.signing.is_entitled(description_of([realm]))]

    def _release(self, given_up: Sequence[bytes]) -> None:
        """Release places at the authority."""
        if given_up:
            self._releases += 1
            self._send(APPLICATION, self._releases, [], given_up)

    def _take_answer(self, sender: Address, request: Version) -> Apply | None:
        """The application that the authority answers, or None."""
        if sender != self._authority:
            return None
        self._open_requests.discard(request)
        answered = self._requests.answered
        pending = answered(RESTART, request) or answered(APPLICATION, request)
        found = pending.message if pending is not None else None
        return found if isinstance(found, Apply) else None

    @handles(Granted)
    def on_granted(self, sender: Address, granted: Granted) -> None:
        """Take the granted places. Peers drawn by the authority and the member's own contacts
        introduce it.
        """
        application, request = self._take_answer(sender, granted.request), granted.request
        realms_granted = tuple([each.realm for each in granted.certificates])
        if application is None or realms_granted != application.wanted:
            return
        if self._departed:
            self._release(application.wanted if request != RENEW else ())
            return
        if granted.revocation is not None:
            self._on_revocation(sender, granted.revocation)
        if granted.certificates:
            found = dict.fromkeys((*granted.introducers, *self._given_introducers))
            self._introducers = tuple(found) or self._introducers
            self._take_places(request, granted.certificates)
        if request == RENEW:
            self._graph.search_home_via(granted.introducers)
        self._place_waiting()

    @handles(Denied)
    def on_denied(self, sender: Address, denied: Denied) -> None:
        """The authority declined an application: tell the application program, and go on."""
        if self._take_answer(sender, denied.request) is None:
            return
        if denied.request == JOIN or denied.request in self._described:
            self._described.pop(denied.request, None)
            what = "join" if denied.request == JOIN else "register"
            self.host.deliver(Refused(what, denied.reason))
        self._place_waiting()

    def _on_unanswered(self, request: Version, pending: PendingRequest) -> None:
        """After a restart without an answer: take the places under valid stored certificates, and
        go on applying.
        """
        now_us, trust = self.host.now_us, self._graph.places.certificate_store.trust
        mine = [each for each in self._certificates.values() if each.address == self.address]
        valid = [each for each in mine if not trust.flaw(each, now_us)]
        self._requests.ask(APPLICATION, request, self._authority, pending.message)
        if HOME in [each.realm for each in valid]:
            self._open_requests.discard(request)
            self._take_places(JOIN, valid)
            self._place_waiting()

    def _place_waiting(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self.place_description(*waiting)

    # --- lease

    def request_introducers(self) -> None:
        """Apply for other introducers after a delay: none has answered."""
        self.host.after(INTRODUCERS_US, IntroducersDue())

    @handles(IntroducersDue)
    def on_introducers_due(self, alarm: IntroducersDue) -> None:
        if not self._departed:
            self._send(APPLICATION, JOIN, self._entitled(self._held) or [HOME])

    @handles(LeaseRenewalDue)
    def on_lease_renewal_due(self, alarm: LeaseRenewalDue) -> None:
        self.host.after(LEASE_RENEWAL_US, alarm)
        if not self._departed and HOME in self._held:
            expiring = [realm for realm, key in self._held.items() if self._graph.expires_soon(key)]
            self._send(APPLICATION, RENEW, self._entitled(expiring))

    # --- taking and releasing places

    def _take_places(self, request: Version, certificates: Sequence[Certificate]) -> None:
        """Join the graph at these places. A place that has arrived is renewed instead, unless it
        knows no other peer: a restarted member takes its places without an answer.
        """
        self._certificates, held = {}, self._graph.places.held
        for certificate in certificates:
            key = self._held[certificate.realm] = certificate.key
            is_alone = bool(self._introducers) and key in held and self._graph.is_alone(key)
            if self._graph.has_arrived(key) and not is_alone:
                self._graph.renew(certificate)
            else:
                self._graph.search.take_place(certificate, self._introducers)
        self._await_arrival(request)

    def _await_arrival(self, request: Version) -> None:
        """Complete a request when all own places have arrived."""
        arrived = self._graph.has_arrived
        self._arriving[request] = {key for key in self._held.values() if not arrived(key)}
        if not self._arriving[request]:
            self._complete(request)

    def arrived(self, key: bytes) -> None:
        """Every peer that must list a place knows it."""
        for request, arriving in list(self._arriving.items()):
            arriving.discard(key)
            if not arriving:
                self._complete(request)

    def _complete(self, request: Version) -> None:
        self._arriving.pop(request, None)
        if request == JOIN and self._joining:
            self._joining = False
            self.host.deliver(Joined())
        elif request in self._described:
            is_placed = self._described.pop(request)
            self.host.deliver(Registered(request) if is_placed else Withdrawn(request))

    @handles(ReleaseDue)
    def on_release_due(self, alarm: ReleaseDue) -> None:
        if self._open_requests or self._arriving:  # the old places are still needed
            self.host.after(RELEASE_DELAY_US, alarm)
            return
        given_up = [realm for realm, version in self._unwanted.items() if version <= alarm.version]
        for realm in given_up:
            self._unwanted.pop(realm, None)
            self._graph.departures.leave_place(self._held.pop(realm))
        self._release(given_up)
