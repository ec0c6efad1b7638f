"""The Byzantine-tolerant design as a whole: contract, attributes, joining, choices, places, limits."""

from collections import Counter
from itertools import combinations
from random import Random

import msgspec
import pytest
from bft_network import EVERYONE, NOW_US, Network, tagged

from implicast.casting.bft.authority_peer import AuthorityPeer
from implicast.casting.bft.keys import HOME, tag_realm
from implicast.casting.bft.member import Bft
from implicast.casting.bft.multicast import KeyRange
from implicast.casting.bft.multicasts import NO_TARGET
from implicast.casting.bft.placement import (
    JOIN,
    RELEASE_DELAY_US,
    Apply,
    Denied,
    Granted,
    ReleaseDue,
)
from implicast.casting.bft.validator import CastHop, Source
from implicast.language.target import Description, Predicate, Target, Term, Value
from implicast.overlay.skip_graph.place import Place
from implicast.peer.authority import Authority
from implicast.peer.contract import CastId
from implicast.peer.events import Estimated, Notice, Registered, Withdrawn
from implicast.peer.expiry import with_expiry
from implicast.peer.identity import Certificate, Enrolment, Revocation
from implicast.peer.name import name_of, network_of
from implicast.peer.wire import size
from implicast.space.digest import stream
from implicast.trials.bft import Overlay, Spot, spread
from implicast.world.populations.assembled_graph import AssembledGraph
from implicast.world.scenario import Scenario
from implicast.world.simulate import SimulationOutcome, simulate


def run(**options: object) -> SimulationOutcome:
    return simulate(
        Scenario("bft", **{"peers": 64, "casts": 24, "seed": 5, "strict": True, **options})
    )  # type: ignore[arg-type]


def publish_revoked(office: AuthorityPeer, *certificates: Certificate) -> None:
    """Tell every peer present which certificates count no more."""
    office.authority.revoke(office.host.now_us, *certificates)
    office.publish(office.holders)


@pytest.mark.parametrize("k", [2, 3, 6])
@pytest.mark.parametrize("reach", ["through", "literal"])
def test_the_contract_is_kept_for_every_redundancy_and_reading(k: int, reach: str) -> None:
    outcome = run(parameters={"k": k, "reach": reach, "signatures": "stand-in"})

    assert outcome.contract.clean
    assert outcome.contract.expected > 0
    assert outcome.objections == []


def test_other_bases_of_digits_change_the_rings_and_not_the_outcome() -> None:
    one, other = (run(parameters={"alpha": alpha, "signatures": "stand-in"}) for alpha in (2, 4))

    assert one.contract == other.contract
    assert one.contract.clean


def test_real_and_stand_in_signatures_differ_in_nothing_that_is_measured() -> None:
    real, stand_in = (
        run(peers=32, casts=16, parameters={"signatures": name}) for name in ("ed25519", "stand-in")
    )

    assert real.contract == stand_in.contract
    assert real.messages == stand_in.messages
    assert real.bytes == stand_in.bytes


@pytest.mark.long
def test_the_contract_is_kept_by_1024_peers_and_256_casts_with_real_signatures() -> None:
    outcome = run(peers=1_024, casts=256, strict=False)

    assert outcome.contract.clean
    assert outcome.contract.expected > 4_000


def test_a_sparse_handle_costs_fewer_messages_than_the_first() -> None:
    first, sparse = (
        run(peers=128, strict=False, parameters={"choose": choose, "signatures": "stand-in"})
        for choose in ("first", "sparse")
    )

    assert first.contract == sparse.contract
    assert sparse.messages["cast"] < first.messages["cast"]


def test_places_that_join_by_messages_end_up_where_assembled_ones_are() -> None:
    few = {"peers": 20, "casts": 24, "workload_parameters": {"tags": 12, "tags_per_peer": 2}}
    quick = {"signatures": "stand-in", "k": 3}
    joined = run(start="joined", parameters=quick, **few)
    detached = run(parameters={"placing": "joined", **quick}, **few)
    assembled = run(parameters=quick, **few)

    for outcome in (joined, detached, assembled):
        assert outcome.contract.clean
        assert outcome.objections == []
    assert joined.contract.expected == detached.contract.expected == assembled.contract.expected > 0
    assert "register" in joined.messages
    assert "register" not in assembled.messages


