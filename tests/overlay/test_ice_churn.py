"""The living surface, rule by rule: what is learnt and what is not, backup_copies, gaps, patience,
routing round holes.
"""

import sys
from math import pi
from pathlib import Path

import pytest
from msgspec.structs import replace

from implicast.overlay.ice.backup_copy import (
    BackupCopy,
    BackupDelta,
    BackupSnapshot,
    DeltaAck,
    NoBackupCopy,
    SnapshotAck,
    split_into_parts,
)
from implicast.overlay.ice.claiming import CommitDue
from implicast.overlay.ice.death_poll import ConfirmDeath, DeathPoll, DeathVote
from implicast.overlay.ice.fixed_surface import Tick
from implicast.overlay.ice.handoff import OutgoingHandoff
from implicast.overlay.ice.handoff_receiver import (
    HandoffAbort,
    HandoffCommit,
    HandoffOffer,
    HandoffPrepared,
    HandoffProgress,
)
from implicast.overlay.ice.item_store import Item, RouteHeader
from implicast.overlay.ice.joining import JoinRetry
from implicast.overlay.ice.messages import (
    ClaimUpdate,
    FindOwner,
    FullStateRequest,
    Heartbeat,
    HeartbeatAck,
    JoinRequest,
    OwnershipClaim,
)
from implicast.overlay.ice.ownership import TAKEN_OVER
from implicast.overlay.ice.ownership_map import better, gap_beside, touches
from implicast.overlay.ice.routing_decision import RoutingDecision
from implicast.overlay.ice.settings import SurfaceSettings, Timers
from implicast.overlay.ice.state import SurfaceState
from implicast.overlay.ice.surface import IceSurface
from implicast.peer.ledger import Ledger
from implicast.space.angle import cosine_of
from implicast.space.digest import stream
from implicast.space.morton import BITS
from implicast.space.tract import WHOLE, intersect, union
from implicast.world.populations.surface import settle, tiling, uniform_points

sys.path.insert(0, str(Path(__file__).parent.parent / "faults"))
from ice_scenes import Lodger, Put, S, Scene

from implicast.world.faults import Faults

HALF = 1 << (BITS - 1)


class Empty:
    """A keeper that keeps nothing, and remembers what it was told."""

    def __init__(self):
        self.told = []

    def pack(self, tract):
        return ()

    def can_decode(self, item):
        return True

    def __getattr__(self, name):
        return lambda *given: self.told.append((name, *given))


def surface(address=1):
    ledger = Ledger()
    return IceSurface(address, ledger, Empty(), SurfaceSettings(2, cosine_of(pi / 3))), ledger


def halves():
    """Peer 1 owns the first half, peer 2 the second; 2 is the only backup of 1."""
    one, ledger = surface()
    one.restore(SurfaceState((OwnershipClaim(0, 1, 0, 1),), (OwnershipClaim(HALF, 1, 0, 2),), (2,)))
    one.members.state_of(2).heard_us = ledger.now_us
    ledger.take()
    return one, ledger


def title_at(surface, code):
    """The claim of another peer that a surface knows for a code."""
    return next((each for each in surface.ownership.others if each.low <= code < each.high), None)


def sent(ledger, kind):
    return [(to, message) for to, message in ledger.sent() if type(message) is kind]


@pytest.mark.parametrize(
    "timers", [Timers(), Timers.of(1.5), Timers.of(1.0), Timers.of(5.0), Timers.of(30.0)]
)
def test_timers_stand_in_the_order_that_safety_rests_on(timers):
    assert timers.heartbeat_us + timers.give_up_us < timers.suspect_after_us
    assert (
        1 + timers.margin
    ) * timers.suspect_after_us + timers.round_trip_us < timers.dead_after_us
    assert timers.answers_us >= 2 * timers.rto_us + timers.round_trip_us
    assert timers.rank_us > timers.answers_us + timers.commit_delay_us
    assert timers.departure_us > timers.dead_after_us
    assert timers.tick_us * 2 <= timers.heartbeat_us


def test_a_title_that_names_oneself_is_never_learnt_from_others():
    one, _ = halves()
    one.heartbeats.on_claim_update(2, ClaimUpdate((OwnershipClaim(HALF, 1, 99, 1),)))

    assert one.tract == (0, HALF)


def test_a_better_title_makes_an_owner_yield_and_a_worse_one_is_answered_with_the_better():
    one, ledger = halves()
    one.heartbeats.on_claim_update(2, ClaimUpdate((OwnershipClaim(0, 1, 1, 2),)))
    assert ("on_tract_lost", (0, HALF)) in one.store.told
    assert not one.extents

    one, ledger = halves()
    one.heartbeats.on_heartbeat(
        2, Heartbeat(1, 0, 5, (OwnershipClaim(0, 1, 0, 2),), (), (), (), False, ())
    )
    assert sent(ledger, ClaimUpdate) == [(2, ClaimUpdate((OwnershipClaim(0, 1, 0, 1),)))]
    assert one.tract == (0, HALF)


def test_who_names_a_neighbour_as_a_newcomer_does_not_get_its_ground_seized():
    one, ledger = halves()
    one.members.state_of(2).apply_heartbeat(
        Heartbeat(5, 5, 6, (OwnershipClaim(HALF, 1, 0, 2),), (), (), (), False, ()), ledger.now_us
    )
    ledger.now_us = S
    one.routing.on_routed(3, JoinRequest(RouteHeader((0, 1), 1), 2, 1 << 61))

    assert one.ownership.others == [OwnershipClaim(HALF, 1, 0, 2)]
    assert one.backups == (2,)
    assert [to for to, _ in sent(ledger, FullStateRequest)] == [2], "the one that is named is asked"


