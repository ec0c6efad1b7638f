"""Scripts of change: written as text, drawn from a seed, spelled out event by event."""

import re
from collections import Counter
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from implicast.peer.errors import ParameterError, ScenarioError
from implicast.world.churn import Churn
from implicast.world.scripted_events import KINDS, ScriptedEvent

AT_LEAST = "0.25 of the first number of peers, and at least two, are always there"

MUCH = Churn.parse(
    "joins=20,leaves=10,crashes=9,group=3,restarts=2,freezes=5,slow=3,cuts=4,flaps=4,splits=2,drift=0.01,over_s=300,"
    "returns=4,disk=any,bursts=2,falls=3,anew=12,oneway=2,deaf=2,jumps=6,jumps_back=true"
)
COUNTS = st.integers(0, 9)


@given(
    joins=COUNTS, leaves=COUNTS, freezes=COUNTS, low=st.floats(0.001, 5), drift=st.floats(0, 0.5)
)
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
    for event in MUCH.script(seed, 40, 2):
        if event.kind == "join":
            assert min(event.who) >= 42
            here |= set(event.who)
        elif event.kind == "restart":
            assert set(event.who) <= {40, 41}
        else:
            assert set(event.who) <= (here | {40, 41}) - gone, event
        if event.kind in ("leave", "crash", "fall"):
            gone |= set(event.who)
    assert len(here - gone) >= 10


def test_as_many_events_as_asked_for():
    found = Counter(event.kind for event in MUCH.script(1, 40, 2))

    said = {kind: found.pop(kind) for kind in ("register", "describe", "withdraw")}
    assert sum(said.values()) == 12
    assert all(said.values())
    back = sum(event.detail == "back" for event in MUCH.script(1, 40, 2))
    assert back
    once = {"return": 4 + back, "oneway": 2, "deaf": 2, "jump": 6}
    once |= {"burst": 2, "fall": 3, "restart": 2, "split": 2}
    assert found == Counter(join=20, leave=10, crash=3, freeze=5, slow=3, cut=4, flap=4, **once)
    assert all(len(event.who) == 3 for event in MUCH.script(1, 40, 2) if event.kind == "crash")


def test_rates_are_per_minute():
    counts = [len(Churn(join_rate=6, over_s=600).script(seed, 10, 0)) for seed in range(50)]

    assert 50 < sum(counts) / len(counts) < 70


def test_one_kind_does_not_move_the_moments_of_another():
    def moments(churn):
        return [event.from_s for event in churn.script(3, 40, 0) if event.kind == "leave"]

    assert moments(Churn(leaves=5)) == moments(Churn(leaves=5, freezes=7, joins=3))


@pytest.mark.parametrize(
    "text",
    [
        "5:crash:7+8",
        "9..20:freeze:3",
        "12..30:cut:3>4",
        "5..60:slow~300:9",
        "1..2:flap~0.5:3>4",
        "0:join:70",
        "4..9:return:3",
        "4..9:return:3:old",
        "4..9:return:3+4:empty",
        "5..6:burst~300:2",
        "5..6:fall~300:2",
        "5:register:3",
        "5:describe:3",
        "5:describe:3:jazz+samba",
        "6:withdraw:3",
    ],
)
def test_an_event_reads_back_as_the_same_event(text):
    assert ScriptedEvent.parse(text).text() == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("parties=3", "is not understood"),
        ("joins=many", "is not a number"),
        ("joins=-1", "out of range"),
        ("freeze_s=3", "not a range"),
        ("freeze_s=3..1", "the lower first"),
        ("away_s=0..1", "from 0.001 on"),
        ("event=crash", "TIME:KIND:WHO"),
        ("event=5:dance:1", "there is no event 'dance'"),
        ("event=5:crash:x", "addresses"),
        ("event=5..6:crash:1", "at one time"),
        ("event=5:freeze:1", "FROM..TO"),
        ("event=1..2:cut:3", "two addresses"),
        ("event=1..2:slow:3", "amount"),
        ("event=nan:crash:3", "not a number"),
        ("event=1..2:cut:3>3", "two different addresses"),
        ("event=5:crash:7+8+7", "each address once"),
        ("crashes=2.7", "not whole"),
        ("crashes=1,joins=2,crashes=3", "crashes is given again by crashes=3"),
        ("crashes=3,group=2", "no multiple of group=2; say 2 or 4"),
        ("crashes=1,group=9", "no multiple of group=9; say 9"),
        ("@nowhere.txt", "there is no script nowhere.txt"),
        ("@", "is a directory"),
    ],
)
def test_nonsense_gets_a_sentence(text, says):
    with pytest.raises(ParameterError, match=says):
        Churn.parse(text)


def test_a_script_may_be_a_file(tmp_path):
    (tmp_path / "script").write_text(
        "# a bad day\njoins=3\nevent=5:crash:7, event=6:leave:8  # both\n"
    )

    assert Churn.parse(f"@{tmp_path / 'script'}") == Churn.parse(
        "joins=3,event=5:crash:7,event=6:leave:8"
    )


def test_a_file_that_is_no_text_gets_a_sentence(tmp_path):
    (tmp_path / "latin").write_bytes(b"joins=3  # caf\xe9\n")

    with pytest.raises(ParameterError, match=r"latin is no text in UTF-8: byte 14"):
        Churn.parse(f"@{tmp_path / 'latin'}")
    with pytest.raises(ParameterError, match="is a directory; it takes a file"):
        Churn.parse(f"@{tmp_path}")
    with pytest.raises(ParameterError, match="there is no script"):
        Churn.parse(f"@{tmp_path / 'latin' / 'below'}")
    with pytest.raises(ParameterError, match="cannot be read"):
        Churn.parse("@" + "x" * 5000)


