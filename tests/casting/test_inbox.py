"""At most once per cast, only what fits, in bounded memory that no publisher can move."""

from random import Random

from implicast.casting.inbox import Inbox, Outcome
from implicast.language.parse import description, parse
from implicast.peer.contract import CastId
from implicast.peer.expiry import CLOCK_BOUND_US, LIFETIME_MAX_US, LIFETIME_US, with_expiry
from implicast.peer.ledger import Ledger
from implicast.peer.member import DurableMember, Member
from implicast.peer.memory import BLOCK_SERIAL_BITS, PERIOD_US, Seen, SeenBlock
from implicast.peer.name import name_of
from implicast.peer.wire import pack
from sites import lone_site, sealed

LATER_US = 10 * PERIOD_US
ANN, BOB = name_of(b"net", 1), name_of(b"net", 2)


def test_the_first_meeting_counts_and_no_other():
    seen = Seen()

    assert seen.first(CastId(ANN, 1, 5), LATER_US, 0)
    assert not seen.first(CastId(ANN, 1, 5), LATER_US, 0)
    assert seen.first(CastId(BOB, 1, 5), LATER_US, 0)
    assert seen.first(CastId(ANN, 2, 5), LATER_US, 0), "another life counts from the beginning"


def test_casts_may_overtake_each_other_however_far():
    rng = Random(4)
    seen, met = Seen(), set()
    for _ in range(5000):
        serial = rng.randrange(4000)
        assert seen.first(CastId(ANN, 1, serial), LATER_US, 0) == (serial not in met)
        met.add(serial)


def test_a_forged_serial_mutes_nobody():
    seen = Seen()
    assert seen.first(CastId(ANN, 1, 2**48 - 1), LATER_US, 0)

    assert all(seen.first(CastId(ANN, 1, serial), LATER_US, 0) for serial in range(1000))


def test_a_cast_is_remembered_until_its_time_and_forgotten_a_period_later():
    seen, cast, until_us = Seen(), CastId(ANN, 1, 1), 3 * PERIOD_US + 5
    assert seen.first(cast, until_us, 0)

    assert not seen.first(cast, until_us + PERIOD_US, until_us), "another expiry does not help"
    assert seen.first(CastId(ANN, 1, 2), until_us + 2 * PERIOD_US, until_us + PERIOD_US)
    assert not seen.met(cast)


def test_state_of_an_earlier_version_is_remembered_for_the_default_lifetime():
    now_us = 100 * PERIOD_US
    seen = Seen((SeenBlock(ANN, 1, 0, 0b10),), now_us=now_us)

    assert seen.met(CastId(ANN, 1, 1))
    later = Seen(seen.blocks(), now_us=now_us + LIFETIME_US)
    assert later.met(CastId(ANN, 1, 1))
    assert not Seen(seen.blocks(), now_us=now_us + LIFETIME_US + 2 * PERIOD_US).blocks()


def test_a_full_memory_refuses_and_forgets_nothing():
    seen = Seen(bound=3)
    heard = [CastId(name_of(b"net", number), 1, 1) for number in range(3)]
    assert all(seen.first(cast, LATER_US, 0) for cast in heard)

    assert not seen.first(CastId(BOB, 9, 1), LATER_US, 0)
    assert not seen.met(CastId(BOB, 9, 1))
    assert all(map(seen.met, heard))


def test_what_was_heard_outlives_a_crash_as_a_value():
    seen = Seen()
    casts = [CastId(ANN, 1, serial) for serial in (1, 63, 64, 1000)]
    for cast in casts:
        seen.first(cast, LATER_US, 0)

    again = Seen(seen.blocks())

    assert all(map(again.met, casts))
    assert again.first(CastId(ANN, 1, 2), LATER_US, 0)
    assert len(pack(DurableMember(1, 1, 1, None, seen.blocks()))) < 200


class Plain(Member):
    """A member of no design."""

    def join(self, introducers):
        pass

    leave = withdraw = register = cast = join


