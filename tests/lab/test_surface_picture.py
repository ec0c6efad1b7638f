"""The picture shows what the run did."""

from pathlib import Path

import pytest

from implicast.lab.surface_picture import WAYS, draw, observe
from implicast.peer.errors import ScenarioError
from implicast.world.scenario import Scenario

SCENARIO = Scenario(
    "spice-unloaded",
    peers=96,
    casts=4,
    seed=2,
    workload="extreme",
    parameters={
        "dimensions": 2,
        "storage_limit": 4,
        "landmarks": 0,
        "frequency_limit": 0,
        "assurance": "none",
    },
)


def test_the_tiles_cover_the_surface_and_the_registry_is_all_there() -> None:
    scene = observe(SCENARIO)

    assert sum(tile.area[2] * tile.area[3] for tile in scene.tiles) == pytest.approx(1)
    kept = sum(count for tile in scene.tiles for count, _ in tile.shares.values())
    told = {receiver for _, receiver, kind in scene.hops if kind == "Notify"}
    assert kept == 24
    assert 0 <= kept - len(told) <= 2, (
        "all members are notified by message but those that hold themselves"
    )
    assert len(scene.containers) > 1
    assert {kind for _, _, kind in scene.hops} >= set(WAYS), (
        "every arrow of the legend is in the picture"
    )


def test_where_a_tag_is_replicated_the_registry_shown_is_the_one_that_the_cast_found() -> None:
    replicated = {**SCENARIO.parameters, "frequency_limit": 0.1}
    scene = observe(Scenario("spice-unloaded", 96, 4, 2, replicated, "extreme"))

    walkers = {sender for sender, _, kind in scene.hops if kind == "Notify"}
    holders = {
        tile.owner for tile in scene.tiles if any(count for count, _ in tile.shares.values())
    }
    assert walkers == holders


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_a_picture_is_written(tmp_path: Path, ending: str) -> None:
    pytest.importorskip("matplotlib")

    written = draw(SCENARIO, tmp_path / f"surface.{ending}")

    assert written.stat().st_size > 10_000


def test_three_dimensions_cannot_be_drawn() -> None:
    with pytest.raises(ScenarioError, match="two dimensions"):
        observe(Scenario("spice", peers=16, casts=1))
