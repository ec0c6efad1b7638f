"""Pictures from a real run, for reports of experiments in which SPICE takes part: surface, a cast's
way, a registry.
"""

import tempfile
from pathlib import Path

from implicast.casting.designs import designs
from implicast.lab.experiment import Experiment
from implicast.lab.report.figures import Drawn
from implicast.lab.storage import Location
from implicast.language.parameters import Setting
from implicast.world.scenario import Scenario

DESIGN = "spice-unloaded"
LIMITS: dict[str, Setting] = {
    "dimensions": 2,
    "storage_limit": 4,
    "frequency_limit": 0,
    "landmarks": 0,
}
SCENARIO = Scenario(DESIGN, peers=256, casts=1, workload="extreme", parameters=LIMITS)
CAPTION = (
    "The surface of 256 peers in two dimensions: tiles by owner, a cast to a quarter of all on its way to the registry "
    "of its tag and through it, and that registry spread over its notches, of which each peer keeps at most four "
    "records. Drawn from the peers and the journal of a run."
)


def pictures(made: Experiment, out: Location) -> list[Drawn]:
    """The surface, when SPICE or ICE alone is tried in the experiment; drawn once and kept in
    `out/pictures`.
    """
    if not _on_the_surface(made) or DESIGN not in designs():
        return []
    path = out / "pictures" / "surface.svg"
    if not path.is_file():
        from implicast.lab.surface_picture import draw

        with tempfile.TemporaryDirectory(prefix="implicast-picture-") as folder:
            draw(SCENARIO, Path(folder) / "surface.svg")
            path.take(Path(folder) / "surface.svg")
    return [Drawn("surface", CAPTION, CAPTION, path.read().decode("utf-8"))]


def _on_the_surface(made: Experiment) -> bool:
    if made.trial:
        return made.trial.startswith("implicast.trials.ice")
    return bool({DESIGN, "spice"} & {*made.chosen()})
