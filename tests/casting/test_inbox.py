"""At most once per cast, only what fits, in bounded memory that no publisher can move."""

from random import Random

from implicast.casting.inbox import Inbox, Outcome
from implicast.language.parse import description, parse
from implicast.peer.contract import CastId
from implicast.peer.ledger import Ledger
from implicast.peer.member import DurableMember, Member
from implicast.peer.memory import HORIZON_US, Seen
from implicast.peer.name import name_of
from implicast.peer.wire import pack
from sites import lone_site

ANN, BOB = name_of(b"net", 1), name_of(b"net", 2)


def test_the_first_meeting_counts_and_no_other():
    seen = Seen()

    assert seen.first(CastId(ANN, 1, 5))
    assert not seen.first(CastId(ANN, 1, 5))
    assert seen.first(CastId(BOB, 1, 5))
    assert seen.first(CastId(ANN, 2, 5)), "another life counts from the beginning"


def test_casts_may_overtake_each_other_however_far():
    rng = Random(4)
    seen, met = Seen(), set()
    for _ in range(5000):
        serial = rng.randrange(4000)
        assert seen.first(CastId(ANN, 1, serial)) == (serial not in met)
        met.add(serial)


def test_a_forged_serial_mutes_nobody():
    seen = Seen()
    assert seen.first(CastId(ANN, 1, 2**48 - 1))

    assert all(seen.first(CastId(ANN, 1, serial)) for serial in range(1000))


def test_a_cast_is_remembered_for_a_horizon_and_forgotten_after_two():
    seen, cast = Seen(), CastId(ANN, 1, 1)
    seen.first(cast, HORIZON_US)

    assert not seen.first(cast, 2 * HORIZON_US), (
        "the younger generation has just become the older one"
    )
    assert seen.first(CastId(ANN, 1, 2), 3 * HORIZON_US)
    assert seen.first(cast, 3 * HORIZON_US + 1)


def test_a_full_memory_refuses_and_forgets_nothing():
    seen = Seen(bound=3)
    heard = [CastId(name_of(b"net", number), 1, 1) for number in range(3)]
    assert all(map(seen.first, heard))

    assert not seen.first(CastId(BOB, 9, 1))
    assert not seen.met(CastId(BOB, 9, 1))
    assert all(map(seen.met, heard))


def test_what_was_heard_outlives_a_crash_as_a_value():
    seen = Seen()
    casts = [CastId(ANN, 1, serial) for serial in (1, 63, 64, 1000)]
    for cast in casts:
        seen.first(cast)

    again = Seen(seen.blocks())

    assert all(map(again.met, casts))
    assert again.first(CastId(ANN, 1, 2))
    assert len(pack(DurableMember(1, 1, 1, None, seen.blocks()))) < 200


class Plain(Member):
    """A member of no design."""

    def join(self, introducers):
        pass

    leave = withdraw = register = cast = join


def test_a_member_says_what_became_of_a_notification():
    ledger = Ledger()
    member = Plain(lone_site(1, ledger))
    inbox, cast, jazz = Inbox(member), CastId(BOB, 1, 1), parse("jazz")

    assert inbox.take(cast, jazz, b"x") == Outcome.UNFIT
    member.description = description("jazz")
    assert inbox.take(cast, jazz, b"x") == Outcome.TAKEN
    assert inbox.take(cast, jazz, b"x") == Outcome.REPEAT
    inbox.seen = Seen(inbox.seen.blocks(), bound=1)
    assert inbox.take(CastId(ANN, 1, 1), jazz, b"x") == Outcome.FULL
    member.description = None
    assert inbox.take(cast, jazz, b"x") == Outcome.REPEAT, "it was taken before the member changed"
    assert len(ledger.take()) == 1


def test_a_publisher_that_jumps_through_its_serials_fills_half_and_leaves_room_for_all_others():
    seen = Seen(bound=100)
    taken = sum(seen.first(CastId(ANN, 1, serial << 6)) for serial in range(1000))

    assert taken == 50
    assert all(seen.first(CastId(name_of(b"others", number), 1, 1)) for number in range(49))
    assert seen.first(CastId(ANN, 1, 1)), "and goes on where it has been heard already"
