"""The living surface, rule by rule: what is learnt and what is not, estates, gaps, patience, routing round holes."""

import sys
from math import pi
from pathlib import Path

import pytest
from msgspec.structs import replace

from implicast.overlay.ice.atlas import better, gap_beside, touches
from implicast.overlay.ice.estate import Item, Way
from implicast.overlay.ice.estates import Legacy, in_parts
from implicast.overlay.ice.gives import Gift
from implicast.overlay.ice.inquest import Inquiry
from implicast.overlay.ice.messages import (
    Accepted,
    BackedUp,
    Backup,
    Copied,
    CopyEstate,
    Declined,
    Done,
    Echo,
    Enter,
    EnterAgain,
    Firm,
    Hail,
    HandOver,
    Inquire,
    More,
    NoEstate,
    Taking,
    Tick,
    Title,
    Titles,
    Who,
    Witness,
)
from implicast.overlay.ice.plot import SEIZED
from implicast.overlay.ice.routes import Onward
from implicast.overlay.ice.settings import Terms, Timers
from implicast.overlay.ice.surface import Surface
from implicast.peer.ledger import Ledger
from implicast.space.angle import cosine_of
from implicast.space.digest import stream
from implicast.space.morton import BITS
from implicast.space.tract import WHOLE, intersect, union
from implicast.world.populations.surface import settle, tiling, uniform_points

sys.path.insert(0, str(Path(__file__).parent.parent / "faults"))
from ice_life import Lodger, Put, S, Scene

from implicast.world.faults import Faults

HALF = 1 << (BITS - 1)


class Empty:
    """A keeper that keeps nothing, and remembers what it was told."""

    def __init__(self):
        self.told = []

    def pack(self, tract):
        return ()

    def reads(self, item):
        return True

    def __getattr__(self, name):
        return lambda *given: self.told.append((name, *given))


def surface(address=1):
    ledger = Ledger()
    return Surface(address, ledger, Empty(), Terms(2, cosine_of(pi / 3))), ledger


def halves():
    """Peer 1 owns the first half, peer 2 the second; 2 is the only heir of 1."""
    one, ledger = surface()
    one.settle_into(Title(0, 1, 0, 1), [Title(HALF, 1, 0, 2)], (2,))
    one.circle.concern(2).heard_us = ledger.now_us
    ledger.take()
    return one, ledger


def title_at(surface, code):
    """The title of another peer that a surface knows for a code."""
    return next((each for each in surface.plot.others if each.low <= code < each.high), None)


def sent(ledger, kind):
    return [(to, message) for to, message in ledger.sent() if type(message) is kind]


@pytest.mark.parametrize(
    "timers", [Timers(), Timers.of(1.5), Timers.of(1.0), Timers.of(5.0), Timers.of(30.0)]
)
def test_timers_stand_in_the_order_that_safety_rests_on(timers):
    assert timers.hello_us + timers.patience_us < timers.self_us
    assert (1 + timers.margin) * timers.self_us + timers.trip_us < timers.dead_us
    assert timers.ask_us >= 2 * timers.rto_us + timers.trip_us
    assert timers.rank_us > timers.ask_us + timers.settle_us
    assert timers.grace_us > timers.dead_us
    assert timers.tick_us * 2 <= timers.hello_us


def test_a_title_that_names_oneself_is_never_learnt_from_others():
    one, _ = halves()
    one.greetings.on_titles(2, Titles((Title(HALF, 1, 99, 1),)))

    assert one.tract == (0, HALF)


def test_a_better_title_makes_an_owner_yield_and_a_worse_one_is_answered_with_the_better():
    one, ledger = halves()
    one.greetings.on_titles(2, Titles((Title(0, 1, 1, 2),)))
    assert ("yielded", (0, HALF)) in one.tenant.told
    assert not one.pieces

    one, ledger = halves()
    one.greetings.on_hail(2, Hail(1, 0, 5, (Title(0, 1, 0, 2),), (), (), (), False, ()))
    assert sent(ledger, Titles) == [(2, Titles((Title(0, 1, 0, 1),)))]
    assert one.tract == (0, HALF)


def test_who_names_a_neighbour_as_a_newcomer_does_not_get_its_ground_seized():
    one, ledger = halves()
    one.circle.concern(2).take_hail(
        Hail(5, 5, 6, (Title(HALF, 1, 0, 2),), (), (), (), False, ()), ledger.now_us
    )
    ledger.now_us = S
    one.routes.carry(3, Enter(Way((0, 1), 1), 2, 1 << 61))

    assert one.plot.others == [Title(HALF, 1, 0, 2)]
    assert one.heirs == (2,)
    assert [to for to, _ in sent(ledger, More)] == [2], "the one that is named is asked"


def test_a_neighbour_that_comes_again_in_a_new_life_gets_a_place_when_it_says_so_itself():
    one, ledger = halves()
    one.circle.concern(2).take_hail(
        Hail(5, 5, 6, (Title(HALF, 1, 0, 2),), (), (), (), False, ()), ledger.now_us
    )
    one.routes.carry(3, Enter(Way((0, 1), 1), 2, 90))
    one.greetings.on_hail(2, Hail(91, 90, 91, (), (), (), (), False, ()))

    assert [to for to, _ in sent(ledger, HandOver)] == [2]


