"""Command line options that several commands share."""

from pathlib import Path

import click


class WebPort(click.ParamType[int]):
    """A port number; without a value 0, for any free port."""

    name = "port"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        if value == "-":
            return 0
        if not str(value).isdecimal() or int(value) >= 1 << 16:
            self.fail(
                f"{value!r} is not a port: write a number below 65536, or nothing", param, ctx
            )
        return int(value)


def _nodes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of the network's nodes, for shell completion."""
    from implicast.net.commands import locations

    base = ctx.params.get("directory") or locations.local()
    return sorted(each.parent.name for each in base.glob(f"{incomplete}*/node.toml"))


node_option = click.option(
    "--node",
    "name",
    metavar="NAME",
    help="Which node; the first of the local network by default.",
    shell_complete=_nodes,
)
dir_option = click.option(
    "--dir", "directory", type=click.Path(path_type=Path), help="The folder of the network or node."
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON; one line per item if there are several."
)
authority_option = click.option(
    "--authority",
    "directory",
    type=click.Path(path_type=Path),
    required=True,
    help="The authority's folder.",
)
web_option = click.option(
    "--web",
    "web",
    metavar="[PORT]",
    is_flag=False,
    flag_value="-",
    type=WebPort(),
    help="Serve a web page on this machine, at PORT or at a free port; prints its address.",
)
debug_option = click.option("--debug", is_flag=True, help="Show the traceback of an error.")
