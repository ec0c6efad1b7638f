"""Scenarios of campaigns in which a fault was found: they stay clean.

What each of them showed is tested by itself elsewhere; here it meets everything else that happened
in its world.
"""

import pytest
from drawn import as_found

from implicast.casting.designs import designs
from implicast.trials.campaign import check, scenario_of
from implicast.world.churn import Churn
from implicast.world.faults import Faults
from implicast.world.scenario import ASSEMBLED, MESSAGES, Scenario

FOUND = {
    ("dht", 2026, 6): "a dead finger swallowed its arc of a word to all",
    (
        "dht-naive",
        6001,
        514,
    ): "a newcomer came to keys whose keeper and copies had died, and did not know",
    (
        "dht-naive",
        6001,
        561,
    ): "what was returned in two rows was forgotten when the first had arrived",
    ("dht-naive", 27001, 18): "a word to all came back to whoever had said it",
    (
        "chord-pubsub",
        6001,
        389,
    ): "what a node kept while it was alone went back to its owners in one long row",
    (
        "chord-pubsub",
        9001,
        71,
    ): "the newest word about an entry went away with a leaver that did not answer for it",
    (
        "chord-pubsub",
        12001,
        186,
    ): "leavers repeated too rarely that their entries are to be taken out",
    ("dht", 13001, 38): "a comparison after news got lost, and the next two as well",
    (
        "dht",
        15001,
        618,
    ): "five questions in a row to a live neighbour were lost, and it was passed over as one looked",
    (
        "chord-pubsub",
        15001,
        237,
    ): "the newest word died with a node that its neighbour had not known for long",
    ("condcast", 15001, 436): "a hint led again and again to a node that had just been found dead",
    ("spice", 6001, 620): "a fragment of a neighbour's ground stayed one",
    ("spice-unloaded", 6001, 47): "the call for what was lost met another hole",
    (
        "spice-unloaded",
        6001,
        747,
    ): "and was not repeated, for the ground had been given away meanwhile",
}


SHORT = {found[0]: found for found in reversed(FOUND)}
"""The first scenario of each design runs in `make test`, the others in `make test-long`."""


@pytest.mark.parametrize(
    ("name", "seed", "number"),
    [
        pytest.param(*found, marks=() if found in SHORT.values() else pytest.mark.long)
        for found in FOUND
    ],
)
def test_a_scenario_in_which_a_fault_was_found_is_clean(name, seed, number):
    found = check(as_found(scenario_of(designs()[name], seed, number)))

    assert not found.reasons, (FOUND[name, seed, number], found.reasons, found.scenario.command())


def test_a_place_given_up_does_not_come_back_by_the_word_of_those_who_did_not_hear_it():
    """They named it to the other places of the very peer that had left it."""
    found = check(as_found(scenario_of(designs()["bft"], 31001, 104, changing=True)))

    assert not found.reasons, (found.reasons, found.scenario.command())


def test_one_that_returns_under_a_new_name_survives_its_former_life_as_its_only_neighbour():
    """Its table then knew nobody but the dead one at its own address, and had no step to take."""
    churn = (
        "event=27.175..36.979:return:13:empty,event=27.276..43.64:cut:11>7,"
        "event=30.339:leave:4,event=35.039:register:2"
    )
    found = check(
        Scenario(
            "chord-pubsub",
            17,
            138,
            1350428552,
            {},
            "groups",
            network="national",
            faults=Faults.parse("loss=0.05,duplicate=0.02"),
            churn=Churn.parse(f"drift=0.001,{churn}"),
            register=MESSAGES,
        )
    )

    assert not found.reasons, (found.reasons, found.scenario.command())


def test_a_tag_given_up_and_taken_again_during_a_partition_is_kept():
    """Its removal was still under way, was repeated above the newer word, and took that out."""
    apart = "1+3+4+8+10+15+21+23+24+26+29+33+38+41"
    churn = (
        f"guests=7,event=3.649..17.902:split:{apart},event=5.053:describe:6,event=11.515:describe:6"
    )
    found = check(
        Scenario(
            "dht",
            42,
            115,
            629335574,
            {},
            "groups",
            network="national",
            churn=Churn.parse(churn),
            register=MESSAGES,
        )
    )

    assert not found.reasons, (found.reasons, found.scenario.command())


def test_a_newcomer_that_claimed_in_vain_tells_all_that_it_has_nothing():
    """It came back between two that fell just then: all who had copies were gone, and nobody said
    so.
    """
    churn = (
        "drift=0.01,guests=9,event=2.514:join:74,event=2.787:join:75,event=5.428:join:76,event=6.403..18.811:return:0:empty,"
        "event=7.832..18.214:return:68:old,event=9.801:join:77,event=11.943:join:78,event=16.235..27.596:return:65:empty,"
        "event=18.164:join:80,event=18.373..23.668:return:15,event=26.996:crash:13+60"
    )
    faults = Faults.parse("loss=0.05,duplicate=0.02,reorder=0.2")
    found = check(
        Scenario(
            "opchord-pubsub",
            74,
            127,
            523737734,
            {},
            "groups",
            network="national",
            faults=faults,
            churn=Churn.parse(churn),
            register=MESSAGES,
        )
    )

    assert not found.reasons, (found.reasons, found.scenario.command())


