"""A registry's leases, record by record: what is not renewed runs out, and nothing else does."""

import pytest

from implicast.casting.spice.items import Entry
from implicast.casting.spice.registry import NEVER_US, Registry, VersionCounter
from implicast.language.target import Description
from implicast.peer.contract import Contact

S = 1_000_000
LEASE_US = 600 * S


def entry(number: int, version: int = 1) -> Entry:
    return Entry(
        Contact(number.to_bytes(16, "big"), number), version, number, Description(("jazz",))
    )


@pytest.fixture
def registry() -> Registry:
    return Registry(0, 0, 2, VersionCounter())


def run_out(registry: Registry, now_us: int) -> list[int]:
    return [held.entry.member.address for held in registry.expired(now_us)]


def test_a_record_runs_out_at_the_end_of_its_lease_and_not_before(registry):
    registry.keep(entry(1), 0, LEASE_US)
    registry.keep(entry(2), 0, LEASE_US + 5 * S)

    assert run_out(registry, LEASE_US - 1) == []
    assert run_out(registry, LEASE_US) == [1]
    assert run_out(registry, LEASE_US + 5 * S) == [1, 2], "it is told of until somebody removes it"


def test_a_renewal_begins_the_lease_anew_and_an_older_word_does_not(registry):
    registry.keep(entry(1, version=3), 0, LEASE_US)
    registry.keep(entry(1, version=3), 300 * S, 300 * S + LEASE_US)
    registry.keep(entry(1, version=2), 500 * S, 500 * S + LEASE_US)

    assert run_out(registry, 300 * S + LEASE_US - 1) == []
    assert run_out(registry, 300 * S + LEASE_US) == [1]


def test_a_newer_version_has_a_lease_of_its_own(registry):
    registry.keep(entry(1, version=1), 0, LEASE_US)
    registry.keep(entry(1, version=2), 10 * S, 10 * S + LEASE_US)

    assert run_out(registry, LEASE_US) == []
    assert run_out(registry, 10 * S + LEASE_US) == [1]


def test_without_leases_nothing_runs_out(registry):
    registry.keep(entry(1), 0, NEVER_US)

    assert run_out(registry, NEVER_US - 1) == []


def test_one_that_comes_later_with_a_shorter_lease_is_not_overlooked(registry):
    """A sweep that has nothing to do remembers until when: a record that comes afterwards moves that forward."""
    registry.keep(entry(1), 0, LEASE_US)
    assert run_out(registry, 1) == []
    registry.keep(entry(2), 2, 100 * S)

    assert run_out(registry, 100 * S) == [2]