def test_attribute_casts_reach_exactly_those_within_the_ranges() -> None:
    rng = Random(3)
    people = [
        Description(
            ("gpu",) * has, (Value("age", rng.randint(-50, 50)), Value("city", rng.choice("abc")))
        )
        for has in [0, 1] * 40
    ]
    targets = [
        Target((Term(where=(Predicate("age", low, low + rng.randint(0, 40)),)),))
        for low in range(-60, 60, 10)
    ] + [
        Target(
            (
                Term(where=(Predicate("age", None, -20),)),
                Term(has=("gpu",), where=(Predicate("city", "a", "a"),)),
            )
        ),
        Target((Term(lacks=("gpu",), where=(Predicate("age", 0, None),)),)),
        Target((Term(where=(Predicate("age", None, None),)),)),
    ]
    network = Network(len(people), said=people)

    told = [network.carry(network.cast(0, target)) for target in targets]

    wanted = [{at for at, each in enumerate(people) if target.selects(each)} for target in targets]
    assert sum(map(len, wanted)) > 300
    for got, selected in zip(told, wanted, strict=True):
        assert set(got) | ({0} & selected) == selected
        assert set(got.values()) <= {1}


def test_a_target_whose_terms_share_a_peer_notifies_it_once() -> None:
    network = Network(30)
    both = Target((Term(has=("jazz",)), Term(has=("opera",))))

    sent = network.cast(1, both)
    notified = network.carry(list(sent))

    assert len({hop.source.name for _, hop in sent}) == 2, "one multicast per handle"
    assert set(notified) | {1} == set(range(30))
    assert set(notified.values()) == {1}


def test_two_terms_with_one_handle_are_one_multicast() -> None:
    network = Network(30)

    sent = network.cast(
        0, Target((Term(has=("jazz", "opera")), Term(has=("jazz",), lacks=("opera",))))
    )

    assert len({hop.source.name for _, hop in sent}) == 1


def test_a_cast_to_everyone_goes_to_the_homes() -> None:
    network = Network(40, plain=True)

    notified = network.carry(list(network.cast(0, EVERYONE)))

    assert set(notified) >= set(range(1, 40))


@pytest.mark.parametrize("k", [2, 4])
def test_real_peers_send_what_the_bare_trial_sends(k: int) -> None:
    """The figures of the paper are taken from the trial: it must be the same algorithm."""
    network = Network(80, plain=True, k=k)
    overlay = Overlay(80, k, seed=1)
    overlay.spots = [
        Spot(network.place(each).key, network.place(each).vector, each) for each in range(80)
    ]
    overlay.graph = AssembledGraph(k, overlay.graph.vectors, overlay.spots)
    liars = frozenset(range(3, 80, 7))
    for silent in (frozenset[int](), liars):
        sent = network.cast(0, EVERYONE)
        key_range = sent[0][1].source.key_range

        notified = network.carry(list(sent), silent)
        outcome = spread(
            overlay, overlay.spots[0], key_range, [each in silent for each in range(80)]
        )

        assert network.carried == outcome.messages
        assert set(notified) | {0} == {
            each for each, hops in enumerate(outcome.hops) if hops is not None
        }


def test_a_new_description_takes_its_places_before_the_old_ones_are_left() -> None:
    network = Network(20)
    member, ledger = network.members[1], network.ledgers[1]

    member.register(Description(("samba",)))

    version = member.version
    assert ("after", RELEASE_DELAY_US, ReleaseDue(version)) in ledger.entries
    assert Registered(version) in network.settle(1)
    held = [place.key for place in member.graph.certificates()]
    assert any(key.startswith(tag_realm("jazz")) for key in held), (
        "casts on their way still find it here"
    )
    assert any(key.startswith(tag_realm("samba")) for key in held)

    member.wake(ReleaseDue(version))

    assert [key[:-8] for key in sorted(member.graph.places.held)] == [HOME, tag_realm("samba")]


def test_a_withdrawn_peer_keeps_its_home_and_hears_nothing() -> None:
    network = Network(20)
    member = network.members[4]
    member.withdraw()
    assert ("deliver", None, Withdrawn(member.version)) in network.ledgers[4].take()
    member.wake(ReleaseDue(member.version))
    network.take()

    notified = network.carry(list(network.cast(1, tagged("jazz"))))

    assert 4 not in notified
    assert [place.key[:1] for place in network.members[4].graph.certificates()] == [HOME]


