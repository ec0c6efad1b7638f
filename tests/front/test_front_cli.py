"""`try`, `explain`, `compare`: what a newcomer calls first."""

import json
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from implicast.cli import main

CSV = 'name,description\nann,"samba, football"\nbob,"jazz, football"\ncy,"jazz, chess"\n'


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(CSV)
    return str(path)


def call(*words):
    return CliRunner().invoke(main, words)


def test_try_says_who_was_reached_over_which_way_at_what_cost(people):
    words = (
        "try",
        "(samba | jazz) & football",
        "--peers-from",
        people,
        "--design",
        "dht",
        "--json",
    )
    found = json.loads(call(*words).stdout)

    assert sorted(found["reached"]) == ["ann", "bob"]
    assert found["expected"] == found["notified"] == 2
    assert found["messages"] == len(found["way"]) > 0
    assert found["way"][0]["by"] == "ann"


def test_try_in_words(people):
    said = call("try", "jazz", "--peers-from", people, "--by", "ann").stdout

    assert "reached       2: bob, cy" in said or "reached       2: cy, bob" in said


def test_explain_without_anybody_gives_the_normal_form():
    found = json.loads(call("explain", "gpu & !(beta & eu)", "--json").stdout)

    assert found["normal_form"] == "gpu & !beta | gpu & !eu"
    assert found["words"] == "gpu, but not beta; or gpu, but not eu"
    assert found["expected"] is None


def test_explain_warns_of_nobody_and_of_everybody(people):
    nobody = json.loads(call("explain", "tango", "--peers-from", people, "--json").stdout)
    everybody = json.loads(
        call("explain", "football | chess", "--peers-from", people, "--json").stdout
    )

    common = "no peer registers 'tango'; common here: football, jazz, samba"
    assert nobody["warnings"] == ["selects none of 3", common]
    assert everybody["warnings"] == ["selects every peer, all 3"]


def test_explain_measures_a_cast_among_the_peers_of_a_workload():
    words = (
        "explain",
        "tag08267",
        "--workload",
        "zipf",
        "--peers",
        "64",
        "--design",
        "centralised",
        "--json",
    )
    found = json.loads(call(*words).stdout)

    assert found["population"] == 64
    assert found["expected"] > 0
    assert found["messages"] >= found["expected"]


def test_explain_draws_the_way(people, tmp_path):
    path = tmp_path / "way.svg"
    assert call("explain", "jazz", "--peers-from", people, "--draw", str(path)).exit_code == 0

    root = ElementTree.parse(path).getroot()
    assert sum(each.get("class") == "member" for each in root.iter()) == 2


def test_compare_shows_one_row_a_design_and_holds_them_to_requirements():
    words = (
        "compare",
        "centralised",
        "dht",
        "--peers",
        "64",
        "--casts",
        "8",
        "--set",
        "assurance=none",
    )
    good = call(*words, "--json", "--require", "missing == 0", "--require", "RTH < 50")
    bad = call(*words, "--require", "TOUT_G < 0.9")

    assert [each["design"] for each in json.loads(good.stdout)["designs"]] == ["centralised", "dht"]
    assert good.exit_code == 0
    assert bad.exit_code == 1
    assert "centralised: required TOUT_G < 0.9, but it is" in bad.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("try", "jazz"), "--peers-from"),
        (("try", "jazz", "--peers-from", "nowhere.csv"), "nowhere.csv cannot be read"),
        (("explain", "jazz &"), "column"),
        (("explain", "jazz", "--draw", "x.svg"), "--draw needs peers"),
        (("explain", "jazz", "--workload", "zipf", "--peers-from", "x.csv"), "leave one out"),
        (("compare", "pigeons"), "no design 'pigeons'"),
        (("compare", "dht", "--set", "k=1"), "none of the designs has a parameter 'k'"),
        (("compare", "dht", "--require", "fast"), "a measure, a sign and a number"),
        (
            ("compare", "dht", "--peers", "16", "--casts", "2", "--require", "RHT < 5"),
            "did you mean RTH?",
        ),
        (("compare", "dht", "--set", "copies=2", "--set", "copies=3"), "is given already"),
        (("compare", "dht", "broker", "dht"), "dht is named twice"),
        (("compare", "--workload", "zipff"), "no workload 'zipff'"),
        (("explain", "jazz", "--peers-from", "x.csv", "--draw", "x.pdf"), "should end in .svg"),
        (("simulate", "dht", "--peers", "200000", "--require", "RHT < 5"), "did you mean RTH?"),
        (("lab", "run", "peer"), "did you mean peers?"),
        (("lab", "run", "peers", "--require", "RHT < 5"), "did you mean RTH?"),
        (("lab", "published", "peers", "--page", "nowhere/x.md"), "no directory nowhere"),
    ],
)
def test_a_wrong_call_gets_one_sentence_and_exit_code_2(words, said):
    result = call(*words)

    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) <= 3
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("who,what\nann,jazz\n", "no column 'name'"),
        ("name,description\nann,samba, football\n", "line 2: more values than columns"),
        ("name,description\nann,jazz\nann,chess\n", "line 3: the name ann stands there twice"),
        ("name,description\nann,jazz & samba\n", "line 2"),
        ("name,description\n,jazz\n", "line 2: expected a name"),
        ("name,description\n", "names no peer"),
    ],
)
def test_a_file_of_peers_that_is_wrong_says_where(tmp_path, text, said):
    path = tmp_path / "people.csv"
    path.write_text(text)

    result = call("try", "jazz", "--peers-from", str(path))

    assert result.exit_code == 2
    assert said in result.stderr


def test_peers_in_toml_may_have_attributes(tmp_path):
    path = tmp_path / "people.toml"
    said = '[peers]\nann = "fruit, price = 8.45"\nbob = "fruit, price = 20"\n'
    path.write_text('schema = "price: 0..1000 by 0.01"\n' + said)

    words = ("try", "price < 10", "--peers-from", str(path), "--design", "condcast", "--json")

    assert json.loads(call(*words).stdout)["reached"] == ["ann"]
