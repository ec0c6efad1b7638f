"""Whom one peer of the skip graph believes: certificates, claims and farewells.

A word of another can only add, and only what bears a sound certificate. What takes away is the authority's revocation,
the holder's own farewell, or its silence towards this peer (`absentees.py`).
"""

from collections import Counter
from collections.abc import Collection

from implicast.overlay.skip_graph.messages import Claim, Disown
from implicast.peer.contract import Host
from implicast.peer.identity import Certificate, Trust
from implicast.peer.memory import Recent

CLAIM_WINDOW_US = 30_000_000
"""A claim older than this proves nothing about the present."""
GONE_MAX = 1_024
"""Farewells remembered, so that a recorded claim cannot bring the departed back within the window."""


class Belief:
    """What one peer holds for true about the certificates it meets. `refusals` counts what it did not, by name."""

    __slots__ = ("_host", "gone", "gone_holders", "refusals", "trust")

    def __init__(self, host: Host, trust: Trust) -> None:
        self._host, self.trust = host, trust
        self.gone: Recent[int, int] = Recent(GONE_MAX)  # serial of a certificate -> when its holder said farewell
        self.gone_holders: Recent[bytes, int] = Recent(GONE_MAX)
        """Public key of who left with all places, also those that we have yet to hear of -> when it said so."""
        self.refusals: Counter[str] = Counter()

    def sound(self, certificate: Certificate) -> bool:
        """Whether a certificate may be listed."""
        now_us, serial = self._host.now_us, certificate.serial
        suspect = serial in self.gone or certificate.public in self.gone_holders
        if not suspect and self.trust.is_known(certificate, now_us):  # most were met before
            return True
        flaw = self.trust.flaw(certificate, now_us)
        if flaw is None and suspect and self.has_left(certificate):
            flaw = "departed"
        return self._passes(flaw)

    def _passes(self, flaw: str | None) -> bool:
        if flaw is not None:
            self.refusals[flaw] += 1
        return flaw is None

    def doubtful(self, certificates: Collection[Certificate]) -> list[Certificate]:
        """Those that have to be looked at one by one; the others were found sound before, and still are."""
        gone, holders = self.gone, self.gone_holders
        found = self.trust.unknown(certificates, self._host.now_us)
        if gone or holders:
            found += [each for each in certificates if each.serial in gone or each.public in holders]
        return found

    def credible(self, verb: bytes, said: Claim) -> bool:
        """Whether the holder of a sound certificate said this itself, just now."""
        return self.sound(said.certificate) and self._passes(self._claim_flaw(verb, said))

    def credible_from_the_departed(self, verb: bytes, said: Claim) -> bool:
        """The same of one who may have left that place before: who leaves with all of them still has to be heard."""
        return self._passes(self.trust.flaw(said.certificate, self._host.now_us) or self._claim_flaw(verb, said))

    def has_left(self, certificate: Certificate) -> bool:
        """Whether its holder said farewell."""
        return certificate.serial in self.gone or self.has_left_with_all(certificate)

    def has_left_with_all(self, certificate: Certificate) -> bool:
        """Whether its holder said farewell for all its places, not only for this one."""
        return self.gone_holders.get(certificate.public, -1) >= certificate.since_us

    def disowns(self, certificate: Certificate, said: Disown) -> bool:
        """Whether whoever is at the address of a certificate has said, just now, that the place is none of its.

        It says so by a certificate of its own for that address: the same key, or one that was admitted there later.
        """
        other = said.claim.certificate
        if other.address != certificate.address or certificate.since_us > said.claim.sent_us:
            return False
        return other.public == certificate.public or other.serial > certificate.serial

    def _claim_flaw(self, verb: bytes, said: Claim) -> str | None:
        if abs(self._host.now_us - said.sent_us) > CLAIM_WINDOW_US:
            return "stale_claim"
        return None if self.trust.signed(said.certificate, said.body(verb), said.signature) else "forged_claim"
