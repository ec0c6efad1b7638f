"""Commits and range digests of replicated items."""

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from implicast.peer.replication import SUM_MASK, Commits, RangeDigests


@given(st.lists(st.lists(st.integers(0, 5), unique=True), max_size=5), st.randoms())
def test_a_write_is_committed_once_when_its_last_item_is_acknowledged(writes, chance) -> None:
    commits: Commits[tuple[int, int]] = Commits()
    done: list[int] = []
    named = [[(number, item) for item in items] for number, items in enumerate(writes)]
    for number, items in enumerate(named):
        commits.begin(items, partial(done.append, number))
    missing = {number: set(items) for number, items in enumerate(named)}
    assert done == [number for number, items in missing.items() if not items]

    every = [each for items in named for each in items]
    chance.shuffle(every)
    for each in every + every:
        commits.acknowledge(each)
        missing[each[0]].discard(each)
        assert sorted(done) == [number for number, items in missing.items() if not items]
    assert len(commits) == 0


def test_what_follows_a_commit_may_begin_another_one() -> None:
    commits: Commits[str] = Commits()
    done: list[str] = []
    commits.begin(["a"], lambda: commits.begin(["b"], lambda: done.append("second")))

    commits.acknowledge("a")
    assert done == []
    commits.acknowledge("b")

    assert done == ["second"]


ITEM = st.tuples(st.integers(0, 9), st.integers(0, SUM_MASK))


@given(
    st.lists(ITEM, unique=True, max_size=12),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20),
    st.data(),
)
def test_the_digest_of_a_range_is_that_of_the_items_in_it(items, ranges, data) -> None:
    digests, held = RangeDigests(), set()

    def within(low: int, high: int) -> list[int]:
        def inside(key: int) -> bool:
            return low < key <= high if low < high else key > low or key <= high

        return [digest for key, digest in held if inside(key)]

    for low, high in ranges:
        for key, digest in items:
            if data.draw(st.booleans()):
                by = -1 if (key, digest) in held else 1
                held ^= {(key, digest)}
                digests.change(key, digest, by)
        found = within(low, high)
        assert digests.of(low, high, within) == (len(found), sum(found) & SUM_MASK)
        assert digests.of(low, high, lambda *ends: []) == digests.of(low, high, within)
