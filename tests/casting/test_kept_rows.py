"""Rows kept in order of their keys, with sums and marks that follow each change, against looking through all."""

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from implicast.casting.designs import design
from implicast.casting.keeping.messages import Row
from implicast.casting.keeping.rows import REMEMBERED_US, KeptRows, mark_of
from implicast.language.target import Description
from implicast.peer.contract import Contact
from implicast.space.ring import up_to
from implicast.world.journal import REGISTER
from implicast.world.network import build
from implicast.world.plan import Plan
from implicast.world.populations import population
from implicast.world.world import World

LEASE_US = 1_000
KEYS = st.integers(0, 9)

takes = st.tuples(st.just("take"), KEYS, st.integers(0, 3), st.integers(1, 5), st.booleans())
drops = st.tuples(st.just("drop"), st.integers(0, 40))
asks = st.tuples(st.just("ask"), KEYS, KEYS)
waits = st.tuples(st.just("wait"), st.sampled_from([1, 400, LEASE_US, REMEMBERED_US]))
clears = st.tuples(st.just("clear"))


def a_row(key: int, name: int, stamp: int, in_force: bool) -> Row:
    return Row(key, ("t", "", f"value {key}"), a_contact(name), 0, stamp, b"x" if in_force else b"")


def a_contact(number: int) -> Contact:
    return Contact(bytes([number]) * 16, number)


class Both:
    """Kept rows, and the same entries in one plain list."""

    def __init__(self) -> None:
        self.rows, self.plain, self.now_us = KeptRows(), {}, 0

    def act(self, what: str, *given: int) -> None:
        if what == "take":
            self.take(a_row(*given))
        elif what == "drop" and self.plain:
            chosen = sorted(self.plain)[given[0] % len(self.plain)]
            self.rows.drop([self.plain.pop(chosen)[0]])
        elif what == "ask":
            self.compare(*given)
        elif what == "wait":
            self.wait(*given)
        elif what == "clear":
            self.rows.clear()
            self.plain = {}

    def take(self, row: Row) -> None:
        self.rows.take(row, self.now_us)
        known, _ = self.plain.get((row.key, row.ident), (None, 0))
        if known is None or (known.stamp, not known.packed) < (row.stamp, not row.packed):
            self.plain[row.key, row.ident] = row, self.now_us
        elif known.stamp == row.stamp and bool(row.packed) == bool(known.packed):
            self.plain[row.key, row.ident] = known, self.now_us

    def wait(self, pause_us: int) -> None:
        self.now_us += pause_us
        self.rows.expire(self.now_us, LEASE_US)
        for name, (row, heard_us) in list(self.plain.items()):
            if row.packed and heard_us < self.now_us - LEASE_US:
                self.plain[name] = Row(row.key, row.slot, row.owner, 0, row.stamp, b""), self.now_us
            elif not row.packed and heard_us < self.now_us - REMEMBERED_US:
                del self.plain[name]

    def compare(self, low: int, high: int) -> None:
        here = [row for row, _ in self.plain.values() if up_to(low, row.key, high)]
        assert sorted(map(repr, here)) == sorted(
            repr(entry.row) for entry in self.rows.within(low, high)
        )
        marks = [mark_of(row.slot, row.ident, row.stamp, True) for row in here if row.packed]
        assert self.rows.summary(low, high) == (len(marks), sum(marks) % 2**63)


@given(st.lists(st.one_of(takes, takes, takes, asks, asks, drops, waits, clears), max_size=40))
def test_ranges_sums_marks_and_owners_are_those_of_a_plain_list(deeds) -> None:
    both = Both()
    for deed in deeds:
        both.act(*deed)
    in_force = [row for row, _ in both.plain.values() if row.packed]
    assert len(list(both.rows.entries())) == len(both.plain)
    assert both.rows.marks == {mark_of(row.slot, row.ident, row.stamp, True) for row in in_force}
    owners = [row.owner for row in in_force]
    assert both.rows.owned == {owner: owners.count(owner) for owner in owners}
    for low in range(10):
        for high in range(10):
            both.compare(low, high)


def test_a_look_from_outside_sees_what_is_lost_after_all_was_in_order() -> None:
    chosen = design("dht")
    network = build("flat", hosts=12, infrastructure=0, seed=1)
    world = World(network, 1)
    members = population(chosen).assemble(
        Plan(12, 0, chosen.settle({}), 1, world.host, network.latency_us)
    )
    for address, member in enumerate(members):
        world.place(address, member)
        tags = tuple(f"tag {number}" for number in range(address, address + 4))
        world.at(1_000_000, REGISTER, partial(member.register, Description(tags)))
    world.run(until_us=20_000_000)
    assert population(chosen).objections(members) == []
    assert population(chosen).objections(members) == [], "nor when nothing has changed since"

    lost = 0
    for keeper in members:
        for row in [entry.row for entry in keeper.share.rows.entries()]:
            keeper.share.rows.drop([row])
            assert population(chosen).objections(members) == [
                f"{keeper.address} does not keep what {row.owner.address} has laid under {row.slot}"
            ]
            keeper.share.rows.take(row, world.now_us)
            assert population(chosen).objections(members) == []
            lost += 1
    assert lost == 12 * 4 * 3, "every entry at each of its three keepers"

    members[5].layings.lay_all_again()
    world.run(until_us=30_000_000)
    assert population(chosen).objections(members) == [], "laid again, it is looked for as it is now"
    row = next(entry.row for entry in members[0].share.rows.entries())
    members[0].share.rows.take(Row(row.key, row.slot, row.owner, 0, row.stamp, b""), world.now_us)
    assert len(population(chosen).objections(members)) == 1, "a removal is no entry"
