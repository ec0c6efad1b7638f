"""The failure detector: probe on silence, doubt oneself, forgive."""

from dataclasses import replace

import pytest

from implicast.peer.contract import Message
from implicast.peer.detector import Detector, DetectorSettings, Ping, Pong, ProbeTimeout
from implicast.peer.ledger import Ledger

EVEN = DetectorSettings(jitter=0.0)
HER = 7


class PendingRequest(Message):
    """An overlay's own question."""


class Watch:
    """A detector on a ledger, with time that moves by hand and alarms that ring when they are due."""

    def __init__(self, settings: DetectorSettings = EVEN) -> None:
        self.ledger = Ledger()
        self.suspected: list[object] = []
        self.detector: Detector = Detector(1, self.ledger, settings, self.suspected.append)
        self.alarms: list[tuple[int, ProbeTimeout]] = []
        self.pings: list[Message] = []

    def take(self) -> None:
        for verb, what, message in self.ledger.take():
            if verb == "after":
                self.alarms.append((self.ledger.now_us + what, message))
            else:
                self.pings.append(message)

    def go(self, until_us: int, late_us: int = 0) -> None:
        """Let time pass; each alarm rings `late_us` after its time."""
        self.take()
        while self.alarms and min(self.alarms, key=lambda one: one[0])[0] + late_us <= until_us:
            due_us, alarm = self.alarms.pop(
                self.alarms.index(min(self.alarms, key=lambda one: one[0]))
            )
            self.ledger.now_us = max(self.ledger.now_us, due_us + late_us)
            self.detector.on_probe_timeout(alarm)
            self.take()
        self.ledger.now_us = until_us


def test_a_silent_one_is_suspected_after_five_attempts_with_doubling_waits():
    watch = Watch(replace(EVEN, health_max=0))

    watch.detector.probe(HER)
    watch.go(5_749_999)
    assert len(watch.pings) == 5
    assert not watch.suspected
    watch.go(5_750_000)

    assert watch.suspected == [HER]
    assert watch.detector.is_suspect(HER)
    assert EVEN.detection_us() == 5_750_000


def test_an_unhealthy_observer_waits_up_to_five_times_as_long():
    watch = Watch()

    watch.detector.probe(HER)
    watch.go(60_000_000)

    assert watch.detector.health == 4
    assert watch.suspected == [HER]
    waits_s = [0.25, 0.5 * 2, 1.0 * 3, 2.0 * 4, 2.0 * 5]
    assert watch.detector.suspects[HER] == int(sum(waits_s) * 1e6)


def test_any_answer_to_any_attempt_ends_the_probe():
    for answered in range(4):
        watch = Watch()
        watch.detector.probe(HER)
        watch.go([0, 300_000, 1_300_000, 4_300_000][answered])
        assert len(watch.pings) == answered + 1

        watch.detector.on_pong(HER, Pong(watch.pings[0].token))
        watch.go(90_000_000)

        assert not watch.suspected
        assert len(watch.pings) == answered + 1


def test_any_other_message_counts_as_an_answer():
    watch = Watch()
    watch.detector.probe(HER)

    watch.detector.heard_from(HER)
    watch.go(90_000_000)

    assert not watch.suspected


def test_whoever_was_heard_lately_needs_no_probe():
    watch = Watch()
    watch.detector.heard_from(HER)

    watch.go(1_999_999)
    watch.detector.check(HER, quiet_us=2_000_000)
    watch.take()
    assert not watch.pings
    watch.go(2_000_000)
    watch.detector.check(HER, quiet_us=2_000_000)
    watch.take()

    assert len(watch.pings) == 1


def test_a_question_of_the_overlay_serves_as_probe():
    watch = Watch()

    watch.detector.probe(HER, PendingRequest())
    watch.detector.probe(HER, PendingRequest())
    watch.go(300_000)

    assert watch.pings == [PendingRequest(), PendingRequest()]


def test_health_returns_with_probes_answered_at_once():
    watch = Watch()
    watch.detector.probe(HER)
    watch.go(60_000_000)
    assert watch.detector.health == 4

    for left in (3, 2, 1, 0, 0):
        watch.detector.probe(HER)
        watch.take()
        watch.detector.on_pong(HER, Pong(watch.pings[-1].token))
        assert watch.detector.health == left


def test_an_attempt_whose_alarm_rang_late_does_not_count():
    prompt, sleepy = Watch(), Watch()
    for watch, late_us in ((prompt, 0), (sleepy, 200_000)):
        watch.detector.probe(HER)
        watch.go(30_000_000, late_us)

    assert len(prompt.pings) == 5
    assert len(sleepy.pings) == 10, (
        "each late alarm repeats its attempt, as often as there are tries"
    )
    assert prompt.suspected == [HER]
    assert sleepy.detector.health == 4


