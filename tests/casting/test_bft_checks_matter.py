"""With a check left out, the attack it stops does damage; with it, arrival is what it is under silence."""

from random import Random

import msgspec
import pytest
from bft_network import EVERYONE, Network, tagged

from implicast.casting.bft.validator import ALL_CHECKS, CastHop, Source
from implicast.overlay.skip_graph.place import Place
from implicast.overlay.skip_graph.table import Level, LevelTable
from implicast.peer.events import Notice
from implicast.peer.expiry import expiry_of, with_expiry
from implicast.peer.identity import Certificate

N = 120


def drawn_liars(fraction: float, seed: int) -> frozenset[int]:
    return frozenset(Random(seed).sample(range(1, N), round(N * fraction)))


def preempting_hops(
    network: Network, source: Source, liars: frozenset[int], any_level: bool
) -> list[tuple[int, CastHop]]:
    """Every honest place gets the genuine message at the lowest level that its certified liars can claim."""
    common = network.members[0].multicasts.validator.vectors.common
    hops = []
    for victim in range(N):
        if victim in liars or victim == source.certificate.address:
            continue
        place = network.place(victim)
        proper = min(common(source.certificate.vector, place.vector), source.start)
        level, liar = min(
            (common(network.place(liar).vector, place.vector), liar) for liar in sorted(liars)
        )
        if any_level:
            level = 0
        if level < proper:
            hops.append((victim, network.hop(liar, source, level)))
    return hops


def arrival(
    checks: frozenset[int], liars: frozenset[int], preempt: bool, any_level: bool = False
) -> float:
    """The share of honest peers notified, over some casts; liars forward nothing."""
    network = Network(N, checks, plain=True, k=3)
    share = 0.0
    for _ in range(4):
        sent = network.cast(0, EVERYONE)
        early = preempting_hops(network, sent[0][1].source, liars, any_level) if preempt else []
        notified = network.carry([*early, *sent], silent=liars)
        honest = [address for address in range(1, N) if address not in liars]
        share += sum(address in notified for address in honest) / len(honest)
    return share / 4


def test_check_5_makes_preemption_no_worse_than_silence() -> None:
    liars = drawn_liars(0.1, seed=1)

    silence = arrival(ALL_CHECKS, liars, preempt=False)

    assert arrival(ALL_CHECKS, liars, preempt=True) == silence > 0.97
    assert arrival(ALL_CHECKS - {5}, liars, preempt=True) < silence - 0.15


def test_check_2_keeps_a_single_liar_from_preempting_everyone() -> None:
    """A liar that resembles the source is near nobody's wrong level; unless it may claim any level it likes."""
    network = Network(N, plain=True, k=3)
    twin = max(range(1, N), key=lambda address: network.common(0, address))
    liars = frozenset({twin})

    assert arrival(ALL_CHECKS - {5}, liars, preempt=True) > 0.99
    assert arrival(ALL_CHECKS - {2, 5}, liars, preempt=True, any_level=True) < 0.8
    assert (
        arrival(ALL_CHECKS, liars, preempt=True, any_level=True)
        == arrival(ALL_CHECKS, liars, preempt=False)
        == 1.0
    )


@pytest.mark.parametrize("check_2", [True, False])
def test_check_2_leaves_a_liar_only_the_doors_of_its_own_rings(check_2: bool) -> None:
    """Also where the fifth check is on: without the second one certificate opens every door for the genuine message."""
    network = Network(N, ALL_CHECKS if check_2 else ALL_CHECKS - {2}, plain=True, k=3)
    source = network.cast(0, EVERYONE)[0][1].source
    liar = next(each for each in range(1, N) if network.common(0, each) == 0)
    opened = 0
    for victim in (each for each in range(1, N) if each != liar):
        proper = min(network.common(0, victim), source.start)
        network.hand(victim, network.hop(liar, source, proper))
        opened += network.members[victim].multicasts.seen.get(source.name) is not None

    assert opened == (0 if check_2 else N - 2), (
        "who differs from the source in the first digit is in step with nobody"
    )


@pytest.mark.parametrize("check_1", [True, False])
def test_check_1_keeps_forged_payloads_out(check_1: bool) -> None:
    network = Network(N, ALL_CHECKS if check_1 else ALL_CHECKS - {1})
    sent = network.cast(0, tagged("jazz"))
    replace = msgspec.structs.replace
    false = with_expiry(expiry_of(sent[0][1].source.payload), b"forged")

    notified = network.carry(
        [(to, replace(hop, source=replace(hop.source, payload=false))) for to, hop in sent]
    )

    assert bool(notified) is not check_1


