"""The authority and its certificates: who may be where, for how long, and how often."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from implicast.peer.authority import REVOKED_LOOKED_AT, TRIALS_MAX, Authority, GrantDeclined
from implicast.peer.contract import NUMBER_BITS
from implicast.peer.identity import EARLY_US, Certificate, Revocation, Trust
from implicast.peer.memory import Recent
from implicast.peer.signatures import SCHEMES, scheme
from implicast.space.vector import Vectors

VECTORS = Vectors(2)
HOUR_US = 3_600 * 1_000_000


def an_authority(
    name: str = "stand-in", secret: bytes = b"secret", **settings: object
) -> tuple[Authority, Trust]:
    signing = scheme(name, b"notary")
    authority = Authority(signing, secret, VECTORS, **settings)  # type: ignore[arg-type]
    return authority, Trust(signing, authority.public, VECTORS)


def named(applicant: str) -> bytes:
    return applicant.encode()[:16].ljust(16, b".")


ANN = named("ann")


def issue(
    authority: Authority, applicant: str = "ann", realm: bytes = b"jazz\0", now_us: int = 0
) -> Certificate:
    return authority.issue(named(applicant), realm, 1, bytes(32), now_us)


@pytest.mark.parametrize("name", SCHEMES)
def test_a_certificate_is_believed_while_it_is_valid(name: str) -> None:
    authority, trust = an_authority(name, validity_us=HOUR_US)
    certificate = issue(authority, now_us=HOUR_US)

    assert trust.flaw(certificate, HOUR_US) is None
    assert trust.flaw(certificate, HOUR_US - EARLY_US) is None, "clocks differ"
    assert trust.flaw(certificate, HOUR_US - EARLY_US - 1) == "expired_certificate"
    assert trust.flaw(certificate, 2 * HOUR_US) == "expired_certificate"


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize(
    "change",
    [
        {"key": b"elsewhere"},
        {"vector": 12345},
        {"name": named("bob")},
        {"address": 2},
        {"public": b"x" * 32},
        {"serial": 999},
        {"until_us": 1 << 60},
        {"signature": bytes(64)},
    ],
)
def test_a_certificate_with_anything_changed_is_forged(
    name: str, change: dict[str, object]
) -> None:
    authority, trust = an_authority(name)
    certificate = issue(authority)
    assert trust.flaw(certificate, 0) is None, (
        "the genuine one was seen before: memory must not help the forger"
    )

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

    assert not trust.learn(msgspec.structs.replace(revocation, number=1 << 40, serials=(1, 2, 3)))
    assert trust.flaw(certificate, 0) is None


def test_a_revocation_list_drops_what_has_expired() -> None:
    authority, _ = an_authority(validity_us=HOUR_US)
    authority.revoke(0, issue(authority))

    assert authority.revoke(2 * HOUR_US).serials == ()


def test_places_given_up_and_taken_for_ever_leave_no_trace_once_they_have_expired() -> None:
    authority, _ = an_authority(validity_us=1_000)
    for time_us in range(10 * REVOKED_LOOKED_AT):
        authority.issue(ANN, b"a", 0, b"key", time_us)
        authority.release(ANN, b"a")

    assert len(authority.revoked) <= 2 * REVOKED_LOOKED_AT
    last = 10 * REVOKED_LOOKED_AT
    assert len(authority.revoke(last).serials) == 999, "those that are still valid stay revoked"


def test_an_applicant_holds_at_most_its_limit_of_places() -> None:
    authority, _ = an_authority(places_max=3)
    for realm in (b"a", b"b", b"c"):
        issue(authority, realm=realm)

    with pytest.raises(GrantDeclined, match="holds 3 places"):
        issue(authority, realm=b"d")
    issue(authority, realm=b"a")  # a renewal is not one more
    issue(authority, "bob", realm=b"d")  # another applicant has its own limit
    assert len(authority.held(ANN)) == 3


def test_a_place_given_up_makes_room_and_its_certificate_is_revoked() -> None:
    authority, trust = an_authority(places_max=1)
    old = issue(authority, realm=b"a")
    authority.release(ANN, b"a")

    issue(authority, realm=b"b")
    trust.learn(authority.revoke(0))

    assert trust.flaw(old, 0) == "revoked_certificate"


def test_an_applicant_cannot_try_realms_without_end() -> None:
    authority, _ = an_authority(places_max=1)
    for each in range(TRIALS_MAX):
        issue(authority, realm=b"%d" % each)
        authority.release(ANN, b"%d" % each)

    with pytest.raises(GrantDeclined, match="has tried"):
        issue(authority, realm=b"one more")


def test_all_certificates_of_a_place_are_revoked_when_it_is_given_up() -> None:
    authority, trust = an_authority()
    older, newer = issue(authority), issue(authority, now_us=1)
    authority.release(ANN, b"jazz\0")

    trust.learn(authority.revocation(1))

    assert [trust.flaw(each, 1) for each in (older, newer)] == ["revoked_certificate"] * 2


@pytest.mark.parametrize("name", SCHEMES)
def test_only_who_was_enrolled_is_admitted_and_with_its_own_key_alone(name: str) -> None:
    authority, _ = an_authority(name)
    other, _ = an_authority(name, secret=b"another's")
    enrolment = authority.enrol(ANN, b"a" * 32)

    assert authority.admits(enrolment)
    assert not authority.admits(msgspec.structs.replace(enrolment, public=b"b" * 32))
    assert not authority.admits(msgspec.structs.replace(enrolment, name=named("eve")))
    assert not authority.admits(other.enrol(ANN, b"a" * 32))


# --- the authority falls and rises


def test_an_authority_that_comes_back_with_its_disk_goes_on_where_it_was() -> None:
    first, _ = an_authority(incarnation=5, places_max=2)
    old, revoked = issue(first, realm=b"a"), issue(first, realm=b"b")
    first.release(ANN, b"b")
    listed = first.revocation(0)

    again, trust = an_authority(incarnation=6, places_max=2, state=first.state())
    new = issue(again, realm=b"c")

    assert new.serial > max(old.serial, revoked.serial, listed.number)
    assert again.revocation(0).number > listed.number
    assert trust.learn(again.revocation(0))
    assert (trust.flaw(old, 0), trust.flaw(revoked, 0)) == (None, "revoked_certificate")
    with pytest.raises(GrantDeclined, match="holds 2 places"):
        issue(again, realm=b"d")


def test_an_authority_with_an_old_copy_of_its_disk_counts_on_from_what_it_is_shown() -> None:
    first, _ = an_authority(incarnation=5 << 16)
    copy = first.state()
    shown = [issue(first) for _ in range(3)][-1]
    listed = first.revoke(0, shown)

    again, _ = an_authority(incarnation=5 << 16, state=copy)
    again.count_on_from(msgspec.structs.replace(shown, serial=1 << 50), 0)
    assert issue(again).serial <= shown.serial, "a forged certificate proves nothing"
    again.count_on_from(shown, 0)
    assert issue(again).serial > shown.serial
    again.count_on_from(listed, 0)
    later = again.revocation(0)

    assert isinstance(later, Revocation)
    assert later.number > listed.number
    assert shown.serial in later.serials


def test_the_first_number_of_a_life_is_above_all_of_the_life_before() -> None:
    first, _ = an_authority(incarnation=7)
    again, _ = an_authority(incarnation=8)

    assert issue(first).serial >> NUMBER_BITS == 7
    assert issue(again).serial >> NUMBER_BITS == 8


def test_asking_again_gives_the_same_place() -> None:
    authority, _ = an_authority()

    first, again = issue(authority, now_us=0), issue(authority, now_us=99)

    assert (first.key, first.vector) == (again.key, again.vector)
    assert first.serial < again.serial


@given(st.binary(min_size=16, max_size=16), st.binary(max_size=20))
def test_a_place_lies_in_its_realm_and_depends_on_the_authoritys_secret(
    applicant: bytes, realm: bytes
) -> None:
    one, _ = an_authority(secret=b"one")
    other, _ = an_authority(secret=b"other")

    key, vector = one.place(applicant, realm)

    assert key.startswith(realm)
    assert len(key) == len(realm) + 8
    assert (key, vector) != other.place(applicant, realm)


def test_memory_of_checked_certificates_is_bounded() -> None:
    signing = scheme("stand-in", b"notary")
    authority = Authority(signing, b"secret", VECTORS)
    trust = Trust(signing, authority.public, VECTORS, Recent(10))

    for each in range(100):
        assert trust.flaw(issue(authority, f"peer {each}"), 0) is None

    assert len(trust.checked) == 10


def test_what_is_held_of_a_departed_name_is_given_up_with_its_last_certificate() -> None:
    authority, _ = an_authority(validity_us=HOUR_US)
    for applicant in ("ann", "bob"):
        issue(authority, applicant)
    authority.release(ANN, b"jazz\0")
    issue(authority, "bob", now_us=HOUR_US // 2)

    assert authority.forget_departed(HOUR_US - 1) == [], "a void certificate has not expired"
    assert authority.forget_departed(HOUR_US) == [ANN]
    assert [each.since_us for each in authority.held(named("bob"))] == [HOUR_US // 2]
    records = {each.name: each for each in authority.state().holders}
    assert (records[ANN].places, records[ANN].given_up) == ((), ())
    assert records[ANN].tried == (b"jazz\0",), "it cannot try as many realms again"
