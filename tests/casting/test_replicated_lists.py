"""Lists that outlive their keepers: copied before they are confirmed, promoted, removals that stay, reliable walks."""

from collections.abc import Callable
from functools import partial
from itertools import permutations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from implicast.casting.designs import design
from implicast.casting.replicated_lists import ring_broadcast
from implicast.casting.replicated_lists.anti_entropy import AntiEntropy, EntriesReturned, in_batches
from implicast.casting.replicated_lists.entries import ListEntry, OwnEntry
from implicast.casting.replicated_lists.holder import PutAck
from implicast.casting.replicated_lists.own_entries import OwnEntries
from implicast.casting.replicated_lists.reads import Fetch, FetchLists, ListsFetched
from implicast.casting.replicated_lists.ring_broadcast import RangeLost
from implicast.language.target import Description, Predicate, Target, Term, Value
from implicast.overlay.chord import Chord, broadcast
from implicast.overlay.links import Links
from implicast.overlay.links.pointers import Pointers
from implicast.overlay.links.state import IN
from implicast.peer import replica_table
from implicast.peer.contract import CastId, Contact, Message
from implicast.peer.events import Left, Notice, Registered
from implicast.peer.replica_table import TOMBSTONE_US, ReplicaTable
from implicast.peer.subscriber import Subscribed, Unsubscribed
from implicast.space.ring import hashed
from implicast.space.steps import without
from implicast.world.frozen import freeze, thaw
from implicast.world.journal import REGISTER, UPKEEP
from implicast.world.network import build
from implicast.world.plan import Plan
from implicast.world.populations import population
from implicast.world.world import World

SLOT = ("t", "", "tag")
S = 1_000_000


def entry(stamp: int, packed: bytes = b"x", name: int = 7, key: int = 5) -> ListEntry:
    return ListEntry(key, SLOT, a_contact(name), 0, stamp, packed)


def a_contact(number: int) -> Contact:
    return Contact(bytes([number]) * 16, number)


# --- rows


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.integers(1, 3)), max_size=5))
@settings(max_examples=60, deadline=None)
def test_copies_that_meet_in_any_order_end_the_same(words) -> None:
    ends = set()
    for order in permutations(words):
        entries = ReplicaTable()
        for stamp, there, name in order:
            entries.store(entry(stamp, b"x" if there else b"", name), 0)
        ends.add(entries.summary(0, 0))
    assert len(ends) == 1


WORD = st.tuples(
    st.integers(1, 4),
    st.booleans(),
    st.integers(1, 3),
    st.integers(0, 2),
    st.sampled_from(["a", "b"]),
)


@given(st.lists(WORD, max_size=12), st.integers(0, 2 * TOMBSTONE_US))
@settings(max_examples=100, deadline=None)
def test_what_an_owner_has_is_found_by_its_name_as_by_looking_at_everything(
    words, later_us: int
) -> None:
    entries = ReplicaTable()
    for stamp, there, name, number, tag in words:
        entries.store(
            ListEntry(5, ("t", "", tag), a_contact(name), number, stamp, b"x" if there else b""), 0
        )
    entries.expire(later_us, S)

    for owner in map(a_contact, (1, 2, 3)):
        held = [
            held.entry for held in entries.all_held() if held.in_force and held.entry.owner == owner
        ]
        assert entries.of_owner(owner) == held
        assert owner.address in entries.addresses or not held


def test_an_old_copy_does_not_bring_back_what_was_removed() -> None:
    entries = ReplicaTable()
    entries.store(entry(2, b""), 0)
    entries.store(entry(1), 10)

    assert entries.listed(SLOT) == []


def test_a_removal_wins_over_an_entry_of_the_same_stamp() -> None:
    entries = ReplicaTable()
    entries.store(entry(2), 0)
    entries.store(entry(2, b""), 0)
    entries.store(entry(2), 0)

    assert entries.listed(SLOT) == []