def test_a_newcomer_asks_its_introducers_in_turn():
    """At random it may miss the only living one of several again and again."""
    newcomer, ledger = surface()
    newcomer.join((2, 3, 4, 5, 6))
    for attempt in range(1, 5):
        newcomer.entry.on_enter_again(EnterAgain(attempt))

    assert sorted(to for to, _ in sent(ledger, Enter)) == [2, 3, 4, 5, 6]


def test_a_greeting_in_our_own_name_takes_nothing_from_us():
    one, _ = halves()
    one.greetings.on_hail(1, Hail(1, 0, 99, (), (), (), (), False, ()))

    assert one.tract == (0, HALF)


def test_greetings_of_an_older_mark_are_not_news():
    one, _ = halves()
    one.greetings.on_hail(2, Hail(1, 0, 7, (Title(HALF, 1, 3, 2),), (), (1,), (), False, ()))
    one.greetings.on_hail(2, Hail(2, 0, 6, (Title(HALF, 1, 9, 2),), (), (), (), False, ()))

    assert title_at(one, HALF) == Title(HALF, 1, 3, 2)
    assert one.circle.news[2].heirs == (1,)


@pytest.mark.parametrize(("born_us", "mark"), [(0, 1 << 61), (1 << 50, 9)], ids=["mark", "life"])
def test_a_greeting_ahead_of_all_others_is_believed_only_until_its_sender_has_denied_it_for_long(
    born_us, mark
):
    """A mark or a life that its sender never comes to: all its true greetings after that were taken for older ones."""
    one, ledger = halves()
    true = Hail(1, 0, 5, (Title(HALF, 1, 0, 2),), (), (1,), (), False, ())
    one.greetings.on_hail(2, true)
    one.greetings.on_hail(
        2, Hail(1, born_us, mark, (Title(HALF, 1, 99, 2), Title(0, 2, 7, 2)), (), (), (), False, ())
    )
    one.greetings.on_hail(2, true)
    assert title_at(one, HALF).epoch == 99, "it may have been on its way for a moment"
    ledger.now_us += one.terms.timers.self_us + 1
    ledger.take()
    one.greetings.check_mark(2, 5)
    assert sent(ledger, More) == [(2, More())], "it is not what we know: it is asked"
    one.greetings.on_hail(2, true)

    assert title_at(one, HALF) == Title(HALF, 1, 0, 2)
    assert title_at(one, 0) is None


def test_a_greeting_confirmed_again_and_again_is_not_denied_by_an_older_one():
    one, ledger = halves()
    one.greetings.on_hail(2, Hail(1, 0, 9, (Title(HALF, 1, 3, 2),), (), (1,), (), False, ()))
    for _ in range(9):
        ledger.now_us += one.terms.timers.hello_us
        one.greetings.on_echo(2, Echo(0, 9, 0, False))
    one.greetings.on_hail(2, Hail(2, 0, 6, (Title(HALF, 1, 1, 2),), (), (1,), (), False, ()))

    assert title_at(one, HALF) == Title(HALF, 1, 3, 2)


@pytest.mark.parametrize(
    ("winner", "titles", "epochs"),
    [(2, (), [0]), (2, (Title(0, 0, 77, 2),), []), (9, (), [78])],
    ids=["denied by its owner", "true", "of one who never was"],
)
def test_who_lost_all_to_a_title_that_nobody_has_begins_again(winner, titles, epochs):
    """False titles once took all ground from everybody: each asked the others for a place, for ever."""
    one, ledger = halves()
    one.greetings.on_titles(2, Titles((Title(0, 0, 77, winner),)))
    assert not one.pieces
    for second in range(60):
        ledger.now_us += S
        one.greetings.on_hail(2, Hail(ledger.now_us, 0, 9, titles, (), (), (), False, ()))
        again = [
            each for verb, _, each in ledger.take() if verb == "after" and type(each) is EnterAgain
        ]
        if again and second % 3 == 0:
            one.entry.on_enter_again(again[-1])
        elif again:
            ledger.after(0, again[-1])

    assert [each.epoch for each in one.pieces] == epochs
    assert one.tract == (WHOLE if epochs else ())


def test_who_owns_ground_beside_ours_is_asked_of_acquaintances_too():
    """Two who knew nobody else as a neighbour asked each other, and claimed what others had."""
    one, ledger = halves()
    one.greetings.on_hail(2, Hail(1, 0, 7, (Title(HALF, 2, 0, 2),), (), (), (), False, ()))
    one.greetings.on_hail(9, Hail(1, 0, 7, (), (), (), (), False, ()))
    ledger.take()
    assert one.plot.gap is not None
    one.inquest.mend_gap()

    assert 9 in [to for to, _ in sent(ledger, Who)]


def test_hops_are_remembered_for_as_long_as_repeats_come_and_then_forgotten():
    one, _ = halves()
    for number in range(1_000):
        assert not one.routes._is_repeat(2, number)
    assert one.routes._is_repeat(2, 999)
    assert sum(map(len, one.routes.seen.values())) <= one.terms.timers.seen_max
    one.routes.forget_hops()
    assert one.routes._is_repeat(2, 999), "its repeats may be on their way"
    one.routes.forget_hops()

    assert not one.routes._is_repeat(2, 999)