@pytest.mark.parametrize("check_3", [True, False])
def test_check_3_keeps_random_next_hops_from_spreading(check_3: bool) -> None:
    network = Network(N, ALL_CHECKS if check_3 else ALL_CHECKS - {3}, k=2)
    source = network.cast(0, tagged("opera"))[0][1].source
    common = network.members[0].multicasts.validator.vectors.common
    drawn_in = 0
    for victim in range(1, N, 2):
        if network.members[victim].multicasts.concerned(source) and check_3:
            continue
        place = network.place(victim)
        proper = min(common(source.certificate.vector, place.vector), source.start)
        entitled = (
            each
            for each in range(2, N, 2)
            if common(network.place(each).vector, place.vector) == proper
        )
        liar = next(entitled, None)
        if liar is not None and proper < source.start:
            network.members[victim].receive(liar, network.hop(liar, source, proper))
            drawn_in += network.members[victim].multicasts.seen.get(source.name) is not None

    assert (drawn_in == 0) is check_3


by_the_rule = Place.table.fget  # type: ignore[attr-defined]


def lists_beyond_the_top(place: Place) -> LevelTable[Certificate]:
    """What a careless peer has: lists of ever smaller rings, up to the one in which it is alone."""
    table = by_the_rule(place)
    levels = list(table.levels)
    ring = [
        node for node, fresh in zip(levels[-1].nodes, levels[-1].fresh, strict=True) if not fresh
    ]
    while len(ring) > 1:
        number, owner = len(levels), table.owner
        near = [place.vectors.common(owner.vector, node.vector) > number for node in ring]
        levels.append(Level(ring, ring.index(owner), True, [not each for each in near]))
        ring = [node for node, is_near in zip(ring, near, strict=True) if is_near]
    return LevelTable(table.owner, levels)


def from_above(
    network: Network, source: Source, liars: frozenset[int]
) -> list[tuple[int, CastHop]]:
    """Every honest place gets the genuine message from a liar in a ring too small for it to have a list of."""
    hops = []
    for victim in (
        each for each in range(N) if each not in liars and each != source.certificate.address
    ):
        top = by_the_rule(network.members[victim].graph.places.held[network.place(victim).key]).top
        level, liar = max((network.common(liar, victim), liar) for liar in sorted(liars))
        if top < level < source.start:
            hops.append((victim, network.hop(liar, source, level)))
    return hops


def work(checks: frozenset[int], attack: bool) -> tuple[int, int]:
    """Messages that the honest send for some casts, and attempts made to have them send more."""
    network, liars = Network(N, checks, plain=True, k=2), drawn_liars(0.3, seed=3)
    carried = attempts = 0
    for publisher in [each for each in range(N) if each not in liars][:30]:
        sent = network.cast(publisher, EVERYONE)
        early = from_above(network, sent[0][1].source, liars) if attack else []
        network.carry([*early, *sent], silent=liars)
        carried, attempts = carried + network.carried - len(early), attempts + len(early)
    return carried, attempts


def test_check_4_keeps_peers_from_working_in_rings_too_small_for_lists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The paper's gate has no fifth check: there a message from above its receiver's top sets off needless duties."""
    paper = ALL_CHECKS - {5}
    silence, _ = work(paper, attack=False)
    monkeypatch.setattr(Place, "table", property(lists_beyond_the_top))

    careless, attempts = work(paper - {4}, attack=True)

    assert attempts > 20
    assert careless > silence + attempts / 2
    monkeypatch.undo()
    kept, attempts = work(paper, attack=True)  # fewer: publishers without such lists begin lower
    assert attempts > 20
    assert kept == silence
    assert work(ALL_CHECKS, attack=True) == (work(ALL_CHECKS, attack=False)[0], attempts)


@pytest.mark.parametrize("check_4", [True, False])
def test_check_4_keeps_a_source_from_starting_where_nobody_has_k_senders(
    check_4: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lying source names a level at which its victim is nearly alone: whoever it serves has it as only sender."""
    from test_bft_validator import a_level_beyond

    network = Network(30, ALL_CHECKS if check_4 else ALL_CHECKS - {4})
    victim, hop = a_level_beyond(network)
    if not check_4:
        monkeypatch.setattr(Place, "table", property(lists_beyond_the_top))

    counted, done = network.hand(victim, hop)

    served = [entry for entry in done if entry[0] == "send"]
    assert (len(served) == 0) is check_4
    assert counted == ({"too_high": 1} if check_4 else {})


@pytest.mark.parametrize("check_6", [True, False])
def test_check_6_keeps_a_replay_from_setting_everything_off_again(check_6: bool) -> None:
    network = Network(40, ALL_CHECKS if check_6 else ALL_CHECKS - {6}, k=2)
    sent = network.cast(0, tagged("jazz"))
    to, hop = next((to, hop) for to, hop in sent if hop.level > 0)
    first = [entry for entry in network.hand(to, hop)[1] if entry[0] == "send"]
    assert first

    again = [entry for entry in network.hand(to, hop)[1] if entry[0] == "send"]

    assert again == ([] if check_6 else first)


def test_notices_are_never_repeated_even_without_check_6() -> None:
    network = Network(40, ALL_CHECKS - {6}, k=2)
    to, hop = network.cast(0, tagged("jazz"))[0]

    notices = [
        entry
        for _ in range(5)
        for entry in network.hand(to, hop)[1]
        if isinstance(entry[2], Notice)
    ]

    assert len(notices) <= 1