def test_what_is_not_renewed_is_forgotten_and_does_not_come_back_from_a_copy() -> None:
    entries = ReplicaTable()
    entries.store(entry(1), 0)
    entries.expire(11, lease_us=10)
    entries.store(entry(1), 12)
    assert entries.listed(SLOT) == []

    entries.store(entry(20), 13)
    assert entries.listed(SLOT) == [entry(20)], "one that returns is found again"
    entries.expire(24, lease_us=10)
    entries.expire(25 + TOMBSTONE_US, lease_us=10)
    assert list(entries.all_held()) == [], "in the end removals are forgotten too"


def listed_after_a_late_copy(after_us: int) -> list[ListEntry]:
    """An entry is removed, removals are swept, and a copy of the entry comes late."""
    entries = ReplicaTable()
    entries.store(entry(1), 0)
    entries.store(entry(2, b""), 1_000)
    entries.expire(after_us, lease_us=1_000_000_000)
    entries.store(entry(1), after_us)
    return entries.listed(SLOT)


def test_a_removal_is_remembered_for_as_long_as_copies_may_be_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert listed_after_a_late_copy(20 * S) == [], "freezes and partitions are shorter"

    monkeypatch.setattr(replica_table, "TOMBSTONE_US", 0)
    assert listed_after_a_late_copy(20 * S) == [entry(1)], "the removed entry is back"


def test_equal_sums_mean_equal_entries() -> None:
    entries, others = ReplicaTable(), ReplicaTable()
    for stamp in (1, 2, 3):
        entries.store(entry(stamp, name=stamp, key=stamp), 0)
        others.store(entry(stamp, name=stamp, key=stamp), 0)
    assert entries.summary(0, 2) == others.summary(0, 2)

    others.store(entry(9, name=2, key=2), 0)

    assert entries.summary(0, 2) != others.summary(0, 2)
    assert entries.summary(2, 3) == others.summary(2, 3), "the rest is the same"


# --- ranges


@given(
    st.tuples(st.integers(0, 9), st.integers(0, 9)), st.tuples(st.integers(0, 9), st.integers(0, 9))
)
def test_what_is_left_of_a_stretch_is_what_the_other_lacks(one, other) -> None:
    (low, high), (start, end) = sorted(one), sorted(other)
    left = {
        value
        for first, last in without((low, high), start, end)
        for value in range(first, last + 1)
    }

    assert left == set(range(low, high + 1)) - set(range(start, end + 1))


def test_a_walk_that_died_is_repeated_from_where_it_died() -> None:
    own_entry = OwnEntry(1, "s", "price", 0, 9, 0, 7, b"x", 1, True, ((0, 9),))
    own_entry.confirm(0, 3, (1, 1))
    own_entry.confirm(6, 6, (2, 1))

    assert own_entry.missing == ((4, 5), (7, 9))
    assert own_entry.confirmed == {(0, 3): (1, 1), (6, 6): (2, 1)}


def test_only_missing_values_are_asked_for_again() -> None:
    fetch = Fetch(None, [("p", "price", 0, 5, True)])
    for value in (0, 1, 3):
        fetch.add_answer(ListsFetched(CastId(bytes(16), 1, 1), 0, value, value, 0, 1, ()))

    assert [(low, high) for _, (_, _, low, high, _) in fetch.missing_ranges()] == [
        (2, 2),
        (4, 5),
    ]


# --- in a world with crashes


