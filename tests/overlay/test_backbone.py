"""The backbone: its tree against SciPy's, its filters, and who knows what when it says that all know."""

from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import minimum_spanning_tree

from implicast.language.bloom import Bloom
from implicast.language.target import Target, Term
from implicast.overlay.backbone.backbone import (
    Backbone,
    GenerationRequest,
    NewGeneration,
    WholeFilter,
)
from implicast.overlay.backbone.edges import FLUSH_US, RETRY, CoverageAck, FlushDue, TagUpdate
from implicast.overlay.backbone.fields import EPOCH_SHIFT
from implicast.overlay.backbone.table import FilterTable
from implicast.overlay.backbone.tree import EASY_DEGREE, by_rank, spanning_tree
from implicast.overlay.backbone.views import View
from implicast.peer.ledger import Ledger
from implicast.peer.name import name_of
from implicast.peer.requests import Requests, RequestTimeout
from implicast.space.digest import digest_bits
from implicast.world.network import build
from implicast.world.populations.nearest_brokers import nearest


def asking(*tags: str) -> Target:
    return Target((Term(has=tags),))


# --- the tree


def assert_spanning_tree(brokers: list[int], latency_us: Callable[[int, int], int]) -> None:
    neighbours = spanning_tree(brokers, lambda a, b: latency_us(a, b) + latency_us(b, a))
    links = {(a, b) for a in brokers for b in neighbours[a] if a < b}
    reached = [brokers[0]]
    for broker in reached:
        reached += [other for other in neighbours[broker] if other not in reached]
    trips = np.array(
        [[latency_us(a, b) + latency_us(b, a) if a != b else 0 for b in brokers] for a in brokers]
    )

    assert len(links) == len(brokers) - 1
    assert sorted(reached) == brokers
    assert all(a in neighbours[b] for a in brokers for b in neighbours[a])
    assert (
        sum(latency_us(a, b) + latency_us(b, a) for a, b in links)
        == minimum_spanning_tree(trips).sum()
    )


@given(st.integers(2, 40), st.integers(1, 12), st.integers(0, 99))
def test_the_backbone_is_a_minimum_spanning_tree(count, times, seed):
    assert_spanning_tree(
        list(range(10, 10 + count)),
        lambda a, b: 1 + digest_bits(32, seed, min(a, b), max(a, b)) % times,
    )


@pytest.mark.parametrize("kind", ["flat", "national", "laboratory"])
def test_the_backbone_of_a_real_network_is_a_minimum_spanning_tree(kind):
    network = build(kind, hosts=10, infrastructure=60, seed=1)

    assert_spanning_tree(list(range(10, 70)), network.latency_us)


def test_where_all_are_equally_far_the_tree_is_shallow_without_hubs():
    neighbours = spanning_tree(list(range(200)), lambda a, b: 5)

    assert max(map(len, neighbours.values())) <= EASY_DEGREE
    depth = {0: 0}
    for broker in list(depth):
        frontier = [broker]
        for each in frontier:
            for other in neighbours[each]:
                if other not in depth:
                    depth[other] = depth[each] + 1
                    frontier.append(other)
    assert max(depth.values()) == 2


def test_a_client_takes_the_broker_with_the_shortest_round_trip():
    round_trip_us = {1: 50, 2: 30, 3: 40}

    assert nearest(name_of(b"", 0), [1, 2, 3], round_trip_us.__getitem__, b"") == 2


def test_clients_spread_over_brokers_that_are_equally_near():
    brokers = [("a.example", 1), ("b.example", 1), ("b.example", 2), ("c.example", 1)]
    clients = [name_of(b"", number) for number in range(400)]
    chosen = [nearest(client, brokers, lambda broker: 7, b"net") for client in clients]

    assert all(70 <= chosen.count(broker) <= 130 for broker in brokers)
    assert chosen[:9] == [by_rank(client, brokers, b"net")[0] for client in clients[:9]]


# --- the table


def test_a_filter_answers_for_the_side_it_belongs_to():
    table = FilterTable([0, 1, 2], generation=1, capacity=100, error=0.001)
    table.put(1, ["jazz", "samba"])
    table.put(2, ["football"])

    assert table.filters[1].passes(asking("jazz", "samba"))
    assert not table.filters[1].passes(asking("jazz", "football"))
    assert not table.filters[2].passes(asking("jazz"))
    either = Target((Term(has=("chess",)), Term(has=("jazz",), lacks=("samba",))))
    assert table.filters[1].passes(either), "lacks is not asked"