def test_a_neighbour_that_comes_again_in_a_new_life_gets_a_place_when_it_says_so_itself():
    one, ledger = halves()
    one.members.state_of(2).apply_heartbeat(
        Heartbeat(5, 5, 6, (OwnershipClaim(HALF, 1, 0, 2),), (), (), (), False, ()), ledger.now_us
    )
    one.routing.on_routed(3, JoinRequest(RouteHeader((0, 1), 1), 2, 90))
    one.heartbeats.on_heartbeat(2, Heartbeat(91, 90, 91, (), (), (), (), False, ()))

    assert [to for to, _ in sent(ledger, HandoffOffer)] == [2]


def test_a_newcomer_asks_its_introducers_in_turn():
    """At random it may miss the only living one of several again and again."""
    newcomer, ledger = surface()
    newcomer.join((2, 3, 4, 5, 6))
    for attempt in range(1, 5):
        newcomer.joining.on_join_retry(JoinRetry(attempt))

    assert sorted(to for to, _ in sent(ledger, JoinRequest)) == [2, 3, 4, 5, 6]


def test_a_greeting_in_our_own_name_takes_nothing_from_us():
    one, _ = halves()
    one.heartbeats.on_heartbeat(1, Heartbeat(1, 0, 99, (), (), (), (), False, ()))

    assert one.tract == (0, HALF)


def test_greetings_of_an_older_mark_are_not_news():
    one, _ = halves()
    one.heartbeats.on_heartbeat(
        2, Heartbeat(1, 0, 7, (OwnershipClaim(HALF, 1, 3, 2),), (), (1,), (), False, ())
    )
    one.heartbeats.on_heartbeat(
        2, Heartbeat(2, 0, 6, (OwnershipClaim(HALF, 1, 9, 2),), (), (), (), False, ())
    )

    assert title_at(one, HALF) == OwnershipClaim(HALF, 1, 3, 2)
    assert one.members.states[2].backups == (1,)


@pytest.mark.parametrize(("born_us", "mark"), [(0, 1 << 61), (1 << 50, 9)], ids=["mark", "life"])
def test_a_greeting_ahead_of_all_others_is_believed_only_until_its_sender_has_denied_it_for_long(
    born_us, mark
):
    """A mark or a life that its sender never comes to: all its true heartbeats after that were
    taken for older ones.
    """
    one, ledger = halves()
    true = Heartbeat(1, 0, 5, (OwnershipClaim(HALF, 1, 0, 2),), (), (1,), (), False, ())
    one.heartbeats.on_heartbeat(2, true)
    one.heartbeats.on_heartbeat(
        2,
        Heartbeat(
            1,
            born_us,
            mark,
            (OwnershipClaim(HALF, 1, 99, 2), OwnershipClaim(0, 2, 7, 2)),
            (),
            (),
            (),
            False,
            (),
        ),
    )
    one.heartbeats.on_heartbeat(2, true)
    assert title_at(one, HALF).epoch == 99, "it may have been on its way for a moment"
    ledger.now_us += one.settings.timers.suspect_after_us + 1
    ledger.take()
    one.exchange.check_version(2, 5)
    assert sent(ledger, FullStateRequest) == [(2, FullStateRequest())], (
        "it is not what we know: it is asked"
    )
    one.heartbeats.on_heartbeat(2, true)

    assert title_at(one, HALF) == OwnershipClaim(HALF, 1, 0, 2)
    assert title_at(one, 0) is None


def test_a_greeting_confirmed_again_and_again_is_not_denied_by_an_older_one():
    one, ledger = halves()
    one.heartbeats.on_heartbeat(
        2, Heartbeat(1, 0, 9, (OwnershipClaim(HALF, 1, 3, 2),), (), (1,), (), False, ())
    )
    for _ in range(9):
        ledger.now_us += one.settings.timers.heartbeat_us
        one.heartbeats.on_heartbeat_ack(2, HeartbeatAck(0, 9, 0, False))
    one.heartbeats.on_heartbeat(
        2, Heartbeat(2, 0, 6, (OwnershipClaim(HALF, 1, 1, 2),), (), (1,), (), False, ())
    )

    assert title_at(one, HALF) == OwnershipClaim(HALF, 1, 3, 2)


@pytest.mark.parametrize(
    ("winner", "claims", "epochs"),
    [(2, (), [0]), (2, (OwnershipClaim(0, 0, 77, 2),), []), (9, (), [78])],
    ids=["denied by its owner", "true", "of one who never was"],
)
def test_who_lost_all_to_a_title_that_nobody_has_begins_again(winner, claims, epochs):
    """False claims once took all ground from everybody: each asked the others for a place, for
    ever.
    """
    one, ledger = halves()
    one.heartbeats.on_claim_update(2, ClaimUpdate((OwnershipClaim(0, 0, 77, winner),)))
    assert not one.extents
    for second in range(60):
        ledger.now_us += S
        one.heartbeats.on_heartbeat(
            2, Heartbeat(ledger.now_us, 0, 9, claims, (), (), (), False, ())
        )
        again = [
            each for verb, _, each in ledger.take() if verb == "after" and type(each) is JoinRetry
        ]
        if again and second % 3 == 0:
            one.joining.on_join_retry(again[-1])
        elif again:
            ledger.after(0, again[-1])

    assert [each.epoch for each in one.extents] == epochs
    assert one.tract == (WHOLE if epochs else ())


