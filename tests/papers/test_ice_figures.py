"""Figures of thesis section 7.2: hops from point to point, multipoint messages, landmarks."""

from math import pi

import pytest

from implicast.trials.ice import multipoint, point_to_point
from implicast.trials.ice_landmarks import landmarks_trial


@pytest.mark.parametrize("dimensions", [2, 3, 4])
@pytest.mark.parametrize("peers", [64, 1024, 4096])
def test_hops_grow_as_d_times_the_dth_root_of_n(peers: int, dimensions: int) -> None:
    """Fig. 7.4(b): point-to-point routing takes about d n^(1/d) / 4 hops."""
    row = point_to_point(peers, dimensions, routes=400)

    assert row["hops_mean"] == pytest.approx(row["hops_expected"], rel=0.25)


@pytest.mark.long
@pytest.mark.parametrize("dimensions", [2, 3, 4])
@pytest.mark.parametrize("peers", [64, 256, 1024, 4096, 16384])
def test_hops_follow_the_formula_on_every_size(peers: int, dimensions: int) -> None:
    means = [point_to_point(peers, dimensions, routes=2000, seed=seed) for seed in (1, 2, 3)]

    assert sum(row["hops_mean"] for row in means) / 3 == pytest.approx(
        means[0]["hops_expected"], rel=0.25
    )


@pytest.mark.parametrize("factor", [pi / 3, pi / 2])
@pytest.mark.parametrize("dimensions", [2, 3, 4])
def test_a_large_branch_factor_needs_about_a_thousand_messages_whatever_the_dimension(
    dimensions: int, factor: float
) -> None:
    """Fig. 7.6(a): "approximately 1000", twice the 500 peers in the destination, with a message for each cluster."""
    alone, clustered = (
        multipoint(each, dimensions, routes=3, merge=False, destination="points")
        for each in (0.0, factor)
    )

    assert clustered["messages_mean"] == pytest.approx(1000, rel=0.25)
    assert clustered["messages_mean"] < alone["messages_mean"] / 2


@pytest.mark.parametrize("destination", ["points", "extents"])
@pytest.mark.parametrize("dimensions", [2, 3, 4])
def test_merged_branches_need_fewer_than_the_thousand(dimensions: int, destination: str) -> None:
    """Clusters with the same next hop in one message; so do destinations whose parts lie side by side."""
    seed_form, merged = (
        multipoint(pi / 3, dimensions, routes=4, merge=merge, destination=destination)
        for merge in (False, True)
    )

    assert merged["messages_mean"] < 0.95 * seed_form["messages_mean"]
    assert merged["messages_mean"] < 1000


@pytest.mark.parametrize("dimensions", [2, 3, 4])
def test_a_larger_branch_factor_needs_fewer_messages_and_more_hops(dimensions: int) -> None:
    """Fig. 7.6: every extent alone, pi/3, and all together."""
    alone, third, chain = (
        multipoint(factor, dimensions, routes=4, merge=False) for factor in (0.0, pi / 3, pi)
    )

    assert alone["messages_mean"] > third["messages_mean"] > chain["messages_mean"]
    assert alone["hops_mean"] <= third["hops_mean"] < chain["hops_mean"]
    assert third["hops_mean"] < 1.25 * alone["hops_mean"]


def test_higher_dimensions_need_more_messages_and_fewer_hops_when_nothing_is_clustered() -> None:
    rows = [multipoint(0.0, dimensions, routes=4, merge=False) for dimensions in (2, 3, 4)]

    assert rows[0]["messages_mean"] < rows[1]["messages_mean"] < rows[2]["messages_mean"]
    assert rows[0]["hops_mean"] > rows[1]["hops_mean"] > rows[2]["hops_mean"]


def test_landmarks_bring_the_overlay_closer_to_the_network() -> None:
    """Fig. 7.7: packets per route fall as landmarks grow; 64 save at least a quarter."""
    none, some, many = (landmarks_trial(each, routes=300)["packets_mean"] for each in (0, 8, 64))

    assert none > some > many
    assert many <= 0.75 * none


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_sixty_four_landmarks_save_a_quarter_of_the_packets(seed: int) -> None:
    none, many = (landmarks_trial(each, seed=seed)["packets_mean"] for each in (0, 64))

    assert many <= 0.75 * none
