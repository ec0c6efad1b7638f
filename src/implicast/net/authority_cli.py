"""The commands of an authority: who belongs to its network."""

import asyncio
import contextlib
import json
from pathlib import Path

import click
import msgspec
from cryptography import x509

from implicast.language.parse import description
from implicast.net import control
from implicast.net.authority import REVOKED, CertificateAuthority
from implicast.net.config import address_of
from implicast.net.credentials import put
from implicast.net.enrolment import enrol
from implicast.net.identity import own_key, pem
from implicast.net.logs import log_to_stderr
from implicast.net.office import serve_office
from implicast.net.options import authority_option, json_option

STAND_INS = 2
"""Of a light client: one for each of two proxies."""
TOLD_MAX = 3
"""Nodes that are told a list; they tell the rest."""
_tell = click.option(
    "--tell",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="The folder of a running node that is told; several times for several.",
)


@click.group("authority")
def authority_command() -> None:
    """The authority of a network: who belongs to it."""


@authority_command.command("init")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--name", "network", required=True, help="The network's name.")
def authority_init(directory: Path, network: str) -> None:
    """Make a new authority in a folder."""
    CertificateAuthority.init(directory.expanduser(), network).close()
    click.echo(
        f"{directory}: the authority of {network}. Keep authority.key to yourself; give authority.pem to nodes."
    )


@authority_command.command("issue")
@click.argument("label")
@authority_option
@click.option(
    "--node", "folder", type=click.Path(path_type=Path), required=True, help="The node's folder."
)
@click.option(
    "--role",
    default="member",
    show_default=True,
    help="`authority` for the node that plays it in bft.",
)
@click.option(
    "--client", is_flag=True, help="A light client: two stand-ins for its proxies are admitted too."
)
def authority_issue(label: str, directory: Path, folder: Path, role: str, client: bool) -> None:
    """Admit the node of a folder under a LABEL: its key is made there, its certificate is put beside it."""
    authority = CertificateAuthority.open(directory.expanduser())
    for number in range(STAND_INS * client):
        admit(authority, f"{label}.standin{number}", folder.expanduser() / f"standin{number}", role)
    certificate = admit(authority, label, folder.expanduser(), role)
    authority.close()
    click.echo(f"{label} is admitted until {certificate.not_valid_after_utc:%Y-%m-%d}")


def admit(authority: CertificateAuthority, label: str, folder: Path, role: str) -> x509.Certificate:
    """Key, certificate and root in a folder."""
    certificate = authority.issue(label, own_key(folder / "node.key").public_key())
    (folder / "node.pem").write_bytes(pem(certificate))
    (folder / "authority.pem").write_bytes(pem(authority.root))
    enrol(authority.directory, folder, role)
    return certificate


@authority_command.command("allow")
@click.argument("label")
@click.argument("text")
@authority_option
@click.option(
    "--node",
    "folder",
    type=click.Path(path_type=Path),
    help="The node's folder: its certificate says so from now on; else its next one does.",
)
def authority_allow(label: str, text: str, directory: Path, folder: Path | None) -> None:
    """LABEL (or a name in hexadecimal) may say TEXT of itself, such as "role = doctor".

    What needs to be allowed is in authority.toml, in the authority's folder, under [protected].
    """
    said = description(text)
    authority = CertificateAuthority.open(directory.expanduser())
    names = authority.allow(label, said)
    if folder is not None:
        certificate = authority.issue(label, own_key(folder.expanduser() / "node.key").public_key())
        put(folder.expanduser() / "node.pem", pem(certificate))
    authority.close()
    for name in names:
        click.echo(f"{name.hex()} may say: {said}")


@authority_command.command("revoke")
@click.argument("label")
@authority_option
@_tell
def authority_revoke(label: str, directory: Path, tell: tuple[Path, ...]) -> None:
    """LABEL (or a name in hexadecimal) belongs to the network no more: a new signed list says so.

    The list is told to running nodes (--tell, or those of the local network that this authority belongs to) and
    spreads from them to all. In bft the node that plays the authority expels it too: its places count no more.
    """
    authority = CertificateAuthority.open(directory.expanduser())
    for name in authority.revoke(label):
        click.echo(f"{name.hex()} is revoked")
    _told(authority, tell)
    authority.close()


@authority_command.command("tell")
@authority_option
@_tell
def authority_tell(directory: Path, tell: tuple[Path, ...]) -> None:
    """Tell running nodes the newest list of the revoked."""
    authority = CertificateAuthority.open(directory.expanduser())
    _told(authority, tell)
    authority.close()


def _told(authority: CertificateAuthority, tell: tuple[Path, ...]) -> None:
    """Give the newest list to a few nodes; the rest hear it from them."""
    newest = authority.revoked()
    near = authority.directory.resolve().parent
    folders = [each.expanduser() for each in tell] or sorted(
        each.parent for each in near.glob("*/control.sock")
    )
    told = 0
    for folder in folders:
        with contextlib.suppress(control.ControlError):
            next(
                control.ask(
                    folder, {"do": "revoked", "list": msgspec.msgpack.encode(newest).hex()}, 10.0
                )
            )
            told += 1
        if told >= TOLD_MAX and not tell:
            break
    where = authority.directory / REVOKED
    if told:
        click.echo(f"list {newest.number} was told to {told} running nodes and spreads from them")
    else:
        click.echo(
            f"no running node was told: copy {where} into the folder of a node, or name one with --tell"
        )


@authority_command.command("serve")
@authority_option
@click.option("--listen", default="0.0.0.0:7069", show_default=True, metavar="HOST:PORT")
def authority_serve(directory: Path, listen: str) -> None:
    """Answer nodes: renew certificates before they expire, and tell who was revoked. Ctrl-C stops it.

    Nodes find it by `authority = "HOST:PORT"` in their node.toml, or `implicast node --authority HOST:PORT`. It is not
    needed for casts.
    """
    log_to_stderr("info")
    try:
        asyncio.run(serve_office(directory.expanduser(), *address_of(listen)))
    except KeyboardInterrupt:
        raise SystemExit(130) from None


@authority_command.command("list")
@authority_option
@json_option
def authority_list(directory: Path, as_json: bool) -> None:
    """Who was admitted."""
    authority = CertificateAuthority.open(directory.expanduser())
    for each in authority.admitted():
        row = {
            "serial": each.serial,
            "label": each.label,
            "name": each.name.hex(),
            "until": each.until,
            "revoked": each.revoked,
        }
        click.echo(
            json.dumps(row)
            if as_json
            else f"{each.serial:5}  {each.label:20} {row['name']}  until "
            f"{each.until[:10]}{'  revoked' * each.revoked}"
        )
    authority.close()
