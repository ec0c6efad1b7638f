"""Liars in the world: seeded, colluding, by share and strategy, with any design; and what the honest make of them."""

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from implicast.cli import main
from implicast.language.target import Description
from implicast.peer.contract import CastId, Message
from implicast.peer.errors import LocalError, ParameterError
from implicast.peer.expiry import with_expiry
from implicast.peer.ledger import Ledger
from implicast.trials.attacks import attack_row, scenario
from implicast.world.application import Application
from implicast.world.churn import Churn
from implicast.world.liars.coalition import Coalition, CoalitionContext, LyingHost, carries
from implicast.world.liars.liars import STRATEGIES, Liars
from implicast.world.liars.strategies import FORGED, forged, strategy
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate
from implicast.world.world import World


class Note(Message):
    """Something with a payload."""

    wire = 0x7001

    cast: CastId
    payload: bytes


class Envelope(Message):
    """Something with a payload inside."""

    wire = 0x7002

    note: Note
    level: int


class Nod(Message):
    """Confirms a note."""

    wire = 0x7003

    cast: CastId


CAST = CastId(bytes(16), 1, 1)
NOTE, NOD = Note(CAST, with_expiry(7, b"genuine")), Nod(CAST)
FALSE_NOTE = Note(CAST, with_expiry(7, FORGED))


class Even:
    def latency_us(self, a: int, b: int) -> int:
        return 10_000


def a_gang(liars: Liars, peers: int = 20, seed: int = 1) -> Coalition:
    world = World(Even(), seed)
    world.announce(CAST, 0)
    world.purpose = -1
    said = [Description()] * peers
    return Coalition(
        liars,
        CoalitionContext(world, Application(world), seed, peers, 0, (), said, 1_000_000),
        strategy,
    )


def what_leaves(text: str, *messages: Message, to: int = 2) -> list[tuple[object, Message]]:
    """What a liar of a gang sends at once in the place of these."""
    liars = Liars.parse(text)
    assert liars is not None
    coalition, ledger = a_gang(liars), Ledger()
    host = LyingHost(ledger, min(coalition.liars), coalition)
    coalition.act()
    for message in messages:
        host.send(to, message)
    return ledger.sent()


# --- who lies


def test_the_gang_is_the_same_for_the_same_seed_of_the_size_asked_for_and_never_the_victim() -> (
    None
):
    one = [a_gang(Liars(0.3, victim=7), 100, seed).liars for seed in (1, 1, 2)]

    assert one[0] == one[1] != one[2]
    assert len(one[0]) == 30
    assert all(7 not in each for each in one)
    assert len(a_gang(Liars(1.0, victim=7), 100).liars) == 99


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("share=2", "0 to 1"),
        ("share=some", "a number"),
        ("strategy=sulking", "silent, dropping"),
        ("volume=3", "it takes share"),
        ("share", "it takes share"),
        ("strategy=silent+sulking", "sulking"),
        ("fixtures=perhaps", "true or false"),
    ],
)
def test_nonsense_is_refused_with_what_would_be_right(text: str, complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint):
        Liars.parse(text)


def test_what_is_read_is_written_the_same_and_a_scenario_replays_it() -> None:
    liars = Liars.parse("share=0.25,strategy=aimed+delaying,victim=3,delay_s=0.5,fixtures=true")

    assert liars is not None
    assert Liars.parse(liars.text()) == liars
    assert f"--liars {liars.text()}" in Scenario("dht", liars=liars).command()
    assert Liars.parse("") is None


def test_a_victim_that_is_no_member_is_refused() -> None:
    with pytest.raises(LocalError, match="0 to 19"):
        a_gang(Liars(0.2, victim=20))


# --- what each does with a message


def test_the_honest_have_their_own_hosts_and_liars_behave_until_told_to_act() -> None:
    coalition, ledger = a_gang(Liars(0.5)), Ledger()

    assert not isinstance(coalition.host(coalition.honest()[0]), LyingHost)
    liar = LyingHost(ledger, min(coalition.liars), coalition)
    liar.send(2, NOTE)
    coalition.act()
    liar.send(2, NOTE)
    assert ledger.sent() == [(2, NOTE)]


def test_what_each_generic_liar_does_with_a_cast_and_its_confirmation() -> None:
    assert what_leaves("share=1,strategy=silent", NOTE, NOD, Envelope(NOTE, 1)) == []
    assert what_leaves("share=1,strategy=dropping", NOTE, NOD) == [(2, NOD)]
    assert what_leaves("share=1,strategy=delaying", NOTE, NOD) == []
    assert what_leaves("share=1,strategy=selective,victim=2", NOTE, NOD) == [(2, NOD)]
    assert what_leaves("share=1,strategy=selective,victim=3", NOTE, NOD) == [(2, NOTE), (2, NOD)]
    assert what_leaves("share=1,strategy=forging", NOTE) == [(2, FALSE_NOTE)]
    assert len(what_leaves("share=1,strategy=flooding", NOTE)) in (16, 17)
    assert len(what_leaves("share=1,strategy=misrouting", NOTE)) == 1
    assert what_leaves("share=1,strategy=dropping+forging", NOTE, NOD) == [(2, NOD)]


