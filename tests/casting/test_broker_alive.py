"""BROKER where brokers die: nothing is lost on the way, clients go elsewhere, and mistakes put in on purpose show."""

import pytest

from implicast.casting.broker import LivingBroker, LivingClient
from implicast.casting.broker.alive_client import UNCARRIED_MAX
from implicast.casting.broker.messages import (
    Carried,
    Check,
    CheckRound,
    Got,
    Here,
    Known,
    Notify,
    Pass,
    Probe,
    Publish,
    Register,
    Stored,
    Sweep,
)
from implicast.casting.broker.routes import ROUTES_MAX, Routes
from implicast.casting.designs import design
from implicast.language.target import Description, Target, Term
from implicast.overlay.backbone.living import LivingBackbone
from implicast.overlay.backbone.views import RANK_BITS, View, Views
from implicast.overlay.detector import Overdue
from implicast.peer.contract import CastId
from implicast.peer.events import Joined, Left, Notice, Refused, Registered
from implicast.peer.ledger import Ledger
from implicast.trials.campaign import check, scenario_of
from implicast.world.churn import Churn
from implicast.world.faults import Faults
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate

S = 1_000_000
FAN = Description(("jazz",))
JAZZ = Target((Term(has=("jazz",)),))
CAST = CastId(1, 1)
FIRST = 1 << RANK_BITS
PARAMETERS = design("broker").settle({"alive": True})


def a_broker(neighbours=(11, 12)) -> tuple[LivingBroker, Ledger]:
    """Broker 10 between 11 and 12, which both have somebody who likes jazz."""
    ledger = Ledger()
    broker = LivingBroker(10, ledger, [10, 11, 12], neighbours, lambda a, b: 5_000, PARAMETERS)
    for neighbour in neighbours:
        broker.backbone.table.put(neighbour, ("jazz",))
    ledger.take()
    return broker, ledger


def a_client(broker: int | None = 10) -> tuple[LivingClient, Ledger]:
    ledger = Ledger()
    client = LivingClient(1, ledger, [10, 11, 12], broker, 10 * S, tries=3)
    ledger.take()
    return client, ledger


def passed(cast=CAST, epoch=FIRST) -> Pass:
    return Pass(cast, epoch, JAZZ, b"x")


# --- casts


def test_a_client_is_confirmed_when_all_brokers_have_its_cast():
    broker, ledger = a_broker()
    broker.receive(1, Publish(CAST, JAZZ, b"x"))
    assert ledger.sent() == [(11, passed()), (12, passed())]

    broker.receive(11, Carried(CAST, FIRST))
    assert ledger.sent() == []
    broker.receive(12, Carried(CAST, FIRST))

    assert ledger.sent() == [(1, Got(CAST))]


def test_a_neighbour_vouches_for_its_own_side():
    broker, ledger = a_broker()
    broker.receive(11, passed())
    assert ledger.sent() == [(12, passed())]

    broker.receive(12, Carried(CAST, FIRST))

    assert ledger.sent() == [(11, Carried(CAST, FIRST))]


def test_a_cast_that_entered_at_two_places_meets_and_nobody_waits_for_the_other():
    broker, ledger = a_broker()
    broker.receive(1, Publish(CAST, JAZZ, b"x"))
    ledger.take()
    broker.receive(11, passed())
    broker.receive(12, Carried(CAST, FIRST))

    assert ledger.sent() == [(11, Carried(CAST, FIRST))], "11 need not wait for itself"
    broker.receive(11, Carried(CAST, FIRST))
    assert ledger.sent() == [(1, Got(CAST))]


def test_a_client_that_asks_a_second_broker_reaches_the_side_the_cast_came_from():
    """The first broker may have died before it told its other neighbours."""
    broker, ledger = a_broker()
    broker.receive(11, passed())
    broker.receive(12, Carried(CAST, FIRST))
    ledger.take()

    broker.receive(1, Publish(CAST, JAZZ, b"x"))

    assert ledger.sent() == [(11, passed())]


