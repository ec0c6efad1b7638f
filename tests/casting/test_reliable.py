"""One hop of a cast is repeated until it is confirmed, and not for ever."""

from implicast.casting import reliable
from implicast.casting.reliable import REPEAT_US, REPEATS_MAX, Got, Hops, Repeat
from implicast.peer.contract import CastId, Message
from implicast.peer.ledger import Ledger

CAST = CastId(1, 1)


class Word(Message):
    cast: CastId


def hops() -> tuple[Hops, Ledger, list[tuple]]:
    ledger, told = Ledger(), []

    def tell(word: str):
        return lambda *what: told.append((word, *what))

    return Hops(1, ledger, tell("confirmed"), tell("given up")), ledger, told


def ring(made: Hops, ledger: Ledger) -> list:
    ledger.take()
    ledger.now_us += REPEAT_US
    made.on_repeat(Repeat())
    return [entry for entry in ledger.take() if entry[0] == "send"]


def test_what_is_confirmed_is_not_repeated():
    made, ledger, told = hops()
    made.send(2, CAST, Word(CAST))
    made.on_got(2, Got(CAST))

    assert ring(made, ledger) == []
    assert told == [("confirmed", 2, CAST)]


def test_silence_is_met_with_repeats_and_then_with_resignation():
    made, ledger, told = hops()
    made.send(2, CAST, Word(CAST))
    repeats = [len(ring(made, ledger)) for _ in range(REPEATS_MAX + 3)]

    assert repeats == [1] * REPEATS_MAX + [0, 0, 0]
    assert told == [("given up", 2, CAST)]
    assert len(made) == 0


def test_a_confirmation_counts_for_its_sender_and_its_cast_only():
    made, ledger, told = hops()
    made.send(2, CAST, Word(CAST))
    made.on_got(3, Got(CAST))
    made.on_got(2, Got(CastId(1, 2)))

    assert not told
    assert ring(made, ledger) == [("send", 2, Word(CAST))]


def test_what_is_dropped_is_forgotten():
    made, ledger, told = hops()
    made.send(2, CAST, Word(CAST))
    made.drop(2, CAST)

    assert ring(made, ledger) == []
    assert not told


def test_a_second_confirmation_is_no_news():
    made, _, told = hops()
    made.send(2, CAST, Word(CAST))
    for _ in range(2):
        made.on_got(2, Got(CAST))

    assert len(told) == 1


def test_a_flood_is_sent_once_and_remembered_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(reliable, "UNCONFIRMED_MAX", 100)
    made, ledger, _ = hops()
    for serial in range(1000):
        made.send(2, CastId(1, serial), Word(CastId(1, serial)))

    assert len(made) == 100
    assert len([entry for entry in ledger.take() if entry[0] == "send"]) == 1000