class Town:
    """A living ring of sixteen in which anybody may die."""

    def __init__(
        self, name: str = "opchord-pubsub", peers: int = 16, sync_s: float = 12.0, seed: int = 1
    ) -> None:
        chosen = design(name)
        given = {"sync_s": sync_s} | ({"schema": "price: 0..999"} if "pubsub" in name else {})
        network = build("flat", hosts=peers + 1, infrastructure=0, seed=1)
        self.world = World(network, 1)
        plan = Plan(peers, 0, chosen.settle(given), seed, self.world.host, network.latency_us)
        self.members = population(chosen).assemble(plan)
        for address, member in enumerate(self.members):
            self.world.place(address, member)
        self.objections = population(chosen).objections
        self.newcomer = partial(plan.new_member, chosen)

    def at(self, time_s: float, what) -> None:
        self.world.at(int(time_s * S), REGISTER, what)

    def crash(self, time_s: float, *who: int) -> None:
        for each in who:
            self.world.at(int(time_s * S), UPKEEP, partial(self.world.crash, each))

    def run(self, until_s: float) -> None:
        self.world.run(until_us=int(until_s * S))

    def heard(self, kind: type) -> list[tuple[float, int]]:
        return [
            (time_us / S, who)
            for time_us, who, event in self.world.events
            if isinstance(event, kind)
        ]

    def holders(self, key: int) -> list[int]:
        """Those to the right of a key, nearest first."""
        ring = sorted((member.links.me.key, member.address) for member in self.members)
        return [who for at, who in ring if at >= key] + [who for at, who in ring if at < key]

    def pass_over(self, who: int) -> None:
        """Its right neighbour takes it for dead by mistake."""
        passed = self.members[who].links
        left, right = (self.members[each.address].links for each in (passed.left, passed.right))
        right.detector.suspect(passed.me)
        right.stabilisation.relink(left.me, passed.me, left.rnum)

    def wrong(self) -> list[str]:
        return self.objections([peer for _, peer in sorted(self.world.peers.items())])


def test_a_registration_is_complete_only_when_it_is_copied() -> None:
    town = Town("dht")
    owner, first, second, *_, far = town.holders(hashed("rust"))
    town.crash(1, second)
    town.at(1.1, partial(town.members[far].register, Description(("rust",))))
    town.run(1.9)
    assert town.heard(Registered) == [], "the last copy is nobody's"
    assert [len(list(town.members[who].holder_state.all_entries())) for who in (owner, first)] == [
        1,
        1,
    ]

    town.run(40)

    assert [who for _, who in town.heard(Registered)] == [far]
    assert town.wrong() == []


def test_who_came_back_elsewhere_does_not_confirm_copies_in_the_place_of_who_it_was() -> None:
    """The keeper did not know yet; when it died, too, a registration that had been confirmed was lost."""
    town = Town("dht")
    owner, first, second, third, *_, publisher, far = town.holders(hashed("rust"))
    town.crash(1, first)
    town.run(1.5)
    back = town.newcomer(first, again=1)
    town.world.place(first, back)
    town.at(1.6, partial(back.join, (publisher,)))
    town.run(4)
    assert (back.links.state, town.members[owner].links.right.address) == (IN, first), (
        "it is in, and not known to be"
    )
    town.at(4.1, partial(town.members[far].register, Description(("rust",))))
    while not town.heard(Registered):
        town.run(town.world.now_us / S + 0.1)

    kept = [
        who for who in (owner, second, third) if list(town.members[who].holder_state.all_entries())
    ]
    assert kept == [owner, second, third]
    town.world.crash(owner)
    town.run(town.world.now_us / S + 60)
    assert town.wrong() == []


@pytest.mark.parametrize("dead", [1, 2])
def test_lists_are_there_when_their_keepers_have_died(dead: int) -> None:
    town = Town("dht")
    holders = town.holders(hashed("rust"))
    publisher, consumer = holders[-1], holders[-2]
    town.at(1, partial(town.members[consumer].register, Description(("rust", "music"))))
    town.crash(5, *holders[:dead])
    town.at(6, partial(town.members[publisher].cast, Target((Term(has=("rust",)),)), b"hello"))
    town.run(50)

    assert [who for _, who in town.heard(Notice)] == [consumer]
    assert town.wrong() == []


def test_when_a_keeper_dies_with_all_its_copies_those_who_were_listed_say_so_again() -> None:
    town = Town("dht")
    holders = town.holders(hashed("rust"))
    publisher, consumer = holders[-1], holders[-2]
    town.at(1, partial(town.members[consumer].register, Description(("rust",))))
    town.crash(5, *holders[:3])
    town.at(40, partial(town.members[publisher].cast, Target((Term(has=("rust",)),)), b"hello"))
    town.run(60)

    assert [who for _, who in town.heard(Notice)] == [consumer]
    assert town.wrong() == []


