"""Figures of the thesis about filters and tags: Tables 2.1 and 4.7, and the sizes of groups they imply."""

import numpy as np
import pytest

from implicast.language.bloom import Bloom, bits_for, hashes_for
from implicast.workload.draw import Stream, span
from implicast.workload.workload import workload
from implicast.workload.zipf import Zipf, drawn, peer_ranks, thresholds

TABLE_2_1 = {
    0.1: (4, {10: 48, 100: 480, 1_000_000: 4_792_479}),
    0.01: (7, {10: 96, 100: 959, 1_000_000: 9_584_958}),
    0.001: (10, {10: 144, 100: 1_438, 1_000_000: 14_377_436}),
}
TABLE_4_7 = {
    0.0: (0.000, 0.000, 0.000, 0.000, 0.001),
    0.5: (0.003, 0.016, 0.031, 0.046, 0.061),
    1.0: (0.090, 0.432, 0.678, 0.817, 0.896),
    1.5: (0.384, 0.946, 0.997, 1.000, 1.000),
    2.0: (0.608, 0.996, 1.000, 1.000, 1.000),
}
TAGS_PER_PEER = (1, 6, 12, 18, 24)


@pytest.mark.parametrize("rate", TABLE_2_1)
def test_table_2_1_derived_bloom_filter_values(rate: float) -> None:
    hashes, bits = TABLE_2_1[rate]

    assert hashes_for(rate) == hashes
    assert {items: bits_for(items, rate) for items in bits} == bits


def test_a_filter_of_table_2_1_errs_as_often_as_it_says() -> None:
    filters = [Bloom.sized(100, 0.1) for _ in range(100)]
    for number, bloom in enumerate(filters):
        bloom.update(f"{number} holds {item}" for item in range(100))

    wrong = sum(bloom.might_hold(f"absent {item}") for bloom in filters for item in range(1_000))

    assert wrong / 100_000 == pytest.approx(0.1, rel=0.05)


def holders(skew: float, peers: int) -> list[float]:
    """The share of peers who hold the most common tag after 1, 6, 12, 18, 24 independent draws."""
    zipf = Zipf(seed=7, peers=peers, casts=0, skew=skew, tags_per_peer=24, distinct=False)
    most_common = peer_ranks(zipf, 0, peers) == 0
    return [float(most_common[:, :draws].any(axis=1).mean()) for draws in TAGS_PER_PEER]


@pytest.mark.parametrize("skew", TABLE_4_7)
def test_table_4_7_probability_of_the_most_common_tag(skew: float) -> None:
    peers = 300_000

    measured = holders(skew, peers)

    # Three standard deviations of the sample, and half of the table's last digit.
    for share, published in zip(measured, TABLE_4_7[skew], strict=True):
        noise = 3 * (published * (1 - published) / peers) ** 0.5
        assert share == pytest.approx(published, abs=0.0006 + noise)


@pytest.mark.long
@pytest.mark.parametrize("skew", TABLE_4_7)
def test_table_4_7_to_its_last_digit(skew: float) -> None:
    peers = 4_000_000
    counts = np.zeros(len(TAGS_PER_PEER))
    table, stream = thresholds(37_000, skew), Stream.of(11, "table 4.7")

    for first in range(0, peers, 400_000):
        keys = span(first, first + 400_000)
        common = np.stack(
            [drawn(stream.words(keys, index), table) == 0 for index in range(24)], axis=1
        )
        counts += [common[:, :draws].any(axis=1).sum() for draws in TAGS_PER_PEER]

    # To the last printed digit, but for shares that lie by chance on the edge between two roundings.
    for share, published in zip(counts / peers, TABLE_4_7[skew], strict=True):
        noise = 3 * (published * (1 - published) / peers) ** 0.5
        assert share == pytest.approx(published, abs=0.0005 + noise + 1e-6)


def test_the_group_of_the_most_common_tag_has_about_3346_of_4096_peers() -> None:
    sizes = []
    for seed in range(20):
        zipf = Zipf(seed=seed, peers=4_096, casts=0, distinct=False)
        sizes.append(int((peer_ranks(zipf, 0, 4_096) == 0).any(axis=1).sum()))

    assert np.mean(sizes) == pytest.approx(3_346, rel=0.005)


def test_drawing_distinct_tags_lifts_table_4_7_slightly() -> None:
    zipf = Zipf(seed=3, peers=100_000, casts=0)

    share = float((peer_ranks(zipf, 0, 100_000) == 0).any(axis=1).mean())

    assert 0.83 < share < 0.90, "0.817 for independent draws"


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.5])
def test_any_two_group_tags_select_the_same_share_of_peers(share: float) -> None:
    groups = workload("groups", seed=5, peers=4_096, casts=200, share=share)
    descriptions, targets = groups.described(), groups.targeted()

    sizes = [sum(map(target.selects, descriptions)) for target in targets[:100]]

    assert np.mean(sizes) == pytest.approx(4_096 * share, rel=0.12 if share < 0.01 else 0.04)
    assert len(set(targets)) == 200


def test_extreme_casts_go_to_a_quarter_of_the_peers() -> None:
    extreme = workload("extreme", seed=5, peers=4_096, casts=1_024)
    descriptions = extreme.described()

    assert len(set(extreme.targeted())) == 1
    assert sum(map(extreme.target(0).selects, descriptions)) == 1_024
