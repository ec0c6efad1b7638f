"""The command `client`: a light client that is awake for a moment, or as long as one looks."""

import asyncio
import json
from pathlib import Path

import click

from implicast.net.client import Client
from implicast.net.options import debug_option, json_option
from implicast.net.proxy import Held

LOOK_S = 2.0


@click.command("client")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--network", required=True, help="The network's name.")
@click.option("--proxy", "proxies", multiple=True, required=True, metavar="HOST:PORT", help="A proxy; give two.")
@click.option("--describe", "said", help="What the client is from now on.")
@click.option("--follow", is_flag=True, help="Go on as messages arrive.")
@json_option
@debug_option
def client_command(
    directory: Path, network: str, proxies: tuple[str, ...], said: str | None, follow: bool, as_json: bool, debug: bool
) -> None:
    """Fetch what has arrived for a light client while it slept: each message once, whichever proxy has it.

    \b
    implicast authority issue ann --client --authority lab-authority --node ann
    implicast client ann --network lab --proxy a:7070 --proxy b:7070 --describe "gpu, eu"
    """

    async def awake() -> None:
        async with Client.open(directory, proxies, network) as client:
            if said is not None:
                count = await client.describe(said)
                click.echo(f"{count} of {len(proxies)} proxies stand in", err=True)
            while True:
                for held, payload in await client.fetch():
                    click.echo(_shown(held, payload, as_json))
                if not follow:
                    return
                await asyncio.sleep(LOOK_S)

    try:
        asyncio.run(awake())
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _shown(held: Held, payload: bytes, as_json: bool) -> str:
    text = payload.decode(errors="replace")
    if as_json:
        cast = f"{held.cast.publisher.hex()}.{held.cast.life}.{held.cast.serial}"
        return json.dumps({"cast": cast, "text": text, "payload": payload.hex(), "arrived_us": held.arrived_us})
    shown = "".join(each if each.isprintable() else "�" for each in text)
    return f"from {held.cast.publisher.hex()[:8]}  {shown}"
