"""The two baseline designs of the thesis on Chord: the node that a tag hashes to lists the members
with that tag.

`dht-naive` (Listing 3): entries are references only. The publisher fetches the list of every tag of
the target and intersects them. `dht` (Listing 4): entries are whole registrations. The publisher
fetches one list per term and filters it.

In both, the publisher itself notifies every selected consumer. So it needs no duplicate detection
on the way to deliver at most once, but all intermediate data arrives at it and all notifications
leave from it. Left out: the chained (recursive) variant, which the thesis only mentions.

Implicit group messaging, section 7.1, Listings 3 and 4.
"""

from implicast.casting.designs import Design
from implicast.casting.dht.member import Dht
from implicast.casting.replicated_lists import ring_design
from implicast.peer.site import Site


def _design(name: str, naive: bool, summary: str, listing: int) -> Design:
    def member(site: Site) -> Dht:
        return Dht(site, naive)

    return ring_design(
        name, summary, f"Implicit group messaging, section 7.1, Listing {listing}", member
    )


DESIGNS = (
    _design(
        "dht-naive",
        True,
        "The node of a hashed tag lists its members; the publisher intersects and notifies.",
        3,
    ),
    _design(
        "dht",
        False,
        "The node of a hashed tag holds whole registrations; the publisher filters and notifies.",
        4,
    ),
)
