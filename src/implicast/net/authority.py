"""The authority of a network: a folder with its key, its certificate, and who it has admitted.

    DIR/authority.key   DIR/authority.pem   DIR/authority.db

Serials are written down before a certificate leaves and are never used again; so are the numbers of the lists of the
revoked (`revoked` in the folder is the newest). A name is the digest of a key, so the first key of a name is its only
one; names of people (`label`) are the roster's.
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
from implicast.net.identity import (
    VALIDITY,
    IdentityError,
    name_of_key,
    new_key,
    node_certificate,
    pem,
    read_key,
    root_certificate,
)
from implicast.net.revocation import RevokedNames, signed_list
from implicast.net.speech import TEMPLATE, commission, protected_by
from implicast.peer.contract import Name
from implicast.peer.words import Charter

REVOKED = "revoked"
"""The file with the newest list of the revoked, in the authority's folder and in those of nodes."""
SCHEMA = """
create table if not exists meta (key text primary key, value text) without rowid;
create table if not exists issued (serial integer primary key, label text, name blob, until text, revoked_at text);
create table if not exists rights (name blob, said blob);
"""


@dataclass(frozen=True, slots=True)
class Admitted:
    """One certificate that was issued."""

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
        self._db = sqlite3.connect(directory / "authority.db")
        self._db.execute("pragma synchronous=full")
        self._db.executescript(SCHEMA)

    @classmethod
    def init(cls, directory: Path, network: str) -> "CertificateAuthority":
        """A new authority; refuses where there is one."""
        if (directory / "authority.key").exists():
            raise IdentityError(f"{directory} is an authority already")
        try:
            key = new_key(directory / "authority.key")
            (directory / "authority.pem").write_bytes(pem(root_certificate(key, network)))
            if not (directory / "authority.toml").exists():
                (directory / "authority.toml").write_text(TEMPLATE)
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
                f"{directory} is no authority: make one with `implicast authority init {directory}`"
            )
        return cls(directory)

    def issue(
        self, label: str, public: Ed25519PublicKey, validity: timedelta = VALIDITY
    ) -> x509.Certificate:
        """A certificate for a key, the first or a new one in time; the serial is safe before it leaves."""
        name = name_of_key(public)
        if any(each.name == name and each.revoked for each in self.admitted()):
            raise IdentityError(f"{name.hex()} was revoked: a new key is a new name")
        with self._db:
            row = self._db.execute("insert into issued (label, name) values (?, ?)", (label, name))
        serial = int(row.lastrowid or 0)
        protected, said = protected_by(self.directory), self.allowed(name)
        word = partial(self._word, name, protected, said)
        certificate = node_certificate(self._key, self.root, public, serial, validity, word)
        with self._db:
            until = certificate.not_valid_after_utc.isoformat()
            self._db.execute("update issued set until = ? where serial = ?", (until, serial))
        return certificate

    def _word(
        self, name: Name, protected: tuple[str, ...], said: list[Description], until_us: int
    ) -> x509.UnrecognizedExtension:
        return commission(self._key, name, until_us, protected, said)

    def allow(self, label: str, said: Description) -> list[Name]:
        """All who were admitted under a label, or a name in hexadecimal, may say this of themselves."""
        names = sorted(
            {each.name for each in self.admitted() if label in (each.label, each.name.hex())}
        )
        if not names:
            raise IdentityError(
                f"{label} was never admitted; `implicast authority list` says who was"
            )
        wanted = Charter.of(b"", protected_by(self.directory)).protected(said)
        if len(wanted) < len(said.tags) + len(said.values):
            path = self.directory / "authority.toml"
            raise IdentityError(
                f"{said}: not all of this is protected by {path}; anybody may say the rest"
            )
        with self._db:
            for name in names:
                self._db.execute(
                    "insert into rights values (?, ?)", (name, msgspec.msgpack.encode(said))
                )
        return names

    def allowed(self, name: Name) -> list[Description]:
        """What a name may say of itself."""
        rows = self._db.execute("select said from rights where name = ?", (name,)).fetchall()
        return [msgspec.msgpack.decode(said, type=Description) for (said,) in rows]

    def revoke(self, label: str) -> list[Name]:
        """All certificates of a label, or of a name in hexadecimal, count no more."""
        found = [each.name for each in self.admitted() if label in (each.label, each.name.hex())]
        if not found:
            raise IdentityError(
                f"{label} was never admitted; `implicast authority list` says who was"
            )
        with self._db:
            for name in found:
                self._db.execute(
                    "update issued set revoked_at = datetime('now') where name = ?", (name,)
                )
            self._db.execute(
                "insert or replace into meta values ('list', ?)", (str(self._list_number() + 1),)
            )
        (self.directory / REVOKED).write_bytes(msgspec.msgpack.encode(self.revoked()))
        return sorted(set(found))

    def revoked(self) -> RevokedNames:
        """The newest list of the revoked, signed."""
        names = sorted({each.name for each in self.admitted() if each.revoked})
        return signed_list(self._key, self._list_number(), tuple(names))

    def _list_number(self) -> int:
        row = self._db.execute("select value from meta where key = 'list'").fetchone()
        return 0 if row is None else int(row[0])

    def label_of(self, name: Name) -> str | None:
        """Under which label a name was admitted; None: never, or it was revoked."""
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
        """The name of the network."""
        return str(self._db.execute("select value from meta where key = 'network'").fetchone()[0])

    def close(self) -> None:
        self._db.close()
