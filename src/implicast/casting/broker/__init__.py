"""BROKER: each client registers at the nearest of several brokers, and the brokers forward casts
along a tree.

Thesis chapter 6: with `assurance=none` it is Listing 2. With receipts it also survives lost
messages, clients that vanish and brokers that die.
"""

from math import ceil

from implicast.casting import complaints
from implicast.casting.broker.broker import Broker, DurableBroker
from implicast.casting.broker.client import (
    BrokerClient,
    BrokerProbe,
    BrokerProbeAck,
    DurableBrokerClient,
)
from implicast.casting.designs import ASSURANCE, REPAIRS, SURVIVABLE, Design
from implicast.casting.forwarding import ForwardToBroker
from implicast.casting.front_end_client import KINDS as SERVICE_KINDS
from implicast.casting.notifier import Notify, NotifyAck
from implicast.language.parameters import Parameter, Parameters
from implicast.overlay.backbone.backbone import KINDS
from implicast.overlay.backbone.fields import BROKERS_MAX, CAPACITY_MAX
from implicast.peer.detector import DETECTOR_KINDS

__all__ = ["DESIGNS", "Broker", "BrokerClient", "DurableBroker", "brokers_wanted"]


def brokers_wanted(peers: int, parameters: Parameters) -> int:
    """Number of brokers: as given, or a share of the peers; at least two."""
    given = int(parameters["brokers"]) or ceil(peers * float(parameters["broker_share"]))
    return max(2, min(BROKERS_MAX, given))


DESIGNS = (
    Design(
        name="broker",
        summary="Brokers on a spanning tree serve the nearest clients and route by Bloom filters.",
        paper="Implicit group messaging, chapter 6",
        member=BrokerClient,
        fixture=lambda site, role: Broker(site),
        roles=lambda peers, infrastructure: {"broker": tuple(range(peers, peers + infrastructure))},
        durable_types={"member": DurableBrokerClient, "broker": DurableBroker},
        kinds=(
            *SERVICE_KINDS,
            BrokerProbe,
            BrokerProbeAck,
            ForwardToBroker,
            Notify,
            NotifyAck,
            *KINDS,
            *DETECTOR_KINDS,
            *complaints.KINDS,
        ),
        parameters=(
            ASSURANCE,
            REPAIRS,
            Parameter("brokers", 0, "number of brokers; 0: a share of the peers", 0, BROKERS_MAX),
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
                "false-positive rate of a filter",
                1e-6,
                0.9,
            ),
            Parameter(
                "expected_tags",
                64,
                "distinct tags for which filters are sized at first; they grow",
                1,
                CAPACITY_MAX,
            ),
            Parameter(
                "check_s", 10.0, "interval between a client's keep-alives", 0.5, 3600, unit="s"
            ),
            Parameter("tries", 4, "unanswered attempts before a broker is suspected", 2, 20),
            Parameter(
                "watch_s",
                2.0,
                "interval between brokers' probes of each other",
                0.1,
                3600,
                unit="s",
            ),
        ),
        languages=("tags", "attributes"),
        infrastructure=brokers_wanted,
        survives=frozenset(SURVIVABLE),
        trial={"brokers": 6, "expected_tags": 64},
        quick={"check_s": 2.0, "watch_s": 0.5, "tries": 3},
        upkeep_points=({"check_s": 30.0, "watch_s": 6.0}, {"check_s": 5.0, "watch_s": 1.0}),
        audience=True,
        slows=True,
    ),
)
