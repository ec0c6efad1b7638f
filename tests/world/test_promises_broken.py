"""Designs that break one promise, run by the commands that a user types."""

import json

import pytest
from click.testing import CliRunner

from implicast.casting.condcast.arc_coverage import ArcCoverage
from implicast.casting.replicated_lists.member import RingMember
from implicast.cli import main
from implicast.peer.events import Refused, Registered, Settled
from implicast.trials import campaign
from implicast.world.application import Application
from implicast.world.fault_injector import FaultInjector

LONG = ("--casts", "140", "--interval-ms", "1000", "--churn", "event=1..2:freeze:3")
RUN = ("--peers", "16", "--casts", "20", "--seed", "3", "--workload", "groups", "--json")


def ran(*words: str, code: int = 1) -> dict:
    result = CliRunner().invoke(main, [*words])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def settled(monkeypatch: pytest.MonkeyPatch, *more) -> None:
    """The publisher of a `dht` is told these events before each receipt."""
    real = RingMember._settled

    def tell(self, cast, counts):
        for event in more:
            self.host.deliver(event(cast, counts))
        real(self, cast, counts)

    monkeypatch.setattr(RingMember, "_settled", tell)


def test_a_quiet_run_keeps_all_promises():
    assert ran("simulate", "dht", *RUN, code=0)["unkept"] == []


@pytest.mark.parametrize(
    ("event", "broken"),
    [
        (lambda cast, counts: Settled(cast, counts.notified + 1, open=1), "false receipts before"),
        (lambda cast, counts: Settled(cast, counts.notified + 1), "false receipts before"),
        (lambda cast, counts: Settled(cast, 0, unreachable=1), "false receipts before the last"),
        (lambda cast, counts: Settled(cast, 0, uncertain=1), "receipts that admit a loss"),
        (
            lambda cast, counts: Settled(cast, 0, open=1, silent=("no such member",)),
            "name members that were not selected",
        ),
        (lambda cast, counts: Refused("cast", "it is late"), "casts refused although"),
    ],
)
def test_a_false_statement_before_a_true_receipt_is_found(event, broken, monkeypatch):
    settled(monkeypatch, event)

    found = ran("simulate", "dht", *RUN)

    assert not found["contract"]["misreported"]
    assert any(broken in one for one in found["unkept"]), found["unkept"]


def test_a_publisher_without_receipts_is_found(monkeypatch):
    monkeypatch.setattr(RingMember, "_settled", lambda self, cast, counts: None)
    found = ran("simulate", "dht", *RUN, *LONG)

    assert ["no final receipt in time" in one for one in found["unkept"]] == [True]


def test_a_registration_that_is_never_confirmed_is_found(monkeypatch):
    real = Application.on_event

    def deaf(self, address, event):
        if not (isinstance(event, Registered) and address == 5):
            real(self, address, event)

    monkeypatch.setattr(Application, "on_event", deaf)
    found = ran("simulate", "dht", *RUN, *LONG, "--register", "messages")

    assert any("registrations were not complete in time" in one for one in found["unkept"])


def test_a_relapse_after_calm_is_found(monkeypatch):
    real = FaultInjector.violations

    def later(self):
        return ["it is open"] if 80e6 < self.world.now_us < 120e6 else real(self)

    monkeypatch.setattr(FaultInjector, "violations", later)
    found = ran("simulate", "dht", *RUN, *LONG)

    assert any("relapses after calm" in one for one in found["unkept"])


def test_arcs_counted_as_members_are_found(monkeypatch):
    real = ArcCoverage._answer

    def arcs(self, task):
        if task.requester is None:
            task.report.unreachable = 40
        real(self, task)

    monkeypatch.setattr(ArcCoverage, "_answer", arcs)

    assert ran("simulate", "condcast", *RUN)["contract"]["misreported"] == 20


def test_a_scenario_is_drawn_again_only_if_too_few_were_alive(monkeypatch):
    monkeypatch.setattr(campaign, "ALIVE", 1_000)
    words = ("campaign", "centralised", "--scenarios", "1", "--seed", "4")
    again = ran(*words, "--json", code=0)
    shown = CliRunner().invoke(main, words).stdout
    monkeypatch.undo()
    once = ran(*words, "--json", code=0)

    assert (again["drawn_again"], once["drawn_again"]) == (campaign.REDRAWS, 0)
    assert again["messages"] != once["messages"]
    assert f"; {campaign.REDRAWS} drawn again;" in shown
