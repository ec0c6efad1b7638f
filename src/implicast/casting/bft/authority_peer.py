"""The authority as a peer: it issues certificates for places and publishes revocation lists.

An applicant is a name enrolled with its public key (`peer/identity.py`). No peer can apply for
another, and a liar with one enrolment gets the places of one applicant. A certificate binds the
address that it was applied for from. An address has one holder: when another name applies from it,
the former holder's certificates for it are revoked. With signing, a place for a protected tag or
value is granted only to applicants that show the right to it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from implicast.casting.bft.keys import HOME, description_of, is_realm
from implicast.casting.bft.placement import JOIN, LEASE_RENEWAL_US, Apply, Denied, Granted
from implicast.casting.bft.revocation_lists import AskList, ListNumber, NewerList
from implicast.casting.bft.settings import AuthorityKeys
from implicast.peer.authority import Authority, AuthorityState, GrantDeclined
from implicast.peer.contract import (
    Address,
    Incarnation,
    Message,
    Name,
    Peer,
    StandingAlarm,
    Version,
    handles,
)
from implicast.peer.identity import Certificate, Revocation
from implicast.peer.memory import Recent
from implicast.peer.site import Site
from implicast.space.vector import Vectors

INTRODUCERS = 3
"""b in the ring-upkeep specification, D.1: a newcomer is deceived only if all introducers lie
(probability f^b).
"""
LEASE_US = 3 * LEASE_RENEWAL_US
"""A member that has not renewed its lease for three intervals is no longer named as an introducer.
"""
NO_LEASE_US = 1 << 60
PUBLISHED_TO = 8
"""Members that are sent a new list; gossip reaches the others."""
PUBLISH_US, PAUSE_US = 500_000, 5_000_000
"""A new list is published after 0.5 s, and at least 5 s after the previous one."""
RECOVERY_PEERS = 5
"""Members that a restarted authority asks for their list. An old copy of its disk is noticed unless
all of them lie.
"""
RECOVERY_US = 2_000_000
"""How long a restarted authority waits for their answers; applicants retry meanwhile."""
ALL_REALMS = b""
"""No realm: the stamp of all places of a name whose places have expired."""
REASONS = {"not_allowed": "a tag or value asked for is protected, and this name has no right to it"}
"""Reasons given to an applicant, where the name of the flaw is not clear enough."""
FORGET_US = 600_000_000
"""Interval at which the authority drops what has expired of departed members."""
SERIAL_MAX = 1 << 62
"""Above all serials."""
STAMPS_MAX = 1 << 20
"""Places whose latest application stamp is remembered."""


class DurableAuthority(Message):
    """State of the authority that survives a crash."""

    incarnation: Incarnation
    state: AuthorityState
    present: tuple[tuple[Address, Name], ...]
    """Address and name of each holder of a home place."""


class PublishListDue(StandingAlarm):
    """Fires when new revocations are to be published."""


class RecoveryOver(StandingAlarm):
    """Fires when a restarted authority stops waiting for members' lists."""


