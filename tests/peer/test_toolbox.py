"""Names and lives, leases, bounded memory."""

from random import Random

import pytest

from implicast.language.target import Description
from implicast.peer.contract import INCARNATION_BITS
from implicast.peer.errors import RemoteError
from implicast.peer.events import IncarnationAdvanced
from implicast.peer.lease import Leases, renewal_us
from implicast.peer.ledger import Ledger
from implicast.peer.member import Member
from implicast.peer.memory import GONE_MAX, Recent, Repeats
from implicast.peer.name import (
    NUMBERS,
    incarnation_of,
    name_of,
    network_of,
    next_incarnation,
    version_of,
)
from sites import lone_site


def test_names_differ_by_network_number_and_beginning():
    nets = [network_of(seed) for seed in range(3)]
    names = {
        name_of(net, number, again) for net in nets for number in range(50) for again in range(2)
    }

    assert len(names) == 300
    assert {len(name) for name in names} == {16}


def test_each_life_is_above_the_one_before_and_an_old_disk_does_not_repeat_one():
    chance = Random(1)
    incarnations = [0]
    for _ in range(20):
        incarnations.append(next_incarnation(incarnations[-1], chance))

    assert incarnations == sorted(set(incarnations))
    assert next_incarnation(incarnations[3], chance) not in incarnations, (
        "from a copy of the third disk"
    )


def test_versions_of_a_later_life_are_above_all_of_an_earlier_one():
    assert version_of(1, NUMBERS - 1) < version_of(2, 1)
    assert incarnation_of(version_of(77, 5)) == 77


class Plain(Member):
    def join(self, introducers):
        pass

    leave = withdraw = register = cast = join


def test_a_member_that_is_told_of_a_later_life_goes_on_above_it():
    ledger = Ledger()
    member = Plain(lone_site(1, ledger))
    asked = member.next_version()

    again = member.advance_incarnation(version_of(5 << 16, 9))

    assert again == member.version > version_of(5 << 16, NUMBERS - 1)
    assert member.upcoming_cast().incarnation == member.incarnation == incarnation_of(again)
    assert ledger.take() == [
        ("deliver", None, IncarnationAdvanced(member.incarnation, asked, again))
    ]


def test_a_member_that_is_told_of_a_life_after_which_none_can_come_calls_it_nonsense():
    ledger = Ledger()
    member = Plain(lone_site(1, ledger))
    before = member.next_version()

    with pytest.raises(RemoteError, match="is impossible"):
        member.advance_incarnation(version_of((1 << INCARNATION_BITS) - 1, 9))

    assert member.version == before
    assert ledger.take() == []


def test_what_came_by_longer_ago_than_repeats_are_looked_for_is_not_kept():
    repeats: Repeats[int] = Repeats(256)

    seen = [repeats.came_by(number // 2, number * 1_000, 10_000) for number in range(400)]

    assert seen == [False, True] * 200
    assert len(repeats) <= 6


def test_a_life_that_has_used_up_its_numbers_leads_to_the_next():
    member = Plain(lone_site(1, Ledger()))
    member.version = version_of(member.incarnation, NUMBERS - 1)

    version = member.next_version()

    assert version == version_of(member.incarnation, 1) > version_of(1, NUMBERS - 1)


def test_a_member_keeps_what_every_design_needs():
    member = Plain(lone_site(1, Ledger()))
    member.description = Description(("jazz",))
    member.next_version()

    kept = member.durable_member()

    assert (kept.incarnation, kept.version, kept.description) == (
        member.incarnation,
        member.version,
        member.description,
    )


def test_the_oldest_goes_when_there_is_one_too_many():
    table = Recent(2)
    table["a"] = 1
    table["b"] = 2
    table["a"] = 3
    table["c"] = 4
    assert list(table) == ["b", "c"]

    table.put("b", 5)
    table["d"] = 6
    assert table == {"b": 5, "d": 6}
    assert not table.once("b", 7)
    assert table["b"] == 5


def test_a_full_table_keeps_the_youngest_in_order_however_many_go():
    table = Recent(100)
    for number in range(5 * GONE_MAX):
        table[number] = -number
        if number % 7 == 0:
            table.put(
                number - 50, number
            )  # one that is there moves to the young end, one that is gone comes back
            table.put(number, -number)

    plain = {}
    for number in range(5 * GONE_MAX):
        for key, value in (
            (number, -number),
            *(((number - 50, number), (number, -number)) if number % 7 == 0 else ()),
        ):
            plain.pop(key, None)
            plain[key] = value
            if len(plain) > 100:
                del plain[next(iter(plain))]
    assert list(table.items()) == list(plain.items())


def test_a_lease_lapses_when_it_is_not_renewed():
    leases = Leases(lease_us=90)
    leases.renew("a", 0)
    leases.renew("b", 10)
    leases.renew("a", 50)

    assert leases.lapsed(100) == []
    assert leases.lapsed(101) == ["b"]
    assert "b" not in leases
    assert leases.lapsed(141) == ["a"]


@pytest.mark.parametrize("lease_us", [3, 90, 1_000_003])
def test_two_renewals_may_be_lost(lease_us):
    assert 3 * renewal_us(lease_us) <= lease_us