def test_distinct_tags_are_estimated_from_the_bits():
    table = FilterTable([0, 1], generation=1, capacity=2000, error=0.1)
    table.put(0, [f"a{i}" for i in range(700)])
    table.put(1, [f"b{i}" for i in range(800)])

    assert table.estimate() == pytest.approx(1500, rel=0.05)
    table.compress()
    assert table.estimate() == pytest.approx(1500, rel=0.05)
    table.put(1, [f"c{i}" for i in range(300)])
    assert table.estimate() == pytest.approx(1800, rel=0.1)


@given(
    st.integers(2, 140),
    st.lists(st.tuples(st.integers(0, 139), st.integers(0, 60)), max_size=60),
    st.integers(1, 40),
)
def test_filters_side_by_side_are_the_filters_one_by_one(sources, puts, capacity):
    """The readable law: a Bloom filter for each source, and who holds a tag by asking each."""
    table = FilterTable(list(range(100, 100 + sources)), generation=1, capacity=capacity, error=0.1)
    alone = {source: Bloom.sized(capacity, 0.1) for source in table.filters}
    for number, tag in puts:
        source, name = 100 + number % sources, f"tag{tag}"
        table.put(source, [name])
        alone[source].add(name)

    assert table.filters == alone
    others = [alone[source] for source in alone if source != 100]
    assert table.union_except(100) == reduce(Bloom.union, others).to_bytes()
    for tag in range(60):
        target = asking(f"tag{tag}")
        assert [table.filters[each].passes(target) for each in alone] == [
            alone[each].passes(target) for each in alone
        ]
    copy = FilterTable(list(table.filters), generation=1, capacity=capacity, error=0.1)
    copy.replace(100 + sources - 1, alone[100].to_bytes())
    assert copy.filters[100 + sources - 1] == alone[100]
    assert copy.filters[100].fill() == 0


@pytest.mark.parametrize("error", [0.01, 0.1, 0.3])
@pytest.mark.parametrize("tags", [40, 400, 4000])
def test_a_pressed_filter_errs_as_often_as_it_is_told_to(error, tags):
    """However few of all tags lie beyond a neighbour. Absent tags are asked one by one."""
    table = FilterTable([0, 1], generation=1, capacity=12_000, error=error)
    table.put(0, [f"own{i}" for i in range(6000)])
    table.put(1, [f"far{i}" for i in range(tags)])
    unpressed = sum(table.filters[1].might_hold(f"none{i}") for i in range(4000))
    table.compress()

    passed = sum(table.filters[1].might_hold(f"none{i}") for i in range(4000)) / 4000
    assert all(table.filters[1].might_hold(f"far{i}") for i in range(tags)), (
        "what is there is never denied"
    )
    assert 0.4 * error < passed < 1.3 * error, f"{passed} of absent tags pass"
    assert tags > 1000 or unpressed < 4000 * error / 10, "which the common size does not do"
    assert table.filters[1].bits < table.filters[0].bits


def test_a_pressed_filter_that_holds_a_fifth_more_asks_to_be_made_anew():
    table = FilterTable([0, 1], generation=1, capacity=2000, error=0.1)
    table.put(1, [f"tag{i}" for i in range(1000)])
    table.compress()

    table.put(1, [f"more{i}" for i in range(100)])
    assert not table.outgrown
    table.put(1, [f"still{i}" for i in range(160)])
    assert table.outgrown
    assert all(table.filters[1].might_hold(f"still{i}") for i in range(160))


# --- conversations, written down


BASE = 1 << EPOCH_SHIFT
"""Generations and serials of view 1 begin here."""


class Scene:
    """A broker at 5 with its ledger, in view 1; `done` lists the tokens that were covered."""

    def __init__(self, neighbours: tuple[int, ...], root: int = 9, capacity: int = 100) -> None:
        self.ledger, self.done, self.tags = Ledger(), [], []
        self.requests = Requests(5, self.ledger)
        self.backbone = Backbone(
            5,
            self.ledger,
            self.requests,
            capacity,
            0.01,
            lambda: self.tags,
            lambda token: self.done.append(token),
        )
        self.edges = self.backbone.edges
        self.backbone.restore(View(1, root, neighbours, capacity))

    def sent(self):
        return self.ledger.sent()