class AuthorityPeer(Peer):
    """Answers applications for places, and publishes revocations."""

    __slots__ = (
        "_assured",
        "_awaited",
        "_forgotten_us",
        "_incarnation",
        "_lease_us",
        "_published",
        "_published_us",
        "_publishing",
        "_scheme",
        "_signing",
        "_stamps",
        "_validity_us",
        "authority",
        "holders",
        "refusals",
    )
    role = "authority"

    def __init__(self, site: Site) -> None:
        super().__init__(site.address, site.host)
        keys, parameters = site.credentials, site.parameters
        assert isinstance(keys, AuthorityKeys), "the authority has its own secret"
        durable = site.durable_state if isinstance(site.durable_state, DurableAuthority) else None
        self._scheme, self._incarnation, self._signing = keys.scheme, site.incarnation, site.signing
        self.authority = Authority(
            keys.scheme,
            keys.secret,
            Vectors(int(parameters["alpha"])),
            int(parameters["places_max"]),
            int(float(parameters["validity_s"]) * 1e6),
            site.incarnation,
            durable.state if durable is not None else None,
        )
        self._lease_us, self._assured = LEASE_US if site.assured else NO_LEASE_US, site.assured
        present, now_us = durable.present if durable is not None else (), site.host.now_us
        self.holders: dict[Address, tuple[Name, int]] = {
            address: (name, now_us) for address, name in present
        }
        # latest application stamp for each place
        self._stamps: Recent[tuple[Name, bytes], Version] = Recent(STAMPS_MAX)
        self._validity_us = int(float(parameters["validity_s"]) * 1e6)
        self._forgotten_us = now_us
        self.refusals: Counter[str] = Counter()
        self._publishing, self._published_us, self._published = (
            False,
            -PAUSE_US,
            self.authority.listed,
        )
        # members asked for their list that have not answered
        self._awaited: set[Address] = set()
        if durable is not None and self._assured:
            self._begin_recovery()

    def durable_state(self) -> DurableAuthority:
        present = tuple((address, name) for address, (name, _) in self.holders.items())
        return DurableAuthority(self._incarnation, self.authority.state(), present)

    def holdings(self) -> Any:
        return [self.authority.held(name) for name, _ in self.holders.values()]

    # --- applications

    @handles(Apply)
    def on_apply(self, sender: Address, application: Apply) -> None:
        """Grant or deny an application. One that gets no answer is repeated by the applicant."""
        authority, name, now_us = self.authority, application.enrolment.name, self.host.now_us
        if self._awaited:
            return  # this authority may lack revocations, and waits for members after a restart
        if application.listed > authority.listed:
            # the applicant knows a later list; one that lies about it gets no places
            self.host.send(sender, AskList(authority.listed))
            return
        flaw = self._flaw(sender, application)
        if flaw is not None:
            self._deny(sender, application, flaw, REASONS.get(flaw, flaw))
            return
        if application.newest is not None:
            authority.count_on_from(application.newest, now_us)
        for realm in application.wanted:
            if self._stamp_of(name, realm) > application.stamp:
                return  # a late copy: one of the places was released since
        self._forget_departed()
        self._record_holder(sender, name)
        self._release_places(sender, name, application)
        public, above = application.enrolment.public, self._received(name, application)
        try:
            certificates = self.grant(sender, name, application.wanted, public, above)
        except GrantDeclined as declined:
            self._deny(sender, application, "declined", str(declined))
            return
        for realm in application.wanted:
            self._record_stamp(name, realm, application.stamp)
        revoked = authority.revocation(now_us) if authority.has_revoked else None
        news = revoked if revoked is not None and revoked.number != application.listed else None
        introducers = self._introducers(sender)
        granted = Granted(application.request, tuple(certificates), introducers, news)
        self.host.send(sender, granted)
        self._publish_soon()

    def _received(self, name: Name, application: Apply) -> int:
        """The highest serial that the applicant is known to have received. Certificates above it
        may have been dropped on their way and are sent again: each new one may revoke the one in
        use.
        """
        if application.newest is not None:
            return application.newest.serial
        stamps = {self._stamps.get((name, realm), 0) for realm in application.wanted}
        return SERIAL_MAX if stamps - {application.stamp} else 0

    def _stamp_of(self, name: Name, realm: bytes) -> Version:
        """The latest application stamp for a place."""
        return max(self._stamps.get((name, realm), 0), self._stamps.get((name, ALL_REALMS), 0))

    def _record_stamp(self, name: Name, realm: bytes, stamp: Version) -> bool:
        """Record the stamp of an application for a place. True if it is the latest."""
        before = self._stamp_of(name, realm)
        self._stamps[name, realm] = max(before, stamp)
        return stamp > before

    def _forget_departed(self) -> None:
        """Give up departed members whose last certificate has expired. One stamp of each name
        remains, above all its applications: a late copy of one is still refused.
        """
        now_us = self.host.now_us
        if now_us < self._forgotten_us + FORGET_US:
            return
        self._forgotten_us = now_us
        departed = dict.fromkeys(self.authority.forget_departed(now_us))
        self.holders = {
            address: held
            for address, held in self.holders.items()
            if held[1] >= now_us - self._validity_us or held[0] not in departed
        }
        newest = dict[Name, Version]()
        for (name, realm), stamp in list(self._stamps.items()):
            if name in departed:
                newest[name] = max(newest.get(name, 0), stamp)
                del self._stamps[name, realm]
        for name, stamp in newest.items():
            self._stamps[name, ALL_REALMS] = stamp

    def _flaw(self, sender: Address, application: Apply) -> str | None:
        enrolment = application.enrolment
        if not self.authority.admits(enrolment):
            return "not_enrolled"
        if not self._scheme.verify(
            enrolment.public, application.body(sender), application.signature
        ):
            return "forged_application"
        if not all(map(is_realm, application.wanted)):
            return "no_realm"
        if not self._signing.signed:
            return None
        wanted = description_of(application.wanted)
        is_allowed = self._signing.may(enrolment.name, wanted, application.rights)
        return None if is_allowed else "not_allowed"

    def _deny(self, sender: Address, application: Apply, flaw: str, reason: str) -> None:
        self.refusals[flaw] += 1
        self.host.send(sender, Denied(application.request, reason))

    def grant(
        self,
        address: Address,
        name: Name,
        wanted: Sequence[bytes],
        public: bytes,
        above: int = SERIAL_MAX,
    ) -> list[Certificate]:
        """Issue certificates for all these places, but no second one where the applicant has yet to
        receive one with a serial above this number. Raises `GrantDeclined` and issues none if one
        is declined.
        """
        before, certificates = self.authority.held(name), list[Certificate]()
        try:
            for realm in wanted:
                who = (name, realm, address, public)
                certificates.append(
                    self.authority.unreceived(*who, above, self.host.now_us)
                    or self.authority.issue(*who, self.host.now_us)
                )
        except GrantDeclined:
            held = [each.realm for each in before]
            for each in certificates:
                if each.realm not in held:
                    self.authority.release(name, each.realm)
            raise
        if HOME in wanted:
            self.holders[address] = (name, self.host.now_us)
        return certificates

    def _release_places(self, address: Address, name: Name, application: Apply) -> None:
        given_up = application.given_up
        # a new incarnation: releases all other places of the former one
        if application.request == JOIN:
            given_up = tuple(
                each.realm
                for each in self.authority.held(name)
                if each.realm not in application.wanted
            )
        for realm in given_up:
            if self._record_stamp(name, realm, application.stamp):
                self.authority.release(name, realm)
                if realm == HOME and self.holders.get(address, (b"", 0))[0] == name:
                    del self.holders[address]

    def _record_holder(self, address: Address, name: Name) -> None:
        """Record that a name is present at an address. If another name held the address, its
        certificates there are revoked.
        """
        former, _ = self.holders.get(address, (name, 0))
        if former == name and address in self.holders:
            self.holders[address] = (name, self.host.now_us)
        elif former != name:
            del self.holders[address]
            if self.authority.vacate(former, address):
                self.publish(self.holders)

    def _introducers(self, applicant: Address) -> tuple[Address, ...]:
        since_us = self.host.now_us - self._lease_us
        others = [
            each
            for each, (_, heard_us) in self.holders.items()
            if heard_us >= since_us and each != applicant
        ]
        return tuple(self.host.rng.sample(others, min(INTRODUCERS, len(others))))

    # --- revoking

    def expel(self, name: Name) -> None:
        """Revoke all certificates of a name for good, and send the list to all members once."""
        if self.authority.has_expelled(name):
            return
        self.authority.expel(name)
        self.holders = {address: held for address, held in self.holders.items() if held[0] != name}
        self.publish(self.holders)

    def publish(self, members: Iterable[Address]) -> None:
        revocation = self.authority.revocation(self.host.now_us)
        self._published = revocation.number
        for address in members:
            self.host.send(address, revocation)

    def _publish_soon(self) -> None:
        """Plan the publication of new revocations; those of 0.5 s share a list."""
        authority = self.authority
        if (
            self._assured
            and not self._publishing
            and (authority.has_news or authority.listed > self._published)
        ):
            self._publishing = True
            wait_us = max(PUBLISH_US, self._published_us + PAUSE_US - self.host.now_us)
            self.host.after(wait_us, PublishListDue())

    @handles(PublishListDue)
    def on_publish(self, alarm: PublishListDue) -> None:
        self._publishing, self._published_us = False, self.host.now_us
        members = list(self.holders)
        self.publish(self.host.rng.sample(members, min(PUBLISHED_TO, len(members))))

    # --- after a restart

    def _begin_recovery(self) -> None:
        """Ask some members for their list: the disk may hold an old copy."""
        members = list(self.holders)
        self._awaited = set(self.host.rng.sample(members, min(RECOVERY_PEERS, len(members))))
        for address in members:
            if address in self._awaited:
                self.host.send(address, AskList(self.authority.listed))
        self.host.after(RECOVERY_US, RecoveryOver())

    @handles(RecoveryOver)
    def on_recovery_over(self, alarm: RecoveryOver) -> None:
        self._awaited.clear()

    @handles(ListNumber)
    def on_list_number(self, sender: Address, message: ListNumber) -> None:
        """A member that was asked knows no newer list. Ignored if it was not asked."""
        self._awaited.discard(sender)

    @handles(Revocation)
    def on_revocation(self, sender: Address, revocation: Revocation) -> None:
        """A member that was asked sends a newer list."""
        self._merge_list(revocation)
        self._awaited.discard(sender)

    @handles(NewerList)
    def on_newer_list(self, sender: Address, message: NewerList) -> None:
        """A member refused our list because it knows a later one: we restarted from an old copy."""
        self._merge_list(message.revocation)

    def _merge_list(self, revocation: Revocation) -> None:
        if self.authority.count_on_from(revocation, self.host.now_us):
            self._publish_soon()
