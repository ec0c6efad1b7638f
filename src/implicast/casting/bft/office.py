"""The authority as a peer of the world: it answers applications for places and publishes what it revoked.

An applicant is an address: the answer goes nowhere else, so nobody applies for another, and a liar with one address
has the places of one applicant. The first application fixes an applicant's public key.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from implicast.casting.bft.keys import HOME
from implicast.casting.bft.messages import Apply, Denied, Granted
from implicast.peer.contract import Address, Host, Peer, handles
from implicast.peer.identity import Authority, Certificate, Declined, Revocation
from implicast.peer.signatures import Scheme

INTRODUCERS = 3
"""b of ring upkeep D.1: a newcomer is deceived only if all of them lie, f^b."""


class Office(Peer):
    """Where places are applied for."""

    __slots__ = ("_keys", "_lease_us", "_scheme", "authority", "present", "published", "refusals")
    role = "authority"

    def __init__(
        self, address: Address, host: Host, authority: Authority, scheme: Scheme, lease_us: int | None = None
    ) -> None:
        """Who has not said that it is there for `lease_us` introduces nobody; None: whoever has not left does."""
        super().__init__(address, host)
        self.authority, self._scheme, self._lease_us = authority, scheme, lease_us
        self._keys: dict[Address, bytes] = {}
        self.present: dict[Address, int] = {}
        """Who holds a home place, and when it was last heard."""
        self.published: Revocation | None = None
        self.refusals: Counter[str] = Counter()

    @handles(Apply)
    def on_apply(self, sender: Address, application: Apply) -> None:
        flaw = self._flaw(sender, application)
        if flaw is not None:
            self.refusals[flaw] += 1
            self.host.send(sender, Denied(application.errand, flaw))
            return
        if sender in self.present:
            self.present[sender] = self.host.now_us
        for realm in application.given_up:
            self.give_up(sender, realm)
        try:
            certificates = tuple(self.grant(sender, application.wanted, application.public))
        except Declined as declined:
            self.refusals["declined"] += 1
            self.host.send(sender, Denied(application.errand, str(declined)))
            return
        granted = Granted(application.errand, certificates, self._introducers(sender), self.published)
        self.host.send(sender, granted)

    def grant(self, applicant: Address, wanted: Sequence[bytes], public: bytes) -> list[Certificate]:
        """All of the places asked for, or `Declined` and none of them."""
        before = len(self.authority.held(str(applicant)))
        certificates: list[Certificate] = []
        try:
            for realm in wanted:
                issued = self.authority.issue(str(applicant), realm, applicant, public, self.host.now_us)
                certificates.append(issued)
        except Declined:
            for realm in wanted[: len(certificates)]:
                if len(self.authority.held(str(applicant))) > before:
                    self.authority.release(str(applicant), realm)
            raise
        self._keys[applicant] = public
        if HOME in wanted:
            self.present[applicant] = self.host.now_us
        return certificates

    def give_up(self, applicant: Address, realm: bytes) -> None:
        self.authority.release(str(applicant), realm)
        if realm == HOME:
            self.present.pop(applicant, None)

    def publish_revoked(self, *certificates: Certificate) -> None:
        """Tell every peer present which certificates count no more."""
        self.published = self.authority.revoke(self.host.now_us, *certificates)
        for address in self.present:
            self.host.send(address, self.published)

    def holdings(self) -> Any:
        return [self.authority.held(str(applicant)) for applicant in self._keys]

    def _flaw(self, sender: Address, application: Apply) -> str | None:
        if self._keys.get(sender, application.public) != application.public:
            return "another_key"
        signed = self._scheme.verify(application.public, application.body(sender), application.signature)
        return None if signed else "forged_application"

    def _introducers(self, applicant: Address) -> tuple[Address, ...]:
        since_us = self.host.now_us - self._lease_us if self._lease_us is not None else -1
        heard = [address for address, heard_us in self.present.items() if heard_us >= since_us]
        others = [address for address in heard if address != applicant]
        return tuple(self.host.rng.sample(others, min(INTRODUCERS, len(others))))
