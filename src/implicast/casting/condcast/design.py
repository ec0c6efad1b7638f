"""condcast as a design."""

from implicast.casting.condcast.condcast import Condcast, KeptCondcast
from implicast.casting.condcast.messages import KINDS
from implicast.casting.condcast.place import landmarks
from implicast.casting.condcast.settings import PARAMETERS
from implicast.casting.designs import Design, Plan
from implicast.overlay import chord_sharp
from implicast.overlay.links import LINK_KINDS
from implicast.peer.contract import Name


def common_tags(plan: Plan, name: Name, role: str) -> tuple[str, ...]:
    """What a network agrees on that lets peers stand by their tags."""
    return landmarks(plan.descriptions) if plan.parameters["place"] == "tags" else ()


DESIGNS = (
    Design(
        name="condcast",
        summary="A ring in key order whose finger tables carry aggregates; a cast goes only where somebody may match.",
        paper="Conditional multicast on Chord# (K. Abe)",
        member=Condcast,
        kept={"member": KeptCondcast},
        credentials=common_tags,
        kinds=(*LINK_KINDS, *chord_sharp.KINDS, *KINDS),
        parameters=PARAMETERS,
        languages=("tags", "attributes"),
        survives=frozenset({"joins", "leaves", "crashes", "returns", "loss", "partitions", "freezes"}),
        quick={"check_s": 1.0, "tries": 5, "round_s": 8.0, "slack_s": 3.0, "merge_s": 15.0},
        patience=(
            {"check_s": 20.0, "round_s": 60.0, "merge_s": 90.0},
            {"check_s": 4.0, "tries": 5, "round_s": 16.0, "slack_s": 6.0, "merge_s": 30.0},
            {"check_s": 2.0, "tries": 5, "round_s": 12.0, "slack_s": 5.0, "merge_s": 20.0},
        ),
    ),
)
