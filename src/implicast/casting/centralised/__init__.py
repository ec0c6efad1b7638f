"""CENTRALISED: one server stores every description, resolves each cast and sends one copy to each
member.

The thesis's baseline (section 3.4): fewest messages, and all load on one machine. With
`assurance=none` it is exactly that. With receipts it also acknowledges, retries and keeps durable
state, so that it survives lost messages and crashes.
"""

from implicast.casting import complaints
from implicast.casting.central_subscriptions import SUBSCRIPTION_KINDS
from implicast.casting.centralised.client import CentralisedClient, DurableClient
from implicast.casting.centralised.server import DurableServer, Server
from implicast.casting.designs import ASSURANCE, REPAIRS, SURVIVABLE, Design, one_front_end
from implicast.casting.front_end_client import KINDS
from implicast.casting.notifier import Notify, NotifyAck
from implicast.language.parameters import Parameter

__all__ = ["DESIGNS", "CentralisedClient", "DurableClient", "DurableServer", "Server"]

DESIGNS = (
    Design(
        name="centralised",
        summary="One server stores every description and sends one copy to each member.",
        paper="Implicit group messaging, section 3.4",
        member=CentralisedClient,
        fixture=lambda site, role: Server(site),
        roles=lambda peers, infrastructure: {"server": (peers,)},
        durable_types={"member": DurableClient, "server": DurableServer},
        kinds=(*KINDS, Notify, NotifyAck, *SUBSCRIPTION_KINDS, *complaints.KINDS),
        languages=("tags", "attributes", "subscriptions"),
        parameters=(
            ASSURANCE,
            REPAIRS,
            Parameter(
                "lease_s",
                90.0,
                "lease: how long the server keeps a client without a keep-alive",
                1,
                1e6,
                unit="s",
            ),
        ),
        infrastructure=one_front_end,
        survives=frozenset(SURVIVABLE) - {"fails"},
        repair_us=30_000_000,
        quick={"lease_s": 30.0},
        upkeep_points=({"lease_s": 300.0}, {"lease_s": 45.0}, {"lease_s": 15.0}),
        audience=True,
        slows=True,
    ),
)
