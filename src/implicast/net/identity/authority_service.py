"""The authority service: a process that renews the certificates of members and distributes the
revocation list.

It runs no peer and forwards no casts. A network works without it until certificates expire.
"""

import asyncio
import logging
import time
from pathlib import Path

from cryptography import x509

from implicast.net.errors import IdentityError
from implicast.net.identity.authority import CertificateAuthority
from implicast.net.identity.credentials import (
    CertificateRenewed,
    RenewCertificate,
    write_atomically,
)
from implicast.net.identity.keys import name_of_key, own_key, pem
from implicast.net.identity.revocation import RevocationsKnown
from implicast.net.settings import network_id
from implicast.net.transport.clock import Clock
from implicast.net.transport.connection_pool import ConnectionPool
from implicast.net.transport.counters import Counters
from implicast.net.transport.frames import PROTOCOL, Hello
from implicast.net.transport.heartbeat import NodeHeartbeat, NodeHeartbeatAck
from implicast.net.transport.services import Services
from implicast.net.transport.tls import contexts, name_in
from implicast.peer.bucket import Bucket
from implicast.peer.contract import Name
from implicast.peer.memory import Recent

log = logging.getLogger("implicast")

NAMED_MAX = 4_096
RENEWALS_PER_S = 0.01
"""Certificates that one name may request per second, after a burst of three."""


class AuthorityService:
    """Answers requests of admitted nodes."""

    def __init__(self, authority: CertificateAuthority, host: str, port: int) -> None:
        self._authority = authority
        self.clock = Clock(time.monotonic)
        self.counters = Counters()
        self._where = (host, port)
        self._network = network_id(authority.network)
        self._buckets: Recent[Name, Bucket] = Recent(NAMED_MAX)
        folder = authority.directory
        key = own_key(folder / "office.key")
        self._name = name_of_key(key.public_key())
        write_atomically(folder / "office.pem", pem(authority.issue("_office", key.public_key())))
        tls = contexts(folder / "office.key", folder / "office.pem", folder / "authority.pem")
        self.pool = ConnectionPool(
            self._hello, lambda hello, body, cause: None, self.counters, *tls, name_in
        )
        self.services = Services(self.counters, self.pool)
        self.pool.serve(self.services.receive)
        self.services.register(NodeHeartbeat, self._on_heartbeat)
        self.services.register(RevocationsKnown, self._on_number)
        self.services.register(RenewCertificate, self._on_renew)

    async def listen(self) -> int:
        self.update_banned()
        port = await self.pool.listen(*self._where)
        self._where = (self._where[0], port)
        return port

    async def watch(self) -> None:
        """Check the revocation list every second until cancelled, and close the connections of
        names that the command line has revoked in the meantime.
        """
        while True:
            await asyncio.sleep(1.0)
            self.update_banned()

    def update_banned(self) -> None:
        revoked = set(self._authority.revoked().names)
        if revoked != self.pool.banned:
            self.pool.ban(revoked)

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

    def _on_heartbeat(self, hello: Hello, heartbeat: NodeHeartbeat) -> None:
        newest = self._authority.revoked()
        self.services.send(
            hello.address, NodeHeartbeatAck(heartbeat.asked_us, self.clock.now_us(), newest.number)
        )
        if heartbeat.revocations < newest.number:
            self.services.send(hello.address, newest)

    def _on_number(self, hello: Hello, known: RevocationsKnown) -> None:
        newest = self._authority.revoked()
        if known.number < newest.number:
            self.services.send(hello.address, newest)

    def _on_renew(self, hello: Hello, request: RenewCertificate) -> None:
        """Send a new certificate for the key of an admitted name. The TLS handshake with the old
        certificate has proved that the node holds the key.
        """
        now_s = asyncio.get_running_loop().time()
        self._buckets.once(hello.name, Bucket(RENEWALS_PER_S, 3, now_s))
        label, public = self._authority.label_of(hello.name), self.pool.key_of(hello.name)
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
        self.services.send(hello.address, CertificateRenewed(pem(certificate)))


async def serve_authority(directory: Path, host: str, port: int) -> None:
    """Run the authority service until it is cancelled."""
    authority = CertificateAuthority.open(directory)
    service = AuthorityService(authority, host, port)
    log.info(
        "the authority service of %s listens at %s:%d",
        authority.network,
        host,
        await service.listen(),
    )
    try:
        await service.watch()
    finally:
        await service.pool.close()
        authority.close()
