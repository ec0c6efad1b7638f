"""Asks, waits, asks again, gives up."""

from random import Random

import pytest

from implicast.peer import requests as requests_module
from implicast.peer.backoff import RepairBudget, backed_off_us
from implicast.peer.contract import Message
from implicast.peer.ledger import Ledger
from implicast.peer.requests import Requests, RequestTimeout, RetryPolicy, UpkeepRequests


class Claim(Message):
    what: int


@pytest.fixture(params=["readable", "compiled"])
def made(request, monkeypatch):
    if request.param == "readable":
        monkeypatch.setattr(requests_module, "_BUILT", None)
    elif requests_module._BUILT is None:
        pytest.skip("questions were not compiled")
    ledger = Ledger()
    requests, lost = Requests(1, ledger), []
    requests.topic(
        "claim",
        RetryPolicy(100, times=3),
        lambda key, question: lost.append((key, question.context)),
    )
    requests.topic(
        "slow",
        RetryPolicy(1_000, times=2, factor=2.0),
        lambda key, question: lost.append((key, "slow")),
    )
    return requests, ledger, lost


def drive(requests, ledger, until_us):
    """Ring the alarms as a world would; what was sent, with times."""
    sent, alarms = [], []

    def sort():
        for verb, what, message in ledger.take():
            if verb == "after":
                alarms.append(ledger.now_us + what)
            else:
                sent.append((ledger.now_us, what, message))

    sort()
    while alarms and min(alarms) <= until_us:
        ledger.now_us = min(alarms)
        alarms.remove(ledger.now_us)
        requests.on_request_timeout(RequestTimeout())
        sort()
    ledger.now_us = until_us
    return sent


def test_a_question_is_asked_again_until_the_patience_is_over_then_it_is_lost(made):
    requests, ledger, lost = made
    requests.ask("claim", "k", 7, Claim(1), context="mine")

    sent = drive(requests, ledger, 1_000)

    assert sent == [(0, 7, Claim(1)), (100, 7, Claim(1)), (200, 7, Claim(1))]
    assert lost == [("k", "mine")]
    assert len(requests) == 0


def test_an_answer_ends_it_and_its_alarm_finds_nothing(made):
    requests, ledger, lost = made
    requests.ask("claim", "k", 7, Claim(1), context="mine")

    assert requests.answered("claim", "k").context == "mine"
    assert requests.answered("claim", "k") is None
    assert drive(requests, ledger, 1_000) == [(0, 7, Claim(1))]
    assert not lost


def test_topics_have_patience_of_their_own_and_one_alarm_serves_all(made):
    requests, ledger, lost = made
    requests.ask("slow", "s", 8, Claim(2))
    requests.ask("claim", "k", 7, Claim(1))

    sent = drive(requests, ledger, 10_000)

    assert [(when, to) for when, to, _ in sent] == [(0, 8), (0, 7), (100, 7), (200, 7), (1_000, 8)]
    assert lost == [("k", None), ("s", "slow")]


def test_asked_anew_under_a_key_it_begins_again(made):
    requests, ledger, _ = made
    requests.ask("claim", "k", 7, Claim(1))
    ledger.now_us = 50
    requests.ask("claim", "k", 9, Claim(2))

    sent = drive(requests, ledger, 151)

    assert sent[2:] == [(150, 9, Claim(2))]
    assert len(requests) == 1


def test_beyond_the_bound_it_is_refused():
    requests = Requests(1, Ledger(), bound=2)
    requests.topic("claim", RetryPolicy(100, 3))

    assert [requests.ask("claim", key, 7, Claim(key)) for key in (1, 2, 3, 1)] == [
        True,
        True,
        False,
        True,
    ]


def test_a_thousand_questions_answered_at_once_arm_few_alarms():
    ledger = Ledger()
    requests = Requests(1, ledger)
    requests.topic("claim", RetryPolicy(2_000_000, 3))
    for key in range(1_000):
        requests.ask("claim", key, 7, Claim(key))
        requests.answered("claim", key)

    assert sum(verb == "after" for verb, _, _ in ledger.take()) == 1


def test_round_trips_are_told_where_one_question_had_one_answer(made):
    _, ledger, _ = made
    took = []
    requests = Requests(1, ledger, round_trip_us=lambda to, us: took.append((to, us)))
    requests.topic("claim", RetryPolicy(100, times=3))
    requests.ask("claim", "a", 7, Claim(1))
    requests.ask("claim", "b", 8, Claim(1))
    ledger.now_us = 30
    requests.answered("claim", "a")
    ledger.now_us = 100
    requests.on_request_timeout(RequestTimeout())
    requests.answered("claim", "b")

    assert took == [(7, 30)]


@pytest.mark.parametrize("seed", range(40))
def test_what_is_compiled_asks_repeats_and_loses_as_the_law_does(seed, monkeypatch):
    if requests_module._BUILT is None:
        pytest.skip("questions were not compiled")
    compiled = _asked_at_random(seed)
    monkeypatch.setattr(requests_module, "_BUILT", None)

    assert _asked_at_random(seed) == compiled


