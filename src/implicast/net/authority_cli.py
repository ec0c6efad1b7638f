"""The commands of an authority: who belongs to its network."""

import json
from pathlib import Path

import click

from implicast.net.authority import CertificateAuthority
from implicast.net.enrolment import enrol
from implicast.net.identity import own_key, pem
from implicast.net.options import authority_option, json_option


@click.group("authority")
def authority_command() -> None:
    """The authority of a network: who belongs to it."""


@authority_command.command("init")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--name", "network", required=True, help="The network's name.")
def authority_init(directory: Path, network: str) -> None:
    """Make a new authority in a folder."""
    CertificateAuthority.init(directory.expanduser(), network).close()
    click.echo(f"{directory}: the authority of {network}. Keep authority.key to yourself; give authority.pem to nodes.")


@authority_command.command("issue")
@click.argument("label")
@authority_option
@click.option("--node", "folder", type=click.Path(path_type=Path), required=True, help="The node's folder.")
@click.option("--role", default="member", show_default=True, help="`authority` for the node that plays it in bft.")
def authority_issue(label: str, directory: Path, folder: Path, role: str) -> None:
    """Admit the node of a folder under a LABEL: its key is made there, its certificate is put beside it."""
    authority = CertificateAuthority.open(directory.expanduser())
    certificate = authority.issue(label, own_key(folder.expanduser() / "node.key").public_key())
    (folder.expanduser() / "node.pem").write_bytes(pem(certificate))
    (folder.expanduser() / "authority.pem").write_bytes(pem(authority.root))
    enrol(directory.expanduser(), folder.expanduser(), role)
    authority.close()
    click.echo(f"{label} is admitted until {certificate.not_valid_after_utc:%Y-%m-%d}")


@authority_command.command("revoke")
@click.argument("label")
@authority_option
def authority_revoke(label: str, directory: Path) -> None:
    """All certificates of LABEL count no more."""
    authority = CertificateAuthority.open(directory.expanduser())
    for name in authority.revoke(label):
        click.echo(f"{name.hex()} is revoked")
    authority.close()


@authority_command.command("list")
@authority_option
@json_option
def authority_list(directory: Path, as_json: bool) -> None:
    """Who was admitted."""
    authority = CertificateAuthority.open(directory.expanduser())
    for each in authority.admitted():
        row = {"serial": each.serial, "label": each.label, "name": each.name.hex(), "until": each.until,
               "revoked": each.revoked}  # fmt: skip
        click.echo(json.dumps(row) if as_json else f"{each.serial:5}  {each.label:20} {row['name']}  until "
                   f"{each.until[:10]}{'  revoked' * each.revoked}")  # fmt: skip
    authority.close()
