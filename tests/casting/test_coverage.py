"""A coverage ends once, with every region reported, given up or waiting, and each answer in its value once."""

from dataclasses import dataclass, field
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from implicast.casting.combining import Histogram, Least, Most, Sum, Top, combined
from implicast.casting.coverage import SILENT_MAX, CastTally, Coverage, Coverages, Split, total
from implicast.casting.inbox import Outcome
from implicast.peer.errors import RemoteError
from implicast.peer.name import name_of
from implicast.peer.wire import pack


class Recorder:
    """A carrier that splits as it is told and records what it is asked."""

    def __init__(self):
        self.now_us, self.splits, self.calls, self.last = 0, {}, [], 0
        self.is_full = False
        self.coverages = Coverages(self, lambda: self.now_us)

    def split(self, coverage, regions):
        return self.splits[regions]

    def local(self, coverage, regions):
        coverage.here.add(CastTally(notified=len(regions)))

    def pass_on(self, coverage, to, regions):
        if self.is_full:
            return None
        self.last += 1
        self.calls.append(("ask", to, regions, self.last))
        return self.last

    def stop(self, child):
        self.calls.append(("stop", child))

    def wait(self, coverage):
        self.calls.append(("wait",))

    def changed(self, coverage):
        if not coverage.is_open:
            self.calls.append(("ended",))

    def take(self):
        calls, self.calls = self.calls, []
        return calls


def begun(*, waiting=(), until_us=1 << 62):
    """A coverage of `abcd`: `a` is own, peer 1 covers `b`, peer 2 covers `cd`."""
    carrier = Recorder()
    carrier.splits["a", "b", "c", "d"] = Split(("a",), [(1, ("b",)), (2, ("c", "d"))], waiting)
    coverage = Coverage(until_us)
    carrier.coverages.cover(coverage, ("a", "b", "c", "d"))
    carrier.take()
    return carrier, coverage


def test_the_own_part_is_answered_here_and_each_other_part_by_one_child():
    _, coverage = begun()

    assert coverage.here == CastTally(notified=1)
    assert [(each.to, each.regions) for each in coverage.children.values()] == [
        (1, ("b",)),
        (2, ("c", "d")),
    ]
    assert coverage.is_open
    assert coverage.tally() is None, "a child that has not reported may have any number of members"


def test_the_last_report_ends_it_and_the_sum_is_that_of_all_reports():
    carrier, coverage = begun()
    carrier.coverages.report(1, CastTally(notified=3, declined=1))
    assert carrier.take() == [("stop", 1)]
    carrier.coverages.report(2, CastTally(unreachable=1, silent=(b"x",), uncertain=1))

    assert carrier.take() == [("stop", 2), ("ended",)]
    assert coverage.tally() == CastTally(
        notified=4, declined=1, unreachable=1, silent=(b"x",), uncertain=1
    )
    assert coverage.tally().expected == 6


def test_a_report_with_open_members_is_replaced_by_the_next_and_a_final_one_by_none():
    carrier, coverage = begun()
    carrier.coverages.report(2, CastTally(notified=5))
    carrier.coverages.report(1, CastTally(open=2, notified=1))
    assert coverage.is_open
    assert coverage.tally() == CastTally(open=2, notified=7)
    carrier.coverages.report(1, CastTally(notified=3))
    carrier.coverages.report(1, CastTally(open=2, notified=1))

    assert not coverage.is_open
    assert coverage.tally() == CastTally(notified=9)


def test_regions_of_a_lost_child_are_split_again_and_its_late_report_counts_no_more():
    carrier, coverage = begun()
    carrier.splits["c", "d"] = Split((), [(3, ("c", "d"))])
    carrier.coverages.lose(2)
    assert carrier.take() == [("stop", 2), ("ask", 3, ("c", "d"), 3)]
    carrier.coverages.report(2, CastTally(notified=100))
    carrier.coverages.report(1, CastTally())
    carrier.coverages.report(3, CastTally(notified=2))

    assert carrier.take() == [("stop", 1), ("stop", 3), ("ended",)]
    assert coverage.tally() == CastTally(notified=3)
    carrier.coverages.lose(3)
    assert carrier.take() == [], "it has reported"


