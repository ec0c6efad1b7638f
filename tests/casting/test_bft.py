"""The Byzantine-tolerant design as a whole: contract, attributes, joining, choices, places, limits."""

from random import Random

import pytest
from bft_network import EVERYONE, Network, tagged

from implicast.casting.bft.keys import HOME, tag_realm
from implicast.casting.bft.messages import Again, Apply, Denied, Granted
from implicast.casting.bft.settler import GRACE_US, RETRY_US, Vacate
from implicast.language.target import Description, Predicate, Target, Term, Value
from implicast.overlay.skip_graph.standing import Standing
from implicast.peer.events import Registered, Withdrawn
from implicast.trials.attacks import Assault
from implicast.trials.bft import Overlay, Spot, spread
from implicast.world.scenario import Scenario
from implicast.world.simulate import Outcome, simulate


def run(**options: object) -> Outcome:
    return simulate(Scenario("bft", **{"peers": 64, "casts": 24, "seed": 5, "strict": True, **options}))  # type: ignore[arg-type]


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
    real, stand_in = (run(peers=32, casts=16, parameters={"signatures": name}) for name in ("ed25519", "stand-in"))

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
        Description(("gpu",) * has, (Value("age", rng.randint(-50, 50)), Value("city", rng.choice("abc"))))
        for has in [0, 1] * 40
    ]
    targets = [
        Target((Term(where=(Predicate("age", low, low + rng.randint(0, 40)),)),)) for low in range(-60, 60, 10)
    ] + [
        Target((Term(where=(Predicate("age", None, -20),)), Term(has=("gpu",), where=(Predicate("city", "a", "a"),)))),
        Target((Term(lacks=("gpu",), where=(Predicate("age", 0, None),)),)),
        Target((Term(where=(Predicate("age", None, None),)),)),
    ]
    assault = Assault("bft", "silent", 0.0, people, targets, parameters={"signatures": "stand-in"})

    assault.run()

    row = assault.row()
    assert row["expected"] == sum(target.selects(each) for target in targets for each in people) > 300
    assert (row["arrival"], row["uninvited"], row["repeated"]) == (1.0, 0, 0)


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

    sent = network.cast(0, Target((Term(has=("jazz", "opera")), Term(has=("jazz",), lacks=("opera",)))))

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
    overlay.spots = [Spot(network.place(each).key, network.place(each).vector, each) for each in range(80)]
    overlay.graph = Standing(k, overlay.graph.vectors, overlay.spots)
    liars = frozenset(range(3, 80, 7))
    for silent in (frozenset[int](), liars):
        sent = network.cast(0, EVERYONE)
        arc = sent[0][1].source.arc

        notified = network.carry(list(sent), silent)
        outcome = spread(overlay, overlay.spots[0], arc, [each in silent for each in range(80)])

        assert network.carried == outcome.messages
        assert set(notified) | {0} == {each for each, hops in enumerate(outcome.hops) if hops is not None}


def test_a_new_description_takes_its_places_before_the_old_ones_are_left() -> None:
    network = Network(20)
    member, ledger = network.members[1], network.ledgers[1]

    member.register(Description(("samba",)))

    assert ("deliver", None, Registered(2)) in ledger.entries
    held = [place.key for place in member.graph.certificates()]
    assert any(key.startswith(tag_realm("jazz")) for key in held), "casts on their way still find it here"
    assert any(key.startswith(tag_realm("samba")) for key in held)
    assert ("after", GRACE_US, Vacate(2)) in ledger.take()

    member.wake(Vacate(2))

    assert [key[:-8] for key in sorted(member.graph.places)] == [HOME, tag_realm("samba")]


def test_a_withdrawn_peer_keeps_its_home_and_hears_nothing() -> None:
    network = Network(20)
    network.members[4].withdraw()
    assert ("deliver", None, Withdrawn(2)) in network.ledgers[4].take()
    network.members[4].wake(Vacate(2))
    network.take()

    notified = network.carry(list(network.cast(1, tagged("jazz"))))

    assert 4 not in notified
    assert [place.key[:1] for place in network.members[4].graph.certificates()] == [HOME]


def test_state_held_counts_every_contact_once() -> None:
    network = Network(60)
    certificates, contacts, description = network.members[0].holdings()

    assert len(certificates) == 3
    assert len({each.key for each in contacts}) == len(contacts)
    assert description == Description(("jazz", "opera"))


# --- the authority's office


def an_application(
    network: Network, address: int, wanted: tuple[bytes, ...], given_up: tuple[bytes, ...] = ()
) -> Apply:
    signer = network.members[address]._signer
    bare = Apply(5, signer.public, wanted, given_up, b"")
    return Apply(5, signer.public, wanted, given_up, signer.sign(bare.body(address)))


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
    assert "all an applicant may" in denied.reason

    network.office.receive(1, an_application(network, 1, (tag_realm("samba"),), (tag_realm("jazz"), realms[0])))
    ((_, granted),) = network.sent(20)
    assert isinstance(granted, Granted)


def test_nobody_applies_in_anothers_name_or_with_a_second_key() -> None:
    network = Network(20)
    wanted = (tag_realm("samba"),)

    network.office.receive(2, an_application(network, 1, wanted))
    network.office.receive(2, msg_with_other_address(network))
    replies = [message for _, message in network.sent(20)]

    assert all(isinstance(message, Denied) for message in replies)
    assert network.office.refusals == {"another_key": 1, "forged_application": 1}


def msg_with_other_address(network: Network) -> Apply:
    """Signed with the right key, but for another address."""
    signer = network.members[2]._signer
    bare = Apply(5, signer.public, (), (), b"")
    return Apply(5, signer.public, (), (), signer.sign(bare.body(9)))


def test_a_declined_application_leaves_the_applicant_as_it_was() -> None:
    network = Network(20, places_max=4)
    before = {each.key for each in network.office.authority.held("1")}

    network.office.receive(1, an_application(network, 1, tuple(tag_realm(f"tag {each}") for each in range(9))))

    assert {each.key for each in network.office.authority.held("1")} == before


def test_a_newcomer_is_told_what_was_revoked_before_its_time() -> None:
    network = Network(20)
    network.office.publish_revoked(network.place(7))
    assert len(network.sent(20)) == 20

    network.office.receive(3, an_application(network, 3, (tag_realm("samba"),)))

    ((_, granted),) = network.sent(20)
    assert isinstance(granted, Granted)
    assert granted.revocation is not None
    assert network.place(7).serial in granted.revocation.serials


def test_who_leaves_before_its_places_are_granted_gives_them_up() -> None:
    network = Network(20, placing="joined")  # its members' applications are on their way
    member = network.members[3]
    member.leave()
    network.ledgers[3].now_us += 2 * RETRY_US
    member.wake(Again())
    (application,) = [each for _, each in network.sent(3) if isinstance(each, Apply) and each.wanted]

    network.office.receive(3, application)
    for _, reply in network.sent(20):
        member.receive(20, reply)

    assert member.graph.places == {}
    assert [each.given_up for _, each in network.sent(3) if isinstance(each, Apply)] == [application.wanted]
