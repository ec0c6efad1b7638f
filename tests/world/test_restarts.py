"""Members that crash and come back at their address, on a design made for it; and each way of breaking the promises."""

from dataclasses import replace

import pytest
from postbox import MANNERS, POSTBOX

from implicast.peer.errors import ScenarioError
from implicast.world.churn import Churn
from implicast.world.faults import Faults
from implicast.world.journal import read
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate


@pytest.fixture(autouse=True)
def postbox(monkeypatch):
    monkeypatch.setattr("implicast.world.scenario.design", lambda name: POSTBOX)


def run(script, casts=80, journal=None, **more):
    churn = Churn.parse(script)
    parts = {"peers": 12, "workload": "groups", "interval_ms": 500, "payload_bytes": 16} | more
    return simulate(Scenario("postbox", casts=casts, churn=churn, **parts), journal)


@pytest.mark.parametrize("disk", ["kept", "old", "empty", "torn", "lost"])
def test_a_member_comes_back_with_its_disk_an_old_one_or_none(disk, tmp_path):
    script = f"event=2:describe:3,event=4..9:return:3:{disk},event=12..15:return:3:{disk}"
    found = run(script, journal=tmp_path / "run")

    assert found.contract_held, found.described()
    assert found.change.returns == 2
    assert found.change.after.expected
    incarnations = [
        row for row in read(tmp_path / "run", "incarnations").to_pylist() if row["returned"]
    ]
    assert [row["back_us"] > row["from_us"] for row in incarnations] == [True, True]
    assert len({row["peer"] for row in incarnations}) == (2 if disk == "empty" else 1)
    assert len(read(tmp_path / "run", "peers")) == 13 + 2 * (disk == "empty")


@pytest.mark.parametrize(("disk", "kept"), [("torn", 1), ("lost", 0)])
def test_a_faulty_disk_has_lost_what_was_written_last(disk, kept, tmp_path):
    """Two descriptions in the last second: a torn disk holds the first, a lost one neither."""
    script = f"event=3.3:describe:3:one,event=3.7:describe:3:two,event=4..9:return:3:{disk}"
    run(script, journal=tmp_path / "run")

    rows = [row for row in read(tmp_path / "run", "registrations").to_pylist() if row["peer"] == 3]
    restored = rows[-1]["tags"]
    assert restored == (["one"] if kept else rows[0]["tags"])
    [back] = [row for row in read(tmp_path / "run", "incarnations").to_pylist() if row["returned"]]
    assert back["copied_us"] < back["from_us"] - 5_000_000, "it may be told again what it forgot"


def test_a_member_that_is_back_and_registered_is_owed_what_it_fits():
    """One who is never told anything after its return is missed once it is registered, not before."""
    found = run("event=4..9:return:3", casts=300)

    assert found.contract.clean
    alone = Churn.parse("event=4..9:return:3")
    dead = replace(alone, events=Churn.parse("event=4:crash:3").events)
    expected = simulate(
        Scenario("postbox", peers=12, casts=300, workload="groups", interval_ms=500, churn=dead)
    )
    assert found.contract.expected > expected.contract.expected


MOST = "0+1+2+3+4+5+6+7"
OFTEN = ",".join(f"event={at}.1..{at}.2:return:{MOST}" for at in range(3, 20))
OLDER = f"event=3..4:return:{MOST},event=6..7:return:{MOST},event=9..10:return:{MOST}:old,event=11:describe:{MOST}"


@pytest.mark.parametrize(
    ("manner", "script", "faults", "wrong"),
    [
        ("forgets_heard", OFTEN, "duplicate=0.5", "repeated"),
        ("answers_falsely", OLDER, "", "missing"),
        ("garbles", "event=5:withdraw:3", "", "altered"),
    ],
)
def test_what_a_bad_design_does_to_those_who_return_is_seen(
    manner, script, faults, wrong, monkeypatch
):
    assert not getattr(run(script, 200, faults=Faults.parse(faults)).contract, wrong)
    monkeypatch.setattr(MANNERS, manner, True)
    found = run(script, 200, faults=Faults.parse(faults))

    assert getattr(found.contract, wrong), found.contract
    assert not found.contract_held


def test_whoever_boasts_misreports(monkeypatch):
    monkeypatch.setattr(MANNERS, "boasts", 1)

    assert run("event=5:withdraw:3").contract.misreported == 80


def test_returns_are_drawn_with_every_disk():
    drawn = Churn.parse("returns=30,disk=any,over_s=300").script(1, 40, 0)

    assert {event.disk for event in drawn} == {"kept", "old", "empty"}
    assert {
        event.disk for event in Churn.parse("returns=30,disk=old,over_s=300").script(1, 40, 0)
    } == {"old"}


def test_a_crash_while_away_is_for_good():
    found = run("event=4..9:return:3,event=6:crash:3")

    assert found.contract_held
    assert found.change.returns == 0


def test_where_members_do_not_come_back_that_is_said(monkeypatch):
    kind = replace(POSTBOX, member=None)
    monkeypatch.setattr("implicast.world.scenario.design", lambda name: kind)

    with pytest.raises(ScenarioError, match="do not come back"):
        run("event=4..9:return:3")


def test_a_burst_is_cast_and_judged():
    found = run("event=5..7:burst~200:3")

    assert found.contract_held
    assert found.contract.expected > 400


def test_one_that_falls_casts_until_it_crashes(tmp_path):
    found = run("event=5..7:fall~200:3", journal=tmp_path / "run")

    assert found.contract_held
    crashed = [
        row for row in read(tmp_path / "run", "incarnations").to_pylist() if row["end"] == "crashed"
    ]
    assert [row["peer"] for row in crashed] == [3]
    said = [
        row["time_us"]
        for row in read(tmp_path / "run", "casts").to_pylist()
        if row["publisher"] == 3
    ]
    assert len(said) > 350
    assert crashed[0]["to_us"] - 10_000 < max(said) < crashed[0]["to_us"]
