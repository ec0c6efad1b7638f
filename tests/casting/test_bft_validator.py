"""Each of the receiver's checks refuses what it is there for, and counts it by name."""

from collections.abc import Callable

import msgspec
import pytest
from bft_network import NOW_US, Network, forged_cast, tagged

from implicast.casting.bft.member import Bft
from implicast.casting.bft.validator import PER_PUBLISHER_MAX, SKEW_US, CastHop, Source
from implicast.language.target import Target
from implicast.peer.events import Notice

replace = msgspec.structs.replace


@pytest.fixture(params=["ed25519", "stand-in"])
def network(request: pytest.FixtureRequest) -> Network:
    return Network(30, signatures=request.param)


def a_hop(
    network: Network, publisher: int = 0, target: Target | None = None
) -> tuple[int, CastHop]:
    """A genuine message and somebody in its range to whom it goes; nobody has met it but its publisher."""
    sent = network.cast(publisher, target or tagged("jazz"))
    common = network.members[0].multicasts.validator.vectors.common
    ring = [
        (to, hop)
        for to, hop in sent
        if common(hop.source.certificate.vector, network.place(to).vector)
        >= hop.source.start
        == hop.level
    ]
    return (ring or sent)[0]


def test_a_genuine_message_is_delivered_and_passed_on_and_a_copy_of_it_is_not(
    network: Network,
) -> None:
    to, hop = a_hop(network)

    counted, done = network.hand(to, hop)

    assert counted == {}
    assert [entry for entry in done if entry[0] == "deliver"] == [
        ("deliver", None, Notice(hop.source.cast, b"hello"))
    ]
    assert network.hand(to, hop) == ({"repeated": 1}, [])


def test_everyone_with_the_tag_is_notified_once(network: Network) -> None:
    notified = network.carry(list(network.cast(1, tagged("jazz", "opera"))))

    assert dict(notified) == dict.fromkeys(range(0, 30, 2), 1)


Spoil = Callable[[Network, CastHop, int], CastHop]


def other_than(network: Network, *but: int) -> int:
    return next(address for address in range(len(network.members)) if address not in but)


SPOILS: dict[str, tuple[str, Spoil]] = {
    "a changed payload": (
        "forged_source",
        lambda net, hop, to: replace(hop, source=replace(hop.source, payload=b"forged")),
    ),
    "a changed range": (
        "forged_source",
        lambda net, hop, to: replace(hop, source=replace(hop.source, high=b"z")),
    ),
    "a changed start level": (
        "forged_source",
        lambda net, hop, to: replace(hop, source=replace(hop.source, start=63)),
    ),
    "a changed time": (
        "forged_source",
        lambda net, hop, to: replace(hop, source=replace(hop.source, sent_us=NOW_US - 1)),
    ),
    "a changed level": ("forged_hop", lambda net, hop, to: replace(hop, level=hop.level + 1)),
    "a level that is none": ("wrong_level", lambda net, hop, to: replace(hop, level=-1)),
    "a level of astronomical size": ("wrong_level", lambda net, hop, to: replace(hop, level=2**62)),
    "another's signature on the hop": (
        "forged_hop",
        lambda net, hop, to: replace(
            hop, signature=net.hop(other_than(net, to, 0), hop.source, hop.level).signature
        ),
    ),
    "a forwarder that certified itself": (
        "forged_certificate",
        lambda net, hop, to: replace(
            hop, forwarder=replace(hop.forwarder, vector=hop.forwarder.vector ^ 1)
        ),
    ),
    "a source that certified itself": (
        "forged_certificate",
        lambda net, hop, to: replace(
            hop,
            source=replace(
                hop.source, certificate=replace(hop.source.certificate, key=b"tjazz\0somewhere")
            ),
        ),
    ),
    "a cast in another's name": (
        "misattributed",
        lambda net, hop, to: lying_source(net, to, cast=forged_cast(0)),
    ),
    "handles that no term has": (
        "malformed",
        lambda net, hop, to: lying_source(net, to, handles=(5,)),
    ),
    "no handles at all": ("malformed", lambda net, hop, to: lying_source(net, to, handles=())),
    "a negative start level": ("malformed", lambda net, hop, to: lying_source(net, to, start=-1)),
    "a time long past": (
        "stale",
        lambda net, hop, to: lying_source(net, to, sent_us=NOW_US - 60_000_000 - SKEW_US),
    ),
    "a time to come": (
        "premature",
        lambda net, hop, to: lying_source(net, to, sent_us=NOW_US + SKEW_US + 1),
    ),
}


