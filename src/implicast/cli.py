"""The command `implicast`.

Errors are for people: one sentence on standard error that says what was wrong, where, and what
would be right. Exit code 2 for a wrong call, 1 for a failure, 130 when interrupted; a traceback
only with `--debug`.
"""

import gc
import sys
import warnings
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from implicast.language.errors import ImplicastError, LocalError, OldNameWarning


class Later(NamedTuple):
    """A command that is loaded when it is called."""

    where: str
    about: str


EXTRAS = {
    **dict.fromkeys(
        ("markdown_it", "python_multipart", "multipart", "starlette", "uvicorn"), "web"
    ),
    **dict.fromkeys(("prometheus_client", "rich", "textual"), "net"),
    **dict.fromkeys(
        (
            "pyspark",
            "pandas",
            "matplotlib",
            "jinja2",
            "bibtexparser",
            "packaging",
            "psutil",
            "deltalake",
        ),
        "lab",
    ),
}
"""By library, what brings it."""
_NET = "implicast.net.commands.cli"
_SUBSCRIBE = "implicast.net.commands.subscribe_cli"
_DOCTOR = "implicast.net.commands.doctor"
GROUPS: dict[str, dict[str, Later]] = {
    "First steps": {
        "try": Later(
            "implicast.front.cli:try_command", "Cast to an expression among the peers of a file."
        ),
        "explain": Later(
            "implicast.front.cli:explain_command",
            "What an expression means, and what a cast costs.",
        ),
        "compare": Later(
            "implicast.front.cli:compare_command", "All designs on one workload, in one table."
        ),
        "designs": Later(
            "implicast.simulate_cli:designs_command", "The designs and their parameters."
        ),
    },
    "A network": {
        "local": Later(
            "implicast.net.commands.local_cli:local_command", "Start a network on this machine."
        ),
        "node": Later("implicast.net.commands.node_cli:node_command", "Run one node."),
        "client": Later(
            "implicast.net.commands.client_cli:client_command",
            "Fetch what arrived for a light client.",
        ),
        "authority": Later(
            "implicast.net.commands.authority_cli:authority_command",
            "Certificates and members of a network.",
        ),
        "cast": Later(f"{_NET}:cast_command", "Send a message to every member a target describes."),
        "inbox": Later(f"{_NET}:inbox_command", "Messages that arrived at a node."),
        "subscribe": Later(
            f"{_SUBSCRIBE}:subscribe_command",
            "Subscribe to publications (publish/subscribe designs).",
        ),
        "unsubscribe": Later(f"{_SUBSCRIBE}:unsubscribe_command", "Cancel a subscription."),
        "subscriptions": Later(f"{_SUBSCRIBE}:subscriptions_command", "Subscriptions of a node."),
        "publish": Later(
            f"{_SUBSCRIBE}:publish_command", "Notify the subscribers of things of a description."
        ),
        "describe": Later(f"{_NET}:describe_command", "Register what a node is."),
        "receipts": Later(f"{_NET}:receipts_command", "Receipts of a node's casts."),
        "status": Later(f"{_NET}:status_command", "State of a node."),
        "peers": Later(f"{_NET}:peers_command", "Connections of a node."),
        "watch": Later(
            f"{_NET}:watch_command",
            "Nodes, casts and queues in the terminal.",
        ),
        "doctor": Later(f"{_DOCTOR}:doctor_command", "Check nodes: disk, certificate, neighbours."),
        "backup": Later(f"{_DOCTOR}:backup_command", "Write a node's folder into one file."),
        "restore": Later(f"{_DOCTOR}:restore_command", "Restore a node's folder from a backup."),
        "leave": Later(f"{_NET}:leave_command", "Let a node leave its network."),
        "journal": Later(
            "implicast.lab.live_cli:journal_command",
            "Gather the journals of nodes for the laboratory.",
        ),
        "replay-node": Later(
            "implicast.net.commands.node_cli:replay_node_command", "Replay a recorded node."
        ),
    },
    "This command": {
        "completion": Later(
            "implicast.completion_cli:completion_command",
            "What makes a shell complete `implicast`.",
        ),
    },
    "The laboratory": {
        "simulate": Later(
            "implicast.simulate_cli:simulate_command", "One run: contract, load, fairness, latency."
        ),
        "parity": Later(
            "implicast.scenario_cli:parity_command", "One scenario in the world and over sockets."
        ),
        "campaign": Later(
            "implicast.campaign_cli:campaign_command", "Random scenarios of change, judged."
        ),
        "lab": Later("implicast.lab.cli:lab", "Experiments on Spark, with reports."),
        "picture": Later("implicast.lab.picture:picture", "Draw a surface and a registry on it."),
    },
}
LATER = {name: each for group in GROUPS.values() for name, each in group.items()}


class Front(click.Group):
    """The group of all commands; turns errors of ours and of the operating system into sentences."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(LATER)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in LATER:
            return None
        module, attribute = LATER[name].where.split(":")
        gc.disable()  # what is loaded stays: looking for cycles in it took a tenth of the time
        try:
            command: click.Command = getattr(import_module(module), attribute)
        finally:
            gc.enable()
        return command

    def resolve_command(
        self, ctx: click.Context, words: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if words and words[0] not in LATER:
            near = get_close_matches(words[0], LATER, 1)
            ctx.fail(
                f"there is no command {words[0]!r}" + (f"; did you mean {near[0]}?" if near else "")
            )
        return super().resolve_command(ctx, words)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands with what they are for, without loading any of them; options as always."""
        found = [
            CompletionItem(name, help=each.about)
            for name, each in LATER.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Without loading any of them."""
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, each.about) for name, each in group.items()])

    def invoke(self, ctx: click.Context) -> Any:
        debug = ctx.params.get("debug") or "--debug" in sys.argv
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                return super().invoke(ctx)
        except ImplicastError as error:
            if debug:
                raise
            click.echo(f"implicast: {error}", err=True)
            ctx.exit(2 if isinstance(error, LocalError) else 1)
        except KeyboardInterrupt:
            click.echo("implicast: interrupted", err=True)
            ctx.exit(130)
        except BrokenPipeError:
            raise
        except OSError as error:
            if debug:
                raise
            where = f"{error.filename}: " if error.filename else ""
            click.echo(f"implicast: {where}{error.strerror or error}", err=True)
            ctx.exit(1)
        except ModuleNotFoundError as error:
            if debug or (error.name or "").startswith("implicast"):
                raise
            extra = EXTRAS.get((error.name or "").partition(".")[0])
            advice = f"; install it with: pip install 'implicast[{extra}]'" if extra else ""
            click.echo(
                f"implicast: this needs {error.name}, which is not installed{advice}", err=True
            )
            ctx.exit(1)


_show_other_warning = warnings.showwarning


def _show_warning(
    message: Warning | str, category: type[Warning], *place: Any, **named: Any
) -> None:
    """An old name in an input is one sentence for the user; other warnings are Python's affair."""
    if issubclass(category, OldNameWarning):
        click.echo(f"implicast: warning: {message}", err=True)
    else:
        _show_other_warning(message, category, *place, **named)


@click.group(
    cls=Front, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(package_name="implicast", prog_name="implicast")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def main(debug: bool) -> None:
    """Address a message to a description, not to a list.

    \b
    implicast try "(samba | jazz) & football" --peers-from people.csv
    implicast local 20                   a network on this machine; then, in another terminal:
    implicast cast "gpu & eu" -m hello   every member it describes gets it once; prints a receipt
    implicast compare                    all designs on one workload, one table
    """


if __name__ == "__main__":
    main()
