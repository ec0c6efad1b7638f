"""CENTRALISED: one server keeps every description, resolves each cast and sends one copy to each member.

The thesis's yardstick (section 3.4): fewest messages, and all load on one machine. With `assurance=none` it is that;
with receipts it is what it takes when messages get lost and machines fall.
"""

from implicast.casting import complaints
from implicast.casting.central_subscriptions import SUBSCRIPTION_KINDS
from implicast.casting.centralised.client import Client, KeptClient
from implicast.casting.centralised.server import KeptServer, Server
from implicast.casting.designs import ASSURANCE, SURVIVABLE, Design, one_station
from implicast.casting.service import KINDS
from implicast.casting.telling import Got, Notify
from implicast.language.parameters import Parameter

__all__ = ["DESIGNS", "Client", "KeptClient", "KeptServer", "Server"]

DESIGNS = (
    Design(
        name="centralised",
        summary="One server keeps every description and sends one copy to each member.",
        paper="Implicit group messaging, section 3.4",
        member=Client,
        fixture=lambda site, role: Server(site),
        roles=lambda peers, infrastructure: {"server": (peers,)},
        kept={"member": KeptClient, "server": KeptServer},
        kinds=(*KINDS, Notify, Got, *SUBSCRIPTION_KINDS, *complaints.KINDS),
        languages=("tags", "attributes", "subscriptions"),
        parameters=(
            ASSURANCE,
            Parameter(
                "lease_s", 90.0, "how long the server remembers a silent client", 1, 1e6, unit="s"
            ),
        ),
        infrastructure=one_station,
        survives=frozenset(SURVIVABLE) - {"fails"},
        repair_us=30_000_000,
        quick={"lease_s": 30.0},
        patience=({"lease_s": 300.0}, {"lease_s": 45.0}, {"lease_s": 15.0}),
        audience=True,
        slows=True,
    ),
)
