"""Content-based publish/subscribe on Chord: a subscription is stored in the lists of all values
that it admits.

`chord-pubsub` hashes values, so storing a range of r values costs r lookups. `opchord-pubsub` uses
an order-preserving hash, so it costs one lookup and r steps. Matching an event fetches one list per
attribute of the event, in both. The reverse direction, peers with values and casts with predicates,
uses the same lists.

Read in this order: `value_mapping.py`, `subscriptions.py`, `member.py`.
"""

from implicast.casting.designs import Design
from implicast.casting.pubsub.member import PubSub
from implicast.casting.pubsub.messages import PUBSUB_KINDS, DurablePubSub
from implicast.casting.pubsub.value_mapping import mapping_for
from implicast.casting.replicated_lists import ring_design
from implicast.language.parameters import Parameter
from implicast.peer.site import Site

__all__ = ["DESIGNS", "PubSub"]

STOCKS = (
    "exchange: text; symbol: text; price: 0.00..2000.00 by 0.01; high: 0.00..2000.00 by 0.01;"
    " low: 0.00..2000.00 by 0.01; volume: 0..1000000000 by 1000"
)
"""The paper's example schema, with a wider range of prices."""

PUBSUB_PARAMETERS = (
    Parameter(
        "schema",
        STOCKS,
        "the attributes, as `name: minimum..maximum by precision` or `name: text`, separated by ;",
    ),
    Parameter(
        "walk",
        "auto",
        "how a request traverses a range in opchord-pubsub: along successors (`neighbours`), by "
        "finger routing, or as suits the domain (`auto`)",
        choices=("auto", "neighbours", "fingers"),
    ),
    Parameter(
        "values_max",
        20_000,
        "largest number of grid values that one subscription or cast admits in total",
        1,
        10_000_000,
    ),
)


def _design(name: str, ordered: bool, summary: str, section: str) -> Design:
    def member(site: Site) -> PubSub:
        parameters = site.parameters
        return PubSub(
            site,
            mapping_for(
                parameters["schema"], parameters["walk"], parameters["values_max"], ordered
            ),
        )

    return ring_design(
        name,
        summary,
        f"Content-based publish/subscribe over Chord, section {section}",
        member,
        PUBSUB_PARAMETERS,
        languages=("tags", "attributes", "subscriptions"),
        durable_type=DurablePubSub,
        kinds=PUBSUB_KINDS,
    )


DESIGNS = (
    _design(
        "chord-pubsub",
        False,
        "Each admitted value of a subscription is hashed to a node that lists it.",
        "3",
    ),
    _design(
        "opchord-pubsub",
        True,
        "The same with an order-preserving hash: a range lies on consecutive nodes.",
        "4",
    ),
)
