"""Requests expire in order, with one alarm armed for all of them."""

from implicast.peer.contract import Message
from implicast.peer.ledger import Ledger
from implicast.peer.pending import Pending


class Late(Message):
    """Rings when a request has waited too long."""


def armed(ledger: Ledger) -> list[int]:
    return [delay for verb, delay, _ in ledger.take() if verb == "after"]


def test_one_alarm_serves_many_requests():
    ledger = Ledger()
    pending = Pending[str, int](ledger, Late(), 1000)

    pending.ask("a", 1)
    ledger.now_us = 400
    pending.ask("b", 2)

    assert armed(ledger) == [1000]
    ledger.now_us = 1000
    assert pending.due() == [("a", 1)]
    assert armed(ledger) == [400]
    ledger.now_us = 1400
    assert pending.due() == [("b", 2)]
    assert armed(ledger) == []


def test_an_answered_request_does_not_expire():
    ledger = Ledger()
    pending = Pending[str, int](ledger, Late(), 1000)
    pending.ask("a", 1)

    assert pending.answer("a") == 1
    assert pending.answer("a") is None
    ledger.now_us = 1000
    assert pending.due() == []


def test_asking_again_starts_the_patience_anew():
    ledger = Ledger()
    pending = Pending[str, int](ledger, Late(), 1000)
    pending.ask("a", 1)
    ledger.now_us = 600
    pending.ask("a", 2)

    ledger.now_us = 1000
    assert pending.due() == []
    ledger.now_us = 1600
    assert pending.due() == [("a", 2)]


def test_a_full_table_refuses_new_requests_only():
    pending = Pending[str, int](Ledger(), Late(), 1000, bound=1)

    assert pending.ask("a", 1)
    assert not pending.ask("b", 2)
    assert pending.ask("a", 3)
    assert pending.get("a") == 3