def test_a_file_may_begin_with_a_mark_of_its_encoding(tmp_path):
    (tmp_path / "script").write_bytes(b"\xef\xbb\xbfjoins=3")

    assert Churn.parse(f"@{tmp_path / 'script'}") == Churn(joins=3)


@given(crashes=COUNTS, group=st.integers(1, 4), seed=st.integers(0, 99))
def test_crashes_that_fill_no_group_are_written_as_the_whole_groups_they_are(crashes, group, seed):
    churn = Churn(crashes=crashes, group=group)

    assert Churn.parse(churn.text()).script(seed, 40, 0) == churn.script(seed, 40, 0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("event=5:crash:9999", "there is no 9999; addresses are 0 to 11"),
        ("event=5..9:freeze:3+777", "there is no 777"),
        ("event=5..9:cut:3>12", "there is no 12"),
        ("joins=3,event=50:crash:12", "there is no 12"),
        ("event=5:join:12,event=9:join:12", "12 joins already by 5:join:12"),
        ("event=5:join:400000", "400000 is too far beyond"),
        ("event=9:join:12,event=5:crash:12", "12 joins only by 9:join:12; it takes a later time"),
        ("guests=2,event=5:leave:14", "there is no 14"),
    ],
)
def test_events_about_strangers_are_refused(text, says):
    with pytest.raises(ScenarioError, match=says):
        Churn.parse(text).refuse_strangers(10, 2)


@given(st.integers(0, 1000), st.data())
def test_a_script_from_which_events_were_left_out_names_no_strangers(seed, data):
    spelled = MUCH.spelled(seed, 40, 2)
    kept = data.draw(st.lists(st.sampled_from(spelled.events), unique=True))
    spelled.refuse_strangers(40, 2)

    Churn(guests=spelled.guests, events=tuple(kept)).refuse_strangers(40, 2)


def test_what_could_not_be_drawn_is_said_with_the_reason():
    said = Churn.parse("leaves=100,crashes=50,group=2,restarts=3,fails=2").shortfall(1, 16, 0)
    drawn = Counter(
        event.kind
        for event in Churn(leaves=100, crashes=50, group=2).script(1, 16, 0)
        for _ in event.who
    )

    assert Counter(said) == Counter(
        [
            f"churn: {drawn['leave']} of 100 leaves: {AT_LEAST}",
            f"churn: {drawn['crash']} of 50 crashes: {AT_LEAST}",
            "churn: 0 of 3 restarts: there are no servers or brokers",
            "churn: 0 of 2 fails: the last server or broker stays",
        ]
    )
    assert drawn["leave"] + drawn["crash"] == 12
    assert MUCH.shortfall(1, 40, 2) == []


def test_every_kind_of_event_has_an_example_above():
    assert set(KINDS) == {event.kind for event in MUCH.script(1, 40, 2)} | {"fail"}
    assert any(event.kind == "fail" for event in Churn(fails=2).script(1, 40, 3))


def test_an_outage_stops_a_share_at_once_and_starts_it_together():
    script = Churn.parse("outages=1,outage_share=0.5..0.5,disk=any").script(4, 40, 0)

    assert {event.kind for event in script} == {"return"}
    assert len({(event.from_s, event.to_s) for event in script}) == 1
    assert sum(len(event.who) for event in script) == 20
    assert {event.disk for event in script} == {"kept", "old", "empty"}


def test_a_rolling_restart_takes_every_member_in_turn():
    script = Churn.parse("rolls=1,roll_s=2..2,away_s=1..1").script(4, 20, 0)

    assert sorted(who for event in script for who in event.who) == list(range(20))
    times = [event.from_s for event in script]
    assert [round(b - a, 3) for a, b in pairwise(times)] == [2.0] * 19


def test_a_flash_crowd_multiplies_the_members_within_ten_seconds():
    script = Churn.parse("flash=1,flash_factor=3..3").script(4, 20, 1)

    assert [event.who for event in script] == [(address,) for address in range(21, 61)]
    assert script[-1].from_s - script[0].from_s < 10


def test_a_mass_leave_is_one_event_of_a_share():
    [event] = Churn.parse("mass_leaves=1,leave_share=0.5..0.5").script(4, 20, 0)

    assert (event.kind, len(event.who)) == ("leave", 10)


def test_a_clock_that_goes_back_belongs_to_a_restart():
    script = Churn.parse("jumps=20,jumps_back=true").script(4, 60, 0)
    back = [event for event in script if event.detail == "back"]

    assert 0 < len(back) < 20
    returns = {(event.from_s, event.who) for event in script if event.kind == "return"}
    assert {(event.from_s, event.who) for event in back} == returns


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("event=5:jump:3", "an amount ~ belongs to"),
        ("event=5:jump~3:3:ahead", "a jump takes no word but back"),
        ("event=5..9:return:3:wet", "a disk is one of kept, old, empty, torn, lost"),
        ("event=5:deaf:3", "a deaf happens from one time to another"),
        ("outages=1,outage_share=0.5..2", "outage_share"),
        ("flash=1,flash_factor=0.5..2", "flash_factor"),
        ("jumps_back=perhaps", "it takes true or false"),
    ],
)
def test_wrong_words_of_the_rarer_events_are_refused(text, says):
    with pytest.raises(ParameterError, match=says):
        Churn.parse(text)


PAGE = Path(__file__).parents[2] / "docs" / "reference" / "change.md"


def test_every_event_on_the_reference_page_is_understood():
    events = re.findall(r"event=(\S+)", PAGE.read_text())

    assert {ScriptedEvent.parse(text).kind for text in events} == set(KINDS)


def test_every_name_is_on_the_reference_page():
    page = PAGE.read_text()

    for each in fields(Churn):
        assert f"`{each.name}`" in page or each.name == "events", each.name
