"""The certificate of a running node: renewed at two thirds of its validity and replaced without a
restart.

A new certificate comes from the authority service (`NodeConfig.authority`), or is put into the
folder by hand (`implicast authority issue` again). A new revocation list may be put into the same
folder (`revoked`).
"""

import asyncio
import contextlib
import logging
import os
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from cryptography import x509
from msgspec import Meta

from implicast.net.config import address_of
from implicast.net.errors import IdentityError
from implicast.net.identity.authority import REVOKED
from implicast.net.identity.keys import name_of_key, own_key, root_key
from implicast.net.identity.revocation import RevocationError, Revocations, read_list
from implicast.net.storage.files import open_private
from implicast.net.transport.clock import Clock
from implicast.net.transport.frames import Hello
from implicast.net.transport.heartbeat import NodeHeartbeat
from implicast.net.transport.services import Services
from implicast.peer.contract import Message
from implicast.peer.errors import RemoteError

log = logging.getLogger("implicast")

FOLDER_POLL_S = 5.0
"""Seconds between two checks of the folder."""
AUTHORITY_POLL_S = 20.0
"""Seconds between two requests to the authority service."""
CERTIFICATE_MAX = 32_768


class RenewCertificate(Message):
    """Asks the authority for a new certificate for the sender's key."""

    wire = 0x0E05


class CertificateRenewed(Message):
    """The new certificate, in PEM."""

    wire = 0x0E06

    certificate: Annotated[bytes, Meta(max_length=CERTIFICATE_MAX)]


class Credentials:
    """The certificate in use."""

    def __init__(
        self,
        directory: Path,
        contexts: tuple[ssl.SSLContext, ssl.SSLContext],
        revocations: Revocations,
        reload_signing: Callable[[], None],
    ) -> None:
        """`reload_signing` loads the rights in a new certificate of the folder."""
        self._directory, self._contexts = directory, contexts
        self._revocations, self._reload_signing = revocations, reload_signing
        self._stamps: dict[str, int] = {REVOKED: 0}
        self._warned = False
        self._read()
        self._stamps["node.pem"] = self._stamp("node.pem")

    def _read(self) -> None:
        certificate = x509.load_pem_x509_certificate((self._directory / "node.pem").read_bytes())
        self.since, self.until = certificate.not_valid_before_utc, certificate.not_valid_after_utc

    @property
    def due(self) -> bool:
        """True if two thirds of the validity are over."""
        return datetime.now(UTC) >= self.since + (self.until - self.since) * 2 / 3

    async def watch(self, services: Services, clock: Clock, authority: Callable[[], str]) -> None:
        """Check the folder and the authority service for news until cancelled. `authority`
        returns the service's address; empty if there is none.
        """
        rounds = 0
        while True:
            await asyncio.sleep(FOLDER_POLL_S if rounds else 0.2)
            self.check_folder()
            if authority() and rounds % int(AUTHORITY_POLL_S / FOLDER_POLL_S) == 0:
                to = address_of(authority())
                services.send(to, NodeHeartbeat(clock.now_us(), self._revocations.number))
                if self.due:
                    services.send(to, RenewCertificate())
            rounds += 1

    def check_folder(self) -> None:
        """Load the files that changed in the folder since the last call."""
        if self._stamp("node.pem") != self._stamps["node.pem"]:
            self._stamps["node.pem"] = self._stamp("node.pem")
            self._load_certificate()
            self._reload_rights()
        if self._stamp(REVOKED) != self._stamps[REVOKED]:
            self._stamps[REVOKED] = self._stamp(REVOKED)
            try:
                self._revocations.accept(read_list((self._directory / REVOKED).read_bytes()))
            except (OSError, RevocationError) as error:
                log.warning("%s: %s", self._directory / REVOKED, error)
        if self.due and not self._warned:
            self._warned = True
            log.warning(
                "this node's certificate expires on %s; the node requests a new one",
                f"{self.until:%Y-%m-%d}",
            )

    def _reload_rights(self) -> None:
        try:
            self._reload_signing()
        except (ValueError, OSError) as error:
            log.warning("%s", error)

    def _stamp(self, name: str) -> int:
        with contextlib.suppress(OSError):
            return (self._directory / name).stat().st_mtime_ns
        return 0

    def _load_certificate(self) -> None:
        """Use the certificate in the folder for new connections."""
        try:
            for context in self._contexts:
                context.load_cert_chain(self._directory / "node.pem", self._directory / "node.key")
            self._read()
            self._warned = False
            log.info("loaded a new certificate, valid until %s", f"{self.until:%Y-%m-%d}")
        except (OSError, ValueError, ssl.SSLError) as error:
            log.warning("%s cannot be used: %s", self._directory / "node.pem", error)

    def on_renewed(self, hello: Hello, renewed: CertificateRenewed) -> None:
        """Store a certificate that the authority signed for this node's key, if it expires later
        than the current one.
        """
        try:
            certificate = x509.load_pem_x509_certificate(renewed.certificate)
            root = root_key(self._directory / "authority.pem")
            root.verify(certificate.signature, certificate.tbs_certificate_bytes)
            own = name_of_key(own_key(self._directory / "node.key").public_key())
            if name_of_key(certificate.public_key()) != own:  # type: ignore[arg-type]
                raise ValueError("it is for another key")
        except Exception as error:
            raise RemoteError(f"unusable certificate: {error!r}") from None
        if certificate.not_valid_after_utc > self.until:
            write_atomically(self._directory / "node.pem", renewed.certificate)


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file atomically: after a crash it has the old or the new content."""
    aside = path.with_suffix(path.suffix + ".new")
    try:
        with open_private(aside) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        raise IdentityError(f"{path} cannot be written: {error.strerror or error}") from None