@pytest.mark.long
def test_a_raise_that_waits_for_the_dead_does_not_keep_replicas_from_being_mended():
    """Its walk had run out of hops between two peers that took each other for the owner, and waited
    for 90 s.
    """
    churn = (
        "joins=22,leaves=5,crashes=6,group=2,returns=13,disk=any,bursts=1,anew=2,slow=2,cuts=1,flaps=1,drift=0.01,"
        "over_s=39.0"
    )
    found = check(
        Scenario(
            "spice-unloaded",
            104,
            139,
            1686367153,
            {},
            "groups",
            payload_bytes=300,
            changes=52,
            faults=Faults.parse("loss=0.01"),
            churn=Churn.parse(churn),
            register=MESSAGES,
        )
    )

    assert not found.reasons, (found.reasons, found.scenario.command())


def test_a_broker_that_comes_back_finds_out_at_once_which_of_the_others_are_there():
    """The root was found dead first and then another broker, each in five patiences: two members
    waited 55 s.
    """
    churn = "joins=20,group=2,restarts=2,fails=2,returns=10,disk=any,anew=3,freezes=2,cuts=1,splits=1,over_s=15.0"
    found = check(
        Scenario(
            "broker",
            87,
            115,
            975340898,
            {"brokers": 6, "expected_tags": 64},
            "attributes",
            network="national",
            faults=Faults.parse("loss=0.05,reorder=0.2"),
            churn=Churn.parse(churn),
            register=MESSAGES,
        )
    )

    assert not found.reasons, (found.reasons, found.scenario.command())
    assert found.outcome.change.return_s_max < 40


def test_what_lay_where_an_owner_and_both_its_heirs_fell_is_said_again_although_a_newcomer_gets_the_ground_at_once():
    """It had waited there: when the last resort asked for what was lost the ground was on its way,
    and not named.
    """
    churn = (
        "drift=0.001,guests=11,event=1.231..14.216:freeze:69,event=2.031:crash:22,event=2.453:leave:37,event=3.14:join:91,"
        "event=4.825..16.112:return:2,event=5.426:leave:66,event=6.117:crash:53,event=6.949..17.559:freeze:35,"
        "event=9.754..13.206:return:67:old,event=10.94:crash:68,event=12.747:join:92,event=13.428..24.216:freeze:29,"
        "event=14.524:join:93,event=14.74..28.919:return:51:old,event=14.976:crash:43,event=14.985:join:94,"
        "event=17.322..20.799:return:0:empty,event=19.988:crash:31,event=20.246:join:97,event=26.548..40.946:split:"
        "1+3+7+8+9+10+11+14+15+17+20+21+26+30+33+34+35+41+46+49+57+62+63+64+65+69+70+75+78+80+81+83+88+89+91,"
        "event=26.961..38.801:return:29:old"
    )
    faults = Faults.parse("loss=0.01,duplicate=0.05,reorder=0.2")
    found = check(
        Scenario(
            "spice",
            91,
            144,
            80882306,
            {},
            "groups",
            network="national",
            faults=faults,
            churn=Churn.parse(churn),
            register=MESSAGES,
        )
    )

    assert not found.reasons, (found.reasons, found.scenario.command())


def test_who_gives_a_place_to_one_that_has_taken_another_meanwhile_is_not_its_heir_with_half_of_what_it_keeps():
    """It had stood still through a partition, entered anew, and was the heir of one that had come
    back empty.
    """
    churn = (
        "drift=0.001,guests=7,event=0.621..11.399:return:5:empty,event=6.795:describe:13,event=12.124:join:43,"
        "event=14.325:join:44,event=16.466:join:45,event=16.876..41.235:freeze:42,event=18.12..21.563:return:1,"
        "event=21.866:join:46,event=22.236..37.997:split:0+3+7+9+12+13+14+17+22+23+25+26+27+28+29+36+39+41,"
        "event=22.494..25.985:return:38:empty"
    )
    faults = Faults.parse("loss=0.01,duplicate=0.02")
    found = check(
        Scenario(
            "spice-unloaded",
            43,
            137,
            1366546748,
            {},
            "groups",
            faults=faults,
            churn=Churn.parse(churn),
            register=MESSAGES,
        )
    )

    assert not found.reasons, (found.reasons, found.scenario.command())


