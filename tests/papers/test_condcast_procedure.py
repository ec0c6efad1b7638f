"""Sentences and worked examples of the condcast paper, over standing tables."""

from implicast.casting.condcast.split import split, split_by_definition
from implicast.language.queries import Above, Everything
from implicast.language.values import Threshold
from implicast.overlay.chord_sharp import Table
from implicast.overlay.links import Ref
from implicast.space.ring import Arc
from implicast.trials.condcast_spread import SentArcs, spread
from implicast.world.populations.chord_sharp import settled_tables

KEYS = (10, 13, 27, 29, 36, 40, 45, 47, 52)
VALUES = (20, 23, 18, 31, 28, 34, 20, 19, 32)


def _tables(keys: tuple[int, ...], values: tuple[int, ...]) -> dict[int, Table]:
    refs = [Ref(key, address) for address, key in enumerate(keys)]
    return dict(enumerate(settled_tables(refs, [Threshold(value) for value in values])))


def test_figure_2_values_of_at_least_30_between_20_and_50_take_four_messages() -> None:
    tables = _tables(KEYS, VALUES)

    for by in (split, split_by_definition):
        result = spread(tables, 0, (Arc(20, 50),), Above(30, or_equal=True).match, by)

        assert result.sent == [
            SentArcs(0, 2, (Arc(27, 36),), 1),
            SentArcs(0, 4, (Arc(36, 50),), 1),
            SentArcs(2, 3, (Arc(29, 36),), 2),
            SentArcs(4, 5, (Arc(40, 45),), 2),
        ]
        assert sorted(result.delivered) == [3, 5]


def test_figure_1_split_forward_broadcasting_is_the_case_in_which_everything_matches() -> None:
    tables = _tables((*KEYS, 60), (*VALUES, 0))

    result = spread(tables, 0, (Arc(20, 54),), Everything().match)

    assert [sent for sent in result.sent if sent.sender == 0] == [
        SentArcs(
            0, 1, (Arc(20, 27),), 1
        ),  # N1 is outside, but only N1 knows that nobody lies between 20 and 27
        SentArcs(0, 2, (Arc(27, 36),), 1),
        SentArcs(0, 4, (Arc(36, 52),), 1),
        SentArcs(0, 8, (Arc(52, 54),), 1),
    ]
    assert sorted(result.delivered) == [2, 3, 4, 5, 6, 7, 8]


def test_figure_6_the_table_of_n0_as_drawn_leaves_27_to_52_in_two_pieces() -> None:
    tables = _tables((*KEYS, 60), (*VALUES, 0))
    table = tables[0]
    table.ends[3] = 60  # drawn so, not yet run on past N0
    table.values = [Threshold(18), Threshold(31), Threshold(34), Threshold(29)]

    here, onward = split(table, (Arc(20, 54),), Above(30, or_equal=True).match)

    assert not here
    assert onward == [(tables[2].me, (Arc(27, 36),)), (tables[4].me, (Arc(36, 52),))]


def test_formulas_5_to_7_the_table_of_a_settled_ring() -> None:
    tables = _tables(KEYS, VALUES)

    assert [node.address for node in tables[0].nodes] == [1, 2, 4, 8]
    assert [tables[0].range(level) for level in range(4)] == [
        Arc(13, 27),
        Arc(27, 36),
        Arc(36, 52),
        Arc(52, 47),
    ]
    assert tables[0].values == [Threshold(23), Threshold(31), Threshold(34), Threshold(34)]


def test_a_node_alone_tells_only_itself() -> None:
    tables = _tables((5,), (7,))

    assert spread(tables, 0, (Arc(3, 9),), Above(1).match).delivered == [0]
    assert spread(tables, 0, (Arc(6, 9),), Above(1).match).delivered == []
    assert spread(tables, 0, (Arc(1, 1),), Above(1).match).sent == []


def test_of_two_nodes_each_speaks_for_the_other_up_to_itself() -> None:
    tables = _tables((5, 8), (7, 9))

    assert tables[0].range(0) == Arc(8, 5)
    assert spread(tables, 0, (Arc(6, 7),), Above(1).match).delivered == []


def test_nobody_matches_and_nothing_is_sent() -> None:
    assert spread(_tables(KEYS, VALUES), 3, (Arc(0, 0),), Above(34).match).sent == []
