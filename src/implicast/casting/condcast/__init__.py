"""condcast: conditional multicast over Chord# with aggregated finger tables and update flows."""

from implicast.casting.condcast.condcast import Condcast, DurableCondcast
from implicast.casting.condcast.messages import KINDS
from implicast.casting.condcast.settings import PARAMETERS
from implicast.casting.designs import Design
from implicast.overlay import chord_sharp
from implicast.overlay.links import LINK_KINDS

DESIGNS = (
    Design(
        name="condcast",
        summary="Chord# with aggregates in its fingers; a cast goes only where a peer may match.",
        paper="Conditional multicast on Chord# (K. Abe)",
        member=Condcast,
        durable_types={"member": DurableCondcast},
        kinds=(*LINK_KINDS, *chord_sharp.KINDS, *KINDS),
        parameters=PARAMETERS,
        languages=("tags", "attributes"),
        survives=frozenset(
            {"joins", "leaves", "crashes", "returns", "loss", "partitions", "freezes"}
        ),
        quick={"check_s": 1.0, "tries": 5, "round_s": 8.0, "slack_s": 3.0, "merge_s": 15.0},
        upkeep_points=(
            {"check_s": 12.0, "round_s": 36.0, "merge_s": 60.0},
            {"check_s": 4.0, "tries": 5, "round_s": 16.0, "slack_s": 6.0, "merge_s": 30.0},
            {"check_s": 2.0, "tries": 5, "round_s": 12.0, "slack_s": 5.0, "merge_s": 20.0},
        ),
    ),
)
