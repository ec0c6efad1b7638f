"""The law that promises rest on: an aggregate holds all that was so when its oldest part was young, whatever happened.

Nodes come, go and learn from each other in any order and at any time. Whoever stood in an arc with its value since
before the time from which on an aggregate over that arc claims to be true is in that aggregate.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from implicast.language.values import Categories
from implicast.overlay.chord_sharp import FingerEntry, Table
from implicast.overlay.links import Ref
from implicast.space.digest import stream

KEYS = 64


class Ring:
    """A ring whose right pointers are always true, with tables that learn when they are told to."""

    def __init__(self, seed: int) -> None:
        self.rng = stream(seed, "ring of tables")
        self.now_us = 1
        self.tables: dict[int, Table] = {}
        self.since_us: dict[int, int] = {}
        for key in self.rng.sample(range(KEYS), 10):
            self.join(key)

    def join(self, key: int) -> None:
        self.tables[key] = Table(Ref(key, key), Categories.of(key), 120)
        self.since_us[key] = self.now_us
        self._follow()

    def go(self, key: int) -> None:
        """A crash, or a farewell that names the right neighbour to some."""
        right = self.tables[key].nodes[0]
        del self.tables[key], self.since_us[key]
        self._follow()
        for table in self.tables.values():
            if self.rng.random() < 0.3:
                table.replace_node(Ref(key, key), right)

    def _follow(self) -> None:
        keys = sorted(self.tables)
        for at, key in enumerate(keys):
            self.tables[key].set_successor(
                Ref(keys[(at + 1) % len(keys)], keys[(at + 1) % len(keys)])
            )

    def learn(self, key: int) -> None:
        """Some level of a node is learnt, if whoever should say it is there."""
        table = self.tables[key]
        if table.nodes:
            level = self.rng.randrange(len(table))
            other = self.tables.get(table.nodes[level].address)  # type: ignore[arg-type]
            if other is not None and other is not table:
                ent, age_us = other.get_entry(level, self.now_us)
                table.apply_update(level, ent, self.now_us - age_us, 0)

    def step(self) -> None:
        self.now_us += self.rng.randrange(3)
        deed = self.rng.random()
        absent = sorted(set(range(KEYS)) - set(self.tables))
        if deed < 0.12 and absent:
            self.join(self.rng.choice(absent))
        elif deed < 0.2 and len(self.tables) > 3:
            self.go(self.rng.choice(sorted(self.tables)))
        else:
            self.learn(self.rng.choice(sorted(self.tables)))

    def lacking(self) -> list[str]:
        """Aggregates that lack somebody who had been there in time."""
        wrong = []
        for table in self.tables.values():
            table.expire(self.now_us)
            for level, value in enumerate(table.values):
                arc = table.range(level)
                if arc is None or value is None:
                    continue
                in_time = [
                    key
                    for key, since_us in self.since_us.items()
                    if since_us < table.since_us[level]
                ]
                assert isinstance(value, Categories)
                wrong += [
                    f"{key} in level {level}"
                    for key in in_time
                    if key in arc and value.reduce(Categories.of(key)) != value
                ]
        return wrong


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**9))
def test_whoever_was_there_in_time_is_in_every_aggregate(seed: int) -> None:
    ring = Ring(seed)
    for _ in range(80):
        for _ in range(3):
            ring.step()
        assert ring.lacking() == []


def test_answers_that_hide_their_age_lack_somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Table.get_entry
    monkeypatch.setattr(
        Table, "get_entry", lambda self, level, now_us=0: (answer(self, level, now_us)[0], 0)
    )

    assert any(_ever_lacking(seed) for seed in range(20))


def test_a_farewell_whose_heir_stands_beyond_the_arc_ends_what_was_known_of_it() -> None:
    """Else the arc from the heir to its end would run nearly round the circle."""
    table = Table(Ref(0, 0), Categories.of(0), 100)
    table.set_successor(Ref(10, 10))
    table.apply_update(0, FingerEntry(Ref(20, 20), 20, Categories.of(1)), 5, 0)
    table.apply_update(1, FingerEntry(None, 25, Categories.of(2)), 5, 0)

    table.replace_node(Ref(20, 20), Ref(30, 30))

    assert table.nodes[1] == Ref(30, 30)
    assert table.values[1] is None
    assert table.range(1) is None


def _ever_lacking(seed: int) -> bool:
    ring = Ring(seed)
    for _ in range(250):
        ring.step()
        if ring.lacking():
            return True
    return False
