"""The living surface in an unkind world: random scenes, directed ones, and every rule left out once."""

from itertools import permutations

import msgspec
import pytest
from ice_mistakes import (
    MISTAKES,
    NEVER_MEETS_AGAIN,
    NO_DUTY,
    NO_SETTLING,
    NO_TIDYING,
    SILENT_GIVER,
    lodging,
)
from ice_scenes import SCENES, Lodger, S, Scene, healing_us, play, varied

from implicast.overlay.ice.backup_copy import BackupDelta
from implicast.overlay.ice.item_store import Item
from implicast.overlay.ice.messages import OwnershipClaim
from implicast.overlay.ice.ownership_map import overlap
from implicast.overlay.ice.settings import Timers
from implicast.space.tract import contains
from implicast.world.faults import Faults
from implicast.world.frozen import freeze, thaw

QUIET = Faults()


def sentence(scene: Scene) -> str:
    return (
        f"seed {scene.seed}, {scene.peers} peers, {scene.dimensions} dimensions: {scene.wrong[:3]}"
    )


@pytest.mark.parametrize("name", SCENES)
def test_a_surface_outlives_random_change(name):
    scene = play(11, SCENES[name], dimensions=3)

    assert not scene.wrong, sentence(scene)
    assert len(scene.completed) > 20


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", SCENES)
def test_a_surface_outlives_a_hundred_worlds_of_each_kind(name):
    failed = [scene for scene in (varied(seed, name) for seed in range(1000, 1100)) if scene.wrong]

    assert not failed, "\n".join(map(sentence, failed))


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.name)
def test_a_rule_left_out_is_noticed(mistake):
    for seed in range(6):
        given = {"dimensions": 2 + seed % 2, "quiet_s": 20.0, **mistake.settings}
        scene = play(seed, mistake.deeds, lodger=lodging(mistake.kind), **given)
        if any(mistake.says in each for each in scene.wrong):
            assert not play(seed, mistake.deeds, **given).wrong, "with the rule back, all is well"
            return

    pytest.fail(f"{mistake.name}: nobody said {mistake.says!r}")


def test_the_same_seed_is_the_same_life():
    runs = [play(3, SCENES["mix"], over_s=20.0) for _ in range(2)]

    assert runs[0].world.carried == runs[1].world.carried
    assert runs[0].completed == runs[1].completed


def test_a_surface_grows_from_one_peer():
    scene = Scene(5, peers=24, dimensions=3, assembled=False).run(15, 30)

    assert not scene.wrong, sentence(scene)
    assert len(scene.steady()) == 24


def test_messages_survive_the_wire():
    scene = play(7, SCENES["mix"], over_s=20.0, strict=True)

    assert not scene.wrong, sentence(scene)


# --- directed


def stocked(seed: int = 1, lodger: type = Lodger, **settings) -> Scene:
    """A quiet surface on which a hundred things are complete."""
    scene = Scene(seed, lodger=lodger, faults=QUIET, **settings)
    for _ in range(100):
        scene.at(0.5, scene.put)
    scene.world.run(4 * S)
    assert len(scene.completed) == 100
    return scene


def richest(scene: Scene) -> Lodger:
    """The owner of most things."""
    return max(scene.lodgers(), key=lambda each: (len(each.things), each.address))


