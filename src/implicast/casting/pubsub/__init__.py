"""Content-based publish/subscribe on Chord: subscriptions wait in the lists of the values they admit.

`chord-pubsub` hashes values, so a range of r values costs r look-ups; `opchord-pubsub` keeps their order on the
ring, so it costs one look-up and r steps. Matching fetches one list per attribute of the event, in both. The reverse
direction, peers with values and casts with predicates, runs on the same lists (`profiles.py`).

Read in this order: `subid.py`, `placing.py`, `subscribing.py`, `publishing.py`, `profiles.py`; for a world with crashes
(`alive=true`) `alive.py`.
"""

from implicast.casting.designs import Design, Plan
from implicast.casting.keeping import (
    ALIVE_KINDS,
    RING_ALIVE,
    RING_PATIENCE,
    RING_QUICK,
    RING_SURVIVES,
    stand_up_alive,
)
from implicast.casting.pubsub.alive import LivingPubSub
from implicast.casting.pubsub.laying import Arrangement
from implicast.casting.pubsub.messages import PUBSUB_KINDS
from implicast.casting.pubsub.placing import Hashing
from implicast.casting.pubsub.profiles import Profiles
from implicast.casting.pubsub.subid import SubIdLayout
from implicast.casting.ring_member import RING_KINDS, RING_PARAMETERS, ring_trouble, stand_up
from implicast.language.attributes import Schema
from implicast.language.parameters import Parameter
from implicast.peer.contract import Peer
from implicast.peer.member import Member

__all__ = ["DESIGNS", "PubSub"]

STOCKS = (
    "exchange: text; symbol: text; price: 0.00..2000.00 by 0.01; high: 0.00..2000.00 by 0.01;"
    " low: 0.00..2000.00 by 0.01; volume: 0..1000000000 by 1000"
)
"""The paper's example of a schema, with room for today's prices."""

PUBSUB_PARAMETERS = (
    *RING_PARAMETERS,
    *RING_ALIVE,
    Parameter("schema", STOCKS, "the attributes, as `name: minimum..maximum by precision` or `name: text`, with ; "
              "between"),
    Parameter("walk", "auto", "how a range is gone through where order is kept: by right neighbours, by fingers, or by "
              "whichever suits the domain", choices=("auto", "neighbours", "fingers")),
    Parameter("values_max", 20_000, "grid values that one subscription or cast may admit in all", 1, 10_000_000),
)  # fmt: skip


class PubSub(Profiles):
    """A member that subscribes, publishes, describes itself and casts."""

    __slots__ = ()

    def __init__(self, plan: Plan, address: int, arrangement: Arrangement) -> None:
        super().__init__(plan, address, arrangement)
        self.start_subscribing()
        self.start_publishing()
        self.start_describing()

    def leave(self) -> None:
        """Take the own subscriptions and values back, hand over what is kept for others, go."""
        for number in list(self.subscriptions):
            self.unsubscribe(number)
        super().leave()


def arrangement(plan: Plan, ordered: bool) -> Arrangement:
    """What the peers of one population have in common."""
    schema = Schema.read(str(plan.parameters["schema"]))
    walk, values_max = str(plan.parameters["walk"]), int(plan.parameters["values_max"])
    return Arrangement(schema, Hashing(schema, ordered), SubIdLayout(), walk, values_max)


def _design(name: str, ordered: bool, summary: str, section: str) -> Design:
    def newcomer(plan: Plan, address: int) -> Member:
        kind = LivingPubSub if plan.parameters["alive"] else PubSub
        return kind(plan, address, arrangement(plan, ordered))

    def assemble(plan: Plan) -> list[Peer]:
        common = arrangement(plan, ordered)
        if plan.parameters["alive"]:
            return stand_up_alive([LivingPubSub(plan, address, common) for address in range(plan.peers)])
        return stand_up([PubSub(plan, address, common) for address in range(plan.peers)])

    return Design(
        name=name,
        summary=summary,
        paper=f"Content-based publish/subscribe over Chord, section {section}",
        assemble=assemble,
        newcomer=newcomer,
        kinds=(*RING_KINDS, *ALIVE_KINDS, *PUBSUB_KINDS),
        parameters=PUBSUB_PARAMETERS,
        languages=("tags", "attributes", "subscriptions"),
        objections=ring_trouble,
        survives=RING_SURVIVES,
        alive={"alive": True},
        quick=RING_QUICK,
        patience=RING_PATIENCE,
    )


DESIGNS = (
    _design("chord-pubsub", False, "Each admitted value of a subscription is hashed to a node that lists it.", "3"),
    _design("opchord-pubsub", True, "The same with a hash that keeps order: a range lies on consecutive nodes.", "4"),
)