def lying_source(network: Network, to: int, **changes: object) -> CastHop:
    """A certified liar's own cast, with something changed before it is signed properly."""
    liar = other_than(network, to, 0)
    _, hop = network.cast(liar, tagged("jazz"))[0]
    source = network.resigned(liar, replace(hop.source, **changes))
    return network.members[liar].multicasts.signed_hop(source, hop.level, hop.forwarder)


@pytest.mark.parametrize("what", SPOILS)
def test_a_spoilt_message_is_refused_and_counted(network: Network, what: str) -> None:
    counter, spoil = SPOILS[what]
    to, hop = a_hop(network)
    spoilt = spoil(network, hop, to)
    network.take()

    assert network.hand(to, spoilt) == ({counter: 1}, [])

    counted, done = network.hand(to, hop)
    assert counted == {}, "and the genuine one is not blocked by it"
    assert done


def test_an_expired_certificate_is_refused(network: Network) -> None:
    to, hop = a_hop(network)
    network.ledgers[to].now_us = hop.forwarder.until_us

    assert network.hand(to, hop) == ({"expired_certificate": 1}, [])


def test_a_revoked_certificate_is_refused_once_the_list_is_known(network: Network) -> None:
    to, hop = a_hop(network)
    revocation = network.office.authority.revoke(NOW_US, hop.forwarder)
    network.members[to].receive(30, revocation)
    network.take()

    assert network.hand(to, hop) == ({"revoked_certificate": 1}, [])
    network.members[to].receive(
        30, msgspec.structs.replace(revocation, number=revocation.number + 1)
    )
    assert network.members[to].multicasts.validator.refusals["forged_revocation"] == 1


def test_revoked_entries_leave_the_lists() -> None:
    network = Network(30, placing="joined")
    outcast = network.members[3].graph.certificates()[0]
    revocation = network.office.authority.revoke(NOW_US, outcast)

    def listing() -> list[Bft]:
        held = {each: each.graph.places.held.values() for each in network.members}
        return [
            each
            for each, places in held.items()
            if any(outcast.key in place.known for place in places)
        ]

    assert listing()
    for member in listing():
        member.receive(30, revocation)

    assert listing() == []


def test_a_forwarder_that_does_not_share_the_level_is_refused(network: Network) -> None:
    """Check 2: a liar may only send at the level that its certified vector gives it."""
    source, victim, liar, level = unfit_forwarder(network)

    assert network.hand(victim, network.hop(liar, source, level)) == ({"wrong_level": 1}, [])


def unfit_forwarder(network: Network) -> tuple[Source, int, int, int]:
    _, hop = a_hop(network)
    source = hop.source
    for victim in range(1, 30):
        proper = min(network.common(0, victim), source.start)
        for liar in range(1, 30):
            if liar != victim and proper < source.start and network.common(liar, victim) != proper:
                return source, victim, liar, proper
    raise AssertionError("no such pair in this network")


def too_low(network: Network) -> tuple[Source, int, int, int]:
    """A liar whose own level towards a victim is below the one at which the victim is to get the message."""
    _, hop = a_hop(network)
    source = hop.source
    place = network.members[0].graph.places.held[source.certificate.key].certificate
    common = network.members[0].multicasts.validator.vectors.common
    for victim in range(1, 30):
        proper = min(common(place.vector, network.place(victim).vector), source.start)
        for liar in range(1, 30):
            level = network.common(liar, victim)
            if liar != victim and level < proper:
                return source, victim, liar, level
    raise AssertionError("no such pair in this network")