def repaired_s(scene: Scene, limit_s: float) -> float:
    """How long until all is well, from now."""
    begun_us = scene.world.now_us
    while scene.amiss() and scene.world.now_us < begun_us + limit_s * S:
        scene.world.run(scene.world.now_us + S // 4)
    assert not scene.amiss(), scene.amiss()[:3]
    return (scene.world.now_us - begun_us) / S


@pytest.mark.parametrize(
    ("timers", "limit_s"), [(Timers(), 60), (Timers.of(1.5), 10)], ids=["default", "quick"]
)
def test_a_crash_is_repaired_in_time(timers, limit_s):
    scene = stocked(timers=timers)
    scene.crash(richest(scene))

    assert repaired_s(scene, limit_s) <= limit_s
    assert not scene.orphaned


@pytest.mark.parametrize("disk", [True, False], ids=["kept", "empty"])
@pytest.mark.parametrize(
    ("timers", "limit_s"), [(Timers(), 40), (Timers.of(1.5), 12)], ids=["default", "quick"]
)
@pytest.mark.parametrize("away_s", [0.0, 3.0])
def test_a_peer_that_is_back_at_its_address_is_another_and_the_dead_one_is_succeeded_soon(
    timers, limit_s, disk, away_s
):
    scene = stocked(timers=timers)
    owner = richest(scene)
    scene.come_back(owner, disk, away_s)
    scene.world.run(scene.world.now_us + int(away_s * S) + S)
    back = scene.world.peers[owner.address]

    assert repaired_s(scene, limit_s) <= limit_s
    assert back is not owner
    assert back.surface.committed
    assert not scene.orphaned
    assert not scene.wrong


def test_an_owner_and_its_first_heir_may_die_together():
    scene = stocked()
    owner = richest(scene)
    backup = owner.surface.backups[0]
    scene.crash(owner)
    scene.world.crash(backup)

    assert repaired_s(scene, 20) < 20
    assert not scene.orphaned


def test_two_peers_that_are_no_heirs_of_each_other_may_die_together():
    scene = stocked()
    one = richest(scene)
    other = next(
        each
        for each in scene.lodgers()
        if one.address not in each.surface.backups
        and each is not one
        and each.address not in one.surface.backups
    )
    scene.crash(one)
    scene.crash(other)

    assert repaired_s(scene, 20) < 20
    assert not scene.orphaned


def test_when_an_owner_and_all_its_heirs_die_the_place_is_covered_and_the_keeper_told():
    scene = stocked()
    owner = richest(scene)
    for each in (owner.address, *owner.surface.backups):
        scene.world.crash(each)
    scene.world.run(scene.world.now_us + 30 * S)

    assert not scene.objections()
    assert scene.orphaned


def leaving_heirs(lodger: type) -> Scene:
    """An owner dies, and both its backups leave at that moment."""
    scene = stocked(lodger=lodger)
    owner = richest(scene)
    scene.world.crash(owner.address)
    for each in owner.surface.backups:
        scene.world.peers[each].surface.leave()
    scene.world.run(scene.world.now_us + 30 * S)
    return scene


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_when_all_leave_at_once_all_get_away(seed):
    scene = stocked(seed, peers=24)
    for each in scene.lodgers():
        each.wanted.clear()
        each.surface.leave()
    scene.world.run(scene.world.now_us + 40 * S)

    assert all(each.relocation.left for each in scene.surfaces())
    assert not any("both answer" in each for each in scene.wrong)


def test_leavers_stay_while_they_hold_what_the_dead_kept():
    assert not leaving_heirs(Lodger).amiss()


def test_a_leaver_that_forgets_the_dead_is_noticed():
    assert any(NO_DUTY.says in each for each in leaving_heirs(lodging(NO_DUTY.kind)).amiss())


def rivals(lodger: type) -> Scene:
    """Two backups hold a poll at the same moment, and do not hear each other's."""
    scene = stocked(lodger=lodger, timers=Timers.of(1.5))
    owner = richest(scene)
    one, other = (scene.world.peers[each].surface for each in owner.surface.backups)
    for surface in scene.surfaces():
        surface.takeover.not_before_us[owner.address] = scene.world.now_us + 60 * S
    scene.world.crash(owner.address)
    scene.world.run(scene.world.now_us + scene.timers.dead_after_us)
    for link in ((one.address, other.address), (other.address, one.address)):
        scene.link_faults.cut(link)
        scene.at(scene.world.now_us / S + 0.3, lambda link=link: scene.link_faults.mend(link))
    for surface in (one, other):
        surface.takeover.start_poll(owner.address, 0, takes_over=True)
    scene.world.run(scene.world.now_us + 15 * S)
    return scene


def test_rival_seizers_meet_before_either_answers():
    scene = rivals(Lodger)

    assert not scene.wrong
    assert not scene.amiss()


def test_rivals_without_time_to_settle_are_noticed():
    assert any(NO_SETTLING.says in each for each in rivals(lodging(NO_SETTLING.kind)).wrong)


def last_resorts(seed: int) -> tuple[Scene, int, list, frozenset]:
    """An owner dies with all its backups; two neighbours on both sides of a cut take its place, and answer."""
    scene = stocked(seed, timers=Timers.of(1.5), peers=24)
    scene.parted = 1
    owner = richest(scene)
    dead = (owner.address, *owner.surface.backups)
    near = [
        scene.world.peers[each].surface
        for each in owner.surface.ownership.neighbours()
        if each not in dead
    ]
    both, side = next(
        ([one, other], frozenset((one.address, *one.backups)))
        for one, other in permutations(near, 2)
        if not {one.address, *one.backups} & {other.address, *other.backups}
        and not {*one.backups, *other.backups} & {*dead}
    )
    for surface in scene.surfaces():
        surface.takeover.not_before_us[owner.address] = scene.world.now_us + 60 * S
    for each in dead:
        scene.world.crash(each)
    scene.world.run(scene.world.now_us + scene.timers.dead_after_us)
    scene.link_faults.split(side)
    for surface in both:
        surface.takeover.start_poll(owner.address, scene.timers.backups + 1, takes_over=True)
    scene.world.run(scene.world.now_us + scene.timers.answers_us + 2 * scene.timers.commit_delay_us)
    return scene, owner.surface.extents[0].low, both, side


@pytest.mark.parametrize("seed", [1, 2, 4, 5, 6])
def test_two_last_resorts_that_both_answer_settle_it_by_epoch_and_address_when_they_meet(seed):
    scene, place, both, side = last_resorts(seed)
    assert all(surface.answers(place) for surface in both), "each has taken the place, and answers"
    claims = [claim for each in both for claim in each.extents if claim.low <= place < claim.high]
    best = min(claims, key=lambda claim: (-claim.epoch, claim.owner))
    scene.link_faults.heal(side)
    first, second = both if seed % 2 else both[::-1]  # whoever speaks first
    first.exchange.send_to([second.address])
    scene.world.run(
        scene.world.now_us + S // 4
    )  # before the loser comes again, and may be given half of it

    assert [each.address for each in both if each.answers(place)] == [best.owner]
    scene.world.run(scene.world.now_us + 30 * S)  # most of those whom the loser may ask have died
    assert not scene.objections()


def test_a_frozen_peer_that_wakes_after_its_place_was_taken_does_no_harm():
    scene = stocked()
    owner = richest(scene)
    freeze(scene.world, owner.address)
    scene.world.run(scene.world.now_us + 12 * S)
    taken = [
        each.address
        for each in scene.lodgers()
        if each is not owner
        and any(
            claim.low <= owner.surface.extents[0].low < claim.high for claim in each.surface.extents
        )
    ]
    thaw(scene.world, owner.address)
    scene.world.run(scene.world.now_us + 12 * S)

    assert taken
    assert not scene.wrong
    assert not scene.amiss()
    assert owner.surface.committed, "it came back as a newcomer"


def test_heirs_do_not_vouch_for_an_owner_whose_place_they_let_be_taken():
    scene = stocked()
    owner = richest(scene)
    freeze(scene.world, owner.address)
    first, second = (scene.world.peers[each].surface for each in owner.surface.backups)
    before_us = second.copies.ack_stamp(
        owner.address, scene.world.now_us, owner.surface.ownership.version
    )
    while owner.address not in first.takeover.polls:
        scene.world.run(scene.world.now_us + S // 50)
    second.takeover.on_confirm_death(first.address, first.takeover.polls[owner.address].message)

    assert before_us, "until then it does"
    assert second.copies.holds_copy(owner.address)
    assert not second.copies.ack_stamp(
        owner.address, scene.world.now_us, owner.surface.ownership.version
    ), "it has testified"
    scene.world.run(scene.world.now_us + 2 * scene.timers.give_up_us)
    assert not second.copies.holds_copy(owner.address), (
        "the place is another's: it is no backup any more"
    )


def giving(lodger: type = Lodger) -> tuple[Scene, Lodger, Lodger, OwnershipClaim]:
    """A giver, a taker whose words do not reach it, and what is given: half of the giver's ground."""
    scene = stocked(lodger=lodger)
    giver = richest(scene)
    taker = next(scene.world.peers[each] for each in giver.surface.ownership.neighbours())
    scene.link_faults.cut((taker.address, giver.address))
    (extent,) = giver.surface.extents
    half = giver.surface.ownership.split(extent, extent.low)
    giver.surface.handoff.hand_off(half, taker.address)
    scene.world.run(scene.world.now_us + S // 2)
    assert taker.surface.ownership.of_status("provisional")
    return scene, giver, taker, half


def test_what_a_giver_may_take_back_is_neither_believed_nor_seized():
    scene, giver, taker, half = giving()
    asker = scene.world.peers[taker.surface.backups[0]].surface
    scene.world.crash(taker.address)
    asker.takeover.start_poll(taker.address, 0, takes_over=True)
    poll = asker.takeover.polls[taker.address]
    scene.world.run(scene.world.now_us + S // 5)

    back = OwnershipClaim(half.low, half.bits, half.epoch + 3, giver.address)
    assert [claim for each in poll.votes for claim in each.in_transit] == [back]
    assert back not in poll.claims
    asker.takeover.take_over(taker.address, poll)
    assert asker.ownership.of_status("taken over"), "what was the dead's own is"
    assert not any(overlap(each, half) for each in asker.extents)
    assert back not in asker.ownership.claim_map.claims.values()
    assert asker.copies.holds_copy(taker.address), (
        "it may have taken it before it died: seen when the give has ended"
    )


def test_what_the_dead_were_giving_is_the_takers_and_not_seized():
    scene, giver, taker, half = giving()
    backups = [
        scene.world.peers[each].surface for each in giver.surface.backups if each != taker.address
    ]
    scene.die(giver.address)
    scene.world.run(scene.world.now_us + scene.timers.dead_after_us + scene.timers.rank_us)

    assert any(
        surface.ownership.of_status("taken over") or len(surface.extents) > 1 for surface in backups
    ), "the rest is"
    assert not any(overlap(extent, half) for surface in backups for extent in surface.extents)
    scene.world.run(scene.world.now_us + 2 * scene.timers.rank_us)
    assert contains(taker.surface.committed, half.low)
    assert not scene.wrong


def test_a_greeting_of_before_does_not_end_a_copy_that_was_added_to_since():
    scene = stocked()
    owner = richest(scene)
    backup, now_us = scene.world.peers[owner.surface.backups[0]].surface, scene.world.now_us
    late = owner.surface.exchange.heartbeat_for(backup.address)
    late = msgspec.structs.replace(
        late, backups=(), stamp_us=now_us - S // 10
    )  # it said that we are no backup
    item = Item(owner.surface.extents[0].low, owner.surface.extents[0].low + 1, b"new", b"thing")
    delta = BackupDelta(
        1, owner.surface.backup_set.serial + 1, now_us, late.version, late.extents, (item,)
    )
    backup.copies.on_delta(owner.address, delta)
    backup.heartbeats.on_heartbeat(owner.address, late)

    assert item in backup.copies.held[owner.address].within(owner.surface.tract), (
        "a copy anew is on the way, without it"
    )


def half_lost(kind: type) -> Scene:
    """A giver that does not hear its taker loses half of what it is giving to a third, and is asked for the whole."""
    scene, giver, taker, half = giving(lodging(kind))
    third = next(
        scene.world.peers[each].surface
        for each in giver.surface.ownership.neighbours()
        if each != taker.address
    )
    claimed = OwnershipClaim(half.low, half.bits + 1, half.epoch + 1, third.address)
    third.claiming.claim_unowned([claimed], set(third.ownership.neighbours()))
    scene.world.run(scene.world.now_us + S // 2)
    scene.link_faults.mend((taker.address, giver.address))
    scene.world.run(scene.world.now_us + 10 * S)
    return scene


def test_what_was_taken_back_is_declined_although_half_of_it_was_lost():
    assert not any(SILENT_GIVER.says in each for each in half_lost(NO_TIDYING).objections())
    assert any(SILENT_GIVER.says in each for each in half_lost(SILENT_GIVER.kind).objections())


def test_a_partition_heals_to_one_surface():
    scene = stocked(peers=32, dimensions=3)
    side = frozenset(range(0, 32, 2))
    scene.part(side)
    scene.world.run(scene.world.now_us + 15 * S)
    assert scene.objections()
    scene.heal(side)

    assert repaired_s(scene, 40) <= 40
    assert not scene.missing()


def test_an_owner_cut_off_with_its_heirs_may_die_when_the_cut_heals():
    scene = stocked(peers=24)
    owner = richest(scene)
    side = frozenset((owner.address, *owner.surface.backups))
    scene.part(side)
    scene.world.run(scene.world.now_us + 20 * S)
    scene.die(owner.address)
    scene.heal(side)
    scene.world.run(scene.world.now_us + 40 * S)

    assert not scene.amiss()
    assert not scene.wrong


def test_two_sides_that_still_both_answer_when_repair_has_had_its_time_are_noticed():
    scene = stocked(2, peers=24, lodger=lodging(NEVER_MEETS_AGAIN))
    side = frozenset(range(0, 24, 2))
    scene.part(side)
    scene.world.run(scene.world.now_us + 15 * S)
    scene.heal(side)
    healed_s = scene.world.now_us / S
    scene.world.run(scene.world.now_us + healing_us(scene.timers) - S)
    assert not scene.wrong, "it has its time"
    scene.world.run(scene.world.now_us + 2 * S)

    assert any("both answer" in each for each in scene.wrong)
    assert float(scene.wrong[0].partition(" ")[0]) >= healed_s + healing_us(scene.timers) / S - 0.01


def test_a_place_whose_owner_and_heirs_all_die_at_once_is_noticed_as_long_as_nobody_has_it():
    scene = stocked()
    owner = richest(scene)
    backups = owner.surface.backups
    scene.die(owner.address)
    scene.die(backups[0])
    assert not scene.wrong, "the last backup has a copy"
    scene.die(backups[1])

    assert any("no peer holds or can restore" in each for each in scene.wrong)
    scene.world.run(scene.world.now_us + 30 * S)
    seen = len(scene.wrong)
    scene.world.run(scene.world.now_us + 5 * S)
    assert len(scene.wrong) == seen, "a neighbour has taken it at last"


@pytest.mark.parametrize(
    ("timers", "limit"), [(Timers(), 60), (Timers.of(1.5), 450)], ids=["default", "quick"]
)
def test_upkeep_at_rest_is_bounded(timers, limit):
    scene = Scene(2, peers=64, dimensions=3, timers=timers, faults=QUIET)
    scene.world.run(30 * S)
    before = scene.world.carried
    scene.world.run(90 * S)

    assert (scene.world.carried - before) / 64 <= limit


def test_memory_stays_flat_under_a_flood():
    scene = Scene(4, peers=8, dimensions=2, faults=QUIET)
    timers, target = scene.timers, scene.lodgers()[0]
    freeze(scene.world, 7)
    for number in range(2_000):
        scene.at(1 + number / 500, scene.put)
    sizes = []
    for second in range(6):
        scene.world.run((second + 1) * S)
        for each in scene.surfaces():
            sizes.append(_sizes(each))
            assert all(len(numbers) <= timers.seen_max for numbers in each.routing.seen.values())
    bounds = (
        timers.requests_max,
        timers.parked_max,
        timers.batches_max,
        timers.members_max,
        timers.lost_max,
    )

    assert all(size <= bound for held in sizes for size, bound in zip(held, bounds, strict=True))
    assert target.surface.committed


def _sizes(surface):
    held = (
        surface.requests,
        surface.routing.parked,
        range(surface.backup_set.pending_batches),
        surface.members.states,
        surface.members.lost,
    )
    return tuple(map(len, held))