def test_all_children_at_one_peer_are_lost_together():
    carrier, _ = begun()
    other = Coverage()
    carrier.splits["z",] = Split((), [(2, ("z",))])
    carrier.coverages.cover(other, ("z",))
    carrier.splits["c", "d"] = carrier.splits["z",] = Split((), [(4, ("z",))])
    carrier.take()
    carrier.coverages.lose_peer(2)

    assert [call for call in carrier.take() if call[0] == "ask"] == [
        ("ask", 4, ("z",), 4),
        ("ask", 4, ("z",), 5),
    ]


def test_what_waits_keeps_it_open_until_it_can_be_passed_on():
    carrier, coverage = begun(waiting=("e",))
    carrier.coverages.report(1, CastTally())
    carrier.coverages.report(2, CastTally())
    assert coverage.is_open
    carrier.splits["e",] = Split(("e",), [])
    carrier.coverages.retry(coverage)

    assert not coverage.is_open
    assert coverage.tally() == CastTally(notified=2)


def test_what_is_open_when_it_is_given_up_counts_as_uncertain_by_region():
    carrier, coverage = begun(waiting=("e", "f"))
    carrier.coverages.report(1, CastTally(notified=1))
    carrier.coverages.give_up(coverage)

    assert not coverage.is_open
    assert coverage.tally() == CastTally(notified=2, uncertain=4)


def test_a_region_that_is_lost_after_the_deadline_is_given_up_with_all_others():
    carrier, coverage = begun(until_us=10)
    carrier.now_us = 11
    carrier.coverages.lose(1)

    assert not coverage.is_open
    assert coverage.tally() == CastTally(notified=1, uncertain=3)
    assert not carrier.coverages.children


def test_a_region_for_whose_request_there_is_no_room_is_uncertain():
    carrier = Recorder()
    carrier.is_full = True
    carrier.splits["a", "b"] = Split(("a",), [(1, ("b",))])
    coverage = Coverage()
    carrier.coverages.cover(coverage, ("a", "b"))

    assert coverage.tally() == CastTally(notified=1, uncertain=1)
    assert carrier.take() == [("ended",)]


def test_a_dropped_coverage_asks_no_child_and_hears_none():
    carrier, coverage = begun(waiting=("e",))
    carrier.coverages.drop(coverage)

    assert carrier.take() == [("stop", 1), ("stop", 2)]
    carrier.coverages.report(1, CastTally(notified=1))
    assert coverage.here == CastTally(notified=1)


def test_a_requester_beyond_a_child_is_told_of_all_others():
    carrier, coverage = begun()
    carrier.coverages.report(1, CastTally(notified=3))

    assert coverage.tally(without=2) == CastTally(notified=4)
    assert coverage.tally(without=1) is None


def test_outcomes_of_members_keep_the_sum():
    tally = CastTally(open=len(Outcome) + 1)
    expected = tally.expected
    for outcome in (*Outcome, None):
        tally.count(outcome, name_of(b"", 1))

    assert tally.open == 0
    assert tally.expected == expected - 2, "counted elsewhere, and not selected"
    assert (tally.notified, tally.declined, tally.unreachable) == (2, 4, 2)


def test_a_sum_of_tallies_names_a_bounded_number_of_silent_members():
    tally = total(CastTally(unreachable=10, silent=(bytes([each]),) * 10) for each in range(20))

    assert tally.unreachable == 200
    assert len(tally.silent) == SILENT_MAX


# --- values


def test_values_combine_in_any_order_without_loss():
    numbers = [3, -(1 << 61), 7, 7, (1 << 61) + 1, 0]
    one = [
        (Sum.of, lambda found: (found.number(), found.answers) == (sum(numbers), 6)),
        (Least, lambda found: found.number == min(numbers)),
        (Most, lambda found: found.number == max(numbers)),
        (lambda each: Top(2, (each,)), lambda found: found.numbers == ((1 << 61) + 1, 7)),
        (lambda each: Histogram.of((0, 7), each), lambda found: found.counts == (1, 2, 3)),
    ]
    for make, is_right in one:
        found = None
        for seed in range(5):
            shuffled = list(numbers)
            Random(seed).shuffle(shuffled)
            found = None
            for number in shuffled:
                found = combined(found, make(number))
            assert is_right(found), found
        assert msgspec.msgpack.decode(pack(found), type=type(found)) == found