def test_a_copy_at_too_low_a_level_is_refused_and_does_not_block_the_proper_one(
    network: Network,
) -> None:
    """Check 5: pre-emption."""
    source, victim, liar, level = too_low(network)

    assert network.hand(victim, network.hop(liar, source, level)) == ({"out_of_step": 1}, [])
    assert network.members[victim].multicasts.seen.get(source.name) is None


def test_who_is_far_from_the_range_refuses_to_be_drawn_in() -> None:
    """Check 3: random next hop."""
    network = Network(60, k=2)
    _, hop = a_hop(network, target=tagged("opera"))
    outsider = next(
        address
        for address in range(1, 60, 2)
        if not network.members[address].multicasts.concerned(hop.source)
        and entitled(network, hop.source, address)
    )
    liar, level, tag = entitled(network, hop.source, outsider) or (0, 0, "")

    assert network.hand(outsider, network.hop(liar, hop.source, level, tag)) == (
        {"unconcerned": 1},
        [],
    )


def entitled(network: Network, source: Source, victim: int) -> tuple[int, int, str] | None:
    """A liar that may send to the victim's place at its proper level, as far as levels go."""
    common = network.members[0].multicasts.validator.vectors.common
    proper = min(common(source.certificate.vector, network.place(victim).vector), source.start)
    for liar in range(0, 60, 2):
        for tag in ("jazz", "opera"):
            shared = common(network.place(liar, tag).vector, network.place(victim).vector)
            if liar != victim and shared == proper < source.start:
                return liar, proper, tag
    return None


def a_level_beyond(network: Network) -> tuple[int, CastHop]:
    """A lying source that shares more digits with its victim than the victim has levels, and claims to start there."""
    for liar in range(30):
        for victim in range(30):
            level = network.common(liar, victim) if liar != victim else 0
            if (
                level
                > network.members[victim].graph.places.held[network.place(victim).key].table.top
            ):
                _, hop = a_hop(network, liar)
                source = replace(hop.source, start=level, certificate=network.place(liar))
                return victim, network.hop(liar, network.resigned(liar, source), level)
    raise AssertionError("no such pair in this network")


def test_a_level_that_the_receiver_does_not_have_is_refused(network: Network) -> None:
    """Check 4."""
    victim, hop = a_level_beyond(network)

    counted, done = network.hand(victim, hop)

    assert counted == {"too_high": 1}
    assert done == []


def test_a_source_that_floods_is_refused_beyond_its_share() -> None:
    network = Network(30)
    to, first = a_hop(network)
    base = first.source
    for each in range(PER_PUBLISHER_MAX + 5):
        source = network.resigned(0, replace(base, query=each, cast=forged_cast(0)))
        network.members[to].receive(
            0, network.members[0].multicasts.signed_hop(source, first.level, first.forwarder)
        )

    assert network.members[to].multicasts.validator.refusals["flooding"] == 5


def test_a_source_that_says_two_things_under_one_number_is_heard_once() -> None:
    network = Network(200)
    to, first = a_hop(network, target=tagged("jazz"))
    network.members[to].receive(0, first)
    met = network.members[to].multicasts.seen.get(first.source.name)
    assert met is not None
    met.open.append(network.place(to).key)  # as if another place of this peer were still to get it
    network.take()
    other = network.resigned(0, replace(first.source, payload=b"something else"))

    counted, done = network.hand(
        to, network.members[0].multicasts.signed_hop(other, first.level, first.forwarder)
    )

    assert counted == {"equivocation": 1}
    assert done == []


def test_a_peer_without_places_refuses_what_reaches_it() -> None:
    network = Network(30)
    to, hop = a_hop(network)
    network.members[to].graph.places.held.clear()

    assert network.hand(to, hop) == ({"no_place": 1}, [])