def test_a_peer_that_slept_does_not_accuse_on_waking():
    watch = Watch()
    watch.detector.probe(HER)

    watch.go(60_000_000, late_us=40_000_000)
    watch.detector.on_pong(HER, Pong(watch.pings[-1].token))
    watch.go(200_000_000)

    assert not watch.suspected


def test_a_suspicion_ends_at_any_word():
    watch = Watch()
    watch.detector.suspect(HER)

    watch.detector.on_ping(HER, Ping(1))

    assert not watch.detector.is_suspect(HER)


def test_a_late_answer_forgives():
    watch = Watch()
    watch.detector.probe(HER)
    watch.go(60_000_000)
    assert watch.detector.suspects

    watch.detector.on_pong(HER, Pong(watch.pings[0].token))

    assert not watch.detector.suspects


def test_a_suspicion_expires():
    watch = Watch()
    watch.detector.suspect(HER)

    watch.go(19_999_999)
    assert watch.detector.is_suspect(HER)
    watch.go(20_000_000)

    assert not watch.detector.is_suspect(HER)


def test_suspicions_that_have_expired_are_not_kept():
    watch = Watch()
    for number in range(100):
        watch.ledger.now_us = number * 1_000_000
        watch.detector.suspect(number)

    assert [number for number in range(100) if watch.detector.is_suspect(number)] == list(
        range(80, 100)
    )
    assert len(watch.detector.suspects) == 20


def test_what_a_peer_said_of_itself_is_final():
    watch = Watch()
    watch.detector.mark_left(HER)

    watch.detector.heard_from(HER)
    watch.detector.probe(HER)
    watch.go(90_000_000)

    assert watch.detector.is_lost(HER)
    assert not watch.pings


def test_nobody_is_told_of_a_suspicion():
    watch = Watch()

    watch.detector.suspect(HER)
    watch.take()

    assert not watch.pings


def test_a_slow_round_trip_is_learnt():
    watch = Watch()
    for _ in range(40):
        watch.detector.probe(HER)
        watch.take()
        watch.go(watch.ledger.now_us + 400_000)
        watch.detector.on_pong(HER, Pong(watch.pings[-1].token))
        watch.detector.on_pong(HER, Pong(watch.pings[0].token))

    assert 400_000 <= watch.detector.rto_us(HER) <= 800_000
    before = len(watch.pings)
    watch.detector.probe(HER)
    watch.go(watch.ledger.now_us + 399_999)
    assert len(watch.pings) == before + 1, "the first attempt is awaited for a round trip"


def test_repeated_questions_of_the_overlay_give_no_sample():
    watch = Watch()
    watch.detector.probe(HER, PendingRequest())
    watch.go(400_000)
    assert len(watch.pings) == 2

    watch.detector.answered(HER)

    assert watch.detector.rto_us(HER) == EVEN.rto_us


def test_words_that_are_no_answers_teach_no_round_trip():
    """Else a probe that was lost, ended by something else much later, would make the observer ever more patient."""
    watch = Watch()
    for _ in range(50):
        watch.detector.probe(HER, PendingRequest())
        watch.take()
        watch.ledger.now_us += 1_000_000
        watch.detector.heard_from(HER)
    assert watch.detector.rto_us(HER) == EVEN.rto_us

    for _ in range(50):
        watch.detector.probe(HER, PendingRequest())
        watch.take()
        watch.ledger.now_us += 9_000_000
        watch.detector.answered(HER)
    assert watch.detector.rto_us(HER) == EVEN.rto_cap_us


@pytest.mark.parametrize("verb", ["heard_from", "suspect", "mark_left"])
def test_a_flood_of_strangers_leaves_memory_flat(verb):
    watch = Watch(DetectorSettings(known_max=16, left_max=16))

    for stranger in range(1000):
        getattr(watch.detector, verb)(stranger)

    held = watch.detector
    assert (
        max(map(len, (held.last_heard_us, held.suspects, held.left, held._open, held._tokens)))
        <= 16
    )


def test_lives_of_one_address_are_told_apart():
    ledger = Ledger()
    detector: Detector[tuple[int, int]] = Detector(1, ledger, EVEN, where=lambda ref: ref[0])
    detector.mark_left((HER, 1))

    detector.probe((HER, 1))
    detector.probe((HER, 2))

    assert [to for to, _ in ledger.sent()] == [HER]