def test_what_was_carried_in_an_older_view_does_not_count():
    broker, ledger = a_broker()
    broker.receive(1, Publish(CAST, JAZZ, b"x"))
    broker._follow(View(3 * FIRST, 10, (11, 12), 64))
    ledger.take()
    for neighbour in (11, 12):
        broker.receive(neighbour, Carried(CAST, FIRST))
    assert not [message for _, message in ledger.sent() if isinstance(message, Got)]

    broker.receive(1, Publish(CAST, JAZZ, b"x"))

    assert {to for to, message in ledger.sent() if isinstance(message, Pass)} == {11, 12}


def test_a_pass_of_an_older_view_is_carried_through_the_whole_present_tree():
    broker, ledger = a_broker()
    broker._follow(View(3 * FIRST, 10, (11, 12), 64))
    ledger.take()
    broker.receive(11, passed())

    assert {to for to, message in ledger.sent() if isinstance(message, Pass)} == {11, 12}
    for neighbour in (11, 12):
        broker.receive(neighbour, Carried(CAST, 3 * FIRST))
    assert (11, Carried(CAST, FIRST)) in ledger.sent()


def test_a_pass_of_a_view_to_come_waits_for_it():
    broker, ledger = a_broker()
    broker.receive(11, passed(epoch=5 * FIRST))

    assert ledger.sent() == []


def test_casts_flood_until_the_filters_of_a_new_tree_are_whole():
    broker, _ = a_broker()
    nobody = Target((Term(has=("polka",)),))
    assert not broker.backbone.leads(11, nobody)

    broker._follow(View(3 * FIRST, 10, (11, 12), 64))

    assert broker.backbone.leads(11, nobody)


def test_memory_of_casts_is_bounded():
    broker, ledger = a_broker()
    for serial in range(ROUTES_MAX + 50):
        broker.receive(11, passed(CastId(1, serial)))
        broker.receive(12, Carried(CastId(1, serial), FIRST))
        ledger.take()

    assert len(broker.routes._routes) <= ROUTES_MAX
    assert len(broker.routes._open) == 0


# --- clients


def test_a_client_whose_broker_is_silent_asks_all_and_tells_the_first_that_answers():
    client, ledger = a_client()
    client.register(FAN)
    client.receive(10, Stored(1))
    cast = client.cast(JAZZ, b"x")
    client.wake(CheckRound())
    ledger.take()
    for attempt in range(1, 4):
        client.wake(Overdue(attempt, 0))

    assert [to for to, message in ledger.sent() if message == Probe()] == [10, 11, 12]
    client.receive(12, Here())
    client.receive(11, Here())
    told = ledger.sent()
    assert told == [(12, Register(1, FAN)), (12, Publish(cast, JAZZ, b"x"))]


def test_a_client_joins_once_however_often_it_changes_its_broker():
    client, ledger = a_client(broker=None)
    client.join(())
    client.receive(11, Here())
    client._lose(11)
    client.receive(12, Here())

    assert [event for verb, _, event in ledger.take() if verb == "deliver"] == [Joined()]


def test_a_broker_that_lost_its_memory_is_told_again():
    client, ledger = a_client()
    client.register(FAN)
    client.receive(10, Stored(1))
    ledger.take()
    client.receive(10, Known(0))

    assert ledger.sent() == [(10, Register(1, FAN))]
    client.receive(10, Stored(1))
    client.receive(10, Known(1))
    assert ledger.sent() == []


def test_casts_that_no_broker_takes_are_kept_up_to_a_bound_and_then_refused():
    client, ledger = a_client(broker=None)
    for _ in range(UNCARRIED_MAX + 3):
        client.cast(JAZZ, b"x")

    assert len(client.uncarried) == UNCARRIED_MAX
    assert sum(isinstance(event, Refused) for _, _, event in ledger.take()) == 3
    client.receive(11, Here())
    assert len([message for _, message in ledger.sent() if isinstance(message, Publish)]) == UNCARRIED_MAX


def test_an_answer_of_a_former_broker_completes_nothing():
    client, ledger = a_client()
    client.register(FAN)
    client._lose(10)
    client.receive(11, Here())
    ledger.take()
    client.receive(10, Stored(1))
    assert ledger.take() == []

    client.receive(11, Stored(1))

    assert ledger.take() == [("deliver", None, Registered(1))]


def test_a_leaver_whose_broker_died_leaves_through_another():
    client, ledger = a_client()
    client.register(FAN)
    client.receive(10, Stored(1))
    client.leave()
    client._lose(10)
    ledger.take()
    client.receive(11, Here())
    assert (11, Register(2, None)) in ledger.sent()
    client.receive(11, Stored(2))

    assert ledger.take()[-1] == ("deliver", None, Left())


