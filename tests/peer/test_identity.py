"""The authority and its certificates: who may be where, for how long, and how often."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from implicast.peer.identity import REVOKED_LOOKED_AT, TRIALS_MAX, Authority, Certificate, Declined, Trust
from implicast.peer.signatures import SCHEMES, scheme
from implicast.space.vector import Vectors

VECTORS = Vectors(2)
HOUR_US = 3_600 * 1_000_000


def an_authority(name: str = "stand-in", secret: bytes = b"secret", **settings: object) -> tuple[Authority, Trust]:
    signing = scheme(name, b"notary")
    authority = Authority(signing, secret, VECTORS, **settings)  # type: ignore[arg-type]
    return authority, Trust(signing, authority.public, VECTORS)


def issue(authority: Authority, applicant: str = "ann", realm: bytes = b"jazz\0", now_us: int = 0) -> Certificate:
    return authority.issue(applicant, realm, 1, bytes(32), now_us)


@pytest.mark.parametrize("name", SCHEMES)
def test_a_certificate_is_believed_while_it_is_valid(name: str) -> None:
    authority, trust = an_authority(name, validity_us=HOUR_US)
    certificate = issue(authority, now_us=10)

    assert trust.flaw(certificate, 10) is None
    assert trust.flaw(certificate, 9) == "expired_certificate"
    assert trust.flaw(certificate, 10 + HOUR_US) == "expired_certificate"


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize(
    "change",
    [
        {"key": b"elsewhere"},
        {"vector": 12345},
        {"address": 2},
        {"public": b"x" * 32},
        {"serial": 999},
        {"until_us": 1 << 60},
        {"signature": bytes(64)},
    ],
)
def test_a_certificate_with_anything_changed_is_forged(name: str, change: dict[str, object]) -> None:
    authority, trust = an_authority(name)
    certificate = issue(authority)
    assert trust.flaw(certificate, 0) is None, "the genuine one was seen before: memory must not help the forger"

    assert trust.flaw(msgspec.structs.replace(certificate, **change), 0) == "forged_certificate"


def test_a_revoked_certificate_counts_no_more_and_an_older_list_does_not_bring_it_back() -> None:
    authority, trust = an_authority()
    first, second = issue(authority, "ann"), issue(authority, "bob")
    empty = authority.revoke(0)
    revoked = authority.revoke(0, first)

    assert trust.learn(revoked)
    assert not trust.learn(empty)

    assert trust.flaw(first, 0) == "revoked_certificate"
    assert trust.flaw(second, 0) is None


def test_nobody_else_can_revoke() -> None:
    authority, trust = an_authority()
    certificate = issue(authority)
    revocation = authority.revoke(0, certificate)

    assert not trust.learn(msgspec.structs.replace(revocation, number=7, serials=(1, 2, 3)))
    assert trust.flaw(certificate, 0) is None


def test_a_revocation_list_drops_what_has_expired() -> None:
    authority, _ = an_authority(validity_us=HOUR_US)
    authority.revoke(0, issue(authority))

    assert authority.revoke(2 * HOUR_US).serials == ()


def test_places_given_up_and_taken_for_ever_leave_no_trace_once_they_have_expired() -> None:
    authority, _ = an_authority(validity_us=1_000)
    for time_us in range(10 * REVOKED_LOOKED_AT):
        authority.issue("ann", b"a", 0, b"key", time_us)
        authority.release("ann", b"a")

    assert len(authority._revoked) <= 2 * REVOKED_LOOKED_AT
    last = 10 * REVOKED_LOOKED_AT
    assert len(authority.revoke(last).serials) == 999, "those that are still valid stay revoked"


def test_an_applicant_holds_at_most_its_limit_of_places() -> None:
    authority, _ = an_authority(places_max=3)
    for realm in (b"a", b"b", b"c"):
        issue(authority, realm=realm)

    with pytest.raises(Declined, match="holds 3 places"):
        issue(authority, realm=b"d")
    issue(authority, realm=b"a")  # a renewal is not one more
    issue(authority, "bob", realm=b"d")  # another applicant has its own limit
    assert len(authority.held("ann")) == 3


def test_a_place_given_up_makes_room_and_its_certificate_is_revoked() -> None:
    authority, trust = an_authority(places_max=1)
    old = issue(authority, realm=b"a")
    authority.release("ann", b"a")

    issue(authority, realm=b"b")
    trust.learn(authority.revoke(0))

    assert trust.flaw(old, 0) == "revoked_certificate"


def test_an_applicant_cannot_try_realms_without_end() -> None:
    authority, _ = an_authority(places_max=1)
    for each in range(TRIALS_MAX):
        issue(authority, realm=b"%d" % each)
        authority.release("ann", b"%d" % each)

    with pytest.raises(Declined, match="has tried"):
        issue(authority, realm=b"one more")


def test_only_those_on_the_roster_are_admitted() -> None:
    authority, _ = an_authority(roster=frozenset({"ann"}))

    issue(authority, "ann")
    with pytest.raises(Declined, match="not on the roster"):
        issue(authority, "eve")


def test_asking_again_gives_the_same_place() -> None:
    authority, _ = an_authority()

    first, again = issue(authority, now_us=0), issue(authority, now_us=99)

    assert (first.key, first.vector) == (again.key, again.vector)
    assert first.serial < again.serial


@given(st.text(max_size=20), st.binary(max_size=20))
def test_a_place_lies_in_its_realm_and_depends_on_the_authoritys_secret(applicant: str, realm: bytes) -> None:
    one, _ = an_authority(secret=b"one")
    other, _ = an_authority(secret=b"other")

    key, vector = one.place(applicant, realm)

    assert key.startswith(realm)
    assert len(key) == len(realm) + 8
    assert (key, vector) != other.place(applicant, realm)


def test_memory_of_checked_certificates_is_bounded() -> None:
    signing = scheme("stand-in", b"notary")
    authority = Authority(signing, b"secret", VECTORS)
    trust = Trust(signing, authority.public, VECTORS, checked_max=10)

    for each in range(100):
        assert trust.flaw(issue(authority, f"peer {each}"), 0) is None

    assert len(trust._checked) == 10
