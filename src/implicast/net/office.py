"""The authority's office: a process that renews the certificates of members and tells who was revoked.

It runs no peer and carries no cast; a network goes on without it until certificates expire.
"""

import asyncio
import logging
import time
from hashlib import blake2b
from pathlib import Path

from cryptography import x509

from implicast.net.authority import CertificateAuthority
from implicast.net.carrier import Carrier
from implicast.net.clock import Clock
from implicast.net.counters import Counters
from implicast.net.credentials import Renew, Renewed, put
from implicast.net.frames import PROTOCOL, Hello
from implicast.net.identity import IdentityError, contexts, name_in, name_of_key, own_key, pem
from implicast.net.pulse import Pulse, PulseAnswer
from implicast.net.revocation import RevocationsKnown
from implicast.net.services import Services
from implicast.peer.bucket import Bucket
from implicast.peer.contract import NAME_BYTES, Name
from implicast.peer.memory import Recent

log = logging.getLogger("implicast")

NAMED_MAX = 4_096
RENEWALS_PER_S = 0.01
"""Certificates that one name may ask for, over a burst of a few."""


class Office:
    """Answers nodes that were admitted."""

    def __init__(self, authority: CertificateAuthority, host: str, port: int) -> None:
        self._authority = authority
        self.clock = Clock(time.monotonic)
        self.counters = Counters()
        self._where = (host, port)
        self._network = blake2b(
            authority.network.encode(), person=b"network", digest_size=NAME_BYTES
        ).digest()
        self._buckets: Recent[Name, Bucket] = Recent(NAMED_MAX)
        folder = authority.directory
        key = own_key(folder / "office.key")
        self._name = name_of_key(key.public_key())
        put(folder / "office.pem", pem(authority.issue("_office", key.public_key())))
        tls = contexts(folder / "office.key", folder / "office.pem", folder / "authority.pem")
        self.services = Services(self.counters)
        self.carrier = Carrier(
            self._hello, lambda hello, body, cause: None, self.counters, *tls, name_in
        )
        self.services.carrier = self.carrier
        self.carrier.served = self.services.receive
        self.services.offer(Pulse, self._pulse)
        self.services.offer(RevocationsKnown, self._known)
        self.services.offer(Renew, self._renew)

    async def listen(self) -> int:
        self.look()
        port = await self.carrier.listen(*self._where)
        self._where = (self._where[0], port)
        return port

    async def watch(self) -> None:
        """For ever: those who are revoked meanwhile by the command line are not answered any more."""
        while True:
            await asyncio.sleep(1.0)
            self.look()

    def look(self) -> None:
        revoked = set(self._authority.revoked().names)
        if revoked != self.carrier.banned:
            self.carrier.ban(revoked)

    def _hello(self) -> Hello:
        return Hello(
            PROTOCOL,
            self._network,
            b"",
            self._name,
            self._where,
            1,
            self.clock.now_us(),
            "office",
            self._authority.revoked().number,
        )

    def _pulse(self, hello: Hello, pulse: Pulse) -> None:
        newest = self._authority.revoked()
        self.services.send(
            hello.address, PulseAnswer(pulse.asked_us, self.clock.now_us(), newest.number)
        )
        if pulse.revocations < newest.number:
            self.services.send(hello.address, newest)

    def _known(self, hello: Hello, known: RevocationsKnown) -> None:
        newest = self._authority.revoked()
        if known.number < newest.number:
            self.services.send(hello.address, newest)

    def _renew(self, hello: Hello, renew: Renew) -> None:
        """A new certificate for the key of an admitted name; its old one has shown, in TLS, that it holds the key."""
        now_s = asyncio.get_running_loop().time()
        self._buckets.once(hello.name, Bucket(RENEWALS_PER_S, 3, now_s))
        label, public = self._authority.label_of(hello.name), self.carrier.key_of(hello.address)
        if label is None or public is None or name_of_key(public) != hello.name:
            return
        if not self._buckets[hello.name].take(now_s):
            return
        try:
            certificate: x509.Certificate = self._authority.issue(label, public)
        except IdentityError as error:
            log.warning("%s", error)
            return
        log.info(
            "%s has a new certificate until %s",
            label,
            f"{certificate.not_valid_after_utc:%Y-%m-%d}",
        )
        self.services.send(hello.address, Renewed(pem(certificate)))


async def serve_office(directory: Path, host: str, port: int) -> None:
    """Until it is stopped."""
    authority = CertificateAuthority.open(directory)
    office = Office(authority, host, port)
    log.info("the office of %s answers at %s:%d", authority.network, host, await office.listen())
    try:
        await office.watch()
    finally:
        await office.carrier.close()
        authority.close()
