"""Scripts of change: written as text, drawn from a seed, spelled out deed by deed."""

import re
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from implicast.peer.errors import ParameterError
from implicast.world.churn import Churn
from implicast.world.deeds import KINDS, Deed

MUCH = Churn.parse(
    "joins=20,leaves=10,crashes=9,group=3,restarts=2,freezes=5,slow=3,cuts=4,flaps=4,splits=2,drift=0.01,over_s=300"
)
COUNTS = st.integers(0, 9)


@given(joins=COUNTS, leaves=COUNTS, freezes=COUNTS, low=st.floats(0.001, 5), drift=st.floats(0, 0.5))
def test_text_reads_back_as_the_same_value(joins, leaves, freezes, low, drift):
    churn = Churn(joins=joins, leaves=leaves, freezes=freezes, freeze_s=(low, low + 1), drift=drift)

    assert Churn.parse(churn.text()) == churn


@given(st.integers(0, 1000))
def test_a_spelled_script_is_the_same_script(seed):
    spelled = MUCH.spelled(seed, 40, 2)

    assert Churn.parse(spelled.text()) == spelled
    assert spelled.script(seed + 1, 40, 2) == MUCH.script(seed, 40, 2)
    assert spelled.newcomers(0, 40, 2) == MUCH.newcomers(seed, 40, 2) == 20


@given(st.integers(0, 1000))
def test_whoever_is_drawn_is_there_by_the_script(seed):
    here, gone = set(range(40)), set()
    for deed in MUCH.script(seed, 40, 2):
        if deed.kind == "join":
            assert min(deed.who) >= 42
            here |= set(deed.who)
        elif deed.kind == "restart":
            assert set(deed.who) <= {40, 41}
        else:
            assert set(deed.who) <= (here | {40, 41}) - gone, deed
        if deed.kind in ("leave", "crash"):
            gone |= set(deed.who)
    assert len(here - gone) >= 10


def test_as_many_deeds_as_asked_for():
    found = Counter(deed.kind for deed in MUCH.script(1, 40, 2))

    assert found == Counter(join=20, leave=10, crash=3, restart=2, freeze=5, slow=3, cut=4, flap=4, split=2)
    assert all(len(deed.who) == 3 for deed in MUCH.script(1, 40, 2) if deed.kind == "crash")


def test_rates_are_per_minute():
    counts = [len(Churn(join_rate=6, over_s=600).script(seed, 10, 0)) for seed in range(50)]

    assert 50 < sum(counts) / len(counts) < 70


def test_one_kind_does_not_move_the_moments_of_another():
    def moments(churn):
        return [deed.from_s for deed in churn.script(3, 40, 0) if deed.kind == "leave"]

    assert moments(Churn(leaves=5)) == moments(Churn(leaves=5, freezes=7, joins=3))


@pytest.mark.parametrize(
    "text", ["5:crash:7+8", "9..20:freeze:3", "12..30:cut:3>4", "5..60:slow~300:9", "1..2:flap~0.5:3>4", "0:join:70"]
)
def test_a_deed_reads_back_as_the_same_deed(text):
    assert Deed.parse(text).text() == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("parties=3", "is not understood"),
        ("joins=many", "is not a number"),
        ("joins=-1", "out of range"),
        ("freeze_s=3", "not a range"),
        ("freeze_s=3..1", "the lower first"),
        ("deed=crash", "TIME:KIND:WHO"),
        ("deed=5:dance:1", "there is no deed 'dance'"),
        ("deed=5:crash:x", "addresses"),
        ("deed=5..6:crash:1", "at one time"),
        ("deed=5:freeze:1", "FROM..TO"),
        ("deed=1..2:cut:3", "two addresses"),
        ("deed=1..2:slow:3", "amount"),
        ("deed=nan:crash:3", "not a number"),
        ("@nowhere.txt", "there is no script"),
    ],
)
def test_nonsense_gets_a_sentence(text, says):
    with pytest.raises(ParameterError, match=says):
        Churn.parse(text)


def test_a_script_may_be_a_file(tmp_path):
    (tmp_path / "script").write_text("# a bad day\njoins=3\ndeed=5:crash:7, deed=6:leave:8  # both\n")

    assert Churn.parse(f"@{tmp_path / 'script'}") == Churn.parse("joins=3,deed=5:crash:7,deed=6:leave:8")


def test_every_kind_of_deed_has_an_example_above():
    assert set(KINDS) == {deed.kind for deed in MUCH.script(1, 40, 2)} | {"fail"}
    assert any(deed.kind == "fail" for deed in Churn(fails=2).script(1, 40, 3))


PAGE = Path(__file__).parents[2] / "docs" / "reference" / "change.md"


def test_every_deed_on_the_reference_page_is_understood():
    deeds = re.findall(r"deed=(\S+)", PAGE.read_text())

    assert {Deed.parse(text).kind for text in deeds} == set(KINDS)


def test_every_name_is_on_the_reference_page():
    page = PAGE.read_text()

    for each in fields(Churn):
        assert f"`{each.name}`" in page or each.name == "deeds", each.name
