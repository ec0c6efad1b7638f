"""Content-based publish/subscribe on Chord: subscriptions wait in the lists of the values they admit.

`chord-pubsub` hashes values, so a range of r values costs r look-ups; `opchord-pubsub` keeps their order on the
ring, so it costs one look-up and r steps. Matching fetches one list per attribute of the event, in both. The reverse
direction, peers with values and casts with predicates, runs on the same lists.

Read in this order: `arrangement.py`, `subscriptions.py`, `member.py`.
"""

from implicast.casting.designs import Design
from implicast.casting.keeping import ring_design
from implicast.casting.pubsub.arrangement import arranged
from implicast.casting.pubsub.member import PubSub
from implicast.casting.pubsub.messages import PUBSUB_KINDS, KeptPubSub
from implicast.language.parameters import Parameter
from implicast.peer.site import Site

__all__ = ["DESIGNS", "PubSub"]

STOCKS = (
    "exchange: text; symbol: text; price: 0.00..2000.00 by 0.01; high: 0.00..2000.00 by 0.01;"
    " low: 0.00..2000.00 by 0.01; volume: 0..1000000000 by 1000"
)
"""The paper's example of a schema, with room for today's prices."""

PUBSUB_PARAMETERS = (
    Parameter(
        "schema",
        STOCKS,
        "the attributes, as `name: minimum..maximum by precision` or `name: text`, with ; between",
    ),
    Parameter(
        "walk",
        "auto",
        "how a range is gone through where order is kept: by right neighbours, by fingers, or by "
        "whichever suits the domain",
        choices=("auto", "neighbours", "fingers"),
    ),
    Parameter(
        "values_max",
        20_000,
        "grid values that one subscription or cast may admit in all",
        1,
        10_000_000,
    ),
)


def _design(name: str, ordered: bool, summary: str, section: str) -> Design:
    def member(site: Site) -> PubSub:
        parameters = site.parameters
        return PubSub(
            site,
            arranged(parameters["schema"], parameters["walk"], parameters["values_max"], ordered),
        )

    return ring_design(
        name,
        summary,
        f"Content-based publish/subscribe over Chord, section {section}",
        member,
        PUBSUB_PARAMETERS,
        languages=("tags", "attributes", "subscriptions"),
        kept=KeptPubSub,
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
        "The same with a hash that keeps order: a range lies on consecutive nodes.",
        "4",
    ),
)