def test_what_a_greeting_does_not_list_its_sender_does_not_have():
    one, _ = halves()
    one.greetings.on_hail(2, Hail(1, 0, 7, (Title(HALF, 2, 0, 2),), (), (), (), False, ()))

    assert title_at(one, HALF) == Title(HALF, 2, 0, 2)
    assert title_at(one, HALF + HALF // 2) is None


def test_a_fragment_becomes_whole_when_the_better_title_is_gone():
    """Peer 3 had taken a part of what 2 has, and does not any more. The rest alone would be next to nothing of ours."""
    one, _ = halves()
    there = HALF + HALF // 2
    one.greetings.on_hail(3, Hail(1, 0, 7, (Title(there, 2, 5, 3),), (), (), (), False, ()))
    whole = Hail(1, 0, 7, (Title(HALF, 1, 0, 2),), (), (1,), (), False, ())
    one.greetings.on_hail(2, whole)
    assert title_at(one, HALF) == Title(HALF, 2, 0, 2), "the better title stands"
    one.greetings.on_hail(3, Hail(2, 0, 8, (), (), (), (), False, ()))
    one.greetings.on_hail(2, whole)

    assert title_at(one, HALF) == Title(HALF, 1, 0, 2) == title_at(one, there)


def test_what_its_owner_denies_is_told_no_more():
    one, ledger = halves()
    past_us = ledger.now_us - one.terms.timers.hello_us
    one.greetings.gifts = [(past_us, Title(HALF, 2, 6, 2)), (past_us, Title(HALF, 2, 4, 3))]
    one.greetings.on_hail(
        2, Hail(1, 0, 5, (Title(HALF + HALF // 2, 2, 1, 2),), (), (1,), (), False, ())
    )

    assert [title.owner for _, title in one.greetings.gifts] == [3]
    one.greetings.gifts = [(past_us, Title(HALF, 2, 6, 2))]
    one.greetings.on_hail(2, Hail(2, 0, 6, (Title(HALF, 1, 7, 2),), (), (1,), (), False, ()))
    assert one.greetings.gifts, "it has that, and more"
    one.greetings.gifts = [(ledger.now_us, Title(HALF, 2, 6, 2))]
    one.greetings.on_hail(
        2, Hail(3, 0, 8, (Title(HALF + HALF // 2, 2, 8, 2),), (), (1,), (), False, ())
    )
    assert one.greetings.gifts, "that greeting may have been on its way when the gift was made"


def test_what_is_said_of_a_third_peer_is_checked_with_it():
    one, ledger = halves()
    ledger.now_us = 5 * S
    one.circle.concern(9).mark = 4
    one.greetings.on_titles(2, Titles((Title(HALF, 2, 5, 9),)))
    assert sent(ledger, More) == [(9, More())]
    one.greetings.on_hail(9, Hail(1, 0, 4, (), (), (), (), False, ()))

    assert title_at(one, HALF) is None, "a greeting of the same mark lists all that its sender has"


def test_a_give_takes_three_messages_and_nobody_answers_in_between():
    one, ledger = halves()
    one.routes.deliver(3, (0, 1), Enter(Way((0, 1)), 3, 0))
    [(to, give)] = sent(ledger, HandOver)
    assert (to, give.title) == (3, Title(0, 2, 3, 3))
    assert one.ground == (HALF // 2, HALF)
    assert not one.answers(0)

    three, other = surface(3)
    three.taker.on_hand_over(1, give)
    [(_, accepted)] = [(to, each) for to, each in other.sent() if type(each) is Accepted]
    assert three.tract == (0, HALF // 2)
    assert not three.ground

    one.giver.on_accepted(3, accepted)
    assert sent(ledger, Done) == [(3, Done(give.number))]
    assert one.tract == (HALF // 2, HALF)
    assert one.estates.holds(3)
    three.taker.on_done(1, Done(give.number))
    assert three.answers(0)
    assert three.heirs == (1,)


def test_a_giver_does_not_learn_of_the_takers_title_from_a_greeting():
    one, ledger = halves()
    one.routes.deliver(3, (0, 1), Enter(Way((0, 1)), 3, 0))
    [(_, give)] = sent(ledger, HandOver)
    one.greetings.on_hail(3, Hail(1, 0, 1, (give.title,), (), (), (), False, ()))

    assert one.giver.gift is not None
    assert one.tract == (0, HALF)


def test_a_declined_piece_is_taken_back_under_a_better_title_than_was_offered():
    one, ledger = halves()
    one.routes.deliver(3, (0, 1), Enter(Way((0, 1)), 3, 0))
    [(_, give)] = sent(ledger, HandOver)
    one.giver.on_declined(3, Declined(give.number))
    [piece] = one.pieces

    assert one.ground == (0, HALF)
    assert piece.epoch > give.title.epoch
    one.giver.on_accepted(3, Accepted(give.number, give.title, (1,), 0))
    assert sent(ledger, Titles)[-1][1].titles == (piece,)


def test_full_tables_refuse_and_nothing_waits_for_ever():
    one, _ = halves()
    one.asker.topic("other", one.terms.timers.patience(1))
    for number in range(one.terms.timers.asks_max):
        one.asker.ask("other", number, 2, More())
    assert not one.batch((), lambda: None)
    one.routes.deliver(3, (0, 1), Enter(Way((0, 1)), 3, 0))
    assert one.giver.gift is not None
    one.on_tick(Tick())

    assert one.giver.gift is None
    assert one.ground == (0, HALF)


def test_the_more_spare_pieces_the_sooner_the_next_one_goes():
    """After a partition one peer may have those of half the surface: one every three seconds took a minute."""
    one, ledger = surface()
    one.plot.atlas.put(Title(number << (BITS - 5), 5, 0, 1 + number % 2) for number in range(32))
    one.plot.survey()
    one.succession.begin_with((2,), 0)
    one.circle.concern(2)
    given = 0
    for _ in range(10):
        ledger.now_us += S
        one.succession.echoed_us = ledger.now_us
        one.parting.tidy()
        for to, give in sent(ledger, HandOver):
            one.giver.on_accepted(to, Accepted(give.number, give.title, (1,), 0))
            given += 1

    assert given >= 8, "about one at each tick"


def test_a_repeated_give_gets_the_same_answer():
    one, ledger = halves()
    give = HandOver(5, 0, 1, Title(HALF, 2, 2, 1), (), ())
    one.leave()
    for _ in range(2):
        one.taker.on_hand_over(2, give)

    assert sent(ledger, Declined) == [(2, Declined(5))] * 2


def test_a_give_in_parts_is_taken_when_all_have_come():
    three, ledger = surface(3)
    item = Item(0, 1, b"k", b"v")
    for part in (0, 1, 1, 2):
        assert not three.pieces
        three.taker.on_hand_over(1, HandOver(9, part, 3, Title(0, 1, 2, 3), (), (item,)))

    assert sent(ledger, Taking)[-1] == (1, Taking(9, 2))
    assert three.tenant.told[0][0] == "accept"
    assert len(three.tenant.told[0][1]) == 3


def test_items_are_divided_into_parts_of_bounded_length():
    items = tuple(Item(code, code + 1, b"k" * 10, b"v" * 58) for code in range(25))
    parts = in_parts(items, 1_000)

    assert tuple(item for part in parts for item in part) == items
    assert [len(part) for part in parts] == [10, 10, 5]
    assert in_parts((), 1_000) == [()]


def test_the_later_word_of_an_owner_counts_in_whatever_order_it_comes():
    estate = Legacy(1, (Title(0, 1, 0, 2),), (), (), 0)
    new, old = Item(3, 4, b"k", b"new"), Item(3, 4, b"k", b"old")
    estate.put(5, [new])
    estate.put(4, [old])
    assert estate.within((0, 10)) == (new,)
    estate.put(6, [Item(3, 4, b"k", b"")])
    assert estate.within((0, 10)) == ()


def test_an_estate_is_united_with_what_its_holder_gives():
    one, ledger = halves()
    one.estates.held[3] = Legacy(1, (Title(HALF, 2, 0, 3),), (1,), (), 0)
    one.estates.held[3].put(2, [Item(HALF, HALF + 1, b"theirs", b"x")])
    one.tenant.pack = lambda tract: (Item(0, 1, b"ours", b"y"),)
    one.routes.deliver(3, (0, 1), Enter(Way((0, 1)), 3, 0))
    [(_, give)] = sent(ledger, HandOver)
    one.giver.on_accepted(3, Accepted(give.number, give.title, (1, 2), 0))

    assert set(one.estates.held[3].items) == {b"theirs", b"ours"}


def test_a_backup_that_overtakes_the_copy_it_adds_to_is_kept():
    """The heir had an estate of old: the backup came to that, and the copy put another in its place."""
    one, _ = halves()
    titles, old, fresh = (
        (Title(HALF, 1, 0, 2),),
        Item(HALF, HALF + 1, b"old", b"x"),
        Item(HALF, HALF + 1, b"new", b"y"),
    )
    one.estates.on_copy(2, CopyEstate(4, 0, 1, 1, 100, 1, titles, (1,), (), (old,)))
    one.estates.on_backup(2, Backup(6, 9, 300, 1, titles, (fresh,)))
    one.estates.on_copy(2, CopyEstate(5, 0, 1, 8, 200, 1, titles, (1,), (), (old,)))

    assert set(one.estates.held[2].items) == {b"old", b"new"}


def test_an_heir_forgets_in_a_while_what_its_owner_keeps_no_longer_but_not_at_once():
    """An older word that came late would bring it back; a later one need not be remembered for ever."""
    one, ledger = halves()
    titles, dead_us = (Title(HALF, 1, 0, 2),), one.terms.timers.dead_us
    kept, gone, none = (
        Item(HALF, HALF + 1, key, body) for key, body in ((b"k", b"x"), (b"g", b"y"), (b"g", b""))
    )

    def pass_by(wait_us):
        ledger.now_us += wait_us
        one.circle.concern(2).heard_us = ledger.now_us
        one.estates.forget()

    one.estates.on_copy(2, CopyEstate(4, 0, 1, 1, 100, 1, titles, (1,), (), (kept, gone)))
    pass_by(dead_us + 1)
    one.estates.on_backup(2, Backup(6, 9, 300, 1, titles, (none,)))
    pass_by(dead_us + 1)
    one.estates.on_backup(2, Backup(5, 8, 200, 1, titles, (gone,)))
    assert set(one.estates.held[2].items) == {b"k", b"g"}
    assert one.estates.held[2].within((HALF, HALF + 1)) == (kept,), "the older word changes nothing"

    pass_by(dead_us + 1)
    assert set(one.estates.held[2].items) == {b"k"}


def copied_to(mark):
    """Peer 1 holds an estate of 2, said to be of this mark."""
    one, ledger = halves()
    piece = Title(HALF, 1, 0, 2)
    one.estates.on_copy(2, CopyEstate(4, 0, 1, 1, 5, mark, (piece,), (1,), (), ()))
    return one, ledger, piece


def test_an_estate_whose_owner_denies_it_for_long_is_given_up():
    """A stranger spoke of a mark that the owner never comes to: its heir vouched for it no more, for ever."""
    one, ledger, piece = copied_to(mark=1 << 40)
    timers = one.terms.timers
    one.greetings.on_hail(2, Hail(6, 0, 7, (piece,), (), (1,), (), False, ()))
    assert one.estates.holds(2), "a copy may overtake a greeting"
    ledger.now_us += timers.self_us + 1
    one.greetings.on_hail(2, Hail(ledger.now_us, 0, 7, (piece,), (), (1,), (), False, ()))

    assert not one.estates.holds(2)
    assert not sent(ledger, Echo)[-1][1].has_estate, "and the owner hears of it, and copies again"


def test_an_owner_is_vouched_for_although_a_stranger_gave_it_a_better_title():
    one, ledger, piece = copied_to(mark=7)
    one.greetings.on_titles(3, Titles((Title(HALF, 1, 256, 2),)))
    one.greetings.on_hail(2, Hail(6, 0, 7, (piece,), (), (1,), (), False, ()))

    assert sent(ledger, Echo)[-1][1].stamp_us == 6


def test_a_title_in_the_name_of_its_owner_ends_with_the_owners_next_greeting():
    one, _, piece = copied_to(mark=7)
    one.greetings.on_titles(3, Titles((Title(HALF, 1, 256, 2),)))
    one.greetings.on_hail(2, Hail(6, 0, 7, (piece,), (), (1,), (), False, ()))

    assert one.plot.others == [piece]


def test_a_late_repeat_of_a_copy_does_not_bring_back_an_estate_that_has_ended():
    one, _ = halves()
    copy = CopyEstate(4, 0, 1, 1, 100, 1, (Title(HALF, 1, 0, 2),), (1,), (), ())
    one.estates.on_copy(2, copy)
    assert one.estates.holds(2)
    one.greetings.on_hail(2, Hail(200, 0, 9, (Title(HALF, 1, 0, 2),), (), (), (), False, ()))
    one.estates.on_copy(2, copy)

    assert not one.estates.holds(2)


def test_an_end_that_lies_in_the_future_does_not_keep_copies_out_for_ever():
    one, ledger = halves()
    piece = Title(HALF, 1, 0, 2)
    one.greetings.on_hail(2, Hail(1 << 50, 0, 9, (piece,), (), (), (), False, ()))
    one.estates.on_copy(2, CopyEstate(4, 0, 1, 1, 100, 9, (piece,), (1,), (), ()))
    assert not one.estates.holds(2)
    ledger.now_us += one.terms.timers.self_us + 1
    one.estates.on_copy(2, CopyEstate(5, 0, 1, 1, 200, 9, (piece,), (1,), (), ()))

    assert one.estates.holds(2)


def test_what_lies_elsewhere_than_on_an_owners_ground_is_not_kept_for_it():
    one, _ = halves()
    there, elsewhere = Item(HALF, HALF + 1, b"there", b"x"), Item(5, 6, b"elsewhere", b"y")
    one.estates.on_copy(
        2, CopyEstate(4, 0, 1, 1, 100, 1, (Title(HALF, 1, 0, 2),), (1,), (), (there, elsewhere))
    )
    one.estates.on_backup(2, Backup(6, 9, 300, 1, (Title(HALF, 1, 0, 2),), (elsewhere,)))

    assert set(one.estates.held[2].items) == {b"there"}


@pytest.mark.parametrize(
    ("winner", "offered"), [(9, True), (7, False)], ids=["a stranger", "another heir"]
)
def test_an_heir_offers_its_copy_to_a_stranger_who_took_the_place_of_the_dead(winner, offered):
    one, _ = halves()
    piece, item = Title(HALF, 1, 0, 2), Item(HALF + 5, HALF + 6, b"k", b"v")
    one.estates.held[2] = Legacy(1, (piece,), (7, 1), (), 0)
    one.estates.held[2].put(1, [item])
    inquiry = Inquiry(True, {}, Inquire(2, (piece,), 1, (), 1))
    inquiry.witnesses.append(Witness(2, -1, (Title(HALF, 1, 4, winner),), (), False, ()))
    one.inquest.declare_dead(2, inquiry)

    tract = (HALF, 2 * HALF)
    assert (("accept", (item,), tract) in one.tenant.told) is offered
    assert (("yielded", tract) in one.tenant.told) is offered
    assert one.tract == (0, HALF)
    assert 2 not in one.estates.held


def test_who_takes_ground_without_its_records_says_so_although_a_newcomer_gets_it_at_once():
    """The newcomer had waited: the ground was on its way when the keeper was told that nothing of it was lost."""
    one, ledger = halves()
    one.inquest.declare_dead(2, Inquiry(True, {}, Inquire(2, (Title(HALF, 1, 0, 2),), 3, (), -2)))
    assert one.plot.of_status(SEIZED), "nobody had a copy"
    one.routes.carry(3, Enter(Way((HALF, HALF + 1), 1), 3, 0))
    for verb, _, firm in ledger.take():
        if verb == "after" and type(firm) is Firm:
            one.inquest.on_firm(firm)
    one.succession.drop_heir(2)

    assert [to for to, _ in sent(ledger, HandOver)] == [3]
    assert ("lost", (HALF, 2 * HALF)) in one.tenant.told


def test_who_knocks_at_a_far_heir_of_a_suspect_says_where_it_was():
    """The heir knew no title there, and sent what was for the dead back to where it came from, to and fro."""
    one, _ = halves()
    one.circle.concern(2).heirs = (9,)
    one.circle.suspect(2)
    ((hop, way),) = one.routes.onward(Way((HALF, HALF + 1))).hops

    assert (hop, way.visited) == (9, (1,))
    assert way.stuck == one.routes.table.rank((HALF, HALF + 1))
    assert one.routes.onward(replace(way, visited=(9, 1))) == Onward((), [], way.tract), (
        "it need not come again"
    )


@pytest.mark.parametrize("silent", [True, False])
def test_an_heir_keeps_what_comes_for_a_dead_owner_far_from_it_and_passes_on_what_is_for_a_living_one(
    silent,
):
    far = Title(HALF + HALF // 2, 2, 0, 9)
    one, _ = surface()
    one.settle_into(Title(0, 1, 0, 1), [Title(HALF, 2, 0, 2)], (2,))
    one.estates.held[9] = Legacy(1, (far,), (1,), (), 0)
    one.circle.concern(9).heirs = (1,)
    if silent:
        one.circle.suspect(9)
    way = Way((far.low, far.low + 1), stuck=(0, 1), visited=(2,))
    found = one.routes.onward(way)

    assert [hop for hop, _ in found.hops] == ([] if silent else [9])
    assert found.waiting == (way.tract if silent else ())


def test_addresses_of_any_kind_and_number_can_be_named_by_strangers():
    """An owner at (host, port) among numbers could not be compared, and one below zero stopped a table."""
    one, _ = halves()
    for owner in (("host", 80), -(1 << 63), 1 << 62):
        one.greetings.on_titles(2, Titles((Title(HALF, 2, 1, owner), Title(HALF, 2, 1, 3))))
        one.routes.carry(2, Who(Way((HALF, HALF + 1), 1), 7))

    assert title_at(one, HALF).owner in (-(1 << 63), 3)
    assert better(Title(0, 1, 0, 9), Title(0, 1, 0, ("host", 80)))


NEAR, FAR = Title(HALF, 2, 0, 2), Title(HALF + HALF // 2, 2, 1, 2)
"""Pieces of peer 2: one that it had for long, one that it has taken over."""


@pytest.mark.parametrize(
    ("copied", "lost"),
    [
        ((NEAR, FAR), []),
        ((NEAR,), [("lost", (FAR.low, FAR.high))]),
        ((), [("lost", (NEAR.low, FAR.high))]),
    ],
    ids=["all", "what it had for long", "nothing"],
)
def test_who_takes_more_ground_of_the_dead_than_it_has_a_copy_of_says_so_of_the_rest(copied, lost):
    """An heir that was cut off hears from others what the owner has taken over meanwhile, and has no copy of that."""
    one, ledger = halves()
    one.estates.held[2] = Legacy(1, copied, (1,), (), 0)
    one.inquest.declare_dead(2, Inquiry(True, {}, Inquire(2, (NEAR, FAR), 0, (), 1)))
    assert one.tract == WHOLE
    for verb, _, firm in ledger.take():
        if verb == "after" and type(firm) is Firm:
            one.inquest.on_firm(firm)
    one.succession.drop_heir(2)
    one.succession.become_heir(7, ledger.now_us)

    assert one.ground == WHOLE
    assert [each for each in one.tenant.told if each[0] == "lost"] == lost


@pytest.mark.parametrize(
    ("copied", "whole"), [((NEAR, FAR), True), ((NEAR,), False)], ids=["all of it", "a part"]
)
def test_a_witness_says_that_its_copy_is_whole_only_of_all_the_ground_that_it_is_asked_about(
    copied, whole
):
    one, ledger = halves()
    one.estates.held[2] = Legacy(1, copied, (1,), (), 0)
    one.estates.held[2].put(4, [Item(HALF + 5, HALF + 6, b"k", b"v")])
    one.inquest.on_inquire(3, Inquire(2, (NEAR, FAR), 3, (), -2))

    assert [(len(each.items), each.whole) for _, each in sent(ledger, Witness)] == [(1, whole)]


def test_an_owner_doubts_itself_when_no_heir_echoes_and_trusts_itself_when_one_does():
    one, ledger = halves()
    assert one.answers(0)
    ledger.now_us += one.terms.timers.self_us + 1
    assert one.is_doubtful
    one.greetings.on_echo(2, Echo(ledger.now_us - one.terms.timers.self_us - 1, 1, 0, True))
    assert one.is_doubtful, "an old stamp proves nothing"
    one.greetings.on_echo(2, Echo(ledger.now_us, 1, 0, True))
    assert one.answers(0)


def test_a_batch_counts_when_every_heir_has_it():
    one, ledger = halves()
    done = []
    one.batch((Item(0, 1, b"k", b"v"),), lambda: done.append(1))
    assert not done
    [(to, backup)] = [(to, each) for to, each in ledger.sent() if type(each).__name__ == "Backup"]
    one.succession.on_backed_up(to, BackedUp(backup.number, backup.stamp_us))
    assert done == [1]


def test_a_batch_without_any_heir_waits_for_one():
    one, _ = halves()
    done = []
    one.succession.drop_heir(2)
    one.batch((), lambda: done.append(1))
    assert not done
    one.succession.become_heir(2, 0)
    assert done == [1]


def taker_of_the_dead():
    """Peer 1 has taken the ground of 3, which has died, with all that was kept there; it has no heir yet."""
    one, ledger = surface()
    piece, item = Title(0, 2, 0, 3), Item(5, 6, b"k", b"v")
    one.tenant.pack = lambda tract: (item,) if intersect(tract, (5, 6)) else ()
    estate = one.estates.held[3] = Legacy(1, (piece,), (1,), ((Title(HALF, 1, 0, 2), ()),), 0)
    estate.put(1, [item])
    return one, ledger, Inquiry(True, {}, Inquire(3, (piece,), 0, (), 1), estate)


def test_who_gives_to_a_peer_that_has_other_ground_is_not_its_heir_before_it_has_a_copy_of_all():
    """A peer that had slept took the place of a dead one, and entered: the giver was its heir, and lacked the rest."""
    one, ledger, inquiry = taker_of_the_dead()
    one.inquest.declare_dead(3, inquiry)
    one.taker.on_hand_over(
        2, HandOver(9, 0, 1, Title(HALF, 2, 2, 1), ((Title(HALF + HALF // 2, 2, 1, 2), ()),), ())
    )
    assert not sent(ledger, Accepted), "it would name the giver, or nobody, as its heir"
    one.circle.heard(2)
    one.succession.choose_heirs()
    [(to, copy)] = sent(ledger, CopyEstate)
    assert (to, len(copy.items)) == (2, 1)
    one.succession.on_copied(2, Copied(copy.number, 0, copy.stamp_us))

    assert [message.heirs for _, message in sent(ledger, Accepted)] == [(2,)]


def test_who_gave_to_a_peer_that_has_taken_other_ground_since_is_not_its_heir():
    one, ledger, inquiry = taker_of_the_dead()
    one.taker.on_hand_over(
        2, HandOver(9, 0, 1, Title(HALF, 2, 2, 1), ((Title(HALF + HALF // 2, 2, 1, 2), ()),), ())
    )
    assert [message.heirs for _, message in sent(ledger, Accepted)] == [(2,)]
    one.inquest.declare_dead(3, inquiry)
    one.taker.on_done(2, Done(9))

    assert one.ground == (HALF, HALF + HALF // 2)
    assert not one.heirs, "it has what it gave, and no more"


def test_a_giver_that_becomes_an_heir_gets_what_the_taker_held_of_that_ground_itself():
    """An estate of a dead owner: the giver took the place of that one, maybe without what was kept there last."""
    one, ledger, _ = taker_of_the_dead()
    one.taker.on_hand_over(
        2, HandOver(9, 0, 1, Title(0, 3, 2, 1), ((Title(HALF, 1, 1, 2), ()),), ())
    )
    one.taker.on_done(2, Done(9))

    assert one.heirs == (2,)
    assert [(to, [each.key for each in backup.items]) for to, backup in sent(ledger, Backup)] == [
        (2, [b"k"])
    ]


def copying():
    """Peer 1 has no heir, and copies its estate to one of its neighbours 2 and 3."""
    one, ledger = surface()
    one.settle_into(Title(0, 1, 0, 1), [Title(HALF, 2, 0, 2), Title(HALF + HALF // 2, 2, 0, 3)], ())
    one.circle.concern(2)
    one.circle.concern(3)
    one.succession.choose_heirs()
    [(first, copy)] = sent(ledger, CopyEstate)
    return one, ledger, first, copy


def test_who_is_to_be_an_heir_and_falls_silent_is_replaced_before_all_patience_with_its_copy_is_over():
    """Its neighbours were parted from it one by one: it copied to the silent, and died with its last heir."""
    one, ledger, first, copy = copying()
    one.succession.choose_heirs()
    assert not sent(ledger, CopyEstate), "it is awaited"
    one.circle.suspect(first)
    one.succession.choose_heirs()

    assert [to for to, _ in sent(ledger, CopyEstate)] == [5 - first]
    assert not one.asker.open("copy", copy.number)


def test_a_copy_that_is_not_made_any_more_is_not_asked_for_either():
    """Its silence ended the next copying, to another."""
    one, _, first, copy = copying()
    one.succession.on_no_estate(first, NoEstate(copy.number))

    assert one.succession.told == ()
    assert not one.asker.open("copy", copy.number)


@pytest.mark.parametrize("dimensions", [2, 3, 4])
def test_a_gap_in_a_table_is_found_and_a_whole_table_has_none(dimensions):
    chance = stream(dimensions, "gaps")
    tiles = tiling(uniform_points(40, chance.getrandbits), dimensions)
    titles = [
        Title(low, bits, 0, index)
        for index, (low, bits) in enumerate(
            zip(tiles.low.tolist(), tiles.bits.tolist(), strict=True)
        )
    ]
    for piece in titles:
        near = [each for each in titles if each is piece or touches(each, piece, dimensions)]
        assert gap_beside([piece], near, dimensions) is None
        for left_out in near:
            if left_out is piece:
                continue
            known = [each for each in near if each is not left_out]
            low, bits = gap_beside([piece], known, dimensions)
            gap = Title(low, bits, 0, -1)
            assert touches(gap, piece, dimensions)
            assert intersect((low, gap.high), (left_out.low, left_out.high))
            assert not any(intersect((low, gap.high), (each.low, each.high)) for each in known)


class Counter(Lodger, parts={"surface": Surface}):
    """Notes what arrives where."""

    def arrived(self, sender, part, message):
        self.scene.arrivals.append((self.address, part))


def spread(seed, holes):
    """One message to the whole surface, just after some peers have died."""
    scene = Scene(seed, peers=60, dimensions=2 + seed % 3, faults=Faults(), lodger=Counter)
    scene.arrivals = []
    scene.world.run(2 * S)
    for each in scene.rng.sample(scene.lodgers(), holes):
        scene.world.crash(each.address)
    scene.lodgers()[0].surface.send(Put(Way(WHOLE), 1, 1, 0))
    scene.world.run(scene.world.now_us + 25 * S)
    return scene


@pytest.mark.parametrize("seed", range(4))
def test_every_owner_in_a_destination_gets_its_part_once(seed):
    scene = spread(seed, holes=0)
    parts = [(part[i], part[i + 1]) for _, part in scene.arrivals for i in range(0, len(part), 2)]

    assert {address for address, _ in scene.arrivals} == set(range(60))
    assert union(parts) == WHOLE
    assert sum(high - low for low, high in parts) == WHOLE[1], "no place is visited twice"


@pytest.mark.parametrize("seed", range(6))
def test_messages_find_their_way_round_holes_and_wait_for_those_who_take_the_place_of_the_dead(
    seed,
):
    scene = spread(seed, holes=5)

    assert (
        union((part[i], part[i + 1]) for _, part in scene.arrivals for i in range(0, len(part), 2))
        == WHOLE
    )


def test_assembled_surfaces_are_quiet_from_the_start():
    scene = Scene(3, peers=40, dimensions=3, faults=Faults())
    assert not scene.objections()
    scene.world.run(20 * S)
    assert not scene.objections()


def test_a_surface_is_assembled_with_copies_of_what_is_kept():
    scene = Scene(3, peers=10, dimensions=2, faults=Faults())
    owner = scene.lodgers()[4]
    owner.things[1] = (owner.surface.pieces[0].low, 1)
    settle(
        tiling(uniform_points(10, stream(3, "scene").getrandbits), 2),
        scene.surfaces(),
        scene.world.latency_us,
    )

    assert not scene.objections()
    assert all(
        scene.world.peers[heir].surface.estates.held[4].items for heir in owner.surface.heirs
    )


def test_a_greeting_from_before_a_gift_does_not_empty_the_estate_that_the_giver_holds():
    """The taker had lost all its ground and was an old acquaintance: the greeting that said so came after the gift, and
    its heir, the giver, forgot what it had just given."""
    one, _ = halves()
    quarter = Title(HALF // 2, 2, 2, 2)
    item = Item(quarter.low, quarter.low + 1, b"key", b"body")
    before = Hail(10, 5, 6, (), (), (1,), (), False, ())
    one.estates.held[2] = Legacy(-1, (), (1,), (), 10, mark=before.mark)
    gift = Gift(1, [(item,)], Title(HALF // 2, 2, 0, 1), quarter, ())
    one.plot.atlas.put((Title(0, 2, 1, 1), Title(HALF // 2, 2, 1, 1)))
    one.plot.survey()

    one.giver.part_with(gift, (1,), stamp_us=20)
    one.estates.hailed(2, before)
    assert one.estates.held[2].within((quarter.low, quarter.high)) == (item,)

    one.estates.hailed(2, Hail(30, 5, before.mark + 1, (quarter,), (), (1,), (), False, ()))
    assert one.estates.held[2].within((quarter.low, quarter.high)) == (item,)