def test_two_brokers_that_both_notify_are_heard_once():
    client, ledger = a_client()
    client.register(FAN)
    ledger.take()
    for broker in (10, 11):
        client.receive(broker, Notify(CAST, JAZZ, b"x"))

    assert [event for verb, _, event in ledger.take() if verb == "deliver"] == [Notice(CAST, b"x")]


def test_a_client_that_vanished_is_forgotten_after_its_lease():
    broker, ledger = a_broker(neighbours=())
    for client in (1, 2):
        broker.receive(client, Register(1, FAN))
    ledger.now_us = broker.lease_us
    broker.receive(2, Check(1))
    ledger.now_us = broker.lease_us + 1
    broker.wake(Sweep())

    assert list(broker.index) == [2]
    assert (2, Known(1)) in ledger.sent()


# --- whole runs


def alive(churn: str, loss: float = 0.02):
    return simulate(
        Scenario(
            "broker", peers=48, casts=170, seed=4, workload="groups", churn=Churn.parse(churn),
            parameters={"alive": True, "brokers": 6}, faults=Faults(loss=loss),
        )
    )  # fmt: skip


@pytest.mark.parametrize("dead", ["48", "53", "49+50", "48+49+51"])
def test_when_brokers_die_the_rest_heals(dead):
    outcome = alive(f"deed=10:fail:{dead}")

    assert outcome.kept, (outcome.change, outcome.objections)
    assert outcome.change.repair_s_max < 60
    assert outcome.change.during.delivery_ratio > 0.7


def test_few_notifications_are_missed_when_one_of_six_brokers_dies():
    outcome = alive("deed=10:fail:50", loss=0.0)
    whole = alive("deed=10:crash:47", loss=0.0)

    assert whole.contract.missing == 0
    assert outcome.change.during.delivery_ratio > 0.93


def caught(churn: str, **parameters) -> tuple[str, ...]:
    scenario = scenario_of(design("broker"), 1, 0)
    scenario = Scenario(
        "broker", peers=24, casts=150, seed=3, workload="groups", faults=scenario.faults,
        parameters={"alive": True, "brokers": 6, **parameters}, churn=Churn.parse(churn),
    )  # fmt: skip
    return check(scenario).reasons


def test_never_forgiven_suspicion_is_caught(monkeypatch):
    split = "deed=5..35:split:24+25+26+0+1+2+3"
    assert not caught(split)
    monkeypatch.setattr(Views, "heard", lambda self, broker: self.detector.heard(broker))

    assert any("no tree" in reason or "generations" in reason for reason in caught(split))


def test_filters_that_are_not_rebuilt_are_caught(monkeypatch):
    """A mistake: after a change of tree, brokers believe empty filters."""
    death = "deed=5:fail:26"
    assert not caught(death)

    def stand(self, view):
        self.epoch, self.root, self.neighbours = view.epoch, view.root, view.neighbours
        self.table = self._new_table(view.epoch << 24, view.room)
        self._edges = {neighbour: self._edge() for neighbour in view.neighbours}

    monkeypatch.setattr(LivingBackbone, "follow", stand)
    assert caught(death)


def test_clients_that_stay_with_a_dead_broker_are_caught(monkeypatch):
    monkeypatch.setattr(LivingClient, "_lose", lambda self, broker: None)

    assert any("does not know what its client" in reason for reason in caught("deed=5:fail:26"))


def test_confirming_before_all_have_a_cast_loses_it(monkeypatch):
    """A mistake: a broker answers at once. Of casts on their way through a dying broker, some are then missed."""

    def at_once(self, cast, route):
        for asker, epoch in list(route.asked.items()):
            del route.asked[asker]
            if epoch is None:
                self._carried(asker, cast)
            else:
                self.host.send(asker, Carried(cast, epoch))

    def missing() -> int:
        outcome = alive("deed=10..30:cut:48>49,deed=10..30:cut:48>50,deed=10..30:cut:48>51,deed=31:fail:48", loss=0.2)
        return outcome.contract.missing

    careful = missing()
    monkeypatch.setattr(Routes, "_settle", at_once)
    assert missing() > careful
