"""What is compiled of the graph says what the readable form says, of any nodes and lists."""

import importlib.util
from collections.abc import Iterator
from operator import is_
from random import Random
from types import ModuleType
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from implicast.overlay.skip_graph import agreement, place, places
from implicast.overlay.skip_graph.agreement import ListSpan
from implicast.overlay.skip_graph.table import LevelTable, NodeLists, twin
from implicast.peer.identity import Certificate
from implicast.space.built import built
from implicast.space.vector import Vectors

pytestmark = pytest.mark.skipif(
    built("overlay.skip_graph._lists") is None, reason="nothing was compiled"
)
VECTORS = Vectors(2)


def readable(module: ModuleType) -> ModuleType:
    """The same module once more, without its twins."""
    assert module.__file__ is not None
    spec = importlib.util.spec_from_file_location(
        f"readable_{module.__name__.split('.')[-1]}", module.__file__
    )
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IMPLICAST_CORE", "python")
        spec.loader.exec_module(found)
    return found


def population(rng: Random, n: int) -> list[Certificate]:
    """Some of few addresses, with keys close enough to meet twice."""
    return [
        Certificate(
            b"%03d" % rng.randrange(3 * n),
            VECTORS.pack_number(rng.getrandbits(256)),
            f"p{serial}",
            rng.randrange(6),
            b"public",
            serial,
            0,
            1 << 40,
            b"signature",
        )
        for serial in range(n)
    ]


def spelled(table: LevelTable[Certificate]) -> list[object]:
    return [(level.nodes, level.keys, level.own, level.full, level.fresh) for level in table.levels]


def asked(table: LevelTable[Certificate], keys: list[bytes]) -> list[object]:
    """All else that can be asked of lists."""
    levels = table.levels
    where = [
        (len(level), *[(level.position(key), level.spans(key)) for key in keys]) for level in levels
    ]
    some = [table.named(0, number) for number in range(len(levels) + 2)]
    ends = [table.ends(number) for number in range(len(levels))]
    return [
        where,
        some,
        ends,
        table.borders((2, 2)),
        table.everyone,
        table.contacts(),
        table.listed(),
        table.top,
    ]


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 5))
def test_who_is_nearest_and_who_a_stranger(seed: int, n: int, count: int) -> None:
    rng, definition = Random(seed), readable(place)
    nodes = population(rng, n)
    known = {node.key: node for node in nodes if rng.random() < 0.5}
    key = b"%03d" % rng.randrange(3 * n)

    assert definition.nearest is not place.nearest
    assert place.nearest(key, nodes, count) == definition.nearest(key, nodes, count)
    assert place.unknown_nodes(known, nodes) == definition.unknown_nodes(known, nodes)
    news = {node.key: node for node in nodes if rng.random() < 0.2}
    said = tuple(node for node in nodes if rng.random() < 0.5)
    assert place.updated(said, news, known, nodes[0], nodes[-1]) == definition.updated(
        said, news, known, nodes[0], nodes[-1]
    )


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(2, 4))
def test_who_is_taken_in_and_what_is_known_of_whom(seed: int, n: int, k: int) -> None:
    rng, definition, held_law = Random(seed), readable(place), readable(places)
    owner, *some = population(rng, n + 1)
    both = [
        kind(owner, k, VECTORS) for kind in (NodeLists[Certificate], twin(NodeLists[Certificate]))
    ]
    for _ in range(4):
        told = [*rng.choices([owner, *some], k=n), *population(rng, rng.choice([1, n]))]
        assert definition.add_nodes(both[0], owner.key, told) == place.add_nodes(
            both[1], owner.key, told
        )
        assert list(both[0].known.items()) == list(both[1].known.items())
        for mine, twins in zip(both[0].tables(), both[1].tables(), strict=True):
            assert spelled(mine) == spelled(twins)
            about = rng.choice(told)
            assert place.answer(twins, VECTORS, k, about) == definition.answer(
                mine, VECTORS, k, about
            )
        changes = [each.changes for each in both]
        if rng.random() < 0.5:
            for around in both:
                around.keep_listed()
            assert [each.changes > before for each, before in zip(both, changes, strict=True)] in (
                [False] * 2,
                [True] * 2,
            )
        found = both[0].known
        assert found == both[1].known
        where = rng.randrange(6)
        assert places.nodes_with(both, place.ADDRESS, where) == held_law.nodes_with(
            both, place.ADDRESS, where
        )
        void = {rng.randrange(n + 1), rng.randrange(n + 1)}
        assert places.revoked_keys(found, void, {"p1"}) == held_law.revoked_keys(
            found, void, {"p1"}
        )


def kept(
    before: tuple[LevelTable[Certificate], ...], now: tuple[LevelTable[Certificate], ...]
) -> list[object]:
    """Which tables, and which lists of them, are the same objects as before."""
    return [
        (new is old, [*map(is_, old.levels, new.levels)])
        for old, new in zip(before, now, strict=True)
    ]


History = list[tuple[str, int, int, bool]]
HISTORIES = st.lists(
    st.tuples(
        st.sampled_from(
            ["put", "put", "move", "renew", "remove", "visit", "add", "replace", "own", "keep"]
        ),
        st.integers(0, 40),
        st.integers(0, 8),
        st.booleans(),
    ),
    min_size=1,
    max_size=30,
)
"""Operations, each with the number of a node, a number of digits or nodes, and whether the lists are
read after it. Nodes change their vectors, enter and leave between two readings, and more than
`MOVED_MAX` of them change at once.
"""