def test_a_report_whose_value_is_of_another_kind_is_refused_before_it_counts():
    carrier, coverage = begun()
    carrier.coverages.report(1, CastTally(notified=1, value=Sum.of(1)))
    with pytest.raises(RemoteError):
        carrier.coverages.report(2, CastTally(notified=1, value=Least(1)))
    with pytest.raises(RemoteError):
        combined(Histogram.of((1,), 1), Histogram.of((2,), 1))
    with pytest.raises(RemoteError):
        combined(Top(2, ()), Top(3, ()))

    assert coverage.is_open
    carrier.coverages.report(2, CastTally(notified=1, value=Sum.of(2)))
    assert coverage.tally().value == combined(Sum.of(1), Sum.of(2))


# --- a tree of peers over a bad network


@dataclass(eq=False)
class Job(Coverage):
    """A coverage that a peer owes to another, under the requester's id."""

    requester: tuple | None = None


@dataclass(eq=False)
class RangePeer:
    """Covers ranges (low, high) of numbered peers: it stands at its own number and halves the rest."""

    net: "RangeNet"
    number: int
    jobs: dict = field(default_factory=dict)
    answer: Sum | None = None
    last: int = 0

    def __post_init__(self):
        self.coverages = Coverages(self, lambda: 0)

    def split(self, coverage, regions):
        own, onward = [], []
        for low, high in regions:
            parts = [(low, min(high, self.number)), (max(low, self.number + 1), high)]
            own += [(low, high)] if low <= self.number < high else []
            for start, end in [part for part in parts if part[0] < part[1]]:
                middle = self.net.rng.randrange(start, end)
                onward.append((middle, ((start, end),)))
        return Split(tuple(own), onward)

    def local(self, coverage, regions):
        """A member that is asked again repeats its stored answer."""
        self.answer = self.answer or Sum.of(self.number)
        self.net.asked.append(self.number)
        coverage.here.add(CastTally(notified=1, value=self.answer))

    def pass_on(self, coverage, to, regions):
        self.last += 1
        child = (self.number, self.last)
        self.net.messages.append(("cover", self.number, to, child, regions))
        return child

    def stop(self, child):
        self.net.stopped.add(child)

    def wait(self, coverage):
        raise AssertionError("every peer can be asked")

    def changed(self, coverage):
        if not coverage.is_open:
            self.report(coverage)

    def report(self, job):
        if job.requester is None:
            self.net.results.append(job.tally())
        else:
            sender, child = job.requester
            self.net.messages.append(("report", self.number, sender, child, job.tally()))

    def receive(self, kind, sender, child, what):
        if kind == "report":
            self.coverages.report(child, what)
        elif child not in self.jobs:
            job = self.jobs[child] = Job(requester=(sender, child))
            self.coverages.cover(job, what)
        elif not self.jobs[child].is_open:
            self.report(self.jobs[child])


class RangeNet:
    """Peers 0 to n - 1. Messages are lost, repeated and overtake each other; children are given up wrongly."""

    def __init__(self, peers, rng):
        self.rng, self.messages, self.asked, self.results = rng, [], [], []
        self.stopped = set()
        self.peers = [RangePeer(self, number) for number in range(peers)]

    def run(self, root):
        job = Job()
        self.peers[root].coverages.cover(job, ((0, len(self.peers)),))
        while not self.results:
            if not self.messages:
                self.lose_one()
                continue
            kind, sender, to, child, what = self.messages.pop(
                self.rng.randrange(len(self.messages))
            )
            chance = self.rng.random()
            if chance < 0.15:
                continue
            if chance < 0.3:
                self.messages.append((kind, sender, to, child, what))
            self.peers[to].receive(kind, sender, child, what)
            if self.rng.random() < 0.05:
                self.lose_one()
        return job

    def lose_one(self):
        """Some peer takes a child for lost, rightly or not."""
        waiting = [peer for peer in self.peers if peer.coverages.children]
        if waiting:
            peer = self.rng.choice(waiting)
            peer.coverages.lose(self.rng.choice(list(peer.coverages.children)))


@given(st.integers(1, 24), st.integers(0, 1 << 32))
def test_each_member_counts_once_in_the_count_and_in_the_value(peers, seed):
    net = RangeNet(peers, Random(seed))
    job = net.run(root=seed % peers)

    (result,) = net.results
    assert result == job.tally()
    assert (result.notified, result.uncertain, result.open) == (peers, 0, 0)
    assert result.value == Sum((sum(range(peers))).to_bytes(16, signed=True), peers)
    assert set(net.asked) == set(range(peers))