def test_news_go_to_all_others_and_are_covered_when_they_have_answered():
    scene = Scene((6, 7, 8))
    scene.backbone.on_tag_update(6, TagUpdate(BASE + 41, BASE, ("jazz",)))

    assert scene.sent() == [
        (7, TagUpdate(BASE + 1, BASE, ("jazz",))),
        (8, TagUpdate(BASE + 1, BASE, ("jazz",))),
    ]
    scene.edges.on_coverage_ack(7, CoverageAck(BASE + 1))
    assert scene.sent() == []
    scene.edges.on_coverage_ack(8, CoverageAck(BASE + 1))
    assert scene.sent() == [(6, CoverageAck(BASE + 41))]


def test_what_is_known_is_not_said_again_but_waited_for_while_it_is_under_way():
    scene = Scene((6, 7))
    scene.backbone.announce_tags(["jazz"], "first")
    scene.backbone.announce_tags([], "second")

    assert scene.sent() == [
        (6, TagUpdate(BASE + 1, BASE, ("jazz",))),
        (7, TagUpdate(BASE + 1, BASE, ("jazz",))),
    ]
    scene.edges.on_coverage_ack(6, CoverageAck(BASE + 1))
    assert scene.done == []
    scene.edges.on_coverage_ack(7, CoverageAck(BASE + 1))
    assert scene.done == ["first", "second"]
    scene.backbone.announce_tags([], "third")
    assert scene.sent() == []
    assert scene.done == ["first", "second", "third"]


def test_answers_may_come_in_any_order():
    scene = Scene((6,))
    for number in range(3):
        scene.backbone.announce_tags([f"tag{number}"], number)
        scene.edges.on_flush_due(FlushDue())
    scene.edges.on_coverage_ack(6, CoverageAck(BASE + 3))
    scene.edges.on_coverage_ack(6, CoverageAck(BASE + 2))

    assert scene.done == []
    scene.edges.on_coverage_ack(6, CoverageAck(BASE + 1))
    assert scene.done == [0, 1, 2]


def test_news_that_come_in_quick_succession_are_told_together():
    scene = Scene((6,))
    for number in range(4):
        scene.backbone.announce_tags([f"tag{number}"], number)
    assert scene.ledger.take() == [
        ("after", RETRY.first_us, RequestTimeout()),
        ("send", 6, TagUpdate(BASE + 1, BASE, ("tag0",))),
        ("after", FLUSH_US, FlushDue()),
    ]
    scene.edges.on_coverage_ack(6, CoverageAck(BASE + 1))
    assert scene.done == [0], "what is still unsaid is waited for"
    scene.edges.on_flush_due(FlushDue())
    assert scene.sent() == [(6, TagUpdate(BASE + 2, BASE, ("tag1", "tag2", "tag3")))]
    scene.edges.on_coverage_ack(6, CoverageAck(BASE + 2))
    assert scene.done == [0, 1, 2, 3]


def test_what_is_unsaid_goes_before_a_new_generation():
    scene = Scene((6,))
    scene.backbone.announce_tags(["jazz"], "first")
    scene.backbone.announce_tags(["samba"], "second")
    scene.backbone.on_new_generation(6, NewGeneration(BASE + 1, BASE + 1, 500))

    kinds = [type(message) for _, message in scene.sent()]
    assert kinds == [TagUpdate, TagUpdate, WholeFilter, CoverageAck]


def test_a_leaf_answers_at_once_and_a_repeat_again():
    scene = Scene((6,))
    for _ in range(2):
        scene.backbone.on_tag_update(6, TagUpdate(BASE + 1, BASE, ("jazz",)))

    assert scene.sent() == [(6, CoverageAck(BASE + 1)), (6, CoverageAck(BASE + 1))]


def test_silence_is_answered_by_saying_it_again():
    scene = Scene((6,))
    scene.backbone.announce_tags(["jazz"], "first")
    scene.ledger.take()
    scene.ledger.now_us += RETRY.first_us
    scene.requests.on_request_timeout(RequestTimeout())

    assert (6, TagUpdate(BASE + 1, BASE, ("jazz",))) in scene.sent()


def test_the_root_begins_a_larger_generation_when_tags_outgrow_the_filters():
    scene = Scene((6, 7), root=5, capacity=10)
    scene.tags = [f"tag{i}" for i in range(12)]
    scene.backbone.announce_tags(scene.tags, "many")

    renewals = [(to, message) for to, message in scene.sent() if isinstance(message, NewGeneration)]
    assert [(to, message.generation) for to, message in renewals] == [(6, BASE + 1), (7, BASE + 1)]
    assert all(message.capacity > 12 for _, message in renewals)


