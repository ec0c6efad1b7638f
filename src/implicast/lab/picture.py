"""`implicast picture`: the surface of ICE as tiles by owner, a cast's way over it, and a registry's
notches.
"""

from pathlib import Path

import click

from implicast.lab.surface_picture import draw
from implicast.language.parameters import Setting
from implicast.peer.errors import ParameterError
from implicast.world.scenario import Scenario

SUFFIXES = (".svg", ".png", ".pdf")


@click.command("picture")
@click.option("--peers", default=256, show_default=True, help="Peers on the surface.")
@click.option("--casts", default=16, show_default=True, help="Casts made; one of them is drawn.")
@click.option("--cast", default=0, show_default=True, help="Which cast is drawn, counted from 0.")
@click.option("--seed", default=1, show_default=True)
@click.option(
    "--storage-limit",
    default=4,
    show_default=True,
    help="Records a peer keeps before a registry spreads.",
)
@click.option(
    "--out",
    default="surface.svg",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where to write it: .svg, .png or .pdf.",
)
def picture(peers: int, casts: int, cast: int, seed: int, storage_limit: int, out: Path) -> None:
    """Draw a run of spice-unloaded in two dimensions."""
    if out.suffix not in SUFFIXES:
        raise ParameterError(f"--out {out}: a picture is written as {', '.join(SUFFIXES)}")
    if not 0 <= cast < casts:
        raise ParameterError(
            f"--cast {cast} is out of range; with --casts {casts} it takes 0 to {casts - 1}"
        )
    parameters: dict[str, Setting] = {
        "dimensions": 2,
        "storage_limit": storage_limit,
        "frequency_limit": 0,
        "landmarks": 0,
    }
    scenario = Scenario(
        "spice-unloaded", peers, casts, seed, parameters=parameters, workload="extreme"
    )
    click.echo(f"picture: {draw(scenario, out, cast)}")