def test_who_owns_ground_beside_ours_is_asked_of_acquaintances_too():
    """Two who knew nobody else as a neighbour asked each other, and claimed what others had."""
    one, ledger = halves()
    one.heartbeats.on_heartbeat(
        2, Heartbeat(1, 0, 7, (OwnershipClaim(HALF, 2, 0, 2),), (), (), (), False, ())
    )
    one.heartbeats.on_heartbeat(9, Heartbeat(1, 0, 7, (), (), (), (), False, ()))
    ledger.take()
    assert one.ownership.gap is not None
    one.gaps.fill_gap()

    assert 9 in [to for to, _ in sent(ledger, FindOwner)]


def test_hops_are_remembered_for_as_long_as_repeats_come_and_then_forgotten():
    one, _ = halves()
    for number in range(1_000):
        assert not one.routing.is_repeat(2, number)
    assert one.routing.is_repeat(2, 999)
    assert sum(map(len, one.routing.seen.values())) <= one.settings.timers.seen_max
    one.routing.expire_hops()
    assert one.routing.is_repeat(2, 999), "its repeats may be on their way"
    one.routing.expire_hops()

    assert not one.routing.is_repeat(2, 999)


def test_what_a_greeting_does_not_list_its_sender_does_not_have():
    one, _ = halves()
    one.heartbeats.on_heartbeat(
        2, Heartbeat(1, 0, 7, (OwnershipClaim(HALF, 2, 0, 2),), (), (), (), False, ())
    )

    assert title_at(one, HALF) == OwnershipClaim(HALF, 2, 0, 2)
    assert title_at(one, HALF + HALF // 2) is None


def test_a_fragment_becomes_whole_when_the_better_title_is_gone():
    """Peer 3 had taken a part of what 2 has, and does not any more. The rest alone would be next to
    nothing of ours.
    """
    one, _ = halves()
    there = HALF + HALF // 2
    one.heartbeats.on_heartbeat(
        3, Heartbeat(1, 0, 7, (OwnershipClaim(there, 2, 5, 3),), (), (), (), False, ())
    )
    whole = Heartbeat(1, 0, 7, (OwnershipClaim(HALF, 1, 0, 2),), (), (1,), (), False, ())
    one.heartbeats.on_heartbeat(2, whole)
    assert title_at(one, HALF) == OwnershipClaim(HALF, 2, 0, 2), "the better claim stands"
    one.heartbeats.on_heartbeat(3, Heartbeat(2, 0, 8, (), (), (), (), False, ()))
    one.heartbeats.on_heartbeat(2, whole)

    assert title_at(one, HALF) == OwnershipClaim(HALF, 1, 0, 2) == title_at(one, there)


def test_what_its_owner_denies_is_told_no_more():
    one, ledger = halves()
    past_us = ledger.now_us - one.settings.timers.heartbeat_us
    one.exchange.relinquished = [
        (past_us, OwnershipClaim(HALF, 2, 6, 2)),
        (past_us, OwnershipClaim(HALF, 2, 4, 3)),
    ]
    one.heartbeats.on_heartbeat(
        2, Heartbeat(1, 0, 5, (OwnershipClaim(HALF + HALF // 2, 2, 1, 2),), (), (1,), (), False, ())
    )

    assert [claim.owner for _, claim in one.exchange.relinquished] == [3]
    one.exchange.relinquished = [(past_us, OwnershipClaim(HALF, 2, 6, 2))]
    one.heartbeats.on_heartbeat(
        2, Heartbeat(2, 0, 6, (OwnershipClaim(HALF, 1, 7, 2),), (), (1,), (), False, ())
    )
    assert one.exchange.relinquished, "it has that, and more"
    one.exchange.relinquished = [(ledger.now_us, OwnershipClaim(HALF, 2, 6, 2))]
    one.heartbeats.on_heartbeat(
        2, Heartbeat(3, 0, 8, (OwnershipClaim(HALF + HALF // 2, 2, 8, 2),), (), (1,), (), False, ())
    )
    assert one.exchange.relinquished, (
        "that greeting may have been on its way when the handoff was made"
    )


def test_what_is_said_of_a_third_peer_is_checked_with_it():
    one, ledger = halves()
    ledger.now_us = 5 * S
    one.members.state_of(9).version = 4
    one.heartbeats.on_claim_update(2, ClaimUpdate((OwnershipClaim(HALF, 2, 5, 9),)))
    assert sent(ledger, FullStateRequest) == [(9, FullStateRequest())]
    one.heartbeats.on_heartbeat(9, Heartbeat(1, 0, 4, (), (), (), (), False, ()))

    assert title_at(one, HALF) is None, "a greeting of the same mark lists all that its sender has"


def test_a_give_takes_three_messages_and_nobody_answers_in_between():
    one, ledger = halves()
    one.routing.deliver(3, (0, 1), JoinRequest(RouteHeader((0, 1)), 3, 0))
    [(to, give)] = sent(ledger, HandoffOffer)
    assert (to, give.claim) == (3, OwnershipClaim(0, 2, 3, 3))
    assert one.committed == (HALF // 2, HALF)
    assert not one.answers(0)

    three, other = surface(3)
    three.handoff.receiver.on_offer(1, give)
    [(_, accepted)] = [(to, each) for to, each in other.sent() if type(each) is HandoffPrepared]
    assert three.tract == (0, HALF // 2)
    assert not three.committed

    one.handoff.on_prepared(3, accepted)
    assert sent(ledger, HandoffCommit) == [(3, HandoffCommit(give.number))]
    assert one.tract == (HALF // 2, HALF)
    assert one.copies.holds_copy(3)
    three.handoff.receiver.on_commit(1, HandoffCommit(give.number))
    assert three.answers(0)
    assert three.backups == (1,)


def test_a_giver_does_not_learn_of_the_takers_title_from_a_greeting():
    one, ledger = halves()
    one.routing.deliver(3, (0, 1), JoinRequest(RouteHeader((0, 1)), 3, 0))
    [(_, give)] = sent(ledger, HandoffOffer)
    one.heartbeats.on_heartbeat(3, Heartbeat(1, 0, 1, (give.claim,), (), (), (), False, ()))

    assert one.handoff.outgoing is not None
    assert one.tract == (0, HALF)


def test_a_declined_piece_is_taken_back_under_a_better_title_than_was_offered():
    one, ledger = halves()
    one.routing.deliver(3, (0, 1), JoinRequest(RouteHeader((0, 1)), 3, 0))
    [(_, give)] = sent(ledger, HandoffOffer)
    one.handoff.on_abort(3, HandoffAbort(give.number))
    [extent] = one.extents

    assert one.committed == (0, HALF)
    assert extent.epoch > give.claim.epoch
    one.handoff.on_prepared(3, HandoffPrepared(give.number, give.claim, (1,), 0))
    assert sent(ledger, ClaimUpdate)[-1][1].claims == (extent,)


def test_full_tables_refuse_and_nothing_waits_for_ever():
    one, _ = halves()
    one.requests.topic("other", one.settings.timers.retry_policy(1))
    for number in range(one.settings.timers.requests_max):
        one.requests.ask("other", number, 2, FullStateRequest())
    assert not one.replicate((), lambda: None)
    one.routing.deliver(3, (0, 1), JoinRequest(RouteHeader((0, 1)), 3, 0))
    assert one.handoff.outgoing is not None
    one.on_tick(Tick())

    assert one.handoff.outgoing is None
    assert one.committed == (0, HALF)


def test_the_more_spare_pieces_the_sooner_the_next_one_goes():
    """After a partition one peer may have those of half the surface: one every three seconds took a
    minute.
    """
    one, ledger = surface()
    one.ownership.claim_map.put(
        OwnershipClaim(number << (BITS - 5), 5, 0, 1 + number % 2) for number in range(32)
    )
    one.ownership.refresh()
    one.backup_set.set_backups((2,), 0)
    one.members.state_of(2)
    given = 0
    for _ in range(10):
        ledger.now_us += S
        one.backup_set.acked_us = ledger.now_us
        one.relocation.relocate_surplus()
        for to, give in sent(ledger, HandoffOffer):
            one.handoff.on_prepared(to, HandoffPrepared(give.number, give.claim, (1,), 0))
            given += 1

    assert given >= 8, "about one at each tick"


def test_a_repeated_give_gets_the_same_answer():
    one, ledger = halves()
    give = HandoffOffer(5, 0, 1, OwnershipClaim(HALF, 2, 2, 1), (), ())
    one.leave()
    for _ in range(2):
        one.handoff.receiver.on_offer(2, give)

    assert sent(ledger, HandoffAbort) == [(2, HandoffAbort(5))] * 2


def test_a_give_in_parts_is_taken_when_all_have_come():
    three, ledger = surface(3)
    item = Item(0, 1, b"k", b"v")
    for part in (0, 1, 1, 2):
        assert not three.extents
        three.handoff.receiver.on_offer(
            1, HandoffOffer(9, part, 3, OwnershipClaim(0, 1, 2, 3), (), (item,))
        )

    assert sent(ledger, HandoffProgress)[-1] == (1, HandoffProgress(9, 2))
    assert three.store.told[0][0] == "accept"
    assert len(three.store.told[0][1]) == 3


def test_items_are_divided_into_parts_of_bounded_length():
    items = tuple(Item(code, code + 1, b"k" * 10, b"v" * 58) for code in range(25))
    parts = split_into_parts(items, 1_000)

    assert tuple(item for part in parts for item in part) == items
    assert [len(part) for part in parts] == [10, 10, 5]
    assert split_into_parts((), 1_000) == [()]


def test_the_later_word_of_an_owner_counts_in_whatever_order_it_comes():
    copy = BackupCopy(1, (OwnershipClaim(0, 1, 0, 2),), (), (), 0)
    new, old = Item(3, 4, b"k", b"new"), Item(3, 4, b"k", b"old")
    copy.put(5, [new])
    copy.put(4, [old])
    assert copy.within((0, 10)) == (new,)
    copy.put(6, [Item(3, 4, b"k", b"")])
    assert copy.within((0, 10)) == ()


def test_an_estate_is_united_with_what_its_holder_gives():
    one, ledger = halves()
    one.copies.held[3] = BackupCopy(1, (OwnershipClaim(HALF, 2, 0, 3),), (1,), (), 0)
    one.copies.held[3].put(2, [Item(HALF, HALF + 1, b"theirs", b"x")])
    one.store.pack = lambda tract: (Item(0, 1, b"ours", b"y"),)
    one.routing.deliver(3, (0, 1), JoinRequest(RouteHeader((0, 1)), 3, 0))
    [(_, give)] = sent(ledger, HandoffOffer)
    one.handoff.on_prepared(3, HandoffPrepared(give.number, give.claim, (1, 2), 0))

    assert set(one.copies.held[3].items) == {b"theirs", b"ours"}


def test_a_backup_that_overtakes_the_copy_it_adds_to_is_kept():
    """The backup had a copy of old: the backup came to that, and the copy put another in its place."""
    one, _ = halves()
    claims, old, fresh = (
        (OwnershipClaim(HALF, 1, 0, 2),),
        Item(HALF, HALF + 1, b"old", b"x"),
        Item(HALF, HALF + 1, b"new", b"y"),
    )
    one.copies.on_snapshot(2, BackupSnapshot(4, 0, 1, 1, 100, 1, claims, (1,), (), (old,)))
    one.copies.on_delta(2, BackupDelta(6, 9, 300, 1, claims, (fresh,)))
    one.copies.on_snapshot(2, BackupSnapshot(5, 0, 1, 8, 200, 1, claims, (1,), (), (old,)))

    assert set(one.copies.held[2].items) == {b"old", b"new"}


def test_an_heir_forgets_in_a_while_what_its_owner_keeps_no_longer_but_not_at_once():
    """An older word that came late would bring it back; a later one need not be remembered for
    ever.
    """
    one, ledger = halves()
    claims, dead_after_us = (OwnershipClaim(HALF, 1, 0, 2),), one.settings.timers.dead_after_us
    kept, gone, none = (
        Item(HALF, HALF + 1, key, body) for key, body in ((b"k", b"x"), (b"g", b"y"), (b"g", b""))
    )

    def pass_by(wait_us):
        ledger.now_us += wait_us
        one.members.state_of(2).heard_us = ledger.now_us
        one.copies.expire()

    one.copies.on_snapshot(2, BackupSnapshot(4, 0, 1, 1, 100, 1, claims, (1,), (), (kept, gone)))
    pass_by(dead_after_us + 1)
    one.copies.on_delta(2, BackupDelta(6, 9, 300, 1, claims, (none,)))
    pass_by(dead_after_us + 1)
    one.copies.on_delta(2, BackupDelta(5, 8, 200, 1, claims, (gone,)))
    assert set(one.copies.held[2].items) == {b"k", b"g"}
    assert one.copies.held[2].within((HALF, HALF + 1)) == (kept,), "the older word changes nothing"

    pass_by(dead_after_us + 1)
    assert set(one.copies.held[2].items) == {b"k"}


def copied_to(version):
    """Peer 1 holds a copy of 2, said to be of this version."""
    one, ledger = halves()
    extent = OwnershipClaim(HALF, 1, 0, 2)
    one.copies.on_snapshot(2, BackupSnapshot(4, 0, 1, 1, 5, version, (extent,), (1,), (), ()))
    return one, ledger, extent


def test_an_estate_whose_owner_denies_it_for_long_is_given_up():
    """A stranger named a version that the owner never reaches: its backup would never acknowledge
    it again.
    """
    one, ledger, extent = copied_to(version=1 << 40)
    timers = one.settings.timers
    one.heartbeats.on_heartbeat(2, Heartbeat(6, 0, 7, (extent,), (), (1,), (), False, ()))
    assert one.copies.holds_copy(2), "a copy may overtake a greeting"
    ledger.now_us += timers.suspect_after_us + 1
    one.heartbeats.on_heartbeat(
        2, Heartbeat(ledger.now_us, 0, 7, (extent,), (), (1,), (), False, ())
    )

    assert not one.copies.holds_copy(2)
    assert not sent(ledger, HeartbeatAck)[-1][1].has_copy, (
        "and the owner hears of it, and copies again"
    )


def test_an_owner_is_vouched_for_although_a_stranger_gave_it_a_better_title():
    one, ledger, extent = copied_to(version=7)
    one.heartbeats.on_claim_update(3, ClaimUpdate((OwnershipClaim(HALF, 1, 256, 2),)))
    one.heartbeats.on_heartbeat(2, Heartbeat(6, 0, 7, (extent,), (), (1,), (), False, ()))

    assert sent(ledger, HeartbeatAck)[-1][1].stamp_us == 6


def test_a_title_in_the_name_of_its_owner_ends_with_the_owners_next_greeting():
    one, _, extent = copied_to(version=7)
    one.heartbeats.on_claim_update(3, ClaimUpdate((OwnershipClaim(HALF, 1, 256, 2),)))
    one.heartbeats.on_heartbeat(2, Heartbeat(6, 0, 7, (extent,), (), (1,), (), False, ()))

    assert one.ownership.others == [extent]


def test_a_late_repeat_of_a_copy_does_not_bring_back_an_estate_that_has_ended():
    one, _ = halves()
    copy = BackupSnapshot(4, 0, 1, 1, 100, 1, (OwnershipClaim(HALF, 1, 0, 2),), (1,), (), ())
    one.copies.on_snapshot(2, copy)
    assert one.copies.holds_copy(2)
    one.heartbeats.on_heartbeat(
        2, Heartbeat(200, 0, 9, (OwnershipClaim(HALF, 1, 0, 2),), (), (), (), False, ())
    )
    one.copies.on_snapshot(2, copy)

    assert not one.copies.holds_copy(2)


def test_an_end_that_lies_in_the_future_does_not_keep_copies_out_for_ever():
    one, ledger = halves()
    extent = OwnershipClaim(HALF, 1, 0, 2)
    one.heartbeats.on_heartbeat(2, Heartbeat(1 << 50, 0, 9, (extent,), (), (), (), False, ()))
    one.copies.on_snapshot(2, BackupSnapshot(4, 0, 1, 1, 100, 9, (extent,), (1,), (), ()))
    assert not one.copies.holds_copy(2)
    ledger.now_us += one.settings.timers.suspect_after_us + 1
    one.copies.on_snapshot(2, BackupSnapshot(5, 0, 1, 1, 200, 9, (extent,), (1,), (), ()))

    assert one.copies.holds_copy(2)


def test_what_lies_elsewhere_than_on_an_owners_ground_is_not_kept_for_it():
    one, _ = halves()
    there, elsewhere = Item(HALF, HALF + 1, b"there", b"x"), Item(5, 6, b"elsewhere", b"y")
    one.copies.on_snapshot(
        2,
        BackupSnapshot(
            4, 0, 1, 1, 100, 1, (OwnershipClaim(HALF, 1, 0, 2),), (1,), (), (there, elsewhere)
        ),
    )
    one.copies.on_delta(
        2, BackupDelta(6, 9, 300, 1, (OwnershipClaim(HALF, 1, 0, 2),), (elsewhere,))
    )

    assert set(one.copies.held[2].items) == {b"there"}


@pytest.mark.parametrize(
    ("winner", "offered"), [(9, True), (7, False)], ids=["a stranger", "another backup"]
)
def test_an_heir_offers_its_copy_to_a_stranger_who_took_the_place_of_the_dead(winner, offered):
    one, _ = halves()
    extent, item = OwnershipClaim(HALF, 1, 0, 2), Item(HALF + 5, HALF + 6, b"k", b"v")
    one.copies.held[2] = BackupCopy(1, (extent,), (7, 1), (), 0)
    one.copies.held[2].put(1, [item])
    poll = DeathPoll(True, {}, ConfirmDeath(2, (extent,), 1, (), 1))
    poll.votes.append(DeathVote(2, -1, (OwnershipClaim(HALF, 1, 4, winner),), (), False, ()))
    one.takeover.declare_dead(2, poll)

    tract = (HALF, 2 * HALF)
    assert (("accept", (item,), tract) in one.store.told) is offered
    assert (("on_tract_lost", tract) in one.store.told) is offered
    assert one.tract == (0, HALF)
    assert 2 not in one.copies.held


def test_who_takes_ground_without_its_records_says_so_although_a_newcomer_gets_it_at_once():
    """The newcomer had waited: the ground was on its way when the keeper was told that nothing of
    it was lost.
    """
    one, ledger = halves()
    one.takeover.declare_dead(
        2, DeathPoll(True, {}, ConfirmDeath(2, (OwnershipClaim(HALF, 1, 0, 2),), 3, (), -2))
    )
    assert one.ownership.of_status(TAKEN_OVER), "nobody had a copy"
    one.routing.on_routed(3, JoinRequest(RouteHeader((HALF, HALF + 1), 1), 3, 0))
    for verb, _, committed in ledger.take():
        if verb == "after" and type(committed) is CommitDue:
            one.takeover.on_commit_due(committed)
    one.backup_set.drop_backup(2)

    assert [to for to, _ in sent(ledger, HandoffOffer)] == [3]
    assert ("lost", (HALF, 2 * HALF)) in one.store.told


def test_who_knocks_at_a_far_heir_of_a_suspect_says_where_it_was():
    """The backup knew no claim there, and sent what was for the dead back to where it came from, to
    and fro.
    """
    one, _ = halves()
    one.members.state_of(2).backups = (9,)
    one.members.suspect(2)
    ((hop, way),) = one.routing.decide(RouteHeader((HALF, HALF + 1))).hops

    assert (hop, way.visited) == (9, (1,))
    assert way.stuck == one.routing.table.rank((HALF, HALF + 1))
    assert one.routing.decide(replace(way, visited=(9, 1))) == RoutingDecision((), [], way.tract), (
        "it need not come again"
    )


@pytest.mark.parametrize("silent", [True, False])
def test_an_heir_keeps_what_comes_for_a_dead_owner_far_from_it_and_passes_on_what_is_for_a_living_one(
    silent,
):
    far = OwnershipClaim(HALF + HALF // 2, 2, 0, 9)
    one, _ = surface()
    one.restore(SurfaceState((OwnershipClaim(0, 1, 0, 1),), (OwnershipClaim(HALF, 2, 0, 2),), (2,)))
    one.copies.held[9] = BackupCopy(1, (far,), (1,), (), 0)
    one.members.state_of(9).backups = (1,)
    if silent:
        one.members.suspect(9)
    way = RouteHeader((far.low, far.low + 1), stuck=(0, 1), visited=(2,))
    found = one.routing.decide(way)

    assert [hop for hop, _ in found.hops] == ([] if silent else [9])
    assert found.waiting == (way.tract if silent else ())


def test_addresses_of_any_kind_and_number_can_be_named_by_strangers():
    """An owner at (host, port) among numbers could not be compared, and one below zero stopped a
    table.
    """
    one, _ = halves()
    for owner in (("host", 80), -(1 << 63), 1 << 62):
        one.heartbeats.on_claim_update(
            2, ClaimUpdate((OwnershipClaim(HALF, 2, 1, owner), OwnershipClaim(HALF, 2, 1, 3)))
        )
        one.routing.on_routed(2, FindOwner(RouteHeader((HALF, HALF + 1), 1), 7))

    assert title_at(one, HALF).owner in (-(1 << 63), 3)
    assert better(OwnershipClaim(0, 1, 0, 9), OwnershipClaim(0, 1, 0, ("host", 80)))


NEAR, FAR = OwnershipClaim(HALF, 2, 0, 2), OwnershipClaim(HALF + HALF // 2, 2, 1, 2)
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
    """A backup that was cut off hears from others what the owner has taken over meanwhile, and has
    no copy of that.
    """
    one, ledger = halves()
    one.copies.held[2] = BackupCopy(1, copied, (1,), (), 0)
    one.takeover.declare_dead(2, DeathPoll(True, {}, ConfirmDeath(2, (NEAR, FAR), 0, (), 1)))
    assert one.tract == WHOLE
    for verb, _, committed in ledger.take():
        if verb == "after" and type(committed) is CommitDue:
            one.takeover.on_commit_due(committed)
    one.backup_set.drop_backup(2)
    one.backup_set.add_backup(7, ledger.now_us)

    assert one.committed == WHOLE
    assert [each for each in one.store.told if each[0] == "lost"] == lost


@pytest.mark.parametrize(
    ("copied", "whole"), [((NEAR, FAR), True), ((NEAR,), False)], ids=["all of it", "a part"]
)
def test_a_witness_says_that_its_copy_is_whole_only_of_all_the_ground_that_it_is_asked_about(
    copied, whole
):
    one, ledger = halves()
    one.copies.held[2] = BackupCopy(1, copied, (1,), (), 0)
    one.copies.held[2].put(4, [Item(HALF + 5, HALF + 6, b"k", b"v")])
    one.takeover.on_confirm_death(3, ConfirmDeath(2, (NEAR, FAR), 3, (), -2))

    assert [(len(each.items), each.whole) for _, each in sent(ledger, DeathVote)] == [(1, whole)]


def test_an_owner_doubts_itself_when_no_heir_echoes_and_trusts_itself_when_one_does():
    one, ledger = halves()
    assert one.answers(0)
    ledger.now_us += one.settings.timers.suspect_after_us + 1
    assert one.is_unconfirmed
    one.heartbeats.on_heartbeat_ack(
        2, HeartbeatAck(ledger.now_us - one.settings.timers.suspect_after_us - 1, 1, 0, True)
    )
    assert one.is_unconfirmed, "an old stamp proves nothing"
    one.heartbeats.on_heartbeat_ack(2, HeartbeatAck(ledger.now_us, 1, 0, True))
    assert one.answers(0)


def test_a_batch_counts_when_every_heir_has_it():
    one, ledger = halves()
    done = []
    one.replicate((Item(0, 1, b"k", b"v"),), lambda: done.append(1))
    assert not done
    [(to, backup)] = [
        (to, each) for to, each in ledger.sent() if type(each).__name__ == "BackupDelta"
    ]
    one.backup_set.on_delta_ack(to, DeltaAck(backup.number, backup.stamp_us))
    assert done == [1]


def test_a_batch_without_any_heir_waits_for_one():
    one, _ = halves()
    done = []
    one.backup_set.drop_backup(2)
    one.replicate((), lambda: done.append(1))
    assert not done
    one.backup_set.add_backup(2, 0)
    assert done == [1]


def taker_of_the_dead():
    """Peer 1 has taken the ground of 3, which has died, with all that was kept there; it has no
    backup yet.
    """
    one, ledger = surface()
    extent, item = OwnershipClaim(0, 2, 0, 3), Item(5, 6, b"k", b"v")
    one.store.pack = lambda tract: (item,) if intersect(tract, (5, 6)) else ()
    copy = one.copies.held[3] = BackupCopy(
        1, (extent,), (1,), ((OwnershipClaim(HALF, 1, 0, 2), ()),), 0
    )
    copy.put(1, [item])
    return one, ledger, DeathPoll(True, {}, ConfirmDeath(3, (extent,), 0, (), 1), copy)


def test_who_gives_to_a_peer_that_has_other_ground_is_not_its_heir_before_it_has_a_copy_of_all():
    """A peer that had slept took the place of a dead one, and entered: the giver was its backup,
    and lacked the rest.
    """
    one, ledger, poll = taker_of_the_dead()
    one.takeover.declare_dead(3, poll)
    one.handoff.receiver.on_offer(
        2,
        HandoffOffer(
            9,
            0,
            1,
            OwnershipClaim(HALF, 2, 2, 1),
            ((OwnershipClaim(HALF + HALF // 2, 2, 1, 2), ()),),
            (),
        ),
    )
    assert not sent(ledger, HandoffPrepared), "it would name the giver, or nobody, as its backup"
    one.members.heard_from(2)
    one.backup_set.choose_backups()
    [(to, copy)] = sent(ledger, BackupSnapshot)
    assert (to, len(copy.items)) == (2, 1)
    one.backup_set.on_snapshot_ack(2, SnapshotAck(copy.number, 0, copy.stamp_us))

    assert [message.backups for _, message in sent(ledger, HandoffPrepared)] == [(2,)]


def test_who_gave_to_a_peer_that_has_taken_other_ground_since_is_not_its_heir():
    one, ledger, poll = taker_of_the_dead()
    one.handoff.receiver.on_offer(
        2,
        HandoffOffer(
            9,
            0,
            1,
            OwnershipClaim(HALF, 2, 2, 1),
            ((OwnershipClaim(HALF + HALF // 2, 2, 1, 2), ()),),
            (),
        ),
    )
    assert [message.backups for _, message in sent(ledger, HandoffPrepared)] == [(2,)]
    one.takeover.declare_dead(3, poll)
    one.handoff.receiver.on_commit(2, HandoffCommit(9))

    assert one.committed == (HALF, HALF + HALF // 2)
    assert not one.backups, "it has what it gave, and no more"


def test_a_giver_that_becomes_an_heir_gets_what_the_taker_held_of_that_ground_itself():
    """A copy of a dead owner: the giver took the place of that one, maybe without what was kept
    there last.
    """
    one, ledger, _ = taker_of_the_dead()
    one.handoff.receiver.on_offer(
        2,
        HandoffOffer(
            9, 0, 1, OwnershipClaim(0, 3, 2, 1), ((OwnershipClaim(HALF, 1, 1, 2), ()),), ()
        ),
    )
    one.handoff.receiver.on_commit(2, HandoffCommit(9))

    assert one.backups == (2,)
    assert [
        (to, [each.key for each in backup.items]) for to, backup in sent(ledger, BackupDelta)
    ] == [(2, [b"k"])]


def copying():
    """Peer 1 has no backup, and copies its copy to one of its neighbours 2 and 3."""
    one, ledger = surface()
    others = (OwnershipClaim(HALF, 2, 0, 2), OwnershipClaim(HALF + HALF // 2, 2, 0, 3))
    one.restore(SurfaceState((OwnershipClaim(0, 1, 0, 1),), others))
    one.members.state_of(2)
    one.members.state_of(3)
    one.backup_set.choose_backups()
    [(first, copy)] = sent(ledger, BackupSnapshot)
    return one, ledger, first, copy


def test_who_is_to_be_an_heir_and_falls_silent_is_replaced_before_all_patience_with_its_copy_is_over():
    """Its neighbours were parted from it one by one: it copied to the silent, and died with its
    last backup.
    """
    one, ledger, first, copy = copying()
    one.backup_set.choose_backups()
    assert not sent(ledger, BackupSnapshot), "it is awaited"
    one.members.suspect(first)
    one.backup_set.choose_backups()

    assert [to for to, _ in sent(ledger, BackupSnapshot)] == [5 - first]
    assert not one.requests.open("copy", copy.number)


def test_a_copy_that_is_not_made_any_more_is_not_asked_for_either():
    """Its silence ended the next copying, to another."""
    one, _, first, copy = copying()
    one.backup_set.on_no_backup_copy(first, NoBackupCopy(copy.number))

    assert one.backup_set.receivers == ()
    assert not one.requests.open("copy", copy.number)


@pytest.mark.parametrize("dimensions", [2, 3, 4])
def test_a_gap_in_a_table_is_found_and_a_whole_table_has_none(dimensions):
    chance = stream(dimensions, "gaps")
    tiles = tiling(uniform_points(40, chance.getrandbits), dimensions)
    claims = [
        OwnershipClaim(low, bits, 0, index)
        for index, (low, bits) in enumerate(
            zip(tiles.low.tolist(), tiles.bits.tolist(), strict=True)
        )
    ]
    for extent in claims:
        near = [each for each in claims if each is extent or touches(each, extent, dimensions)]
        assert gap_beside([extent], near, dimensions) is None
        for left_out in near:
            if left_out is extent:
                continue
            known = [each for each in near if each is not left_out]
            low, bits = gap_beside([extent], known, dimensions)
            gap = OwnershipClaim(low, bits, 0, -1)
            assert touches(gap, extent, dimensions)
            assert intersect((low, gap.high), (left_out.low, left_out.high))
            assert not any(intersect((low, gap.high), (each.low, each.high)) for each in known)


class Counter(Lodger, parts={"surface": IceSurface}):
    """Notes what arrives where."""

    def on_arrival(self, sender, part, message):
        self.scene.arrivals.append((self.address, part))


def spread(seed, holes):
    """One message to the whole surface, just after some peers have died."""
    scene = Scene(seed, peers=60, dimensions=2 + seed % 3, faults=Faults(), lodger=Counter)
    scene.arrivals = []
    scene.world.run(2 * S)
    for each in scene.rng.sample(scene.lodgers(), holes):
        scene.world.crash(each.address)
    scene.lodgers()[0].surface.send(Put(RouteHeader(WHOLE), 1, 1, 0))
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
    owner.things[1] = (owner.surface.extents[0].low, 1)
    settle(
        tiling(uniform_points(10, stream(3, "scene").getrandbits), 2),
        scene.surfaces(),
        scene.world.latency_us,
    )

    assert not scene.objections()
    assert all(
        scene.world.peers[backup].surface.copies.held[4].items for backup in owner.surface.backups
    )


def test_a_greeting_from_before_a_gift_does_not_empty_the_estate_that_the_giver_holds():
    """The taker had lost all its ground and was an old acquaintance: the greeting that said so came
    after the handoff, and its backup, the giver, forgot what it had just given.
    """
    one, _ = halves()
    quarter = OwnershipClaim(HALF // 2, 2, 2, 2)
    item = Item(quarter.low, quarter.low + 1, b"key", b"body")
    before = Heartbeat(10, 5, 6, (), (), (1,), (), False, ())
    one.copies.held[2] = BackupCopy(-1, (), (1,), (), 10, version=before.version)
    handoff = OutgoingHandoff(1, [(item,)], OwnershipClaim(HALF // 2, 2, 0, 1), quarter, ())
    one.ownership.claim_map.put((OwnershipClaim(0, 2, 1, 1), OwnershipClaim(HALF // 2, 2, 1, 1)))
    one.ownership.refresh()

    one.handoff.commit_handoff(handoff, (1,), stamp_us=20)
    one.copies.on_owner_heartbeat(2, before)
    assert one.copies.held[2].within((quarter.low, quarter.high)) == (item,)

    one.copies.on_owner_heartbeat(
        2, Heartbeat(30, 5, before.version + 1, (quarter,), (), (1,), (), False, ())
    )
    assert one.copies.held[2].within((quarter.low, quarter.high)) == (item,)
