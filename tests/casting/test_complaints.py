"""Complaints slow a publisher whom many do not want, tell it, and let nobody speak for more than itself."""

import msgspec
import pytest

from implicast.casting.complaints import (
    ACCOUNTS_MAX,
    DURABLE_NAMES_MAX,
    LONE_MAX,
    MEMORY_US,
    PENALTY_US,
    Complain,
    ComplaintLog,
    DurableComplaintLog,
    surely_above,
)
from implicast.casting.designs import designs
from implicast.peer.contract import CastId, Contact
from implicast.trials.spam import SpamSettings, SpamTrial

SPAMMER = b"s" * 16


def names(count, start=0):
    return [Contact(number.to_bytes(16, "big"), number) for number in range(start, start + count)]


class Clock:
    now_us = 1_000_000


def complaint_log():
    clock = Clock()
    return clock, ComplaintLog(lambda: clock.now_us)


def cast(serial, publisher=SPAMMER):
    return CastId(publisher, 1, serial)


def complain(book, members, serial=1, publisher=SPAMMER):
    for each in members:
        book.complain(Complain(cast(serial, publisher), each.name), each.address)


def slowed(book, members, complaining, clock):
    """Two casts to these members, between which some complain: is the third declined?"""
    assert book.admits(cast(1), members)
    complain(book, complaining)
    assert book.admits(cast(2), members)
    clock.now_us += 1
    return not book.admits(cast(3), members)


