"""What was published beside what was measured: three columns, and verdicts that can be lost."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from scipy.sparse.csgraph import minimum_spanning_tree

from implicast.lab.cli import lab
from implicast.lab.errors import ExperimentError
from implicast.lab.experiment import experiment, experiments, read
from implicast.lab.inputs import Material
from implicast.lab.plan import plan
from implicast.lab.published import Evidence, Published, judge
from implicast.trials.backbone import backbone_trial
from implicast.world.network import build

SEEDS = {1: 1.9, 2: 2.0, 3: 2.1}
"""Mean 2, standard error 0.058."""


def seen(scale: str = "paper", **series: dict[int, float]) -> Evidence:
    return Evidence({(name, "64", "RTH"): seeds for name, seeds in series.items()}, ["64"], scale)


def said(**fields: object) -> Published:
    return Published("a sentence", "spice", "RTH", at="64", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        ({"value": 2.0}, "met"),
        ({"value": 2.1}, "met"),  # rounded by .05, and two standard errors of .058
        ({"value": 2.3, "better": "lower"}, "bettered"),
        ({"value": 2.3, "better": "higher"}, "refuted"),
        ({"value": 2.3}, "refuted"),
        ({"value": 2.3, "rounding": 0.5}, "met"),
        ({"at_most": 2.1}, "met"),
        ({"at_most": 2.05}, "refuted"),  # the mean is below, but one seed is not
        ({"at_least": 1.9}, "met"),
    ],
)
def test_a_number_is_met_within_its_rounding_and_two_standard_errors(
    claim: dict[str, object], verdict: str
) -> None:
    found = judge(said(**claim), seen(spice=SEEDS))

    assert found.verdict == verdict
    assert found.measured == "2 ± 0.058"


def test_published_is_what_the_paper_prints_and_never_a_bound_in_its_place() -> None:
    found = judge(said(value=14.0, better="lower"), seen(spice={1: 4.0, 2: 4.1}))

    assert (found.published, found.verdict) == ("14", "bettered")
    assert found.tolerance.startswith("± 0.5 rounded")


def test_against_another_series_the_comparison_is_paired_by_seed() -> None:
    one, other = {1: 1.0, 2: 10.0}, {1: 2.0, 2: 20.0}

    found = judge(said(value=0.5, against="dht"), seen(spice=one, dht=other))

    assert (found.verdict, found.measured) == ("met", "0.5")
    assert found.published == "0.5 times dht"


def test_a_trend_must_hold_for_every_seed() -> None:
    values = {("spice", "1", "RTH"): {1: 1.0, 2: 5.0}, ("spice", "9", "RTH"): {1: 4.0, 2: 4.9}}
    claim = Published("grows", "spice", "RTH", trend="rises")

    found = judge(claim, Evidence(values, ["1", "9"]))

    assert found.verdict == "refuted"
    assert "1 of 2 seeds" in found.tolerance


def test_a_smaller_run_is_shown_without_a_verdict() -> None:
    both = seen("small", spice=SEEDS, dht=SEEDS)
    assert judge(said(value=1.0, against="dht"), both).verdict == "not run; small runs agree"
    assert judge(said(value=9.0, against="dht"), both).verdict == "not run; small runs differ"
    assert judge(said(value=2.0), both).verdict == "not run; small runs have values"
    assert judge(said(value=2.0), seen()).verdict == "not run"


def test_a_claim_states_one_thing_at_a_point_that_there_is() -> None:
    text = (
        files := Path(__file__).parents[2] / "src/implicast/lab/experiments/routing-error.toml"
    ).read_text("utf-8")
    assert read(files.stem, text).published

    for more, words in (
        ("value = 2.0\nat_most = 3.0", "must state one of"),
        ('trend = "rises"\nvalue = 1.0', "must state one of"),
        ('value = 2.0\nat = "0.77"', "points are"),
    ):
        claim = f'[[published]]\nsays = "x"\ndesign = "broker"\nmeasure = "RTH"\n{more}\n'
        with pytest.raises(ExperimentError, match=words):
            read("own", f"{text}\n{claim}")


def test_every_claim_speaks_of_a_series_that_is_run() -> None:
    for name, made in experiments().items():
        series = {each.series for each in plan(made, "paper")}
        for claim in made.published:
            assert claim.design in series, (name, claim.says)
            assert not claim.against or claim.against in series, (name, claim.says)


FIGURES = {
    "thesis": [
        "5.3",
        "5.4",
        "5.5",
        "6.2",
        "6.3",
        "6.4",
        "6.5",
        "6.6",
        "6.7",
        "7.4",
        "7.5",
        "7.6",
        "7.7",
        "7.8",
        "7.9",
        "7.10",
        "8.5",
        "8.6",
        "8.7",
        "8.8",
        "8.9",
        "9.3",
        "9.4",
        "9.5",
        "9.6",
        "9.7",
        "9.8",
    ],
    "condcast": ["Figure 9", "Figure 11", "Figure 12", "Figure 13"],
    "publish/subscribe": ["3.3", "4.1", "4.2", "Figure 6", "Figure 7"],
    "Byzantine-tolerant": [
        "first figure",
        "second figure",
        "third figure",
        "formula 1",
        "formula 3",
    ],
}
"""Every figure and numbered claim that the page promises, by paper."""


@pytest.mark.parametrize("paper", FIGURES)
def test_every_figure_of_a_paper_has_a_row(paper: str) -> None:
    mine = [made for made in experiments().values() if paper.lower() in made.source.lower()]
    told = {claim.figure.partition("(")[0] for made in mine for claim in made.published}

    assert not set(FIGURES[paper]) - told


def test_the_command_makes_the_rows_of_an_experiment_and_the_page(tmp_path: Path) -> None:
    page = tmp_path / "published.md"

    for _ in range(2):  # what is there is not made again
        told = CliRunner().invoke(lab, ["published", "pubsub-example", "--page", str(page)])
        assert told.exit_code == 0, told.output

    kept = json.loads(page.with_suffix(".json").read_text())
    assert kept["pubsub-example"]["paper"]["values"]["pubsub-example"]["1"]["hops_hashed"] == {
        "1": 6.0
    }
    row = next(line for line in page.read_text().splitlines() if "| Figure 6 |" in line)
    assert "six hops in the example" in row
    assert "**met**" in row
    assert "implicast lab published brokers --scale paper" in page.read_text()


def test_what_needs_a_corpus_or_maps_is_left_out_where_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("IMPLICAST_DATA", raising=False)
    monkeypatch.chdir(tmp_path)

    told = CliRunner().invoke(lab, ["published", "case-study", "maps", "--page", "published.md"])

    assert told.exit_code == 0, told.output
    assert "left out: case-study needs bibliographies and key phrases" in told.output
    assert "left out: maps needs the map rocketfuel/router" in told.output
    assert not (tmp_path / "published.json").exists()


def test_a_corpus_that_was_made_before_is_read_without_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept" / "workloads" / "corpus-4096-15000-1"
    _write(kept / "registrations", {"peer": [0, 1, 2], "tags": [["a", "b"], ["a", "c"], ["a"]]})
    _write(
        kept / "casts",
        {"cast": [0, 1, 2, 3], "publisher": [0, 0, 1, 2], "target": ["a", "a", "a & b", "c"]},
    )
    (kept / "workload.json").write_text("{}")
    monkeypatch.setattr("implicast.lab.inputs.started", None)  # starting Spark would fail
    page = tmp_path / "published.md"

    told = CliRunner().invoke(
        lab,
        [
            "published",
            "corpus",
            "--runs",
            "1",
            "--page",
            str(page),
            "--workloads",
            str(tmp_path / "kept"),
            "--data",
            str(tmp_path),
        ],
    )

    assert told.exit_code == 0, told.output
    values = json.loads(page.with_suffix(".json").read_text())["corpus"]["paper"]["values"][
        "corpus"
    ]["4096"]
    assert values["distinct_share"] == {"1": 0.75}
    assert values["one_tag"]["1"] == pytest.approx(2 / 3, abs=1e-5)
    assert values["two_tags"]["1"] == pytest.approx(1 / 3, abs=1e-5)


def _write(directory: Path, columns: dict[str, list[object]]) -> None:
    directory.mkdir(parents=True)
    pq.write_table(pa.table(columns), directory / "part-0.parquet")


def test_a_map_is_found_among_the_data(tmp_path: Path) -> None:
    (tmp_path / "topology-zoo").mkdir()
    (tmp_path / "topology-zoo" / "Kdl.graphml").write_text("")
    run = next(
        each
        for each in plan(experiment("maps"), "paper")
        if each.point == "topology-zoo/Kdl.graphml"
    )

    assert Material(tmp_path).scenario(run).network == str(
        tmp_path / "topology-zoo" / "Kdl.graphml"
    )
    assert Material().scenario(run).network == "topology-zoo/Kdl.graphml"


@pytest.mark.parametrize(("network", "seed"), [("national", 1), ("laboratory", 2)])
def test_the_backbone_is_a_minimum_spanning_tree(network: str, seed: int) -> None:
    found = backbone_trial(peers=2048, network=network, seed=seed)
    built = build(network, hosts=2048, infrastructure=21, seed=seed)
    hosts = range(2048, 2048 + 21)
    trips = [
        [0 if a == b else built.latency_us(a, b) + built.latency_us(b, a) for b in hosts]
        for a in hosts
    ]

    assert (found["brokers"], found["links"], found["cycles"]) == (21, 20, 0)
    assert found["round_trips_ms"] == pytest.approx(
        float(minimum_spanning_tree(trips).sum()) / 1000
    )
