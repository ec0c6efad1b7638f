"""Casts led by columns, as it was built when the package was, against the carrier with a table of its own."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from implicast.casting.condcast import DESIGNS
from implicast.casting.condcast.condcast import Condcast
from implicast.casting.condcast.messages import ForwardCast
from implicast.language.aggregate import TargetQuery
from implicast.language.target import Description, Predicate, Target, Term
from implicast.peer.contract import CastId
from implicast.peer.ledger import Ledger
from implicast.space.built import built
from implicast.space.digest import stream
from implicast.space.ring import Arc
from implicast.world.plan import Plan
from implicast.world.populations import population
from implicast.world.populations.condcast import lazy_peers
from implicast.world.populations.population import preload_by_verb
from sites import sealed

pytestmark = pytest.mark.skipif(
    built("world._lanes") is None, reason="there was no C compiler, or it is not asked for"
)
WORDS = [f"w{number}" for number in range(30)]


def both_rings(
    number: int, chance: Random
) -> tuple[list[Condcast], list[Condcast], list[Ledger], list[Ledger]]:
    """The same ring awake and asleep, and what their hosts are asked for."""
    count = chance.choice([1, 2, 3, chance.randint(4, 20), chance.randint(21, 70), 32, 64])
    words = [
        [*chance.sample(WORDS, chance.randint(0, 4)), f"only{address}"] for address in range(count)
    ]
    described = [Description(tuple(sorted(each))) for each in words]
    given = {
        "assurance": "none",
        "bits": chance.choice([64, 256, 4096]),
        "hashes": chance.choice([1, 3]),
        "place": chance.choice(["random", "tags"]),
    }
    found: list[tuple[list[Condcast], list[Ledger]]] = []
    for awake in (True, False):
        ledgers = [Ledger() for _ in range(count)]
        plan = Plan(
            count,
            0,
            DESIGNS[0].settle(given),
            number,
            ledgers.__getitem__,
            lambda a, b: 1,
            descriptions=described,
            resting=True,
        )
        if awake:
            peers = population(DESIGNS[0]).assemble(plan)
            preload_by_verb(plan, peers)
        else:
            late = lazy_peers(plan)
            assert late is not None
            peers = [late.make(address) for address in range(count)]
        for ledger in ledgers:
            ledger.take()
        found.append((peers, ledgers))  # type: ignore[arg-type]
    (awake_peers, awake_hosts), (asleep_peers, asleep_hosts) = found
    return awake_peers, asleep_peers, awake_hosts, asleep_hosts


def a_target(chance: Random) -> Target:
    """Of one term or two, with tags that one has or nobody, without any wanted, now and then with a range."""
    return Target(tuple(a_term(chance) for _ in range(chance.choice([1, 1, 2]))))


def a_term(chance: Random) -> Term:
    words = (
        [*WORDS, "nobody"] if chance.random() < 0.5 else [f"only{address}" for address in range(20)]
    )
    has = tuple(sorted(chance.sample(words, chance.choice([0, 1, 1, 2]))))
    lacks = tuple(chance.sample(words, chance.randrange(2)))
    return Term(has, lacks, (Predicate("age", 1, 3),) if chance.random() < 0.1 else ())


def some_arcs(keys: list[int], chance: Random) -> tuple[Arc, ...]:
    """Between keys, from key to key, wrapping, the whole circle; one, or two."""
    ends = [chance.choice([chance.choice(keys), chance.randrange(1 << 63)]) for _ in range(4)]
    if chance.random() < 0.3:
        ends[1] = ends[0]
    return (Arc(ends[0], ends[1]), Arc(ends[2], ends[3]))[: chance.choice([1, 1, 1, 2])]


@settings(deadline=None)
@given(st.integers(0, 1 << 30))
def test_a_cast_is_led_where_the_carrier_would_carry_it(number: int) -> None:
    chance = stream(number, "lanes")
    awake, asleep, by_carrier, by_lane = both_rings(number, chance)
    keys, settled = [peer.links.me.key for peer in awake], awake[0].settings

    for serial in range(1, 9):
        target, arcs = a_target(chance), some_arcs(keys, chance)
        bits = chance.choice([settled.bits] * 9 + [8])
        carry = ForwardCast(
            CastId(b"p" * 16, 1, serial),
            0,
            arcs,
            TargetQuery(target, bits, settled.hashes),
            sealed(b"news"),
        )
        at = chance.randrange(len(awake))
        awake[at].receive(0, carry)
        asleep[at].receive(0, carry)

        assert by_lane[at].take() == by_carrier[at].take()


@settings(deadline=None)
@given(st.integers(0, 1 << 30))
def test_casts_of_ones_own_and_repeats_are_led_alike(number: int) -> None:
    chance = stream(number, "lanes of one's own")
    awake, asleep, by_carrier, by_lane = both_rings(number, chance)
    at, target = chance.randrange(len(awake)), a_target(chance)

    assert asleep[at].cast(target, b"x") == awake[at].cast(target, b"x")
    sent = by_carrier[at].take()
    assert by_lane[at].take() == sent
    for _, to, carry in sent[:3] * 2:
        if isinstance(carry, ForwardCast):
            awake[to].receive(at, carry)  # type: ignore[index]
            asleep[to].receive(at, carry)  # type: ignore[index]
            assert by_lane[to].take() == by_carrier[to].take()  # type: ignore[index]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1 << 30))
def test_who_is_furnished_late_has_what_the_others_have(number: int) -> None:
    awake, asleep, _, _ = both_rings(number, stream(number, "furnished late"))

    for one, other in zip(awake, asleep, strict=True):
        assert other.holdings() == one.holdings()
        assert other.durable_state() == one.durable_state()
        assert other.own == one.own
        assert other.version == one.version
        assert other.visibility.is_announced
        assert other.ring.table.is_consistent()
        assert (other.links.state, other.links.me) == (one.links.state, one.links.me)
        assert other.links.right == one.links.right
