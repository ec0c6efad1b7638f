"""Who falls and never comes back is forgotten by those who kept its entries, when its lease is over; nobody else is."""

import pytest
from returning import Returning

LEASES = {
    "centralised": {"lease_s": 30.0},
    "broker": {"check_s": 5.0},
    "dht": {"lease_s": 30.0},
    "chord-pubsub": {"lease_s": 30.0},
    "spice": {"lease_s": 30.0},
    "spice-unloaded": {"lease_s": 30.0},
}
"""Where entries are kept for members that may be dead, and what makes the lease half a minute."""
LONGEST_S = 4 * 30
"""An heir that takes over counts leases anew, and sweeps are a part of a lease apart."""


@pytest.mark.parametrize("name", LEASES)
def test_what_the_dead_had_laid_lapses_with_its_lease(name):
    scene = Returning(name, **LEASES[name])
    scene.go(10)
    scene.fall(3)
    scene.cast(5)
    scene.go(80)
    (early,) = scene.settled.values()
    doubtful = name == "broker"  # the silent client may have registered at another broker
    assert (early.notified, early.unreachable) == (11, int(not doubtful)), "it does not answer"
    assert early.uncertain or not doubtful

    scene.go(LONGEST_S)
    scene.cast(5)
    scene.go(80)
    late = list(scene.settled.values())[-1]
    assert (late.notified, late.unreachable, late.declined) == (11, 0, 0), (
        "the living have renewed theirs"
    )
    assert not scene.wrong()
