"""The commands `subscribe`, `unsubscribe`, `subscriptions` and `publish`."""

import json
from pathlib import Path

import click

from implicast.net.commands import control, locations
from implicast.net.commands.options import debug_option, dir_option, json_option, node_option


@click.command("subscribe")
@click.argument("target")
@node_option
@dir_option
@json_option
@debug_option
def subscribe_command(
    target: str, name: str | None, directory: Path | None, as_json: bool, debug: bool
) -> None:
    """Subscribe a node to everything published with a description that TARGET selects.

    \b
    implicast subscribe 'jazz & (samba | tango)' --node n03
    implicast publish "jazz, samba" -m "tonight" --node n01
    implicast inbox --node n03
    """
    (answer,) = control.ask(locations.node(name, directory), {"do": "subscribe", "target": target})
    click.echo(
        json.dumps(answer)
        if as_json
        else f"subscription {answer['number']} is complete: {answer['target']}"
    )


@click.command("unsubscribe")
@click.argument("number", type=int)
@node_option
@dir_option
@json_option
@debug_option
def unsubscribe_command(
    number: int, name: str | None, directory: Path | None, as_json: bool, debug: bool
) -> None:
    """Cancel a subscription; `implicast subscriptions` lists their NUMBERs."""
    (answer,) = control.ask(
        locations.node(name, directory), {"do": "unsubscribe", "number": number}
    )
    click.echo(json.dumps(answer) if as_json else f"subscription {number} is cancelled")


@click.command("subscriptions")
@node_option
@dir_option
@json_option
@debug_option
def subscriptions_command(
    name: str | None, directory: Path | None, as_json: bool, debug: bool
) -> None:
    """List the subscriptions of a node."""
    for answer in control.ask(locations.node(name, directory), {"do": "subscriptions"}):
        click.echo(json.dumps(answer) if as_json else f"{answer['number']:4}  {answer['target']}")


@click.command("publish")
@click.argument("description")
@click.option("-m", "--message", default="", help="The message.")
@click.option("--wait", default=5.0, show_default=True, help="Seconds to wait for the receipt.")
@node_option
@dir_option
@json_option
@debug_option
def publish_command(
    description: str,
    message: str,
    wait: float,
    name: str | None,
    directory: Path | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Notify all members that subscribed to this DESCRIPTION, and print the receipt.

    Exit code 1 if a subscriber did not answer.
    """
    request = {
        "do": "publish",
        "description": description,
        "payload": message.encode().hex(),
        "wait": wait,
    }
    (receipt,) = control.ask(locations.node(name, directory), request, wait + 30)
    text = f"{receipt['notified']} of {receipt['expected']} subscribers notified"
    if receipt["complete"] and not receipt["expected"]:
        text = "no member has subscribed to this"
    click.echo(json.dumps(receipt, indent=2) if as_json else text)
    if receipt["unreachable"] or not receipt["complete"]:
        raise SystemExit(1)
