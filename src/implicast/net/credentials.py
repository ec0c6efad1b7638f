"""A node's certificate over time: renewed at two thirds of its validity, put to use without a restart.

A new certificate comes from the authority's office, where there is one (`NodeConfig.authority`), or is put into the
folder by hand (`implicast authority issue` again). The same folder may be given a new list of the revoked (`revoked`).
"""

import asyncio
import contextlib
import logging
import os
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cryptography import x509
from msgspec import Meta

from implicast.net.authority import REVOKED
from implicast.net.config import address_of
from implicast.net.frames import Hello
from implicast.net.identity import IdentityError, name_of_key, own_key, root_key
from implicast.net.pulse import Pulse
from implicast.net.revocation import RevocationError, read_list
from implicast.peer.contract import Message
from implicast.peer.errors import RemoteError

if TYPE_CHECKING:
    from implicast.net.node import Node

log = logging.getLogger("implicast")

LOOK_S = 5.0
"""How often the folder is looked at."""
OFFICE_S = 20.0
"""How often the authority's office is asked for news."""
CERTIFICATE_MAX = 32_768


class Renew(Message):
    """Asks the authority for a new certificate of the asker's own key."""

    wire = 0x0E05


class Renewed(Message):
    """The new certificate, in PEM."""

    wire = 0x0E06

    certificate: Annotated[bytes, Meta(max_length=CERTIFICATE_MAX)]


class Credentials:
    """The certificate in use."""

    def __init__(self, directory: Path, contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
        self._directory, self._contexts = directory, contexts
        self._stamps: dict[str, int] = {REVOKED: 0}
        self._warned = False
        self._read()
        self._stamps["node.pem"] = self._stamp("node.pem")

    def _read(self) -> None:
        certificate = x509.load_pem_x509_certificate((self._directory / "node.pem").read_bytes())
        self.since, self.until = certificate.not_valid_before_utc, certificate.not_valid_after_utc

    @property
    def due(self) -> bool:
        """Is it time for a new one?"""
        return datetime.now(UTC) >= self.since + (self.until - self.since) * 2 / 3

    async def watch(self, node: "Node") -> None:
        """For ever: look for news in the folder, and at the office."""
        turn = 0
        while True:
            await asyncio.sleep(LOOK_S if turn else 0.2)
            self.look(node)
            if node.config.authority and turn % int(OFFICE_S / LOOK_S) == 0:
                office = address_of(node.config.authority)
                node.services.send(office, Pulse(node.clock.now_us(), node.revocations.number))
                if self.due:
                    node.services.send(office, Renew())
            turn += 1

    def look(self, node: "Node") -> None:
        """Take what was put into the folder since the last time."""
        if self._stamp("node.pem") != self._stamps["node.pem"]:
            self._stamps["node.pem"] = self._stamp("node.pem")
            self._use()
            self._speak(node)
        if self._stamp(REVOKED) != self._stamps[REVOKED]:
            self._stamps[REVOKED] = self._stamp(REVOKED)
            try:
                node.revocations.take(read_list((self._directory / REVOKED).read_bytes()))
            except (OSError, RevocationError) as error:
                log.warning("%s: %s", self._directory / REVOKED, error)
        if self.due and not self._warned:
            self._warned = True
            log.warning(
                "this node's certificate expires on %s; it asks for a new one",
                f"{self.until:%Y-%m-%d}",
            )

    def _speak(self, node: "Node") -> None:
        try:
            node.speak_anew()
        except (IdentityError, ValueError, OSError) as error:
            log.warning("%s", error)

    def _stamp(self, name: str) -> int:
        with contextlib.suppress(OSError):
            return (self._directory / name).stat().st_mtime_ns
        return 0

    def _use(self) -> None:
        """New connections show the certificate that is in the folder now."""
        try:
            for context in self._contexts:
                context.load_cert_chain(self._directory / "node.pem", self._directory / "node.key")
            self._read()
            self._warned = False
            log.info("a new certificate, until %s", f"{self.until:%Y-%m-%d}")
        except (OSError, ValueError, ssl.SSLError) as error:
            log.warning("%s cannot be used: %s", self._directory / "node.pem", error)

    def on_renewed(self, hello: Hello, renewed: Renewed) -> None:
        """A certificate is taken when the authority signed it for this node's key and it lasts longer."""
        try:
            certificate = x509.load_pem_x509_certificate(renewed.certificate)
            root = root_key(self._directory / "authority.pem")
            root.verify(certificate.signature, certificate.tbs_certificate_bytes)
            own = name_of_key(own_key(self._directory / "node.key").public_key())
            if name_of_key(certificate.public_key()) != own:  # type: ignore[arg-type]
                raise ValueError("of another key")
        except Exception as error:
            raise RemoteError(f"a certificate that cannot be used: {error!r}") from None
        if certificate.not_valid_after_utc > self.until:
            put(self._directory / "node.pem", renewed.certificate)


def put(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    aside = path.with_suffix(path.suffix + ".new")
    try:
        with aside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        raise IdentityError(f"{path} cannot be written: {error.strerror or error}") from None
