"""Content-based publish/subscribe on Chord: subscriptions wait in the lists of the values they admit.

`chord-pubsub` hashes values, so a range of r values costs r look-ups; `opchord-pubsub` keeps their order on the
ring, so it costs one look-up and r steps. Matching fetches one list per attribute of the event, in both. The reverse
direction, peers with values and casts with predicates, runs on the same lists (`profiles.py`).

Read in this order: `subid.py`, `placing.py`, `subscribing.py`, `publishing.py`, `profiles.py`; for a world with crashes
(`alive=true`) `alive.py`.
"""

from collections.abc import Callable

from implicast.casting.designs import Design, Plan
from implicast.casting.pubsub.alive import LivingPubSub
from implicast.casting.pubsub.laying import Arrangement
from implicast.casting.pubsub.messages import PUBSUB_KINDS
from implicast.casting.pubsub.placing import Hashing
from implicast.casting.pubsub.profiles import Profiles
from implicast.casting.pubsub.subid import SubIdLayout
from implicast.casting.ring_member import ring_design
from implicast.language.attributes import Schema
from implicast.language.parameters import Parameter

__all__ = ["DESIGNS", "PubSub"]

STOCKS = (
    "exchange: text; symbol: text; price: 0.00..2000.00 by 0.01; high: 0.00..2000.00 by 0.01;"
    " low: 0.00..2000.00 by 0.01; volume: 0..1000000000 by 1000"
)
"""The paper's example of a schema, with room for today's prices."""

PUBSUB_PARAMETERS = (
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
    def kind(plan: Plan) -> Callable[[int], PubSub]:
        common = arrangement(plan, ordered)
        return lambda address: PubSub(plan, address, common)

    def living(plan: Plan) -> Callable[[int], LivingPubSub]:
        common = arrangement(plan, ordered)
        return lambda address: LivingPubSub(plan, address, common)

    return ring_design(
        name, summary, f"Content-based publish/subscribe over Chord, section {section}", kind, living, PUBSUB_KINDS,
        PUBSUB_PARAMETERS, languages=("tags", "attributes", "subscriptions"),
    )  # fmt: skip


DESIGNS = (
    _design("chord-pubsub", False, "Each admitted value of a subscription is hashed to a node that lists it.", "3"),
    _design("opchord-pubsub", True, "The same with a hash that keeps order: a range lies on consecutive nodes.", "4"),
)