def test_a_member_says_what_became_of_a_notification():
    ledger = Ledger()
    site = lone_site(1, ledger)
    member = Plain(site)
    inbox, cast, jazz = Inbox(site, member.policy, member.fit), CastId(BOB, 1, 1), parse("jazz")

    assert inbox.take(cast, jazz, sealed(b"x")) == Outcome.UNSELECTED
    member.describe(description("jazz"))
    member.describe(description("chess"))
    assert inbox.take(cast, jazz, sealed(b"x")) == Outcome.UNFIT, "its former description fits"
    member.describe(description("jazz"))
    assert inbox.take(cast, jazz, sealed(b"x")) == Outcome.TAKEN
    assert inbox.take(cast, jazz, sealed(b"x")) == Outcome.REPEAT
    inbox.seen = Seen(inbox.seen.blocks(), bound=1)
    assert inbox.take(CastId(ANN, 1, 1), jazz, sealed(b"x")) == Outcome.FULL
    member.description = None
    assert inbox.take(cast, jazz, sealed(b"x")) == Outcome.REPEAT, (
        "it was taken before the member changed"
    )
    assert len(ledger.take()) == 1


def test_a_publisher_that_jumps_through_its_serials_fills_half_and_leaves_room_for_all_others():
    seen = Seen(bound=100)
    taken = sum(
        seen.first(CastId(ANN, 1, serial << BLOCK_SERIAL_BITS), LATER_US, 0)
        for serial in range(1000)
    )

    assert taken == 50
    assert all(
        seen.first(CastId(name_of(b"others", number), 1, 1), LATER_US, 0) for number in range(49)
    )
    assert seen.first(CastId(ANN, 1, 1), LATER_US, 0), "and goes on where it has been heard already"


def test_a_cast_past_its_expiry_is_refused_and_one_that_was_taken_stays_a_repeat():
    ledger = Ledger()
    site = lone_site(1, ledger)
    member = Plain(site)
    member.description = description("jazz")
    inbox, jazz, carried = Inbox(site, member.policy, member.fit), parse("jazz"), sealed(b"x")

    assert inbox.take(CastId(BOB, 1, 1), jazz, carried) == Outcome.TAKEN
    ledger.now_us = LIFETIME_US + CLOCK_BOUND_US
    assert inbox.take(CastId(BOB, 1, 2), jazz, carried) == Outcome.TAKEN, "clocks differ"
    ledger.now_us += 1
    assert inbox.take(CastId(BOB, 1, 3), jazz, carried) == Outcome.EXPIRED
    assert inbox.take(CastId(BOB, 1, 1), jazz, carried) == Outcome.REPEAT
    assert inbox.take(CastId(BOB, 1, 1), jazz, b"x") == Outcome.REPEAT


def test_a_false_expiry_of_an_unsigned_cast_causes_no_second_notice():
    ledger = Ledger()
    site = lone_site(1, ledger)
    member = Plain(site)
    member.description = description("jazz")
    inbox, jazz, cast = Inbox(site, member.policy, member.fit), parse("jazz"), CastId(BOB, 1, 1)

    assert inbox.take(cast, jazz, with_expiry(1, b"x")) == Outcome.TAKEN
    ledger.now_us = LIFETIME_US
    other = CastId(BOB, 1, 2)
    assert inbox.take(other, jazz, sealed(b"x", ledger.now_us)) == Outcome.TAKEN
    assert inbox.take(cast, jazz, sealed(b"x")) == Outcome.REPEAT, "the true expiry is not over"
    beyond = with_expiry(ledger.now_us + LIFETIME_MAX_US + CLOCK_BOUND_US + 1, b"x")
    assert inbox.take(CastId(BOB, 1, 3), jazz, beyond) == Outcome.FORGED, "nothing is remembered"
    assert len(inbox.seen) <= 2


def test_the_outcomes_that_travel_are_distinct_and_keep_their_numbers():
    names = ("TAKEN", "REPEAT", "UNFIT", "BLOCKED", "FULL", "ELSEWHERE", "FORGED", "EXPIRED")

    assert [Outcome[name].value for name in names] == [1, 2, 3, 4, 5, 6, 7, 8]