def test_a_liar_that_can_afford_nothing_repeats_nothing() -> None:
    assert what_leaves("share=1,strategy=replaying+flooding,extras=0", NOTE, NOD) == [
        (2, NOTE),
        (2, NOD),
    ]


def test_forging_and_carrying_reach_payloads_however_deep() -> None:
    assert forged(Envelope(NOTE, 4)) == Envelope(FALSE_NOTE, 4)
    assert carries(Envelope(NOTE, 4))
    assert not carries(NOD)


# --- what comes of it


def runs(
    name: str, strategies: Iterator[str] | tuple[str, ...], share: float, peers: int, casts: int
) -> list[dict]:
    return [attack_row(name, each, share, peers, casts) for each in strategies]


@pytest.mark.parametrize("attack", STRATEGIES)
def test_no_attack_brings_the_honest_a_false_notice_and_hardly_any_costs_them_one(
    attack: str,
) -> None:
    row = attack_row("bft", attack, 0.15, peers=40, casts=6, parameters={"k": 6})

    assert int(row["expected"]) > 50
    assert float(row["arrival"]) > 0.98
    assert (row["repeated"], row["uninvited"], row["forged"], row["breakdowns"]) == (0, 0, 0, 0)


def test_designs_that_trust_their_peers_lose_much_and_believe_forgers() -> None:
    """So the table of attacks by design says something: the same liars do harm elsewhere."""
    lost, forging = runs("condcast", ("dropping", "forging"), 0.2, 60, 8)

    assert float(lost["arrival"]) < 0.9
    assert int(forging["forged"]) > 0


def test_who_carries_everything_can_spoil_everything() -> None:
    silent, lying = (
        attack_row("centralised", each, 0.0, 40, 8, fixtures=True) for each in ("silent", "forging")
    )

    assert silent["arrival"] == 0.0
    assert lying["forged"] == lying["expected"] != 0


def test_an_authority_that_turns_silent_spoils_no_cast() -> None:
    assert attack_row("bft", "silent", 0.0, 40, 8, fixtures=True)["arrival"] == 1.0


def test_a_defender_sees_who_stays_silent_and_who_forges_and_suspects_nobody_else() -> None:
    silent, forging = runs("bft", ("silent", "forging"), 0.2, 40, 6)

    assert (silent["noticed"], silent["accused"]) == (silent["liars"], 0)
    assert 30 < float(silent["noticed_s"]) < 60, "a step is insisted on for so long"
    assert int(forging["noticed"]) > 0
    assert forging["accused"] == 0


def test_liars_and_churn_together_and_twice_the_same() -> None:
    churn = Churn.parse("joins=4,leaves=3,crashes=2,returns=2,over_s=10")
    run = Scenario(
        "bft",
        40,
        12,
        3,
        {"signatures": "stand-in"},
        "groups",
        {"share": 0.3, "tags_per_peer": 5},
        churn=churn,
        liars=Liars(0.1, "dropping"),
    )
    one, two = simulate(run), simulate(run)

    assert one.described() == two.described()
    assert one.trust is not None
    assert one.trust.expected > 50
    assert one.trust.arrival > 0.95


def test_liars_that_are_none_change_no_notice() -> None:
    with_none = simulate(scenario("dht", Liars(0.0), peers=40, casts=6))

    assert with_none.trust is not None
    assert with_none.trust.arrival == 1.0
    assert with_none.trust.expected == with_none.contract.expected


def test_the_command_reports_and_fails_only_where_something_was_promised() -> None:
    said = CliRunner().invoke(
        main,
        [
            "simulate",
            "condcast",
            "--peers",
            "40",
            "--casts",
            "4",
            "--json",
            "--liars",
            "share=0.2,strategy=forging",
        ],
    )
    trust = json.loads(said.stdout)["trust"]

    assert said.exit_code == 0
    assert {
        "expected",
        "arrived",
        "arrival",
        "victim_expected",
        "victim_arrived",
        "forged",
    } <= trust.keys()
    missed = CliRunner().invoke(
        main,
        [
            "simulate",
            "dht",
            "--peers",
            "40",
            "--casts",
            "4",
            "--liars",
            "share=0.3,strategy=silent",
            "--require",
            "arrival >= 0.99",
        ],
    )
    assert missed.exit_code == 1


def test_a_campaign_counts_what_arrives_among_liars() -> None:
    said = CliRunner().invoke(
        main,
        ["campaign", "dht", "--scenarios", "1", "--json", "--liars", "share=0.2,strategy=dropping"],
    )

    assert said.exit_code == 0, said.output
    assert json.loads(said.stdout)["trust"]["expected"] > 0
