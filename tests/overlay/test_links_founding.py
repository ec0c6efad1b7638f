"""Which of the nodes that wait for a ring founds it, and when."""

import pytest

from implicast.overlay.links import Links, LinkSettings, Ref
from implicast.overlay.links.introducers import FOUND_US, FOUND_WITHOUT_US, Introducers
from implicast.overlay.links.messages import NotOnRing
from implicast.overlay.links.position import Position
from implicast.peer.ledger import Ledger

ME, LATER, EARLIER = Ref(5, 5), Ref(7, 7), Ref(3, 3)


def founding(known, *waiting):
    """A node that was a member before its restart, and knows these nodes."""
    made = Introducers(Position(5, 5, 4), Ledger(), (ME,))
    made.begin(known)
    for each in waiting:
        made.on_not_on_ring(each.address, NotOnRing(ME, each))
    return made


@pytest.mark.parametrize(
    ("waiting", "known", "after_us", "is_due"),
    [
        pytest.param((LATER,), (7,), FOUND_US, True, id="all that it knows wait, it is the first"),
        pytest.param((LATER,), (7,), FOUND_US - 1, False, id="too early"),
        pytest.param((EARLIER,), (3,), FOUND_US, False, id="another is the first"),
        pytest.param((LATER,), (7, 8), FOUND_US, False, id="one may start later"),
        pytest.param((), (7,), FOUND_WITHOUT_US, False, id="no other is known to wait"),
    ],
)
def test_the_first_of_those_that_wait_founds_a_ring(waiting, known, after_us, is_due):
    made = founding(known, *waiting)
    made.host.now_us += after_us
    for each in waiting:
        made.on_not_on_ring(each.address, NotOnRing(ME, each))

    assert made.is_founding_due() is is_due


def test_a_node_chooses_its_key_off_the_ring_only():
    links = Links(5, Ledger(), 5, LinkSettings())
    links.set_key(9)
    assert links.key == 9
    links.join(())

    with pytest.raises(AssertionError, match="cannot move"):
        links.set_key(11)
