"""The authority as a peer: it answers applications for places and publishes what it revoked.

An applicant is a name that was enrolled with its key (`peer/identity.py`), so nobody applies for another, and a liar
with one enrolment has the places of one applicant. A certificate binds the address from which it was applied for; an
address has one holder, and when another name applies from it, what the former held there is void at once. Where words
are signed, a place in the realm of a protected value or tag is given to those alone who show the right to it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from implicast.casting.bft.keys import HOME, is_realm, said_in
from implicast.casting.bft.messages import (
    Apply,
    AskList,
    Denied,
    Granted,
    ListNumber,
    Outstripped,
    PublishList,
    Recalled,
)
from implicast.casting.bft.settings import AuthorityKeys
from implicast.casting.bft.settler import JOINING, PRESENT_US
from implicast.peer.authority import Authority, GrantDeclined, Roll
from implicast.peer.contract import Address, Incarnation, Message, Name, Peer, Version, handles
from implicast.peer.identity import Certificate, Revocation
from implicast.peer.memory import Recent
from implicast.peer.site import Site
from implicast.space.vector import Vectors

INTRODUCERS = 3
"""b of ring upkeep D.1: a newcomer is deceived only if all of them lie, f^b."""
LEASE_US = 3 * PRESENT_US
"""Who has not told the authority for so long that it is there introduces nobody any more."""
FOR_EVER_US = 1 << 60
PUBLISHED_TO = 8
"""Members that are sent a new list; they tell the others."""
PUBLISH_US, PAUSE_US = 500_000, 5_000_000
"""What counts no more is published after the first, and not again before the second has passed."""
RECALLED_BY = 5
"""Members that an authority asks for their list when it begins again: an old copy is noticed unless all of them lie."""
RECALL_US = 2_000_000
"""For so long it waits for them; applicants ask again."""
REASONS = {
    "not_allowed": "some of this is protected, and the authority has not allowed this name to say it"
}
"""What an applicant is told, where the name of the flaw does not say it."""
STAMPS_MAX = 1 << 20
"""Places of which it is remembered when they were last spoken of."""


class KeptOffice(Message):
    """What outlives a crash of the authority."""

    incarnation: Incarnation
    roll: Roll
    present: tuple[tuple[Address, Name], ...]
    """Who holds a home place, and where."""


class Office(Peer):
    """Where places are applied for."""

    __slots__ = (
        "_assured",
        "_awaited",
        "_holders",
        "_incarnation",
        "_lease_us",
        "_published",
        "_published_us",
        "_publishing",
        "_scheme",
        "_stamps",
        "_words",
        "authority",
        "refusals",
    )
    role = "authority"

    def __init__(self, site: Site) -> None:
        super().__init__(site.address, site.host)
        keys, parameters = site.credentials, site.parameters
        assert isinstance(keys, AuthorityKeys), "the authority has its own secret"
        kept = site.kept if isinstance(site.kept, KeptOffice) else None
        self._scheme, self._incarnation, self._words = keys.scheme, site.incarnation, site.words
        self.authority = Authority(
            keys.scheme,
            keys.secret,
            Vectors(int(parameters["alpha"])),
            int(parameters["places_max"]),
            int(float(parameters["validity_s"]) * 1e6),
            site.incarnation,
            kept.roll if kept is not None else None,
        )
        self._lease_us, self._assured = LEASE_US if site.assured else FOR_EVER_US, site.assured
        present, now_us = kept.present if kept is not None else (), site.host.now_us
        self._holders: dict[Address, tuple[Name, int]] = {
            address: (name, now_us) for address, name in present
        }
        self._stamps: Recent[tuple[Name, bytes], Version] = Recent(
            STAMPS_MAX
        )  # when a place was last spoken of
        self.refusals: Counter[str] = Counter()
        self._publishing, self._published_us, self._published = (
            False,
            -PAUSE_US,
            self.authority.listed,
        )
        self._awaited: set[Address] = (
            set()
        )  # members that have yet to show what we may have forgotten
        if kept is not None and self._assured:
            self._recall()

    def kept(self) -> KeptOffice:
        present = tuple((address, name) for address, (name, _) in self._holders.items())
        return KeptOffice(self._incarnation, self.authority.roll(), present)

    def holdings(self) -> Any:
        return [self.authority.held(name) for name, _ in self._holders.values()]

    # --- applications

    @handles(Apply)
    def on_apply(self, sender: Address, application: Apply) -> None:
        if self._forgetful(sender, application):
            return  # it asks again in a while
        flaw = self._flaw(sender, application)
        if flaw is not None:
            self._deny(sender, application, flaw, REASONS.get(flaw, flaw))
            return
        name, now_us = application.enrolment.name, self.host.now_us
        if application.newest is not None:
            self.authority.count_on_from(application.newest, now_us)
        if any(
            self._stamps.get((name, realm), 0) > application.stamp for realm in application.wanted
        ):
            return  # a copy of what was given up since
        self._settle_at(sender, name)
        self._give_up(sender, name, application)
        try:
            certificates = tuple(
                self.grant(sender, name, application.wanted, application.enrolment.public)
            )
        except GrantDeclined as declined:
            self._deny(sender, application, "declined", str(declined))
            return
        for realm in application.wanted:
            self._is_news(name, realm, application.stamp)
        self._reply(sender, application, certificates)

    def _forgetful(self, sender: Address, application: Apply) -> bool:
        """Whether we may have forgotten something: members are still asked, or this one names a later list than ours.
        It is asked to show it; who lies about that waits for ever."""
        if not self._awaited and application.listed > self.authority.listed:
            self.host.send(sender, AskList(self.authority.listed))
            return True
        return bool(self._awaited)

    def _reply(
        self, sender: Address, application: Apply, certificates: tuple[Certificate, ...]
    ) -> None:
        now_us = self.host.now_us
        revoked = self.authority.revocation(now_us) if self.authority.has_revoked else None
        news = revoked if revoked is not None and revoked.number != application.listed else None
        self.host.send(
            sender, Granted(application.errand, certificates, self._introducers(sender), news)
        )
        self._publish_soon()

    def _is_news(self, name: Name, realm: bytes, stamp: Version) -> bool:
        """Whether nothing later was said of a place."""
        before = self._stamps.get((name, realm), 0)
        self._stamps[name, realm] = max(before, stamp)
        return stamp > before

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
        is_allowed = self._words.may(
            enrolment.name, said_in(application.wanted), application.rights
        )
        return None if is_allowed else "not_allowed"

    def _deny(self, sender: Address, application: Apply, flaw: str, reason: str) -> None:
        self.refusals[flaw] += 1
        self.host.send(sender, Denied(application.errand, reason))

    def grant(
        self, address: Address, name: Name, wanted: Sequence[bytes], public: bytes
    ) -> list[Certificate]:
        """All of the places asked for, or `Declined` and none of them."""
        before = {each.realm for each in self.authority.held(name)}
        certificates: list[Certificate] = []
        try:
            for realm in wanted:
                certificates.append(
                    self.authority.issue(name, realm, address, public, self.host.now_us)
                )
        except GrantDeclined:
            for each in certificates:
                if each.realm not in before:
                    self.authority.release(name, each.realm)
            raise
        if HOME in wanted:
            self._holders[address] = (name, self.host.now_us)
        return certificates

    def _give_up(self, address: Address, name: Name, application: Apply) -> None:
        given_up = application.given_up
        if application.errand == JOINING:  # a new life: what an older one held is not held any more
            given_up = tuple(
                each.realm
                for each in self.authority.held(name)
                if each.realm not in application.wanted
            )
        for realm in given_up:
            if self._is_news(name, realm, application.stamp):
                self.authority.release(name, realm)
                if realm == HOME and self._holders.get(address, (b"", 0))[0] == name:
                    del self._holders[address]

    def _settle_at(self, address: Address, name: Name) -> None:
        """Whoever applies is there; whoever was there before under another name is not."""
        former, _ = self._holders.get(address, (name, 0))
        if former == name and address in self._holders:
            self._holders[address] = (name, self.host.now_us)
        elif former != name:
            del self._holders[address]
            if self.authority.vacate(former, address):
                self._publish(self._holders)

    def _introducers(self, applicant: Address) -> tuple[Address, ...]:
        since_us = self.host.now_us - self._lease_us
        others = [
            each
            for each, (_, heard_us) in self._holders.items()
            if heard_us >= since_us and each != applicant
        ]
        return tuple(self.host.rng.sample(others, min(INTRODUCERS, len(others))))

    # --- revoking

    def expel(self, name: Name) -> None:
        """A name counts no more, for good; everybody present is told, once."""
        if self.authority.has_expelled(name):
            return
        self.authority.expel(name)
        self._holders = {
            address: held for address, held in self._holders.items() if held[0] != name
        }
        self._publish(self._holders)

    def _publish(self, members: Iterable[Address]) -> None:
        revocation = self.authority.revocation(self.host.now_us)
        self._published = revocation.number
        for address in members:
            self.host.send(address, revocation)

    def _publish_soon(self) -> None:
        """What was given up goes together; members tell each other the rest."""
        authority = self.authority
        if (
            self._assured
            and not self._publishing
            and (authority.has_news or authority.listed > self._published)
        ):
            self._publishing = True
            wait_us = max(PUBLISH_US, self._published_us + PAUSE_US - self.host.now_us)
            self.host.after(wait_us, PublishList())

    @handles(PublishList)
    def on_publish(self, alarm: PublishList) -> None:
        self._publishing, self._published_us = False, self.host.now_us
        members = list(self._holders)
        self._publish(self.host.rng.sample(members, min(PUBLISHED_TO, len(members))))

    # --- after a crash

    def _recall(self) -> None:
        """Ask some of those who were present: the disk may be an old copy."""
        members = list(self._holders)
        self._awaited = set(self.host.rng.sample(members, min(RECALLED_BY, len(members))))
        for address in members:
            if address in self._awaited:
                self.host.send(address, AskList(self.authority.listed))
        self.host.after(RECALL_US, Recalled())

    @handles(Recalled)
    def on_recalled(self, alarm: Recalled) -> None:
        self._awaited.clear()

    @handles(ListNumber)
    def on_list_number(self, sender: Address, told: ListNumber) -> None:
        """A member that was asked knows no newer list; the same word unasked means nothing."""
        self._awaited.discard(sender)

    @handles(Revocation)
    def on_revocation(self, sender: Address, revocation: Revocation) -> None:
        """A list that was asked for."""
        self._be_shown(revocation)
        self._awaited.discard(sender)

    @handles(Outstripped)
    def on_outstripped(self, sender: Address, shown: Outstripped) -> None:
        """The authority began again from an old copy of its disk, and members know a later list."""
        self._be_shown(shown.revocation)

    def _be_shown(self, revocation: Revocation) -> None:
        if self.authority.count_on_from(revocation, self.host.now_us):
            self._publish_soon()
