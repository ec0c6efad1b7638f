"""The command line: what it prints, and what bad input gets."""

import json
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from implicast.casting import centralised
from implicast.cli import main


def call(*words: str):
    return CliRunner().invoke(main, list(words))


def test_designs_lists_every_design_with_its_parameters():
    ran = call("designs")

    assert ran.exit_code == 0
    assert "centralised" in ran.output
    assert "--set routing_error=0.1" in ran.output


def test_designs_as_json():
    described = json.loads(call("designs", "broker", "--json").output)

    assert described["broker"]["parameters"]["routing_error"]["default"] == 0.1


def test_simulate_prints_one_json_object():
    ran = call("simulate", "centralised", "--peers", "64", "--casts", "8", "--json")
    outcome = json.loads(ran.output)

    assert ran.exit_code == 0
    promised = "design peers casts seed parameters measures contract messages seconds peak_mb"
    assert set(promised.split()) <= set(outcome)
    assert (
        outcome["contract"]["missing"]
        == outcome["contract"]["repeated"]
        == outcome["contract"]["uninvited"]
        == 0
    )


def test_simulate_prints_a_summary_for_people(tmp_path):
    ran = call(
        "simulate",
        "centralised",
        "--peers",
        "64",
        "--casts",
        "8",
        "--journal",
        str(tmp_path / "run"),
    )

    assert "contract kept" in ran.output
    assert (tmp_path / "run" / "sends.parquet").is_file()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("simulate", "telepathy"), "there is no design 'telepathy'; choose one of: centralised"),
        (
            ("simulate", "broker", "--set", "brokrs=3"),
            "has no parameter 'brokrs'; it takes: assurance, repairs_per_s, brokers",
        ),
        (("simulate", "broker", "--set", "routing_error=2"), "out of range"),
        (("simulate", "broker", "--set", "routing_error=lots"), "is not a number"),
        (("simulate", "broker", "--set", "routing_error"), "expected NAME=VALUE"),
        (("simulate", "centralised", "--peers", "0"), "peers=0 is out of range"),
        (("simulate", "centralised", "--workload", "nowhere"), "nowhere"),
        (("simulate", "centralised", "--skew", "-1"), "skew"),
        (("simulate", "centralised", "--network", "atlantis.graphml"), "atlantis.graphml"),
        (("simulate", "centralised", "--faults", "loss=2"), "loss"),
        (("simulate", "centralised", "--faults", "bad luck"), "not understood"),
        (("simulate", "centralised", "--churn", "parties=3"), "not understood"),
        (("simulate", "centralised", "--churn", "event=5:crash:4096"), "is no peer"),
        (
            ("simulate", "condcast", "--peers", "8", "--churn", "event=5..6:restart:8"),
            "only servers and brokers",
        ),
        (
            ("simulate", "centralised", "--peers", "8", "--churn", "event=5:crash:9999"),
            "there is no 9999",
        ),
        (
            ("simulate", "dht", "--peers", "8", "--churn", "restarts=3"),
            "restarts=3: dht has no servers or brokers",
        ),
        (("simulate", "dht", "--peers", "8", "--churn", "event=5:fail:3"), "dht has none"),
        (
            ("simulate", "dht", "--peers", "8", "--churn", "fails=2"),
            "fails=2: dht has no servers or brokers",
        ),
        (("simulate", "centralised", "--peers", "8", "--churn", "fails=2"), "the last one stays"),
        (("simulate", "centralised", "--churn", "@."), "is a directory"),
        (
            ("simulate", "dht", "--set", "churn=crashes=2"),
            "it is an option of its own: --churn crashes=2",
        ),
        (
            ("simulate", "dht", "--set", "tags_per_peer=4"),
            "it is an option of its own: --tags-per-peer 4",
        ),
        (("campaign", "telepathy"), "there is no design 'telepathy'"),
    ],
)
def test_bad_input_gets_one_clear_sentence_and_exit_code_2(words, says, tmp_path):
    journal = tmp_path / "run"
    ran = call(*words, *(("--journal", str(journal)) if words[0] == "simulate" else ()))

    assert ran.exit_code == 2, ran.output
    assert says in ran.stderr
    assert "Traceback" not in ran.output
    assert not list(tmp_path.iterdir())


def test_an_existing_journal_directory_is_refused(tmp_path):
    ran = call(
        "simulate", "centralised", "--peers", "8", "--casts", "1", "--journal", str(tmp_path)
    )

    assert ran.exit_code == 2
    assert "exists already" in ran.stderr
    assert not list(tmp_path.iterdir())