@pytest.mark.parametrize("audience", [2, 3, 10, 40, 400])
def test_a_tenth_never_slows_anybody(audience):
    clock, book = complaint_log()
    members = names(audience)
    assert not slowed(book, members, members[: max(1, audience // 10)], clock)


@pytest.mark.parametrize(("audience", "complaining"), [(4, 4), (10, 8), (40, 22), (400, 140)])
def test_a_good_part_of_an_audience_does(audience, complaining):
    clock, book = complaint_log()
    members = names(audience)
    assert slowed(book, members, members[:complaining], clock)
    tally = book.slowing(cast(3))
    assert (tally.complaints, tally.reached) == (complaining, audience)
    assert clock.now_us < tally.until_us <= clock.now_us + min(2 * audience * PENALTY_US, MEMORY_US)


def test_many_names_that_were_not_told_count_for_nothing():
    clock, book = complaint_log()
    assert not slowed(book, names(20), names(10_000, start=100), clock)


def test_a_name_counts_once_and_only_from_where_it_was_told():
    clock, book = complaint_log()
    members = names(20)
    assert book.admits(cast(1), members)
    for _ in range(100):
        complain(book, members[:1])
        complain(book, [Contact(each.name, "elsewhere") for each in members])
    complain(book, members[:1], 2)
    assert book.admits(cast(2), members)
    assert book.admits(cast(3), members)
    assert clock.now_us == 1_000_000


def test_slowed_is_not_silenced():
    clock, book = complaint_log()
    members = names(10)
    assert slowed(book, members, members, clock)
    clock.now_us = book.slowing(cast(3)).until_us
    assert book.admits(cast(4), members), "what was owed is paid"
    assert not book.admits(cast(5), members)
    clock.now_us += MEMORY_US + 1
    assert book.admits(cast(6), members)


def test_one_publisher_does_not_pay_for_another():
    clock, book = complaint_log()
    members = names(10)
    assert slowed(book, members, members, clock)
    assert book.admits(cast(1, b"h" * 16), members)


def test_memory_is_bounded():
    _, book = complaint_log()
    for number in range(4 * ACCOUNTS_MAX):
        complain(book, names(3), publisher=number.to_bytes(16, "big"))
    assert len(book.accounts) == ACCOUNTS_MAX


def test_a_restart_of_the_keeper_frees_nobody():
    clock, book = complaint_log()
    members = names(10)
    assert book.admits(cast(1), members)
    complain(book, members[:8])
    again = ComplaintLog(lambda: clock.now_us, from_disk(book.durable_state()))
    assert again.durable_state() == book.durable_state()
    assert again.admits(cast(2), members), (
        "what was complained of is counted when they are told again"
    )
    third = ComplaintLog(lambda: clock.now_us, from_disk(again.durable_state()))
    assert not third.admits(cast(3), members)
    assert third.slowing(cast(3)).complaints == 8


def from_disk(durable):
    return msgspec.msgpack.decode(msgspec.msgpack.encode(durable), type=DurableComplaintLog)


def test_what_is_written_down_is_bounded_and_the_verdict_stays():
    clock, book = complaint_log()
    members = names(3000)
    for number in range(12):
        publisher = bytes([number]) * 16
        complain(book, members, 1, publisher)
        assert book.admits(cast(2, publisher), members)
        assert not book.admits(cast(3, publisher), members)
    durable = book.durable_state()
    assert (
        sum(len(each.against) + len(each.reached) + len(each.complained) for each in durable)
        <= DURABLE_NAMES_MAX
    )
    again = ComplaintLog(lambda: clock.now_us, from_disk(durable))
    assert [each.publisher for each in durable] == [bytes([number]) * 16 for number in range(12)]
    assert not any(again.admits(cast(4, each.publisher), members[:10]) for each in durable)


@pytest.mark.parametrize("name", ["centralised", "broker", "spice-unloaded"])
def test_every_front_end_writes_its_complaint_log_to_disk(name):
    trial = SpamTrial(SpamSettings(name, peers=32, minutes=3, complains=1.0))
    trial.run()
    durable = {}
    for address, peer in trial._world.peers.items():
        role = next((role for role, held in trial._plan.roles.items() if address in held), "member")
        kind = trial._design.durable_types[role]
        state = msgspec.msgpack.decode(msgspec.msgpack.encode(peer.durable_state()), type=kind)
        if getattr(state, "complaint_log", ()):
            durable[address] = state
    assert durable
    for address, state in durable.items():
        trial._world.crash(address)
        stands = trial._plan.new_fixture if address >= 32 else trial._plan.new_member
        assert (
            stands(trial._design, address, state.incarnation, durable_state=state)
            .durable_state()
            .complaint_log
            == state.complaint_log
        )


def test_a_server_that_falls_does_not_free_the_spammer():
    outcome = SpamTrial(
        SpamSettings("centralised", peers=64, minutes=8, falls=5, complains=0.6)
    ).run()
    assert outcome.spam_share[0] == 0.5
    assert max(outcome.spam_share[3:]) == 0.0
    assert (outcome.honest_declined, outcome.honest_slowed) == (0, 0)


def test_the_bound_is_wilsons():
    """Against the formula's own property: at the bound the observed share is three deviations away."""
    for count, of in ((1, 3), (8, 10), (22, 40), (140, 400)):
        low = surely_above(count, of)
        assert abs((count / of - low) / (low * (1 - low) / of) ** 0.5 - 3) < 1e-9


SPAM = [
    ("centralised", 0.0),
    ("centralised", 0.1),
    ("broker", 0.1),
    *(
        pytest.param(name, false, marks=pytest.mark.long)
        for name in ("spice", "spice-unloaded")
        for false in (0.0, 0.1)
    ),
]


@pytest.mark.parametrize(("name", "false"), SPAM)
def test_spam_to_half_of_all_reaches_few_within_ten_minutes_and_no_honest_publisher_is_slowed(
    name, false
):
    outcome = SpamTrial(SpamSettings(name, peers=256, false=false)).run()
    assert outcome.spam_share[0] == 0.5
    assert max(outcome.spam_share[9:]) < 0.05
    assert outcome.spammer_notified
    assert (outcome.honest_declined, outcome.honest_slowed) == (0, 0)
    assert outcome.honest_casts == 360


def test_without_complaints_spam_goes_on():
    outcome = SpamTrial(SpamSettings("centralised", peers=64, heeded=False, minutes=12)).run()
    assert set(outcome.spam_share) == {0.5}


def test_designs_without_a_keeper_say_so():
    slowing = {name for name, each in designs().items() if each.slows}
    assert slowing == {"centralised", "broker", "spice", "spice-unloaded"}
    outcome = SpamTrial(SpamSettings("condcast", peers=32, minutes=4)).run()
    assert outcome.complaints == 0
    assert set(outcome.spam_share) == {0.5}


def test_one_who_complains_of_everybody_pushes_out_only_what_it_said_itself():
    _, book = complaint_log()
    few = names(10)
    complain(book, few)
    others = [each.name for each in names(1_000, start=5_000)]

    for publisher in others:
        complain(book, [Contact(b"l" * 16, 77)], publisher=publisher)

    durable = {each.publisher: each for each in book.durable_state()}
    assert len(durable[SPAMMER].complained) == 10
    assert set(durable) == {SPAMMER, *others[-LONE_MAX:]}
