"""Pictures from a real run, for reports of experiments in which SPICE takes part: surface, a cast's way, a registry."""

from pathlib import Path

from implicast.casting.designs import designs
from implicast.lab.experiment import Experiment
from implicast.lab.report.figures import Drawn
from implicast.world.scenario import Scenario

DESIGN = "spice-unloaded"
SCENARIO = Scenario(DESIGN, peers=128, casts=4, workload="extreme", parameters={"dimensions": 2, "storage_limit": 8})
CAPTION = (
    "The surface of 128 peers in two dimensions: tiles by owner, the messages of one cast to a quarter of all, and "
    "the registry of its tag spread over its notches. Drawn from the peers and the journal of a run."
)


def pictures(made: Experiment, out: Path) -> list[Drawn]:
    """The surface, when SPICE takes part in the experiment; drawn once and kept in `out/pictures`."""
    if made.trial or DESIGN not in made.chosen() or DESIGN not in designs():
        return []
    path = out / "pictures" / "surface.svg"
    if not path.is_file():
        from implicast.lab.surface_picture import draw

        path.parent.mkdir(parents=True, exist_ok=True)
        draw(SCENARIO, path)
    return [Drawn("surface", CAPTION, CAPTION, path.read_text("utf-8"))]
