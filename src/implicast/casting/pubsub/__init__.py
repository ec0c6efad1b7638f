"""Content-based publish/subscribe on Chord: a subscription is stored in the lists of all values
that it admits. Sections 3 (Chord) and 4 (OPChord) of the paper.

State. Lists by namespace (`s` subscriptions, `p` peers), attribute and value, in
`replicated_lists/`. A subscription id is c1 | c2 | c3: its node, its number there, the number of
its constrained attributes. `chord-pubsub` hashes values, so storing a range of r values costs r
lookups. `opchord-pubsub` uses an order-preserving hash, so it costs one lookup and r steps.

| event | what happens |
|---|---|
| `subscribe` | each term gets an id, which is put into the lists of all values that it admits |
| `update` | only new without old and old without new values move, unless c3 changes |
| `publish` | one list per attribute of the event is fetched, and ids are counted |
| an id is in c3 lists | its owner is sent `Matched`, compares again, delivers once, acknowledges |
| `unsubscribe` | the id is removed from all lists; its number is reused last |
| `register` | the description is put into the list of each of its values |
| `cast` | per term the lists of the narrowest constraint are fetched; descriptions are filtered |

Invariants. An id that is confirmed in all lists matches exactly the events that its term selects. A
member is notified once per event, however many of its ids match. An owner that changed meanwhile
drops what no longer fits. Differences from the paper: `FIDELITY.md`.

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
