"""Examines the folder of a node, running or not: modes, disk, database, configuration, certificate.

`commands/doctor.py` adds what a running node and its neighbours answer.
"""

import contextlib
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from implicast.net.config import NodeConfig, read_config
from implicast.net.errors import IdentityError
from implicast.net.identity.keys import name_of_key, read_key, root_key
from implicast.net.storage.files import OTHERS, own_paths
from implicast.net.storage.head import Head, head_of
from implicast.net.storage.loss import altered_rows, last_commit, losses
from implicast.net.storage.schema import VERSION, connect
from implicast.peer.errors import LocalError

FREE_BYTES = (1 << 30, 64 << 20)
"""Free bytes of the disk below which a warning and a failure are reported."""
CERTIFICATE_DAYS = 7.0
"""Days of validity below which a warning is reported."""


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "FAILED"


class CheckResult(msgspec.Struct, frozen=True):
    """The result of one check."""

    check: str
    verdict: Verdict
    text: str


def examine(folder: Path) -> Iterator[CheckResult]:
    """All checks that need only the folder."""
    yield _modes(folder)
    yield _disk(folder)
    yield from _database(folder)
    try:
        config = read_config(folder)
    except LocalError as error:
        yield CheckResult("configuration", Verdict.FAILED, str(error))
        return
    yield CheckResult("configuration", Verdict.OK, f"{config.design}, role {config.role}")
    if not config.plain:
        yield _certificate(folder, config)


def _modes(folder: Path) -> CheckResult:
    wide = [
        path.name
        for path in (folder, *own_paths(folder))
        if stat.S_IMODE(path.stat().st_mode) & OTHERS
    ]
    if wide:
        text = f"other users may open {', '.join(wide[:4])}: the next start of the node tightens it"
        return CheckResult("modes", Verdict.FAILED, text)
    return CheckResult("modes", Verdict.OK, "only the owner may open the folder")


def _disk(folder: Path) -> CheckResult:
    free = shutil.disk_usage(folder).free
    text = f"{free / (1 << 20):,.0f} MiB free"
    warn, fail = FREE_BYTES
    verdict = Verdict.FAILED if free < fail else Verdict.WARNING if free < warn else Verdict.OK
    return CheckResult("disk", verdict, text)


def _database(folder: Path) -> Iterator[CheckResult]:
    path = folder / "node.db"
    existed = head_of(path).exists()
    if not path.exists():
        verdict = Verdict.FAILED if existed else Verdict.OK
        yield CheckResult("database", verdict, "there is no database" + " any more" * existed)
        return
    try:
        with contextlib.closing(connect(path)) as db:
            yield from _database_findings(db, path, existed)
    except (sqlite3.Error, msgspec.MsgspecError) as error:
        what = f"{error}: run `implicast doctor {folder} --salvage`, or restore a backup"
        yield CheckResult("database", Verdict.FAILED, what)


def _database_findings(db: sqlite3.Connection, path: Path, existed: bool) -> Iterator[CheckResult]:
    (version,) = db.execute("pragma user_version").fetchone()
    if version != VERSION:
        text = f"schema {version}: the node migrates it to {VERSION} when it starts"
        verdict = Verdict.WARNING if version < VERSION else Verdict.FAILED
        yield CheckResult("database", verdict, text)
        return
    (found,) = db.execute("pragma integrity_check(1)").fetchone()
    altered = altered_rows(db)
    number, _ = last_commit(db)
    if found != "ok":
        yield CheckResult("database", Verdict.FAILED, " ".join(str(found).split()))
    elif altered:
        text = ", ".join(f"{count} in {table}" for table, count in altered.items())
        yield CheckResult("database", Verdict.FAILED, f"altered rows: {text}")
    else:
        yield CheckResult("database", Verdict.OK, f"sound, commit {number}")
    yield _lost(db, path, number, existed)


def _lost(db: sqlite3.Connection, path: Path, number: int, existed: bool) -> CheckResult:
    head = Head(head_of(path)) if existed else None
    known = losses(db)
    if head is not None:
        head.close()
    if head is not None and head.number > number:
        lost = head.number - number
        return CheckResult("losses", Verdict.FAILED, f"the last {lost} commits are missing")
    if known:
        what = "; ".join(each.what for each in known)
        how = "`--acknowledge` ends this line"
        return CheckResult("losses", Verdict.FAILED, f"{what}; {how}")
    if number and (head is None or head.damaged):
        return CheckResult("losses", Verdict.WARNING, "node.head is missing or damaged")
    return CheckResult("losses", Verdict.OK, "none noticed")


def _certificate(folder: Path, config: NodeConfig) -> CheckResult:
    try:
        certificate = x509.load_pem_x509_certificate((folder / "node.pem").read_bytes())
        own = name_of_key(read_key(folder / "node.key").public_key())
        root = root_key(folder / "authority.pem")
        root.verify(certificate.signature, certificate.tbs_certificate_bytes)
        if name_of_key(certificate.public_key()) != own:  # type: ignore[arg-type]
            raise IdentityError("node.pem is for another key than node.key")
    except InvalidSignature:
        return CheckResult("certificate", Verdict.FAILED, "another authority signed node.pem")
    except (OSError, ValueError, LocalError) as error:
        return CheckResult("certificate", Verdict.FAILED, f"{error}")
    days = (certificate.not_valid_after_utc - datetime.now(UTC)).total_seconds() / 86_400
    text = f"{days:.1f} days left"
    if days <= 0:
        return CheckResult("certificate", Verdict.FAILED, f"expired {-days:.1f} days ago")
    how = "" if config.authority else "; no authority service is configured that renews it"
    verdict = Verdict.WARNING if days < CERTIFICATE_DAYS else Verdict.OK
    return CheckResult("certificate", verdict, text + how)