class Step(NamedTuple):
    """One operation of a history, with its nodes."""

    operation: str
    node: Certificate
    some: list[Certificate]
    owner: Certificate

    def perform(self, around: NodeLists[Certificate], form: ModuleType) -> None:
        match self.operation:
            case "put" | "move" | "renew":
                around.put(self.node)
            case "remove":
                around.remove(self.node.key)
            case "visit":
                self._visit(around)
            case "add":
                form.add_nodes(around, self.owner.key, self.some)
            case "replace":
                around.replace(self.some)
            case "own":
                around.renew(self.owner)
            case "keep":
                around.keep_listed()

    def _visit(self, around: NodeLists[Certificate]) -> None:
        """Add and remove a node, or remove it and add it again."""
        held = around.known.get(self.node.key)
        if held is None:
            around.put(self.node)
        around.remove(self.node.key)
        if held is not None:
            around.put(held)


def steps(
    owner: Certificate, others: list[Certificate], history: History
) -> Iterator[tuple[Step, bool]]:
    """The steps of a history, and whether the lists are read after each."""
    for serial, (operation, which, number, is_read) in enumerate(history, 1_000):
        node = others[which % len(others)]
        some = [others[(which + step) % len(others)] for step in range(2 * number)]
        if operation == "move":  # shares exactly so many digits with the owner
            vector = owner.vector ^ 1 << VECTORS.length - 1 - number
            node = msgspec.structs.replace(node, vector=vector, serial=serial)
        elif operation == "renew":
            node = msgspec.structs.replace(node, serial=serial)
        elif operation == "own":
            owner = msgspec.structs.replace(owner, serial=serial)
        yield Step(operation, node, some, owner), is_read


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 2**32), st.integers(2, 40), st.integers(2, 4), HISTORIES)
def test_any_history_leaves_equal_lists_and_keeps_the_same_objects(
    seed: int, n: int, k: int, history: History
) -> None:
    """List comparison skips a list that is the same object as before: a form that makes a new
    object of an unchanged list sends more messages.
    """
    forms = (readable(place), place)
    owner, *others = {node.key: node for node in population(Random(seed), n + 1)}.values()
    assume(others)
    both = [
        kind(owner, k, VECTORS) for kind in (NodeLists[Certificate], twin(NodeLists[Certificate]))
    ]
    for around in both:
        around.replace([node for at, node in enumerate(others) if at % 3])
    before = [around.tables() for around in both]
    for step, is_read in steps(owner, others, history):
        for around, form in zip(both, forms, strict=True):
            step.perform(around, form)
        assert list(both[0].known.items()) == list(both[1].known.items())
        assert both[0].changes == both[1].changes
        if is_read:
            now = [around.tables() for around in both]
            assert [*map(spelled, now[0])] == [*map(spelled, now[1])]
            assert kept(before[0], now[0]) == kept(before[1], now[1])
            before = now


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(2, 4))
def test_lists_and_what_two_of_them_differ_in(seed: int, n: int, k: int) -> None:
    rng, definition = Random(seed), readable(agreement)
    owner, *others = {node.key: node for node in population(rng, n + 1)}.values()
    both = [
        kind(owner, k, VECTORS) for kind in (NodeLists[Certificate], twin(NodeLists[Certificate]))
    ]
    for around in both:
        around.replace(others)
    keys = [b"%03d" % rng.randrange(3 * n) for _ in range(8)]

    for mine, twins in zip(both[0].tables(), both[1].tables(), strict=True):
        assert spelled(mine) == spelled(twins)
        assert asked(mine, keys) == asked(twins, keys)
        for number, (level, same) in enumerate(zip(mine.levels, twins.levels, strict=True)):
            for is_left in (True, False):
                assert agreement.neighbour(same, owner.address, is_left) == definition.neighbour(
                    level, owner.address, is_left
                )
            some = tuple(key for key in level.keys if rng.random() < 0.7)
            span = ListSpan(owner.key, rng.choice(level.nodes), number, some, rng.random() < 0.2)
            assert agreement.span_differences(twins, VECTORS, span) == definition.span_differences(
                mine, VECTORS, span
            )
            near = rng.choice(level.nodes)
            other = twin(NodeLists[Certificate])(near, k, VECTORS)
            other.replace(
                [node for node in (owner, *others) if node.key != near.key and rng.random() < 0.95]
            )
            shown = other.tables()[1].levels[min(number, other.tables()[1].top)]
            for theirs in (some, shown.keys, level.keys):
                span = ListSpan(owner.key, near, number, theirs, shown.full)
                assert agreement.span_agrees(twins, span) == definition.span_agrees(mine, span)
        assert agreement.own_neighbours(twins, owner.address) == definition.own_neighbours(
            mine, owner.address
        )
        before, agreed = mine.levels[: rng.randrange(3)], {(0, True): mine.levels[0].nodes}
        named = [each[:2] for each in agreement.unagreed(mine.levels, before, agreed)]
        assert named == [each[:2] for each in definition.unagreed(mine.levels, before, agreed)]