def test_a_step_to_a_place_that_was_left_meanwhile_is_not_looked_up_there():
    """One that left had all its places at rest, and which of them a range concerns was remembered."""
    churn = (
        "guests=4,event=6.016..40:slow~748.881:8,event=8.264:leave:13,"
        "event=9.158..26.411:split:10+12+14+17+18+20+22+23+24+26+27+28,event=9.22:join:30,event=12.482..17.079:freeze:22,"
        "event=15.618:leave:12,event=20.785:join:31"
    )
    found = check(
        Scenario(
            "bft",
            29,
            140,
            2022002568,
            {"signatures": "stand-in"},
            "zipf",
            {"tags": 12, "tags_per_peer": 4},
            "national",
            faults=Faults.parse("loss=0.01,duplicate=0.02"),
            churn=Churn.parse(churn),
            strict=True,
            register=MESSAGES,
        )
    )

    assert not found.reasons, (found.reasons, found.scenario.command())


def test_replicas_are_known_again_where_the_header_of_their_tag_fell_with_its_owner_and_both_heirs():
    """Its roots answered casts, and the new owner of the original root, who knew of none, told them
    of nobody.
    """
    churn = "guests=4,event=4.09..5.287:fall~325.949:2,event=7.458..15.924:return:3,event=7.501:crash:0+11"
    found = check(
        Scenario(
            "spice-unloaded",
            18,
            144,
            236140534,
            {},
            "groups",
            network="national",
            churn=Churn.parse(churn),
            strict=True,
            register=MESSAGES,
        )
    )

    assert not found.reasons, (found.reasons, found.scenario.command())


def test_what_a_node_keeps_that_has_lost_sight_of_its_neighbours_does_not_die_with_it():
    """Its neighbours knew better, returned to it what it answered for wrongly, and forgot that on
    its word; then it crashed, and was back before anybody missed it.
    """
    churn = "joins=19,leaves=6,crashes=7,returns=13,disk=any,falls=2,freezes=1,slow=1,flaps=1,drift=0.01,over_s=39.0"
    found = check(
        Scenario(
            "dht-naive",
            108,
            139,
            516737037,
            {},
            "groups",
            network="flat",
            payload_bytes=16,
            faults=Faults.parse("duplicate=0.02"),
            churn=Churn.parse(churn),
            register=MESSAGES,
        )
    )

    assert not found.reasons, (found.reasons, found.scenario.command())


def test_one_that_is_back_under_a_new_name_is_no_finger_to_where_it_was():
    """Look-ups went in a circle through its address for two minutes: it answered the pings meant
    for its old place.
    """
    churn = (
        "joins=1,leaves=10,crashes=2,returns=4,disk=any,falls=2,anew=4,freezes=2,slow=1,cuts=1,"
        "drift=0.001,over_s=36.0"
    )
    found = check(
        Scenario(
            "dht",
            107,
            136,
            772562883,
            {},
            "groups",
            network="national",
            payload_bytes=300,
            faults=Faults.parse("duplicate=0.05,reorder=0.2"),
            churn=Churn.parse(churn),
        )
    )

    assert not found.reasons, (found.reasons, found.scenario.command())


def test_one_that_is_back_beside_another_that_has_just_crashed_is_registered_within_its_forty_seconds():
    """It was on the ring after ten, when both dead were passed over; then all tables have half a
    minute to know it.
    """
    churn = "leaves=2,crashes=2,returns=1,disk=any,falls=1,anew=1,slow=2,flaps=1,splits=1,drift=0.001,over_s=22.0"
    found = check(
        Scenario(
            "condcast",
            17,
            122,
            2016915263,
            {},
            "groups",
            network="flat",
            faults=Faults.parse("duplicate=0.05"),
            churn=Churn.parse(churn),
            register=MESSAGES,
        )
    )

    assert not found.reasons, (found.reasons, found.scenario.command())


def test_a_call_of_an_old_header_does_not_keep_replicas_from_being_copied_to_again():
    """Roots that had lost their ground were told by it that they were ready, and lacked twelve
    members for 88 s.
    """
    churn = (
        "joins=11,leaves=3,crashes=6,group=2,returns=7,disk=any,falls=2,anew=1,freezes=1,slow=2,cuts=1,flaps=1,splits=1,"
        "drift=0.01,over_s=15.0"
    )
    found = check(
        Scenario(
            "spice-unloaded",
            61,
            115,
            185501297,
            {},
            "groups",
            network="national",
            payload_bytes=16,
            faults=Faults.parse("loss=0.01,reorder=0.2"),
            churn=Churn.parse(churn),
            register=MESSAGES,
        )
    )

    assert not found.reasons, (found.reasons, found.scenario.command())


def test_who_is_counted_again_in_the_next_attempt_counts_no_more_for_late_steps_of_the_one_before():
    """Its places took steps of both attempts by turns, and with each turn it said once more that it
    had the cast.
    """
    churn = "joins=8,leaves=3,returns=4,disk=any,bursts=1,falls=1,anew=4,slow=1,cuts=1,splits=1,drift=0.001,over_s=18.0"
    found = check(
        Scenario(
            "bft",
            32,
            118,
            369393830,
            {"signatures": "stand-in"},
            "attributes",
            network="flat",
            changes=16,
            faults=Faults.parse("duplicate=0.05,reorder=0.2"),
            churn=Churn.parse(churn),
            register=ASSEMBLED,
        )
    )

    assert not found.reasons, (found.reasons, found.scenario.command())