def _asked_at_random(seed):
    """All that a host saw, and all that was lost, answered or timed, of five hundred deeds."""
    rng, ledger, seen = Random(seed), Ledger(), []
    requests = Requests(
        1, ledger, bound=12, round_trip_us=lambda to, us: seen.append(("trip", to, us))
    )
    for topic, patience in (
        ("claim", RetryPolicy(100, times=3)),
        ("look", RetryPolicy(70, times=1)),
    ):
        requests.topic(
            topic,
            patience,
            lambda key, asked: seen.append(("lost", key, asked.to, asked.attempts, asked.due_us)),
        )
    for _ in range(500):
        about = rng.choice(("claim", "look")), rng.randrange(16)
        match rng.randrange(7):
            case 0 | 1:
                seen.append(
                    requests.ask(*about, rng.randrange(5), Claim(rng.randrange(9)), rng.random())
                )
            case 2:
                asked = requests.answered(*about)
                seen.append(
                    asked
                    and (asked.to, asked.message, asked.context, asked.attempts, asked.started_us)
                )
            case 3:
                requests.postpone(*about, rng.randrange(300))
            case 4:
                rng.choice((requests.drop, requests.note_progress))(*about)
            case _:
                ledger.now_us += rng.randrange(60)
                requests.resend_due()
        seen += [len(requests), *requests.pending_keys("claim"), *ledger.take()]
    return seen


# --- the budget for repair


@pytest.fixture(params=["readable", "compiled"])
def either_form(request, monkeypatch):
    if request.param == "readable":
        monkeypatch.setattr(requests_module, "_BUILT", None)
    elif requests_module._BUILT is None:
        pytest.skip("requests were not compiled")


def all_due(kind, ledger, budget, count=1_000, times=3):
    requests = kind(1, ledger, budget=budget)
    requests.topic("claim", RetryPolicy(2_000_000, times=times))
    for key in range(count):
        requests.ask("claim", key, 7, Claim(key))
    return requests


def run_until(requests, ledger, until_us):
    """As `drive`, for any kind of requests."""
    sent, alarms = [], []
    while True:
        for verb, what, message in ledger.take():
            if verb == "after":
                alarms.append(ledger.now_us + what)
            else:
                sent.append((ledger.now_us, message.what))
        if not alarms or min(alarms) > until_us:
            ledger.now_us = until_us
            return sent
        ledger.now_us = min(alarms)
        alarms.remove(ledger.now_us)
        requests.resend_due()


def most_in_a_second(sent):
    times = [when for when, _ in sent]
    return max(sum(at <= other < at + 1_000_000 for other in times) for at in set(times))


@pytest.mark.usefixtures("either_form")
def test_retries_of_a_thousand_silent_peers_keep_to_the_budget_and_their_order():
    ledger = Ledger()
    requests = all_due(Requests, ledger, RepairBudget(100))
    sent = run_until(requests, ledger, 30_000_000)
    first, retries = sent[:1_000], sent[1_000:]

    assert {when for when, _ in first} == {0}, "first attempts are not delayed"
    assert len(retries) == 2_000, "each is sent three times in all"
    assert most_in_a_second(retries) <= 200
    assert [key for _, key in retries[:1_000]] == list(range(1_000)), "the oldest first"
    assert len(requests) == 0, "what waits is lost in the end"
    assert retries[-1][0] >= 2_000_000 + 19_000_000


@pytest.mark.usefixtures("either_form")
def test_upkeep_requests_keep_to_the_budget_from_the_first_attempt_on():
    ledger = Ledger()
    requests = all_due(UpkeepRequests, ledger, RepairBudget(100), count=500, times=1)
    sent = run_until(requests, ledger, 10_000_000)

    assert sorted(key for _, key in sent) == list(range(500))
    assert most_in_a_second(sent) <= 200


@pytest.mark.usefixtures("either_form")
def test_a_request_that_waits_for_the_budget_is_answered_dropped_or_timed_as_any_other():
    ledger, trips = Ledger(), []
    budget = RepairBudget(1)
    requests = UpkeepRequests(
        1, ledger, budget=budget, round_trip_us=lambda to, took_us: trips.append(took_us)
    )
    requests.topic("claim", RetryPolicy(2_000_000, times=3))
    for key in range(3):
        requests.ask("claim", key, 7, Claim(key))
    requests.drop("claim", 1)
    sent = run_until(requests, ledger, 1_500_000)
    requests.answered("claim", 2)

    assert [key for _, key in sent] == [0, 2]
    assert trips == [1_500_000 - sent[1][0]], "timed from when it was sent"


@pytest.mark.usefixtures("either_form")
def test_request_tables_of_one_peer_may_share_a_budget():
    ledger, budget = Ledger(), RepairBudget(100)
    one = all_due(Requests, ledger, budget, count=300, times=2)
    other = all_due(Requests, ledger, budget, count=300, times=2)
    ledger.take()
    ledger.now_us = 2_000_000
    one.resend_due()
    other.resend_due()

    assert len(ledger.sent()) == 100


def test_the_budget_comes_back_with_time():
    budget = RepairBudget(10)

    assert [budget.take(0) for _ in range(12)] == [True] * 10 + [False] * 2
    assert [budget.take(500_000) for _ in range(6)] == [True] * 5 + [False]
    assert sum(budget.take(9_000_000) for _ in range(20)) == 10


@pytest.mark.parametrize(
    ("first_us", "retries", "most_us", "factor", "wait_us"),
    [
        (100, 0, 1_000, 2.0, 100),
        (100, 3, 1_000, 2.0, 800),
        (100, 4, 1_000, 2.0, 1_000),
        (100, 1 << 30, 1_000, 2.0, 1_000),
        (100, 2, 1_000, 1.5, 225),
        (100, 9, 1_000, 1.5, 1_000),
    ],
)
def test_waits_grow_to_their_bound(first_us, retries, most_us, factor, wait_us):
    assert backed_off_us(first_us, retries, most_us, factor) == wait_us
