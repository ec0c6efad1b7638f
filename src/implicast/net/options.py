"""Options that several commands of the live network share."""

from pathlib import Path

import click

node_option = click.option(
    "--node", "name", metavar="NAME", help="Which node; the first of the local network by default."
)
dir_option = click.option(
    "--dir", "directory", type=click.Path(path_type=Path), help="The folder of the network or node."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, a line each where there are many.")
authority_option = click.option(
    "--authority", "directory", type=click.Path(path_type=Path), required=True, help="The authority's folder."
)
debug_option = click.option("--debug", is_flag=True, help="Show the traceback of an error.")
