"""The two designs most people would write first, on Chord: a hashed node per tag keeps who has it.

`dht-naive` (Listing 3): references only. The publisher fetches the list of every tag of the target and intersects.
`dht` (Listing 4): whole registrations at each tag's node. One list per term is enough; the publisher filters it.

In both the publisher itself notifies every selected consumer, so it needs no help to keep to "at most once", and pays
for it: all intermediate data comes to it and all copies leave from it. Left out: the chained (recursive) alternative,
which the thesis only mentions.

Implicit group messaging, section 7.1, Listings 3 and 4.
"""

from implicast.casting.designs import Design
from implicast.casting.dht.member import Dht
from implicast.casting.keeping import ring_design
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
        "A hashed node per tag lists who has it; the publisher intersects and notifies.",
        3,
    ),
    _design(
        "dht",
        False,
        "A hashed node per tag keeps whole registrations; the publisher filters and notifies.",
        4,
    ),
)
