"""BROKER: each client describes itself to the nearest of several brokers, and the brokers pass casts along a tree.

Thesis chapter 6: with `assurance=none` it is Listing 2; with receipts it is what it takes when messages get lost,
clients vanish and brokers die.
"""

from math import ceil

from implicast.casting import complaints
from implicast.casting.broker.broker import Broker, KeptBroker
from implicast.casting.broker.client import BrokerClient, KeptBrokered
from implicast.casting.designs import ASSURANCE, SURVIVABLE, Design
from implicast.casting.routes import Pass
from implicast.casting.service import KINDS as SERVICE_KINDS
from implicast.casting.service import Probe, Serving
from implicast.casting.telling import Got, Notify
from implicast.language.parameters import Parameter, Parameters
from implicast.overlay.backbone.messages import BROKERS_MAX, CAPACITY_MAX, KINDS
from implicast.peer.liveness import DETECTOR_KINDS

__all__ = ["DESIGNS", "Broker", "BrokerClient", "KeptBroker", "brokers_wanted"]


def brokers_wanted(peers: int, parameters: Parameters) -> int:
    """How many brokers: the number given, or a share of the peers; at least two."""
    given = int(parameters["brokers"]) or ceil(peers * float(parameters["broker_share"]))
    return max(2, min(BROKERS_MAX, given))


DESIGNS = (
    Design(
        name="broker",
        summary="Brokers on a spanning tree serve the clients nearest to them and pass casts where filters let them.",
        paper="Implicit group messaging, chapter 6",
        member=BrokerClient,
        fixture=lambda site, role: Broker(site),
        roles=lambda peers, infrastructure: {"broker": tuple(range(peers, peers + infrastructure))},
        kept={"member": KeptBrokered, "broker": KeptBroker},
        kinds=(
            *SERVICE_KINDS,
            Probe,
            Serving,
            Pass,
            Notify,
            Got,
            *KINDS,
            *DETECTOR_KINDS,
            *complaints.KINDS,
        ),
        parameters=(
            ASSURANCE,
            Parameter("brokers", 0, "how many brokers; 0: a share of the peers", 0, BROKERS_MAX),
            Parameter(
                "broker_share",
                0.01,
                "brokers as a share of peers, at least two, when `brokers` is 0",
                0.0,
                1.0,
            ),
            Parameter(
                "routing_error",
                0.1,
                "chance that a filter passes a tag that nobody beyond holds",
                1e-6,
                0.9,
            ),
            Parameter(
                "expected_tags",
                64,
                "distinct tags that filters have room for at first; they grow",
                1,
                CAPACITY_MAX,
            ),
            Parameter(
                "check_s", 10.0, "how often clients remind their broker", 0.5, 3600, unit="s"
            ),
            Parameter("tries", 4, "questions in vain before a broker is believed lost", 2, 20),
            Parameter("watch_s", 2.0, "how often brokers look for each other", 0.1, 3600, unit="s"),
        ),
        languages=("tags", "attributes"),
        infrastructure=brokers_wanted,
        survives=frozenset(SURVIVABLE),
        trial={"brokers": 6, "expected_tags": 64},
        quick={"check_s": 2.0, "watch_s": 0.5, "tries": 3},
        patience=({"check_s": 30.0, "watch_s": 6.0}, {"check_s": 5.0, "watch_s": 1.0}),
        audience=True,
        slows=True,
    ),
)