def who_hears_of_a_lack() -> tuple[set[int], set[int]]:
    """Those told, and those alive, where an eighth died that others still have for fingers."""
    town = Town("dht", 64)
    ring = town.holders(0)
    town.crash(1, *ring[4::8])
    told: set[int] = set()
    for member in town.members:
        member.broadcast.on_range_lost = lambda low, high, who=member.address: told.add(who)
    town.at(2, partial(town.members[ring[0]].broadcast.announce_range_lost, 1, 2))
    town.run(40)
    return told, set(town.world.peers)


def test_a_walk_to_a_value_that_nobody_answers_for_does_not_go_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As while a ring has fallen apart: what is asked is asked again by its origin, and need not be for ever."""
    town, steps = Town(), []
    first = town.members[0]
    key = first.links.right.key
    ask = FetchLists(key, 1, "all", "price", 5, 9, CastId(b"publisher", 1, 1), 3, True, True)
    tell = Links.send_right

    def told(links: Links, message: Message) -> None:
        if isinstance(message, FetchLists):
            steps.append(links.address)
        tell(links, message)

    monkeypatch.setattr(Links, "send_right", told)
    monkeypatch.setattr(Chord, "owns", lambda chord, key: False)
    town.at(1, lambda: first.receive(3, ask))
    town.run(20)
    assert 0 < len(steps) < 16


def test_a_lack_is_told_to_those_behind_dead_fingers_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_broadcast, "ROUNDS", 1)
    told, alive = who_hears_of_a_lack()
    assert told == alive

    monkeypatch.setattr(broadcast, "REPEATS_MAX", 0)
    told, alive = who_hears_of_a_lack()
    assert told < alive, "without going round the dead somebody does not know"


def test_who_is_told_twice_tells_those_whom_the_second_word_reaches_further() -> None:
    town = Town("dht", 16)
    ring = [town.members[who] for who in town.holders(0)]
    first, keys = ring[0], [member.chord.table.own for member in ring]
    told: list[int] = []
    for member in ring:
        member.broadcast.on_range_lost = lambda low, high, who=member.address: told.append(who)
    for time_s, limit in ((1, keys[4]), (2, keys[9])):
        word = RangeLost(77, 1, 2, keys[0], limit, ring[-1].address)
        town.at(time_s, partial(first.broadcast.on_report, ring[-1].address, word))
    town.run(1.9)
    assert sorted(told) == sorted(member.address for member in ring[:4])

    town.run(5)

    assert sorted(told) == sorted(member.address for member in ring[:9]), "each once"


def test_what_is_given_back_is_not_had_any_more_whoever_vouched_for_it() -> None:
    member = Town("dht").members[0]
    holder_state, lefts = member.holder_state, member.links.lefts
    holder_state.set_complete_from(lefts[3].key)
    member.anti_entropy.on_returned(1, EntriesReturned(lefts[3].key, lefts[2].key))
    assert holder_state.floor_key == lefts[holder_state.settings.copies].key


@pytest.mark.parametrize("place", [1, 5])
def test_a_newer_word_kept_by_a_leaver_that_does_not_answer_for_it_does_not_go_away_with_it(
    place: int,
) -> None:
    """Neither where it keeps copies, nor far from there."""
    town = Town("dht")
    key = hashed("rust")
    holders = town.holders(key)
    leaver = town.members[holders[place]]
    word = ListEntry(key, ("t", "", "rust"), town.members[holders[-1]].contact, 0, 1, b"newer")
    town.at(5, lambda: leaver.holder_state.entries.store(word, 5 * S))
    town.at(5.1, leaver.leave)
    town.run(8)

    assert [who for _, who in town.heard(Left)] == [leaver.address]
    assert word in list(town.members[holders[0]].holder_state.all_entries())


def entries_when_copies_vanish_with_their_keeper(known: bool = True) -> list[str]:
    """Copies are lost and nobody knows it; then their keeper dies, whether its neighbour has long known it or not."""
    town = Town("dht")
    holders = town.holders(hashed("rust"))
    town.at(1, partial(town.members[holders[-2]].register, Description(("rust",))))
    for who in holders[1:3]:
        town.at(5, town.members[who].holder_state.entries.clear)
    town.crash(5, holders[0])
    if not known:
        town.at(5, partial(setattr, town.members[holders[1]].range_handoff, "_lefts", ()))
    town.run(50)
    return town.wrong()


@pytest.mark.parametrize("known", [True, False])
def test_whoever_hears_that_its_keeper_died_lays_its_entry_again(
    known, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert entries_when_copies_vanish_with_their_keeper(known) == []

    monkeypatch.setattr(OwnEntries, "on_suspect", lambda self, holder: None)
    assert "lacks the entry of" in entries_when_copies_vanish_with_their_keeper()[0]


def missing_after_an_old_confirmation() -> tuple[tuple[str, str], ...]:
    """An entry is lost and put again. Then the acknowledgement of the first put arrives, late."""
    town = Town("dht")
    holder, *_, far = town.holders(hashed("rust"))
    own_entries = town.members[far].own_entries
    town.at(1, partial(town.members[far].register, Description(("rust",))))
    town.run(5)
    (own_entry,) = own_entries.table.by_serial.values()
    assert not own_entry.missing, "the first put is complete"
    late = PutAck(own_entry.serial, own_entry.stamp, "rust", "rust", holder)
    own_entries.put_again([(own_entry, ("rust", "rust"))])
    own_entries.on_put_ack(holder, late)
    return own_entry.missing


def test_the_confirmation_of_an_old_stamp_does_not_confirm_what_is_put_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert missing_after_an_old_confirmation() == (("rust", "rust"),)

    put_ack = OwnEntries.on_put_ack
    monkeypatch.setattr(
        OwnEntries,
        "on_put_ack",
        lambda self, sender, ack: put_ack(
            self, sender, msgspec.structs.replace(ack, stamp=1 << 62)
        ),
    )
    assert missing_after_an_old_confirmation() == (), "nothing else refuses it"


def wrong_after_a_keeper_of_copies_was_passed_over() -> list[str]:
    """Something is laid while the second right neighbour of its keeper is passed over by mistake, and what it is told
    of that gets lost."""
    town = Town("dht", sync_s=600, seed=8)
    holders = town.holders(hashed("rust"))
    left, passed, right = (town.members[who].links for who in holders[1:4])
    town.at(2, partial(town.pass_over, holders[2]))
    town.at(2.5, partial(town.members[holders[-2]].register, Description(("rust",))))
    with pytest.MonkeyPatch.context() as lost:
        lost.setattr(Pointers, "notify_replaced", lambda self, former: None)
        town.run(3)
    assert left.right == right.me, "nobody comes to the one passed over"
    town.run(20)
    assert left.right == passed.me, "it has come back by itself"
    return town.wrong()


def wrong_after_entries_were_lost_while_their_owner_was_passed_over() -> list[str]:
    """It was not there when all were told."""
    town = Town("dht")
    holders = town.holders(hashed("rust"))
    town.at(1, partial(town.members[holders[-2]].register, Description(("rust",))))
    for who in holders[:3]:
        town.at(5, town.members[who].holder_state.entries.clear)
    town.at(5, partial(town.pass_over, holders[-2]))
    town.run(40)
    return town.wrong()


@pytest.mark.parametrize(
    ("wrong_after", "owner", "rule"),
    [
        pytest.param(
            wrong_after_a_keeper_of_copies_was_passed_over,
            AntiEntropy,
            "wants_digests",
            id="laid meanwhile",
        ),
        pytest.param(
            wrong_after_entries_were_lost_while_their_owner_was_passed_over,
            OwnEntries,
            "renew_all",
            id="lost",
        ),
    ],
)
def test_who_was_passed_over_and_has_come_back_asks_for_what_it_missed(
    wrong_after: Callable[[], list[str]], owner: type, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wrong_after() == []

    monkeypatch.setattr(owner, rule, lambda self: None)
    assert "lacks the entry of" in wrong_after()[0]


def test_a_frozen_keeper_that_wakes_does_no_harm() -> None:
    town = Town("dht")
    owner, *_, consumer, publisher = town.holders(hashed("rust"))
    rust = Target((Term(has=("rust",)),))
    town.at(1, partial(town.members[consumer].register, Description(("rust",))))
    town.at(5, partial(freeze, town.world, owner))
    town.at(30, partial(town.members[consumer].register, Description(("music",))))
    town.at(31, partial(town.members[publisher].register, Description(("rust",))))
    town.at(45, partial(thaw, town.world, owner))
    town.at(45.2, partial(town.members[consumer].cast, rust, b"just woken"))
    town.at(75, partial(town.members[consumer].cast, rust, b"awake"))
    town.run(100)

    told = town.heard(Notice)
    assert {who for _, who in told} == {publisher}, "nobody is told by an old list"
    assert len(told) <= 2
    assert told[-1][0] > 75
    assert town.wrong() == []


def test_a_range_is_laid_and_found_though_nodes_on_its_way_die() -> None:
    town = Town()
    subscriber, publisher = town.members[0], town.members[1]
    wide = Target((Term(where=(Predicate("price", 100, 900),)),))
    key = subscriber.key_of("price", 500)
    middle = [who for who in town.holders(key)[:2] if who > 1]
    town.at(1, partial(subscriber.subscribe, wide))
    town.crash(1.05, *middle)
    town.run(60)
    assert [who for _, who in town.heard(Subscribed)] == [0]

    for value in (100, 499, 500, 501, 900):
        town.at(61, partial(publisher.publish, Description((), (Value("price", value),)), b"quote"))
    town.at(61, partial(publisher.publish, Description((), (Value("price", 901),)), b"too dear"))
    town.run(75)

    assert [who for _, who in town.heard(Notice)] == [0] * 5
    assert town.wrong() == []


def test_a_reworded_subscription_hears_what_it_says_now_and_a_taken_back_one_nothing() -> None:
    town = Town("chord-pubsub")
    subscriber, publisher = town.members[3], town.members[4]

    def quotes(price: int) -> Target:
        return Target((Term(where=(Predicate("price", price, price + 3),)),))

    def publish(*prices: int) -> None:
        for price in prices:
            publisher.publish(Description((), (Value("price", price),)), b"quote")

    town.at(1, partial(subscriber.subscribe, quotes(10)))
    town.at(5, partial(subscriber.update, 1, quotes(12)))
    town.at(10, partial(publish, 10, 11, 12, 13, 14, 15, 16))
    town.at(20, partial(subscriber.unsubscribe, 1))
    town.at(25, partial(publish, 12, 13))
    town.run(40)

    assert len(town.heard(Notice)) == 4
    assert len(town.heard(Subscribed)) == 2
    assert len(town.heard(Unsubscribed)) == 1


@pytest.mark.parametrize("after_s", [0.0, 0.05, 0.2, 5.0])
def test_whoever_leaves_while_it_joins_has_left_and_took_nothing_along(after_s: float) -> None:
    town = Town("dht")
    town.at(1, partial(town.members[3].register, Description(("rust", "music", "chess"))))
    newcomer = town.newcomer(16)
    town.world.place(16, newcomer)
    town.at(3, partial(newcomer.join, (0, 1)))
    town.at(3 + after_s, newcomer.leave)
    town.run(40)

    assert [who for _, who in town.heard(Left)] == [16]
    town.world.crash(16)
    assert town.wrong() == []


def test_rows_of_one_key_are_returned_together():
    entries = [
        ListEntry(key, ("t", "", f"tag{key}"), a_contact(name), 0, 1, b"x")
        for key in (3, 5, 8)
        for name in range(3)
    ]

    parts = list(in_batches(entries, 2))

    assert [{entry.key for entry in part} for part in parts] == [{3}, {5}, {8}]
    assert [entry for part in in_batches(entries, 4) for entry in part] == entries
    assert list(in_batches([], 4)) == []