def test_a_range_of_keys_reaches_every_peer_with_a_place_in_it_and_nobody_else() -> None:
    """The paper's verb [a, b) on real peers: inside, across the end of the circle, and the full circle."""
    network, chance = Network(60), stream(9, "key ranges")
    keys = sorted(each.key for member in network.members for each in member.graph.certificates())
    assert len(keys) > 120
    ends = [chance.sample(keys, 2) for _ in range(14)] + [
        [keys[0], keys[0]],
        [keys[-2], keys[1]],
        [keys[-1], b"\x00"],
    ]
    assert sum(low > high for low, high in ends) > 4, "some go across the end"

    for low, high in ends:
        publisher = chance.randrange(60)
        network.members[publisher].cast_range(low, high, b"hello")
        noted = network.ledgers[publisher].take()
        notified = Counter(
            publisher for verb, _, what in noted if verb == "deliver" and isinstance(what, Notice)
        )
        notified += network.carry([(to, what) for verb, to, what in noted if verb == "send"])  # type: ignore[misc]
        key_range = KeyRange(low, high)
        reached = [
            address
            for address, member in enumerate(network.members)
            if any(key_range.holds(each.key) for each in member.graph.certificates())
        ]
        assert notified == Counter(reached), (low, high)


def test_state_held_counts_every_contact_once() -> None:
    network = Network(60)
    contacts = network.members[0].holdings()
    own = {each.key for each in network.members[0].graph.certificates()}

    assert len(own) == 3
    assert contacts
    assert len({each.key for each in contacts}) == len(contacts)
    assert not own & {each.key for each in contacts}


@pytest.mark.parametrize("assurance", ["none", "receipts"])
@pytest.mark.parametrize("n", [1, 2, 12, 60])
def test_what_a_member_at_rest_holds_is_known_without_making_it(n: int, assurance: str) -> None:
    network = Network(n, assurance=assurance)
    for member in network.members:
        assert member.stored_bytes() == size(member.holdings())

    member = network.members[-1]
    member.graph.places.held[member.graph.certificates()[0].key].insert(network.place(0))
    assert member.stored_bytes() is None, "not all of its places are at rest any more"


# --- the authority's office


def an_application(
    network: Network,
    address: int,
    wanted: tuple[bytes, ...],
    given_up: tuple[bytes, ...] = (),
    stamp: int = 1 << 59,
) -> Apply:
    return signed(network, address, address, wanted, given_up, stamp)


def signed(
    network: Network,
    address: int,
    at: int,
    wanted: tuple[bytes, ...],
    given_up: tuple[bytes, ...] = (),
    stamp: int = 1 << 59,
) -> Apply:
    """An application of a member, as if it were at some address."""
    keys = network.members[address].keys
    bare = Apply(5, stamp, keys.enrolment, wanted, given_up, None, 0, b"")
    return msgspec.structs.replace(bare, signature=keys.signer.sign(bare.body(at)))


def test_the_office_grants_places_and_names_introducers() -> None:
    network = Network(20)

    network.office.receive(3, an_application(network, 3, (tag_realm("samba"),)))

    ((to, granted),) = network.sent(20)
    assert to == 3
    assert isinstance(granted, Granted)
    assert [each.key[:-8] for each in granted.certificates] == [tag_realm("samba")]
    assert len(set(granted.introducers)) == 3
    assert 3 not in granted.introducers


def test_the_office_declines_beyond_the_limit_and_a_place_given_up_makes_room() -> None:
    network = Network(20, places_max=3)
    realms = tuple(tag_realm(f"tag {each}") for each in range(4))

    network.office.receive(1, an_application(network, 1, realms))
    ((_, denied),) = network.sent(20)
    assert isinstance(denied, Denied)
    assert "the limit for an applicant" in denied.reason

    network.office.receive(
        1, an_application(network, 1, (tag_realm("samba"),), (tag_realm("jazz"), realms[0]))
    )
    ((_, granted),) = network.sent(20)
    assert isinstance(granted, Granted)


def test_nobody_applies_in_anothers_name_or_from_anothers_address() -> None:
    network = Network(20)
    wanted = (tag_realm("samba"),)
    eve, ann = network.members[2].keys, network.members[1].keys
    stolen = Apply(5, 1, ann.enrolment, wanted, (), None, 0, b"")
    own = Enrolment(ann.enrolment.name, eve.signer.public, eve.signer.sign(b"enrolment"))
    forged = Apply(5, 1, own, wanted, (), None, 0, b"")

    for each in (stolen, forged):
        network.office.receive(
            2, msgspec.structs.replace(each, signature=eve.signer.sign(each.body(2)))
        )
    network.office.receive(2, signed(network, 2, 9, wanted))
    replies = [message for _, message in network.sent(20)]

    assert all(isinstance(message, Denied) for message in replies)
    assert network.office.refusals == {"forged_application": 2, "not_enrolled": 1}


