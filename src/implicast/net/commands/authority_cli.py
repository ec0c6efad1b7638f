"""The commands of an authority, which decides who belongs to its network."""

import asyncio
import contextlib
import json
from pathlib import Path

import click
import msgspec
from cryptography import x509

from implicast.language.parse import description
from implicast.net.commands import control
from implicast.net.commands.options import authority_option, json_option
from implicast.net.config import address_of
from implicast.net.identity.authority import REVOKED, CertificateAuthority
from implicast.net.identity.authority_service import serve_authority
from implicast.net.identity.credentials import write_atomically
from implicast.net.identity.enrolment import enrol
from implicast.net.identity.keys import own_key, pem
from implicast.net.observation.logs import log_to_stderr
from implicast.net.storage.files import make_private_folder, tighten, write_private

STAND_INS = 2
"""Stand-ins of a light client: one for each of two proxies."""
TELL_MAX = 3
"""Nodes that receive a new list from the command. They spread it to the others."""
_tell = click.option(
    "--tell",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Folder of a running node that receives the list; may be repeated.",
)


@click.group("authority")
def authority_command() -> None:
    """Manage the authority of a network: who belongs to it."""


@authority_command.command("init")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--name", "network", required=True, help="The network's name.")
def authority_init(directory: Path, network: str) -> None:
    """Create an authority in a folder."""
    CertificateAuthority.init(directory.expanduser(), network).close()
    click.echo(
        f"{directory}: the authority of {network}. Keep authority.key secret; "
        "give authority.pem to nodes."
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
    help="Role of the node; `authority` for the authority peer of bft.",
)
@click.option(
    "--client", is_flag=True, help="A light client: admit two stand-ins for its proxies too."
)
def authority_issue(label: str, directory: Path, folder: Path, role: str, client: bool) -> None:
    """Admit the node of a folder under a LABEL. Creates its key there and puts the certificate
    beside it.
    """
    authority = CertificateAuthority.open(directory.expanduser())
    make_private_folder(folder.expanduser())
    for number in range(STAND_INS * client):
        admit(authority, f"{label}.standin{number}", folder.expanduser() / f"standin{number}", role)
    certificate = admit(authority, label, folder.expanduser(), role)
    authority.close()
    click.echo(f"{label} is admitted until {certificate.not_valid_after_utc:%Y-%m-%d}")


def admit(authority: CertificateAuthority, label: str, folder: Path, role: str) -> x509.Certificate:
    """Write key, certificate and root certificate into a folder."""
    make_private_folder(folder)
    tighten(folder)
    certificate = authority.issue(label, own_key(folder / "node.key").public_key())
    write_private(folder / "node.pem", pem(certificate))
    write_private(folder / "authority.pem", pem(authority.root))
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
    help="The node's folder: replace its certificate now; without it the next renewal does.",
)
def authority_allow(label: str, text: str, directory: Path, folder: Path | None) -> None:
    """Allow LABEL (or a name in hexadecimal) to use TEXT in its description, such as "role =
    doctor".

    Section [protected] of authority.toml, in the authority's folder, lists what must be allowed.
    """
    allowed = description(text)
    authority = CertificateAuthority.open(directory.expanduser())
    names = authority.allow(label, allowed)
    if folder is not None:
        certificate = authority.issue(label, own_key(folder.expanduser() / "node.key").public_key())
        write_atomically(folder.expanduser() / "node.pem", pem(certificate))
    authority.close()
    for name in names:
        click.echo(f"{name.hex()} may use: {allowed}")


@authority_command.command("revoke")
@click.argument("label")
@authority_option
@_tell
def authority_revoke(label: str, directory: Path, tell: tuple[Path, ...]) -> None:
    """Revoke LABEL (or a name in hexadecimal) with a new signed revocation list.

    The list is sent to running nodes (--tell, or those of the local network of this authority) and
    spreads from them to all others. In bft the node with the role `authority` also expels the
    revoked node from the overlay.
    """
    authority = CertificateAuthority.open(directory.expanduser())
    for name in authority.revoke(label):
        click.echo(f"{name.hex()} is revoked")
    _tell_nodes(authority, tell)
    authority.close()


@authority_command.command("tell")
@authority_option
@_tell
def authority_tell(directory: Path, tell: tuple[Path, ...]) -> None:
    """Send the newest revocation list to running nodes."""
    authority = CertificateAuthority.open(directory.expanduser())
    _tell_nodes(authority, tell)
    authority.close()


def _tell_nodes(authority: CertificateAuthority, tell: tuple[Path, ...]) -> None:
    """Send the newest list to a few nodes, which spread it."""
    newest = authority.revoked()
    near = authority.directory.resolve().parent
    folders = [each.expanduser() for each in tell] or sorted(
        each.parent for each in near.glob("*/control.sock")
    )
    count = 0
    for folder in folders:
        with contextlib.suppress(control.ControlError):
            next(
                control.ask(
                    folder, {"do": "revoked", "list": msgspec.msgpack.encode(newest).hex()}, 10.0
                )
            )
            count += 1
        if count >= TELL_MAX and not tell:
            break
    where = authority.directory / REVOKED
    if count:
        click.echo(f"list {newest.number} was sent to {count} running nodes and spreads from them")
    else:
        click.echo(
            f"no running node has the list yet: copy {where} into the folder of a node, "
            "or name one with --tell"
        )


@authority_command.command("serve")
@authority_option
@click.option("--listen", default="0.0.0.0:7069", show_default=True, metavar="HOST:PORT")
def authority_serve(directory: Path, listen: str) -> None:
    """Serve nodes: renew certificates before they expire, and distribute the revocation list.
    Ctrl-C stops it.

    Nodes find the service by `authority = "HOST:PORT"` in their node.toml, or by `implicast node
    --authority HOST:PORT`. Casts do not need it.
    """
    log_to_stderr("info")
    try:
        asyncio.run(serve_authority(directory.expanduser(), *address_of(listen)))
    except KeyboardInterrupt:
        raise SystemExit(130) from None


@authority_command.command("list")
@authority_option
@json_option
def authority_list(directory: Path, as_json: bool) -> None:
    """List the issued certificates."""
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
