"""The authority of a network: a folder with its key, its certificate and the list of admitted
nodes.

    DIR/authority.key   DIR/authority.pem   DIR/authority.db

Serial numbers of certificates and of revocation lists are stored before use and never reused; the
file `revoked` holds the newest list. A node's name is the digest of its key, so each name has one
key. A `label` is a readable name that the authority assigns.
"""

import sqlite3
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from implicast.language.target import Description
from implicast.net.errors import IdentityError
from implicast.net.identity.keys import (
    VALIDITY,
    name_of_key,
    new_key,
    node_certificate,
    pem,
    read_key,
    root_certificate,
)
from implicast.net.identity.revocation import RevokedNames, signed_list
from implicast.net.identity.signing import TEMPLATE, grant_extension, protected_by
from implicast.net.storage.files import tighten, touch_private, write_private
from implicast.peer.contract import Name
from implicast.peer.trust_policy import TrustPolicy

REVOKED = "revoked"
"""File with the newest revocation list, in the authority's folder and in those of nodes."""
SCHEMA = """
create table if not exists meta (key text primary key, value text) without rowid;
create table if not exists issued (
    serial integer primary key, label text, name blob, until text, revoked_at text);
create table if not exists rights (name blob, said blob);
"""


@dataclass(frozen=True, slots=True)
class Admitted:
    """One issued certificate."""

    serial: int
    label: str
    name: Name
    until: str
    revoked: bool


class CertificateAuthority:
    """Issues and revokes certificates."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._key = read_key(directory / "authority.key")
        self.root = x509.load_pem_x509_certificate((directory / "authority.pem").read_bytes())
        tighten(directory)
        touch_private(directory / "authority.db")
        self._db = sqlite3.connect(directory / "authority.db")
        self._db.execute("pragma synchronous=full")
        self._db.executescript(SCHEMA)

    @classmethod
    def init(cls, directory: Path, network: str) -> "CertificateAuthority":
        """Create an authority; raises `IdentityError` if the folder has one already."""
        if (directory / "authority.key").exists():
            raise IdentityError(f"{directory} is an authority already")
        try:
            key = new_key(directory / "authority.key")
            write_private(directory / "authority.pem", pem(root_certificate(key, network)))
            if not (directory / "authority.toml").exists():
                write_private(directory / "authority.toml", TEMPLATE)
        except OSError as error:
            raise IdentityError(
                f"{directory} cannot be written: {error.strerror or error}"
            ) from None
        made = cls(directory)
        with made._db:
            made._db.execute("insert or replace into meta values ('network', ?)", (network,))
        return made

    @classmethod
    def open(cls, directory: Path) -> "CertificateAuthority":
        if not (directory / "authority.key").exists():
            raise IdentityError(
                f"{directory} is not an authority's folder: create one with "
                f"`implicast authority init {directory}`"
            )
        return cls(directory)

    def issue(
        self, label: str, public: Ed25519PublicKey, validity: timedelta = VALIDITY
    ) -> x509.Certificate:
        """Issue a certificate for a key, the first one or a renewal. The serial number is committed
        before the certificate is signed.
        """
        name = name_of_key(public)
        if any(each.name == name and each.revoked for each in self.admitted()):
            raise IdentityError(
                f"{name.hex()} was revoked: create a new key, which gives a new name"
            )
        with self._db:
            row = self._db.execute("insert into issued (label, name) values (?, ?)", (label, name))
        serial = int(row.lastrowid or 0)
        protected, descriptions = protected_by(self.directory), self.allowed(name)
        grant = partial(self._grant, name, protected, descriptions)
        certificate = node_certificate(self._key, self.root, public, serial, validity, grant)
        with self._db:
            until = certificate.not_valid_after_utc.isoformat()
            self._db.execute("update issued set until = ? where serial = ?", (until, serial))
        return certificate

    def _grant(
        self, name: Name, protected: tuple[str, ...], descriptions: list[Description], until_us: int
    ) -> x509.UnrecognizedExtension:
        return grant_extension(self._key, name, until_us, protected, descriptions)

    def allow(self, label: str, allowed: Description) -> list[Name]:
        """Allow all nodes admitted under a label, or one node by its name in hexadecimal, to use
        these protected attributes and tags in their descriptions.
        """
        names = sorted(
            {each.name for each in self.admitted() if label in (each.label, each.name.hex())}
        )
        if not names:
            raise IdentityError(
                f"{label} was never admitted; `implicast authority list` shows the admitted nodes"
            )
        wanted = TrustPolicy.of(b"", protected_by(self.directory)).protected(allowed)
        if len(wanted) < len(allowed.tags) + len(allowed.values):
            path = self.directory / "authority.toml"
            raise IdentityError(
                f"{allowed}: not all of it is protected by {path}; the rest needs no permission"
            )
        with self._db:
            for name in names:
                self._db.execute(
                    "insert into rights values (?, ?)", (name, msgspec.msgpack.encode(allowed))
                )
        return names

    def allowed(self, name: Name) -> list[Description]:
        """The protected descriptions that a name may use."""
        rows = self._db.execute("select said from rights where name = ?", (name,)).fetchall()
        return [msgspec.msgpack.decode(descriptions, type=Description) for (descriptions,) in rows]

    def revoke(self, label: str) -> list[Name]:
        """Revoke all certificates of a label, or of a name in hexadecimal, and write a new
        revocation list.
        """
        found = [each.name for each in self.admitted() if label in (each.label, each.name.hex())]
        if not found:
            raise IdentityError(
                f"{label} was never admitted; `implicast authority list` shows the admitted nodes"
            )
        with self._db:
            for name in found:
                self._db.execute(
                    "update issued set revoked_at = datetime('now') where name = ?", (name,)
                )
            self._db.execute(
                "insert or replace into meta values ('list', ?)", (str(self._list_number() + 1),)
            )
        write_private(self.directory / REVOKED, msgspec.msgpack.encode(self.revoked()))
        return sorted(set(found))

    def revoked(self) -> RevokedNames:
        """The newest revocation list, signed."""
        names = sorted({each.name for each in self.admitted() if each.revoked})
        return signed_list(self._key, self._list_number(), tuple(names))

    def _list_number(self) -> int:
        row = self._db.execute("select value from meta where key = 'list'").fetchone()
        return 0 if row is None else int(row[0])

    def label_of(self, name: Name) -> str | None:
        """The label of an admitted name; None if it was never admitted or is revoked."""
        found = [each for each in self.admitted() if each.name == name]
        return found[-1].label if found and not found[-1].revoked else None

    def admitted(self) -> list[Admitted]:
        rows = self._db.execute(
            "select serial, label, name, until, revoked_at from issued order by serial"
        ).fetchall()
        return [
            Admitted(serial, label, bytes(name), until or "", gone is not None)
            for serial, label, name, until, gone in rows
        ]

    @property
    def network(self) -> str:
        return str(self._db.execute("select value from meta where key = 'network'").fetchone()[0])

    def close(self) -> None:
        self._db.close()
