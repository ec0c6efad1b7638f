"""Liars in the world: seeded, colluding, generic; and what the design that trusts nobody makes of them."""

import pytest

from implicast.casting.bft.member import Bft
from implicast.language.target import Description, Target, Term
from implicast.peer.contract import CastId, Message
from implicast.peer.errors import ParameterError
from implicast.peer.ledger import Ledger
from implicast.trials.attacks import Assault, attack_row
from implicast.trials.liars import ATTACKS, FORGED, LyingHost, forged, gang, hosts

EVERYONE = Target((Term(lacks=("nobody",)),))


class Note(Message):
    """Something with a payload."""

    cast: CastId
    payload: bytes


class Envelope(Message):
    """Something with a payload inside."""

    note: Note
    level: int


NOTE = Note(CastId(bytes(16), 1, 1), b"genuine")


def a_liar(attack: str) -> tuple[Ledger, LyingHost]:
    ledger = Ledger()
    liars = gang(20, 1.0, seed=1)
    host = hosts(lambda address: ledger, liars, attack)(3)
    assert isinstance(host, LyingHost)
    liars.act([])
    return ledger, host


def test_the_gang_is_the_same_for_the_same_seed_and_of_the_size_asked_for() -> None:
    assert gang(100, 0.3, 1).liars == gang(100, 0.3, 1).liars != gang(100, 0.3, 2).liars
    assert len(gang(100, 0.3, 1).liars) == 30
    with pytest.raises(ParameterError, match="out of range"):
        gang(100, 1.5, 1)


def test_an_unknown_attack_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ParameterError, match="silent, wrong-next-hop"):
        hosts(lambda address: Ledger(), gang(10, 0.5, 1), "sulking")


def test_the_honest_have_their_own_hosts_and_liars_behave_until_told_to_act() -> None:
    ledger, liars = Ledger(), gang(20, 0.5, seed=1)
    wrapped = hosts(lambda address: ledger, liars, "silent")
    honest = next(address for address in range(20) if address not in liars.liars)

    assert wrapped(honest) is ledger
    liar = wrapped(min(liars.liars))
    liar.send(2, NOTE)
    liars.act([])
    liar.send(2, NOTE)
    assert ledger.sent() == [(2, NOTE)]


def test_what_each_generic_liar_does_with_a_message() -> None:
    sent = {}
    for attack in ("silent", "wrong-next-hop", "replaying", "flooding", "forging"):
        ledger, host = a_liar(attack)
        host.send(2, NOTE)
        sent[attack] = ledger.sent()

    assert sent["silent"] == []
    assert len(sent["wrong-next-hop"]) == 1
    assert len(sent["replaying"]) == 7
    assert len(sent["flooding"]) == 17
    assert all(to != 3 for attack in sent for to, _ in sent[attack]), "nobody sends to itself"
    assert sent["forging"] == [(2, Note(CastId(bytes(16), 1, 1), FORGED))]


def test_forging_reaches_payloads_however_deep_and_leaves_the_rest() -> None:
    assert forged(Envelope(NOTE, 4)) == Envelope(Note(CastId(bytes(16), 1, 1), FORGED), 4)


def test_a_gang_cannot_afford_superfluous_messages_without_end() -> None:
    ledger, host = a_liar("flooding")
    for _ in range(2_000):
        host.send(2, NOTE)

    assert len(ledger.sent()) == 2_000 + 200 * 20


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_attack_costs_the_honest_a_notice_or_brings_them_a_false_one(attack: str) -> None:
    plain = {"signatures": "stand-in", "assurance": "none", "k": 6}
    peers = 30 if attack == "sybil" else 60  # each of its liars joins sixty places by messages
    row = attack_row("bft", attack, 0.15, peers=peers, casts=12, parameters=plain)

    assert row["arrival"] == 1.0
    assert (row["repeated"], row["uninvited"], row["forged"], row["breakdowns"]) == (0, 0, 0, 0)


def everyone_cast(n: int, k: int, attack: str, casts: int, fraction: float) -> Assault:
    people = [Description()] * n
    parameters = {"signatures": "stand-in", "assurance": "none", "k": k}
    assault = Assault("bft", attack, fraction, people, [EVERYONE] * casts, seed=3, parameters=parameters)
    assault.run()
    return assault


@pytest.mark.parametrize("attack", ["silent", "preempting"])
def test_real_peers_lose_no_more_to_collusion_than_to_silence(attack: str) -> None:
    assault = everyone_cast(200, 4, attack, casts=3, fraction=0.2)

    assert float(assault.row()["arrival"]) >= 0.99
    refused = sum(peer.multicasts.gate.refusals["out_of_step"] for peer in assault.population if isinstance(peer, Bft))
    assert (refused > 0) == (attack == "preempting"), "the attack took place and was refused by name"


@pytest.mark.long
@pytest.mark.parametrize(("k", "least"), [(4, 0.99), (6, 0.999)])
@pytest.mark.parametrize("attack", ["silent", "preempting"])
def test_a_thousand_real_peers_of_which_a_fifth_lie(k: int, least: float, attack: str) -> None:
    assert float(everyone_cast(1_000, k, attack, casts=10, fraction=0.2).row()["arrival"]) >= least


def test_designs_that_trust_their_peers_lose_much_to_silence() -> None:
    """So the table of attacks by design says something: the same liars do harm elsewhere."""
    row = attack_row("dht", "silent", 0.2, peers=100, casts=24, parameters={"assurance": "none"})

    assert float(row["arrival"]) < 0.8


def test_who_carries_everything_can_spoil_everything() -> None:
    silent = attack_row("centralised", "silent", 0.0, peers=40, casts=12, infrastructure_lies=True)
    forging = attack_row("centralised", "forging", 0.0, peers=40, casts=12, infrastructure_lies=True)

    assert silent["arrival"] == 0.0
    assert forging["forged"] == forging["expected"] != 0


def test_an_authority_that_turns_silent_spoils_no_cast() -> None:
    row = attack_row(
        "bft", "silent", 0.0, peers=40, casts=12, infrastructure_lies=True, parameters={"signatures": "stand-in"}
    )

    assert row["arrival"] == 1.0