def test_a_crash_in_a_design_names_design_seed_and_replay(monkeypatch):
    def broken(self, sender, notify):
        raise AssertionError("a bug")

    monkeypatch.setitem(centralised.CentralisedClient.message_handlers, centralised.Notify, broken)
    ran = call("simulate", "centralised", "--peers", "64", "--casts", "64", "--seed", "5")

    assert ran.exit_code == 1
    assert "design centralised broke down" in ran.stderr
    assert "seed 5" in ran.stderr
    assert "replay: implicast simulate centralised --peers 64 --casts 64 --seed 5" in ran.stderr


def changed(design: str, churn: str, *words: str):
    return call(
        "simulate", design, "--peers", "16", "--workload", "groups", "--churn", churn, *words
    )


HINT = "hint: broker survives change only with --set assurance=receipts"


def test_a_design_without_receipts_promises_nothing_in_change_and_says_so():
    none = ("--set", "assurance=none")
    broken, living = (
        changed("broker", "fails=2,restarts=2", *none),
        changed("broker", "crashes=2,over_s=10"),
    )

    assert (broken.exit_code, living.exit_code) == (0, 0)
    assert "not promised, and not kept" in broken.output
    assert broken.output.count(HINT) == 1
    assert "hint" not in living.output


def test_a_design_that_broke_down_in_change_gets_the_hint_too(monkeypatch):
    def broken(self, sender, notify):
        raise AssertionError("a bug")

    monkeypatch.setitem(centralised.CentralisedClient.message_handlers, centralised.Notify, broken)

    ran = changed("centralised", "crashes=2", "--set", "assurance=none")
    assert "hint: centralised survives change only with --set assurance=receipts" in ran.stderr


def test_after_change_says_how_many_and_says_when_there_was_nothing_to_judge():
    few = changed("centralised", "event=5:crash:3", "--casts", "20")
    many = changed("centralised", "event=5:crash:3", "--casts", "120")

    assert "late  /  no member was expected" in few.output
    assert "note: no cast came after all was quiet, 35 s after the first" in few.output
    assert re.search(r"late  /  1\.0000, 0 of [1-9]\d* missing", many.output), many.output


def test_less_change_than_was_asked_for_is_said():
    ran = changed("centralised", "leaves=100,over_s=20", "--casts", "20")

    assert (
        "note: churn: 12 of 100 leaves: 0.25 of the first number of peers, and at least two"
        in ran.output
    )


@pytest.mark.parametrize("name", ["event", "deed"])
def test_scripted_events_are_typed_as_event_and_the_old_name_still_works_with_a_warning(name):
    script = f"{name}=5:crash:3,{name}=6..9:freeze:4"
    ran = call("simulate", "dht", "--peers", "12", "--casts", "12", "--churn", script)

    assert ran.exit_code == 0, ran.output
    warned = [line for line in ran.stderr.splitlines() if "`deed=`" in line]
    assert len(warned) == (name == "deed")
    assert all("`event=`" in line and "through version 0.2" in line for line in warned)


def test_a_replay_command_names_events_by_their_new_name(monkeypatch):
    def broken(self, sender, notify):
        raise AssertionError("a bug")

    monkeypatch.setitem(centralised.CentralisedClient.message_handlers, centralised.Notify, broken)
    ran = changed("centralised", "deed=5:crash:3")

    (replay,) = (line for line in ran.stderr.splitlines() if line.startswith("replay:"))
    assert "--churn event=5:crash:3" in replay


def test_a_picture_of_the_surface_is_drawn(tmp_path):
    ran = call("picture", "--peers", "32", "--casts", "2", "--out", str(tmp_path / "surface.svg"))

    assert ran.exit_code == 0, ran.output
    assert "<svg" in (tmp_path / "surface.svg").read_text()


def test_a_picture_of_an_unknown_kind_is_refused(tmp_path):
    ran = call("picture", "--out", str(tmp_path / "surface.bmp"))

    assert ran.exit_code == 2
    assert ".svg, .png, .pdf" in ran.stderr


@pytest.mark.parametrize(
    ("design", "churn"), [("dht", ""), ("spice", ""), ("spice", "joins=1,returns=1,over_s=4")]
)
def test_a_run_loads_only_what_it_uses(design, churn):
    """Pandas, SciPy and NetworkX take a second to load, and a run on the flat network uses none of them."""
    unused = ("pandas", "scipy", "networkx", "numba", "pyspark", "pyarrow.compute")
    code = (
        "import sys; from implicast.world.churn import Churn; from implicast.world.scenario import Scenario; "
        "from implicast.world.simulate import simulate; "
        f"simulate(Scenario({design!r}, peers=8, casts=4, churn=Churn.parse({churn!r}))); "
        f"print([each for each in {unused} if each in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert said.stdout.strip() == "[]"
