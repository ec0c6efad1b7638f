"""The command `client`: a light client that goes online once, or stays online with --follow."""

import asyncio
import json
from pathlib import Path

import click

from implicast.net.application.events import Receipt
from implicast.net.application.proxy import HeldNotice
from implicast.net.client import Client
from implicast.net.commands.cli import receipt_text
from implicast.net.commands.options import debug_option, json_option
from implicast.net.storage.blobs import BLOB_MAX
from implicast.peer.errors import ParameterError

FETCH_EVERY_S = 2.0


@click.command("client")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--network", required=True, help="The network's name.")
@click.option(
    "--proxy",
    "proxies",
    multiple=True,
    required=True,
    metavar="HOST:PORT",
    help="A proxy; give two.",
)
@click.option("--describe", "describe_as", help="The client's new description.")
@click.option("--cast", "target", help="Target of a cast that a proxy makes; prints the receipt.")
@click.option("-m", "--message", help="The message to cast.")
@click.option("--file", "path", type=click.Path(path_type=Path), help="A file to cast.")
@click.option("--follow", is_flag=True, help="Continue as messages arrive.")
@json_option
@debug_option
def client_command(
    directory: Path,
    network: str,
    proxies: tuple[str, ...],
    describe_as: str | None,
    target: str | None,
    message: str | None,
    path: Path | None,
    follow: bool,
    as_json: bool,
    debug: bool,
) -> None:
    """Fetch the messages that arrived while a light client was offline, each once.

    \b
    implicast authority issue ann --client --authority lab-authority --node ann
    implicast client ann --network lab --proxy a:7070 --proxy b:7070 --describe "gpu, eu"
    implicast client ann --network lab --proxy a:7070 --proxy b:7070 --cast "gpu & eu" -m "hello"
    """
    cast_payload = _payload(target, message, path)

    async def awake() -> None:
        async with Client.open(directory, proxies, network) as client:
            if describe_as is not None:
                count = await client.describe(describe_as)
                click.echo(f"{count} of {len(proxies)} proxies run a stand-in", err=True)
            for receipt in await client.retry_pending_casts():
                click.echo(f"cast earlier: {_receipt(receipt, as_json)}", err=True)
            if target is not None:
                click.echo(
                    _receipt(
                        await client.cast(
                            target, cast_payload, path.name if path is not None else ""
                        ),
                        as_json,
                    )
                )
            while True:
                for held, payload in await client.fetch():
                    click.echo(_shown(held, payload, as_json, client.file(held)))
                if not follow:
                    return
                await asyncio.sleep(FETCH_EVERY_S)

    try:
        asyncio.run(awake())
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _payload(target: str | None, message: str | None, path: Path | None) -> bytes:
    if target is None and (message is not None or path is not None):
        raise ParameterError("-m and --file give the payload of a cast: add a target with --cast")
    if message is not None and path is not None:
        raise ParameterError("-m and --file are two messages: give one")
    if path is None:
        return (message or "").encode()
    try:
        if path.stat().st_size > BLOB_MAX:
            raise ParameterError(
                f"{path} has more than the {BLOB_MAX:,} bytes that a cast can carry"
            )
        return path.read_bytes()
    except OSError as error:
        raise ParameterError(f"{path} cannot be read: {error.strerror or error}") from None


def _receipt(receipt: Receipt, as_json: bool) -> str:
    return json.dumps(receipt.described()) if as_json else receipt_text(receipt.described())


def _shown(held: HeldNotice, payload: bytes, as_json: bool, file: Path | None) -> str:
    text = (
        payload.decode(errors="replace")
        if file is None
        else f"a file of {len(payload):,} bytes: {file}"
    )
    if as_json:
        cast = f"{held.cast.publisher.hex()}.{held.cast.incarnation}.{held.cast.serial}"
        small = {"text": text, "payload": payload.hex()} if file is None else {"file": str(file)}
        return json.dumps({"cast": cast, **small, "arrived_us": held.arrived_us})
    shown = "".join(each if each.isprintable() else "�" for each in text)
    return f"from {held.cast.publisher.hex()[:8]}  {shown}"
