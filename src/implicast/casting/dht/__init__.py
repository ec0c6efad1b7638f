"""The two designs most people would write first, on Chord: a hashed node per tag keeps who has it.

`dht-naive` (Listing 3): references only. The publisher fetches the list of every tag of the target and intersects.
`dht` (Listing 4): whole registrations at each tag's node. One list per term is enough; the publisher filters it.

In both the publisher itself notifies every selected consumer, so it needs no help to keep to "at most once", and pays
for it: all intermediate data comes to it and all copies leave from it. Left out: the chained (recursive) alternative,
which the thesis only mentions.

`kind.py` is the listings' own world; `alive.py` is what it takes where peers crash (`--set alive=true`).

Implicit group messaging, section 7.1, Listings 3 and 4.
"""

from implicast.casting.designs import Design, Plan
from implicast.casting.dht.alive import LivingDht
from implicast.casting.dht.kind import Dht
from implicast.casting.dht.messages import Drop, Fetch, Kept, Listed, Notify, Referred, Store
from implicast.casting.keeping import (
    ALIVE_KINDS,
    RING_ALIVE,
    RING_PATIENCE,
    RING_QUICK,
    RING_SURVIVES,
    stand_up_alive,
)
from implicast.casting.ring_member import RING_KINDS, RING_PARAMETERS, ring_trouble, stand_up
from implicast.peer.contract import Peer
from implicast.peer.member import Member


def _design(name: str, naive: bool, summary: str, listing: int) -> Design:
    def newcomer(plan: Plan, address: int) -> Member:
        return LivingDht(plan, address, naive) if plan.parameters["alive"] else Dht(plan, address, naive)

    def assemble(plan: Plan) -> list[Peer]:
        if plan.parameters["alive"]:
            return stand_up_alive([LivingDht(plan, address, naive) for address in range(plan.peers)])
        return stand_up([Dht(plan, address, naive) for address in range(plan.peers)])

    return Design(
        name=name,
        summary=summary,
        paper=f"Implicit group messaging, section 7.1, Listing {listing}",
        assemble=assemble,
        newcomer=newcomer,
        kinds=(*RING_KINDS, *ALIVE_KINDS, Store, Drop, Kept, Fetch, Listed, Referred, Notify),
        parameters=(*RING_PARAMETERS, *RING_ALIVE),
        objections=ring_trouble,
        survives=RING_SURVIVES,
        alive={"alive": True},
        quick=RING_QUICK,
        patience=RING_PATIENCE,
    )


DESIGNS = (
    _design("dht-naive", True, "A hashed node per tag lists who has it; the publisher intersects and notifies.", 3),
    _design("dht", False, "A hashed node per tag keeps whole registrations; the publisher filters and notifies.", 4),
)
