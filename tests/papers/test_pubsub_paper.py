"""Sentences and figures of "Content-based publish/subscribe over Chord", and where its hops come from."""

import pytest

from implicast.casting.pubsub import PubSub
from implicast.casting.pubsub.value_mapping import SubIdLayout, ValueMapping, matching, spans_of
from implicast.language.attributes import Schema
from implicast.language.parse import describe, parse
from implicast.trials.pubsub import PubSubRing, event_trial, storage_trial

FIGURE_1 = Schema.read(
    "exchange: text; symbol: text; price: 0.0..20.0 by 0.01; high: 0.0..20.0 by 0.01; low: 0.0..20.0 by 0.01"
)
SUBSCRIPTION_1 = "exchange = NYSE & symbol = OTE & price < 8.70 & price > 8.30"
SUBSCRIPTION_2 = "symbol = OTE & price = 8.20 & low < 8.05"
EVENT_1 = {"exchange": "NYSE", "symbol": "OTE", "price": "8.40", "high": "8.80", "low": "8.22"}


def test_figure_3_subscription_3_of_node_4_with_5_attributes_is_285() -> None:
    """ "a 3-bit identifier address space [...] 8 outstanding subscriptions with an attribute schema including 7"."""
    layout = SubIdLayout.sized(node_bits=3, subscriptions=8, attributes=7)

    sub_id = layout.pack(node=4, number=3, attributes=5)

    assert sub_id == 0b100_011_101 == 285
    assert (layout.node(sub_id), layout.number(sub_id), layout.attributes(sub_id)) == (4, 3, 5)


def test_a_million_subscriptions_need_20_bits() -> None:
    """ "if each node needs to manage 1,000,000 of subscriptions, c2 will be 20-bits long"."""
    assert SubIdLayout.sized(node_bits=40, subscriptions=1_000_000, attributes=7).number_bits == 20


def test_the_id_is_placed_at_39_values_from_8_31_to_8_69() -> None:
    """ "the subID1 will be placed in 39 Chord nodes [...] 8.31, 8.32, ..., 8.68, 8.69"."""
    (term,) = parse(SUBSCRIPTION_1, FIGURE_1).terms
    price = next(span for span in spans_of(term, FIGURE_1) if span.attribute == "price")

    steps = range(price.low, price.high + 1)
    values = [FIGURE_1.text("price", step) for step in steps]

    assert len(values) == len(price) == 39
    assert (values[0], values[1], values[-2], values[-1]) == ("8.31", "8.32", "8.68", "8.69")
    mapping = ValueMapping(FIGURE_1, ordered=False, walk="auto", values_max=20_000)
    assert len({mapping.key("price", step) for step in steps}) == 39


def test_two_constraints_on_one_attribute_count_as_one() -> None:
    (term,) = parse(SUBSCRIPTION_1, FIGURE_1).terms

    assert [span.attribute for span in spans_of(term, FIGURE_1)] == ["exchange", "price", "symbol"]


def test_the_worked_example_matches_subscription_1_in_three_lists_and_drops_2_found_in_two() -> (
    None
):
    layout = SubIdLayout()
    ids = {
        text: layout.pack(1, number, 3)
        for number, text in enumerate((SUBSCRIPTION_1, SUBSCRIPTION_2))
    }
    event = describe(values=EVENT_1, schema=FIGURE_1)
    lists = []
    for given in event.values:
        admitting = []
        for text, sub_id in ids.items():
            (term,) = parse(text, FIGURE_1).terms
            if any(
                each.attribute == given.attribute and each.admits(given.value)
                for each in term.where
            ):
                admitting.append(sub_id)
        lists.append(admitting)

    assert sorted(map(len, lists)) == [0, 0, 1, 1, 2], "high and low list nobody; OTE lists both"
    assert matching(lists, layout.attributes) == [ids[SUBSCRIPTION_1]]


def test_figure_7_a_range_lies_on_consecutive_nodes_in_order() -> None:
    """ "store the sequential values of a range interval in sequential nodes over the Chord ring"."""
    ring = PubSubRing(64, ordered=True, domain=64, seed=1, walk="neighbours")
    ring.store(5, 20, 29)

    members = sorted(
        (peer for peer in ring.peers if isinstance(peer, PubSub)),
        key=lambda peer: peer.chord.table.own,
    )
    first = next(peer for peer in members if peer.chord.owns(peer.mapping.key("a0", 20)))
    start = members.index(first)
    met = [
        entry.slot[2]
        for peer in members[start:] + members[:start]
        for entry in peer.holder_state.all_entries()
    ]

    assert met == list(range(20, 30)), "clockwise from the node of the lowest value, in order"
    assert ring.world.kinds["PutEntry"] < 10 + 3 + 6


CHORD_TOLERANCE, OPCHORD_TOLERANCE = 0.25, 0.15


def assert_near_formula(nodes: int, values: int, samples: int) -> None:
    chord = storage_trial(nodes, values, ordered=False, domain=nodes, samples=max(4, samples // 2))
    ordered = storage_trial(nodes, values, ordered=True, domain=nodes, samples=samples)

    assert chord["hops"] == pytest.approx(chord["formula_with_last_hop"], rel=CHORD_TOLERANCE), (
        chord
    )
    assert ordered["hops"] == pytest.approx(ordered["formula"], rel=OPCHORD_TOLERANCE), ordered


@pytest.mark.parametrize("values", [4, 16, 64])
@pytest.mark.parametrize("nodes", [64, 512])
def test_storing_a_range_takes_the_hops_of_the_formulas(nodes: int, values: int) -> None:
    """r times a look-up on Chord; one look-up and r steps on OPChord."""
    assert_near_formula(nodes, values, samples=60 if values < 64 else 30)


@pytest.mark.long
@pytest.mark.parametrize("values", [4, 16, 64])
@pytest.mark.parametrize("nodes", [64, 128, 256, 512, 1024, 2048, 4096])
def test_storing_a_range_takes_the_hops_of_the_formulas_up_to_4096_nodes(
    nodes: int, values: int
) -> None:
    assert_near_formula(nodes, values, samples=100)


@pytest.mark.parametrize(("nodes", "share"), [(256, 8), (256, 32)])
def test_on_a_small_domain_the_remedy_keeps_opchord_no_worse_than_chord(
    nodes: int, share: int
) -> None:
    domain = nodes // share
    values = domain // 2

    chord = storage_trial(nodes, values, ordered=False, domain=domain, samples=20)
    remedied = storage_trial(nodes, values, ordered=True, domain=domain, samples=20)
    walked = storage_trial(
        nodes, values, ordered=True, domain=domain, samples=20, walk="neighbours"
    )

    assert remedied["hops"] <= chord["hops"] < walked["hops"], "without the remedy it is worse"


def test_an_event_with_five_attributes_takes_five_look_ups() -> None:
    """ "contacting N_a-event 1/2 log(N) nodes to collect the subscription ids lists"."""
    for ordered in (False, True):
        entry = event_trial(256, 5, ordered)
        assert entry["hops"] == pytest.approx(entry["formula"] + 5 * 0.9, rel=0.15)
