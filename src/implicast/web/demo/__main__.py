"""The command behind `make live-demo`."""

import asyncio
import signal
import tempfile
import time
import webbrowser
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from implicast.language.rules import Rule
from implicast.language.tags import written
from implicast.net.commands.local import InProcessNodes, LocalNetwork, is_running
from implicast.web.demo import bibliographies, conversations, folder_of, researchers
from implicast.web.desk import Desk
from implicast.web.drafts import Words
from implicast.web.letter import named
from implicast.web.letters import cast_id
from implicast.web.pages import PageError, Pages

LETTER_S = 20.0
"""How long the demonstration waits for one of its own letters."""


@click.command()
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    help="Where; a folder for temporary files else.",
)
@click.option("--design", default="spice-unloaded", show_default=True)
@click.option(
    "--port", default=7171, show_default=True, help="Of the first page; 0: ports that are free."
)
@click.option("--plain", is_flag=True, help="Without TLS.")
@click.option("--browser/--no-browser", default=True, help="Open the page.")
def main(directory: Path | None, design: str, port: int, plain: bool, browser: bool) -> None:
    """Twenty researchers on this machine, with a page each; the first one is opened."""
    where = directory or Path(tempfile.gettempdir()) / "implicast-live-demo"
    if is_running(where):
        raise PageError(
            f"a demonstration is running in {where}: stop it first, or name another folder with --dir"
        )
    asyncio.run(_run(where, design, port, plain, browser))


async def _run(where: Path, design: str, port: int, plain: bool, browser: bool) -> None:
    people = researchers()
    pages = Pages(people, port, {folder_of(reader): reader for reader in bibliographies()})
    local = LocalNetwork(where, design, people, plain=plain, page=pages)
    local.create_folders()
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    tasks = InProcessNodes(local)
    try:
        click.echo(f"{len(people)} researchers are meeting ...")
        await tasks.start_all()
        await converse({name: pages.desk(name) for name in tasks.nodes if name in pages})
        _welcome(pages, browser)
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        click.echo("stopped")
    finally:
        await tasks.stop()


def _welcome(pages: Pages, browser: bool) -> None:
    first = folder_of(next(iter(bibliographies())))
    address = pages.address(first)
    click.echo(
        f"\n{pages.welcome()}\n\nThe first page is Ana Duarte's. Write to `overlay & privacy`, or read what has "
        "come. Ctrl-C stops it."
    )
    if browser:
        webbrowser.open(address)


def _has_own_tag(desk: Desk) -> bool:
    return named(desk.name) in (desk.node.description.tags if desk.node.description else ())


async def converse(desks: dict[str, Desk]) -> None:
    """Let the twenty say what they have said."""
    for desk in desks.values():
        await _until(partial(_has_own_tag, desk))
    said = conversations()
    for letter in said["letter"]:
        uid = await _say(
            desks[folder_of(letter["by"])], letter["target"], letter["subject"], letter["text"]
        )
        first = desks[folder_of(letter["by"])]
        for answer in letter.get("answer", ()):
            alone = answer["to"] == "author"
            target = written(named(first.name)) if alone else letter["target"]
            await _say(
                desks[folder_of(answer["by"])],
                target,
                f"Re: {letter['subject']}",
                answer["text"],
                uid,
                alone,
            )
    for reader, rules in said["rules"].items():
        desk = desks[folder_of(reader)]
        for rule in rules:
            stated = desk.thesaurus.state(Rule(*rule))
            desk.say_rules(f"{written(stated.tag)} | {written(stated.other)}")


async def _say(
    desk: Desk, target: str, subject: str, text: str, thread: str = "", alone: bool = False
) -> str:
    """Written, sent without a time to take it back, and waited for."""
    words = Words(target, subject, text.strip(), thread, alone)
    uid = desk.send(desk.drafts.begin(words, desk.now_us()), words, delay_s=0.0)
    await _until(
        lambda: (row := desk.outgoing.get(uid)) is not None and (row["cast_id"] or row["error"])
    )
    row = desk.outgoing.get(uid)
    if row is not None and row["cast_id"]:
        await _until(lambda: desk.node.receipt(cast_id(row["cast_id"])).complete)
    return uid


async def _until(done: Callable[[], object]) -> None:
    deadline = time.monotonic() + LETTER_S
    while not done() and time.monotonic() < deadline:
        await asyncio.sleep(0.05)


if __name__ == "__main__":
    main()