def test_a_leaf_that_hears_of_a_generation_sends_its_whole_filter():
    scene = Scene((6,))
    scene.tags = ["jazz"]
    scene.backbone.on_new_generation(6, NewGeneration(BASE + 1, BASE + 1, 500))

    (to, summary), *rest = scene.sent()
    assert (to, type(summary), summary.generation, summary.capacity) == (
        6,
        WholeFilter,
        BASE + 1,
        500,
    )
    assert rest == [(6, CoverageAck(BASE + 1))]
    assert scene.backbone.table.generation == BASE, (
        "until the other side's filter is here, the old one counts too"
    )
    scene.backbone.on_whole_filter(
        6, WholeFilter(BASE + 2, BASE + 1, 500, bytes(len(summary.filter)))
    )
    assert scene.backbone.table.generation == BASE + 1
    assert scene.sent() == [(6, CoverageAck(BASE + 2))]


def test_casts_follow_the_old_filters_until_the_new_ones_are_whole():
    scene = Scene((6,))
    scene.backbone.on_tag_update(6, TagUpdate(BASE + 1, BASE, ("jazz",)))
    scene.backbone.on_new_generation(6, NewGeneration(BASE + 2, BASE + 1, 500))
    assert scene.backbone.leads(6, asking("jazz"))
    size = len(scene.backbone.next.filters[6].to_bytes())
    scene.backbone.on_whole_filter(6, WholeFilter(BASE + 3, BASE + 1, 500, bytes(size)))

    assert not scene.backbone.leads(6, asking("jazz")), "the new generation has forgotten it"


def test_what_overtakes_the_beginning_of_its_generation_is_left_unanswered():
    scene = Scene((6,))
    scene.backbone.on_tag_update(6, TagUpdate(BASE + 7, BASE + 1, ("jazz",)))

    assert scene.sent() == []


def test_only_the_root_begins_generations_and_only_for_the_present_one():
    scene, root = Scene((6,)), Scene((6,), root=5)
    scene.backbone.on_generation_request(6, GenerationRequest(BASE))
    root.backbone.on_generation_request(6, GenerationRequest(BASE + 6))
    assert scene.sent() == root.sent() == []
    root.backbone.on_generation_request(6, GenerationRequest(BASE))
    assert isinstance(root.sent()[0][1], WholeFilter)


# --- views


def test_what_is_of_another_view_or_from_no_neighbour_is_left_unanswered():
    scene = Scene((6,))
    other = 2 << EPOCH_SHIFT
    for sender, told in (
        (6, TagUpdate(other, other, ("jazz",))),
        (7, TagUpdate(BASE + 1, BASE, ("jazz",))),
    ):
        scene.backbone.on_tag_update(sender, told)
    scene.backbone.on_new_generation(7, NewGeneration(BASE + 1, BASE + 1, 500))
    scene.backbone.on_whole_filter(7, WholeFilter(BASE + 1, BASE + 1, 500, b""))
    scene.edges.on_coverage_ack(7, CoverageAck(BASE + 1))

    assert scene.sent() == []


def test_casts_flood_until_the_filters_of_a_new_tree_are_whole():
    scene = Scene((6,))
    assert not scene.backbone.leads(6, asking("polka"))
    scene.backbone.follow(View(2, 9, (6,), 100))
    assert scene.backbone.leads(6, asking("polka"))
    base = 2 << EPOCH_SHIFT
    empty = bytes(len(scene.backbone.next.filters[6].to_bytes()))
    scene.backbone.on_whole_filter(6, WholeFilter(base + 1, base + 1, 100, empty))

    assert not scene.backbone.leads(6, asking("polka"))


def test_a_filter_of_another_size_is_not_taken():
    scene = Scene((6,))
    scene.backbone.on_whole_filter(6, WholeFilter(BASE + 1, BASE + 1, 500, b"x"))

    assert scene.backbone.table.generation == BASE
    assert not [message for _, message in scene.sent() if isinstance(message, CoverageAck)]


def test_repeats_do_not_pile_up():
    scene = Scene((6, 7))
    for _ in range(100):
        scene.backbone.on_tag_update(6, TagUpdate(BASE + 1, BASE, ("jazz",)))

    assert len(scene.edges._edges[7].waiters) == 1
