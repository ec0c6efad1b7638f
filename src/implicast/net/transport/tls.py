"""TLS without any I/O: encrypts and decrypts bytes, and reads the other side's certificate.

Connections use TLS 1.3 and both sides verify. They trust the root certificate of their network
alone. A certificate has the node's name as URI `implicast:NAME` in its subject alternative name.

asyncio's own TLS puts a second transport and a protocol above the socket's transport, which costs
an eighth of a delivery's CPU (`spice-unloaded`: 7,250 deliveries per CPU second with it, 8,270 with
this module). Here it is two calls per read or write, and a connection needs no buffer of its own.
"""

import contextlib
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from implicast.net.errors import IdentityError
from implicast.peer.contract import Name

SCHEME = "implicast:"
"""Scheme of the URI that holds the name."""

RECORD_BYTES = 16 << 10
"""Largest content of a TLS record, and so the size of one read."""


class Tls:
    """One end of a TLS connection."""

    __slots__ = ("_in", "_out", "closed_by_peer", "handshake_done", "object")

    def __init__(self, context: ssl.SSLContext, accepts: bool) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.object = context.wrap_bio(self._in, self._out, server_side=accepts)
        self.handshake_done = False
        """The handshake is complete: each side has verified the other as its context requires."""
        self.closed_by_peer = False
        """The other side has closed the connection."""

    def feed(self, encrypted: bytes | memoryview) -> bytes:
        """Decrypt received bytes; returns nothing before the handshake is done. The replies of TLS
        are in `pending_output`. Raises `ssl.SSLError` if the other side is refused or does not
        speak TLS.
        """
        self._in.write(encrypted)
        if not self.handshake_done and not self.handshake():
            return b""
        parts: list[bytes] = []
        try:
            while (
                self._in.pending
            ):  # A complete record is read in one call, so none is left inside the object.
                part = self.object.read(RECORD_BYTES)
                if not part:
                    self.closed_by_peer = True
                    break
                parts.append(part)
        except ssl.SSLWantReadError:  # the last record is incomplete
            pass
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def handshake(self) -> bool:
        """Start or continue the handshake; True if it is done."""
        try:
            self.object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.handshake_done = True
        return True

    def encrypt(self, data: bytes) -> bytes:
        """Encrypt data. The result also includes pending output of TLS."""
        written = self.object.write(data)
        if written < len(data):  # one record per call
            rest = memoryview(data)
            while written < len(data):
                written += self.object.write(rest[written:])
        return self._out.read()

    def pending_output(self) -> bytes:
        """Bytes that TLS itself has to send: its part of the handshake, or an alert."""
        return self._out.read() if self._out.pending else b""

    def close_notify(self) -> bytes:
        """The bytes that close the connection."""
        with contextlib.suppress(
            ssl.SSLError
        ):  # It waits for the close of the other side, or the handshake is not done.
            self.object.unwrap()
        return self.pending_output()


def contexts(key: Path, certificate: Path, root: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS contexts for accepting and for dialling: TLS 1.3, only the network's root, both sides
    verified, no host names.
    """
    try:
        made = [
            _context(side, key, certificate, root)
            for side in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)
        ]
    except (OSError, ssl.SSLError) as error:
        raise IdentityError(f"{certificate} and {key} cannot be used: {error}") from None
    return made[0], made[1]


def _context(side: int, key: Path, certificate: Path, root: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(root)
    context.load_cert_chain(certificate, key)
    if side == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0  # asyncio cannot resume sessions, so tickets are of no use
    return context


def name_in(connection: "ssl.SSLObject | ssl.SSLSocket | None") -> Name | None:
    """The name in the certificate of the other side; None without a certificate."""
    found = connection.getpeercert() if connection is not None else None
    alternatives = (found or {}).get("subjectAltName", ())
    names: Sequence[tuple[str, str]] = alternatives  # type: ignore[assignment]
    for kind, value in names:
        if kind == "URI" and value.startswith(SCHEME):
            try:
                return bytes.fromhex(value.removeprefix(SCHEME))
            except ValueError:
                return None
    return None


def expires_s(connection: "ssl.SSLObject | ssl.SSLSocket | None") -> float | None:
    """Expiry of the other side's certificate, in seconds since 1970; None without a certificate."""
    found = connection.getpeercert() if connection is not None else None
    until = (found or {}).get("notAfter")
    return ssl.cert_time_to_seconds(until) if isinstance(until, str) else None


def key_in(connection: "ssl.SSLObject") -> Ed25519PublicKey | None:
    """The public key in the certificate of the other side."""
    der = connection.getpeercert(binary_form=True)
    key = x509.load_der_x509_certificate(der).public_key() if der else None
    return key if isinstance(key, Ed25519PublicKey) else None
