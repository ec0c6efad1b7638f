"""Places in the realm of what is protected: the office gives them to those alone whom the authority allowed it.

Red where the office asks for no rights (`KeyedSigning.may`); the last one where a member asks for all it had
(`PlacementAgent._entitled`).
"""

import msgspec
import pytest
from bft_network import NOW_US, Network

from implicast.casting.bft.keys import HOME, realms, tag_realm, value_realm
from implicast.casting.bft.placement import Apply, Denied, Granted, LeaseRenewalDue
from implicast.language.target import Description, Value
from implicast.peer.events import Refused
from implicast.peer.trust_policy import Right

DOCTOR = Description(("jazz",), (Value("role", "doctor"),))
NURSE = Description(("jazz", "staff:nurse"))
ANN, BEA, EVE, OFFICE = 0, 1, 2, 20
PLACE = value_realm(Value("role", "doctor"))


def a_network(**parameters: object) -> Network:
    """Ann may say that she is a doctor, Bea that she is a nurse; the others have no rights."""
    said = [DOCTOR, NURSE, *[Description(("jazz",))] * 18]
    return Network(20, said=said, signed=True, protected="role,staff:*", **parameters)


def rights(network: Network, member: int, said: Description) -> tuple[Right, ...]:
    return network.members[member].placement.signing.rights_to(said)


def applied(
    network: Network, member: int, wanted: tuple[bytes, ...], shown: tuple[Right, ...]
) -> object:
    """What the office answers to an application of a member that shows these rights."""
    keys = network.members[member].keys
    bare = Apply(5, 1 << 59, keys.enrolment, wanted, (), None, 0, b"", shown)
    signature = keys.signer.sign(bare.body(member))
    network.office.receive(member, msgspec.structs.replace(bare, signature=signature))
    ((_, answer),) = network.sent(OFFICE)
    return answer


def test_who_was_allowed_gets_the_place() -> None:
    network = a_network()
    assert isinstance(applied(network, ANN, (PLACE,), rights(network, ANN, DOCTOR)), Granted)

    network = a_network()
    assert isinstance(
        applied(network, BEA, (tag_realm("staff:nurse"),), rights(network, BEA, NURSE)), Granted
    )


@pytest.mark.parametrize(
    "wanted", [PLACE, tag_realm("staff:nurse"), tag_realm("staff:"), value_realm(Value("role", 7))]
)
def test_who_was_not_is_denied_and_told_why(wanted: bytes) -> None:
    network = a_network()

    denied = applied(network, EVE, (wanted,), ())

    assert isinstance(denied, Denied)
    assert "protected" in denied.reason
    assert network.office.refusals == {"not_allowed": 1}


def test_what_is_not_protected_needs_no_right() -> None:
    wanted = (tag_realm("staff"), value_realm(Value("roles", "doctor")))

    assert isinstance(applied(a_network(), EVE, wanted, ()), Granted)


def test_a_right_is_of_one_name_and_of_one_value() -> None:
    network = a_network()
    stolen = rights(network, ANN, DOCTOR)
    other = (msgspec.structs.replace(stolen[0], value="surgeon"),)

    assert stolen
    assert isinstance(applied(network, EVE, (PLACE,), stolen), Denied)
    assert isinstance(
        applied(network, ANN, (value_realm(Value("role", "surgeon")),), other), Denied
    )
    assert isinstance(
        applied(network, ANN, (value_realm(Value("role", "surgeon")),), stolen), Denied
    )


def test_a_right_that_has_ended_counts_no_more() -> None:
    network = a_network()
    shown = rights(network, ANN, DOCTOR)
    network.ledgers[OFFICE].now_us = 1 << 62

    assert isinstance(applied(network, ANN, (PLACE,), shown), Denied)


def test_a_member_that_says_what_it_may_not_is_refused() -> None:
    network = a_network()
    eve = network.members[EVE]

    eve.register(DOCTOR)
    (refused,) = network.settle(EVE)

    assert isinstance(refused, Refused)
    assert (refused.verb, "protected" in refused.reason) == ("register", True)
    assert PLACE not in {each.realm for each in eve.graph.certificates()}


def test_a_place_whose_right_has_ended_is_not_renewed_and_the_others_are() -> None:
    """Denied as a whole, the member would lose its home when its certificates expire."""
    network = a_network(validity_s=60.0)
    ann = network.members[ANN]
    signing = ann.placement.signing
    assert set(realms(DOCTOR)) == {each.realm for each in ann.graph.certificates()}

    signing.entitle(signing._trust_policy, signing._member, ())
    network.ledgers[ANN].now_us = NOW_US + 50_000_000
    ann.wake(LeaseRenewalDue())

    ((_, application),) = network.sent(ANN)
    assert HOME in application.wanted
    assert PLACE not in application.wanted
