"""The entry table by key, with sums and digests that follow each change, against a full scan."""

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from implicast.casting.designs import design
from implicast.casting.replicated_lists.entries import ListEntry
from implicast.language.target import Description
from implicast.peer.contract import Contact
from implicast.peer.replica_table import TOMBSTONE_US, ReplicaTable, digest_of
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
waits = st.tuples(st.just("wait"), st.sampled_from([1, 400, LEASE_US, TOMBSTONE_US]))
clears = st.tuples(st.just("clear"))


def an_entry(key: int, name: int, stamp: int, in_force: bool) -> ListEntry:
    return ListEntry(
        key, ("t", "", f"value {key}"), a_contact(name), 0, stamp, b"x" if in_force else b""
    )


def a_contact(number: int) -> Contact:
    return Contact(bytes([number]) * 16, number)


class Both:
    """An entry table, and the same entries in one plain list."""

    def __init__(self) -> None:
        self.entries, self.plain, self.now_us = ReplicaTable(), {}, 0

    def act(self, what: str, *given: int) -> None:
        if what == "take":
            self.store(an_entry(*given))
        elif what == "drop" and self.plain:
            chosen = sorted(self.plain)[given[0] % len(self.plain)]
            self.entries.drop([self.plain.pop(chosen)[0]])
        elif what == "ask":
            self.compare(*given)
        elif what == "wait":
            self.wait(*given)
        elif what == "clear":
            self.entries.clear()
            self.plain = {}

    def store(self, entry: ListEntry) -> None:
        self.entries.store(entry, self.now_us)
        known, _ = self.plain.get((entry.key, entry.ident), (None, 0))
        if known is None or (known.stamp, not known.packed) < (entry.stamp, not entry.packed):
            self.plain[entry.key, entry.ident] = entry, self.now_us
        elif known.stamp == entry.stamp and bool(entry.packed) == bool(known.packed):
            self.plain[entry.key, entry.ident] = known, self.now_us

    def wait(self, pause_us: int) -> None:
        self.now_us += pause_us
        self.entries.expire(self.now_us, LEASE_US)
        for name, (entry, heard_us) in list(self.plain.items()):
            if entry.packed and heard_us < self.now_us - LEASE_US:
                self.plain[name] = (
                    ListEntry(entry.key, entry.slot, entry.owner, 0, entry.stamp, b""),
                    self.now_us,
                )
            elif not entry.packed and heard_us < self.now_us - TOMBSTONE_US:
                del self.plain[name]

    def compare(self, low: int, high: int) -> None:
        here = [entry for entry, _ in self.plain.values() if up_to(low, entry.key, high)]
        assert sorted(map(repr, here)) == sorted(
            repr(held.entry) for held in self.entries.within(low, high)
        )
        digests = [
            digest_of(entry.slot, entry.ident, entry.stamp, True) for entry in here if entry.packed
        ]
        assert self.entries.summary(low, high) == (len(digests), sum(digests) % 2**63)


@given(st.lists(st.one_of(takes, takes, takes, asks, asks, drops, waits, clears), max_size=40))
def test_ranges_sums_marks_and_owners_are_those_of_a_plain_list(steps) -> None:
    both = Both()
    for step in steps:
        both.act(*step)
    in_force = [entry for entry, _ in both.plain.values() if entry.packed]
    assert len(list(both.entries.all_held())) == len(both.plain)
    assert both.entries.digests == {
        digest_of(entry.slot, entry.ident, entry.stamp, True) for entry in in_force
    }
    owners = [entry.owner for entry in in_force]
    assert both.entries.owned == {owner: owners.count(owner) for owner in owners}
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
    for holder in members:
        for entry in [held.entry for held in holder.holder_state.entries.all_held()]:
            holder.holder_state.entries.drop([entry])
            assert population(chosen).objections(members) == [
                f"{holder.address} lacks the entry of {entry.owner.address} under {entry.slot}"
            ]
            holder.holder_state.entries.store(entry, world.now_us)
            assert population(chosen).objections(members) == []
            lost += 1
    assert lost == 12 * 4 * 3, "every entry at each of its three keepers"

    members[5].own_entries.put_all_again()
    world.run(until_us=30_000_000)
    assert population(chosen).objections(members) == [], "laid again, it is looked for as it is now"
    entry = next(held.entry for held in members[0].holder_state.entries.all_held())
    members[0].holder_state.entries.store(
        ListEntry(entry.key, entry.slot, entry.owner, 0, entry.stamp, b""), world.now_us
    )
    assert len(population(chosen).objections(members)) == 1, "a removal is no entry"
