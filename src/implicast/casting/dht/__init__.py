"""The two baseline designs of the thesis on Chord: the node that a tag hashes to lists the members
with that tag. Implicit group messaging, section 7.1, Listings 3 and 4.

State. `dht-naive` (Listing 3): the list of a tag has a reference to each member with it. `dht`
(Listing 4): whole registrations. Lists are stored, copied and repaired by `replicated_lists/`.

| event | `dht-naive` | `dht` |
|---|---|---|
| `register` | put a reference into the list of each tag | put all tags into the list of each tag |
| `cast` | fetch the list of every tag of the target, intersect | fetch one list per term, filter |
| lists fetched | notify every selected member (`Notify`) | the same |
| `Notify` | the member compares with its description, delivers, acknowledges | the same |
| `withdraw`, `leave` | remove the entries | the same |

Invariants. The publisher itself notifies every selected member, once; so duplicates need not be
detected on the way. A member is found if its entries are confirmed, and for 5 s after a change both
its former and its new entries are listed, so that a cast that reads several lists meanwhile finds
it in one of them.

Differences. The chained (recursive) variant, which the thesis only mentions, is left out. An entry
of the naive design carries one byte of its description's version, so that a publisher does not
combine lists of two descriptions. All intermediate data arrives at the publisher and all
notifications leave from it, as in the thesis.
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
