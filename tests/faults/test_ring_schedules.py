"""Hostile schedules of joins and leaves at adjacent places; the ring is checked after every single
event.

A failure prints how to replay it. The rules of the ring are removed one at a time, to show that the
check can fail.
"""

from collections.abc import Callable

import pytest

from implicast.overlay.links.liveness import RingLiveness
from implicast.overlay.links.lookup import PlaceLookup
from implicast.overlay.links.membership import Membership
from implicast.overlay.links.messages import INSERT, REPLACE
from implicast.overlay.links.pointers import Pointers
from implicast.overlay.links.refs import FIRST, Number, Ref, lies_between
from implicast.overlay.links.stabilisation import Stabilisation
from implicast.overlay.links.state import IN
from implicast.peer.detector import Detector
from implicast.trials.ring_schedules import WITH_CRASHES, ScheduleResult, run_schedule


def assert_closed(result: ScheduleResult) -> None:
    assert not result.open_events, f"open {result.first_opening}\nreplay: {result.replay()}"
    assert result.objections == [], f"{result.objections}\nreplay: {result.replay()}"


def opened(seeds: range, upkeep: str = "links") -> int:
    return sum(bool(run_schedule(seed, upkeep).open_events) for seed in seeds)


def test_the_linked_ring_is_closed_after_every_event_of_a_hundred_schedules() -> None:
    for seed in range(100):
        assert_closed(run_schedule(seed))


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_the_linked_ring_is_closed_after_every_event_of_twenty_thousand_schedules() -> None:
    for seed in range(20_000):
        assert_closed(run_schedule(seed))


def test_the_same_schedules_open_plain_stabilising_in_most_runs() -> None:
    assert opened(range(100), "plain") > 80


@pytest.mark.long
def test_two_thousand_schedules_open_plain_stabilising_in_most_runs() -> None:
    assert opened(range(2_000), "plain") > 1_600


def test_the_cured_stabilising_is_whole_more_often_in_the_end_but_open_meanwhile() -> None:
    plain = sum(bool(run_schedule(seed, "plain").objections) for seed in range(50))
    cured = [run_schedule(seed, "cured") for seed in range(50)]

    assert sum(bool(result.open_events) for result in cured) > 40
    assert sum(bool(result.objections) for result in cured) < plain / 2


def test_a_schedule_replays_from_its_seed() -> None:
    assert run_schedule(17) == run_schedule(17)
    assert run_schedule(17).events != run_schedule(18).events


def repair_without_a_number(self: Stabilisation, holder: Ref, cur: Ref, cur_num: Number) -> None:
    me, right = self._position.me, self._position.right
    beyond = cur != me and not lies_between(holder, cur, me)
    kind = INSERT if beyond and not lies_between(me, right, cur) else REPLACE
    self._requests.request(kind, holder, me, cur, cur_num, FIRST)


OPENING: dict[str, tuple[type, str, Callable[..., object]]] = {
    "no memory of answers": (Pointers, "repeat_answer", lambda self, answered, request: False),
    "no refusal while leaving": (
        Pointers,
        "is_busy",
        lambda self: self._position.state not in (IN, "del"),
    ),
    "incarnations not told apart": (
        Membership,
        "start_new_incarnation",
        lambda self: self.start_incarnation(self._position.me.incarnation),
    ),
}
"""Mistakes that open the ring without any crash."""


@pytest.mark.parametrize("mistake", sorted(OPENING))
def test_a_ring_without_one_of_its_rules_is_caught(
    mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name, instead = OPENING[mistake]
    monkeypatch.setattr(owner, name, instead)

    assert opened(range(60)) > 0, mistake


# --- with crashes and partitions


def living(seed: int, splits: bool = True) -> ScheduleResult:
    return run_schedule(seed, settings=WITH_CRASHES, crashes=6, splits=splits)


def unhealed(seeds: range) -> int:
    return sum(bool(living(seed).objections) for seed in seeds)


def assert_whole_again(seeds: range, splits: bool) -> None:
    for seed in seeds:
        result = living(seed, splits)
        assert result.objections == [], f"{result.objections}\nreplay: living({seed}, {splits})"


def test_after_crashes_all_rings_are_whole_again() -> None:
    assert sum(living(seed, splits=False).crashes for seed in range(40)) > 40
    assert_whole_again(range(40), splits=False)


def test_after_crashes_and_a_partition_all_rings_are_one_again() -> None:
    assert_whole_again(range(80), splits=True)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("splits", [False, True], ids=["crashes", "crashes and partitions"])
def test_after_crashes_twenty_thousand_rings_are_whole_again(splits: bool) -> None:
    assert_whole_again(range(20_000), splits)


def ever(self: Detector[Ref], who: Ref, *within: int) -> bool:
    """Once suspected, always suspected."""
    return who in self.suspects


UNHEALING: dict[str, list[tuple[type, str, Callable[..., object]]]] = {
    "suspicions never forgiven": [
        (RingLiveness, "on_message_from", lambda self, ref: None),
        (Detector, "is_suspect", ever),
        (Detector, "suspected_within", ever),
    ],
    "a repair takes no number of its own": [(Stabilisation, "relink", repair_without_a_number)],
    "no merging": [(PlaceLookup, "lookup_via", lambda self, ref: None)],
}
"""Mistakes that leave rings broken after crashes and partitions."""


@pytest.mark.parametrize("mistake", sorted(UNHEALING))
def test_a_ring_that_heals_wrongly_is_caught(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name, instead in UNHEALING[mistake]:
        monkeypatch.setattr(owner, name, instead)

    assert unhealed(range(80)) > 0, mistake