def test_nobody_chooses_its_place_inside_a_realm() -> None:
    """A realm given as free bytes let a certified liar stand beside its victim and hide it."""
    network = Network(20)
    victim = network.place(7).key
    for realm in (victim[:-1], tag_realm("jazz") + b"x", b"", b"h7", b"x", tag_realm("samba")[:-1]):
        network.office.receive(3, an_application(network, 3, (realm,)))

    assert all(isinstance(message, Denied) for _, message in network.sent(20))
    assert network.office.refusals == {"no_realm": 6}


def test_a_declined_application_leaves_the_applicant_as_it_was() -> None:
    network = Network(20, places_max=4)
    name = network.members[1].name
    before = {each.key for each in network.office.authority.held(name)}

    network.office.receive(
        1, an_application(network, 1, tuple(tag_realm(f"tag {each}") for each in range(9)))
    )

    assert {each.key for each in network.office.authority.held(name)} == before


def test_a_copy_of_an_application_that_comes_late_takes_nothing_away() -> None:
    network = Network(20)
    name, jazz = network.members[1].name, tag_realm("jazz")
    late = an_application(network, 1, (), (jazz,), stamp=5)
    network.office.receive(1, an_application(network, 1, (jazz,), stamp=6))

    network.office.receive(1, late)

    assert jazz in [each.realm for each in network.office.authority.held(name)]


def test_who_comes_to_the_address_of_another_voids_what_that_one_held_there() -> None:
    network = Network(20)
    outcast = network.place(7)
    other = signed(network, 3, 7, (HOME,))

    network.office.receive(7, other)
    published = [(to, each) for to, each in network.sent(20) if isinstance(each, Revocation)]

    assert len(published) == 19
    assert outcast.serial in published[0][1].serials
    for to, revocation in published:
        network.members[to].receive(20, revocation)
    others = [member for member in network.members if member.address != 7]
    known = [
        node
        for each in others
        for place in each.graph.places.held.values()
        for node in place.known.values()
    ]
    assert known
    assert outcast not in known


def test_a_strangers_certificate_is_not_accepted() -> None:
    """Whoever builds an authority of its own from anything that members know has another key."""
    network = Network(20)
    keys = network.members[3].keys
    validator = network.members[0].multicasts.validator
    own = Authority(keys.scheme, keys.authority, validator.vectors)
    certificate = own.issue(
        network.members[3].name, tag_realm("jazz"), 3, keys.signer.public, NOW_US
    )

    assert validator.trust.flaw(certificate, NOW_US) == "forged_certificate"
    secret = network.office.authority._secret
    for member in network.members:
        assert secret not in [getattr(member.keys, each) for each in member.keys.__slots__]


def test_a_newcomer_is_told_what_was_revoked_before_its_time() -> None:
    network = Network(20)
    publish_revoked(network.office, network.place(7))
    assert len(network.sent(20)) == 20

    network.office.receive(3, an_application(network, 3, (tag_realm("samba"),)))

    ((_, granted),) = network.sent(20)
    assert isinstance(granted, Granted)
    assert granted.revocation is not None
    assert network.place(7).serial in granted.revocation.serials


def test_who_leaves_before_its_places_are_granted_gives_them_up() -> None:
    network = Network(20, start="joined")
    member = network.members[3]
    member.join(())
    (application,) = [each for _, each in network.sent(3) if isinstance(each, Apply)]
    assert (application.request, application.wanted) == (JOIN, (HOME,))
    member.leave()
    network.take()

    network.office.receive(3, application)
    for _, reply in network.sent(20):
        member.receive(20, reply)

    assert member.graph.places.held == {}
    assert [each.given_up for _, each in network.sent(3) if isinstance(each, Apply)] == [
        application.wanted
    ]


# --- receipts and estimates


def test_a_receipt_counts_members_and_costs_a_message_for_each_message() -> None:
    none, receipts = (
        run(parameters={"signatures": "stand-in", "assurance": each})
        for each in ("none", "receipts")
    )

    assert receipts.contract.clean, "receipts are compared with what was notified"
    assert receipts.messages["cast"] == 2 * none.messages["cast"]
    assert "upkeep" not in receipts.messages, "nothing changes in this world"


def test_a_late_step_of_the_first_attempt_does_not_make_a_member_count_twice_in_the_second() -> (
    None
):
    network, cast = Network(24, assurance="receipts"), CastId(name_of(network_of(1), 1), 1, 1)

    def attempt(at_us: int) -> Source:
        network.ledgers[1].now_us = at_us
        return network.members[1].multicasts.source(
            cast, NO_TARGET, (), with_expiry(2 * NOW_US, b"hello"), KeyRange(HOME, HOME)
        )

    def step_to(member: Bft, place: Place, source: Source) -> CastHop | None:
        """One that this place of a member takes, and no other."""
        validator, places = member.multicasts.validator, member.graph.places.held.values()
        for forwarder, node in (
            (each, node) for each in network.members for node in each.graph.certificates()
        ):
            level = validator.vectors.common(node.vector, place.certificate.vector)
            hop = forwarder.multicasts.signed_hop(source, level, node)
            if [each for each in places if validator.place_flaw(hop, each.table) is None] == [
                place
            ]:
                return hop
        return None

    attempts = first, second = attempt(NOW_US), attempt(NOW_US + 1)
    ways = [
        (member, [(step_to(member, place, first), step_to(member, place, second)) for place in two])
        for member in network.members[2:]
        for two in combinations(member.graph.places.held.values(), 2)
    ]
    member, (here, there) = next((member, steps) for member, steps in ways if all(map(all, steps)))
    for hop in (*here, *there):
        assert hop is not None
        member.receive(-1, hop)

    entries = [member.multicasts.seen.get(source.name) for source in attempts]
    assert [
        sum(coverage.taken for coverage in each.coverages.values())
        for each in entries
        if each is not None
    ] == [1, 1]


def test_an_estimate_is_about_right_and_says_what_a_cast_would_cost() -> None:
    network = Network(200, k=3)
    member, ledger = network.members[5], network.ledgers[5]

    token = member.estimate(tagged("opera"))

    (estimated,) = [what for verb, _, what in ledger.take() if verb == "deliver"]
    assert isinstance(estimated, Estimated)
    assert estimated.token == token
    assert 25 <= estimated.members <= 400, "a hundred have it"
    assert estimated.messages > 100


# --- the authority falls and rises


def test_an_authority_that_comes_back_knows_what_it_gave() -> None:
    network = Network(20, places_max=3)
    kept = network.office.durable_state()
    again = AuthorityPeer(network.plan.site(20, "authority", kept.incarnation, 0, kept))
    network.sent(20)

    again.receive(1, an_application(network, 1, (tag_realm("samba"),)))
    ((_, granted),) = network.sent(20)
    assert isinstance(granted, Granted)
    newest = max(
        place.certificate.serial
        for each in network.members
        for place in each.graph.places.held.values()
    )
    assert granted.certificates[0].serial > newest
    assert granted.introducers
    again.receive(1, an_application(network, 1, (tag_realm("tango"),)))
    ((_, denied),) = network.sent(20)
    assert isinstance(denied, Denied)


def test_an_authority_with_an_old_copy_is_shown_what_it_has_forgotten() -> None:
    network = Network(20)
    copy = network.office.durable_state()
    publish_revoked(network.office, network.place(7))
    published = next(each for _, each in network.sent(20) if isinstance(each, Revocation))
    member = network.members[3]
    member.receive(20, published)
    network.take()
    again = AuthorityPeer(network.plan.site(20, "authority", 0, 0, copy, starts=1))
    publish_revoked(again, network.place(9))
    older = next(each for _, each in network.sent(20) if isinstance(each, Revocation))
    assert older.number != published.number
    member.receive(20, older)
    for _, shown in network.sent(3):
        again.receive(3, shown)

    later = again.authority.revocation(NOW_US)
    assert later.number > published.number
    assert {network.place(7).serial, network.place(9).serial} <= set(later.serials)


def test_of_two_terms_that_select_a_member_the_lesser_ones_arc_notifies_and_no_other() -> None:
    """Whoever delays the lesser arc cannot have the other one counted in its place."""
    network = Network()
    either = Target((Term(has=("jazz",)), Term(has=("opera",))))
    hops = network.cast(1, either)
    of_opera = [(to, hop) for to, hop in hops if hop.source.low.startswith(tag_realm("opera"))]
    of_jazz = [(to, hop) for to, hop in hops if (to, hop) not in of_opera]

    assert of_opera
    assert of_jazz
    assert not network.carry(of_opera), "all of opera also like jazz, which is the lesser term"
    assert network.carry(of_jazz) == dict.fromkeys(range(40), 1)
