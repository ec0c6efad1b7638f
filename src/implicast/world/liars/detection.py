"""Detection of liars: the addresses that honest members report as misbehaving, and since when."""

from dataclasses import dataclass
from statistics import fmean

from implicast.world.frozen import awake
from implicast.world.liars.coalition import Coalition
from implicast.world.world import World


@dataclass(frozen=True, slots=True)
class LieDetection:
    """Number of liars detected by an honest member, mean time in seconds until then, and number of
    honest members reported.
    """

    noticed: int = 0
    noticed_s: float = 0.0
    accused: int = 0


def lie_detection(world: World, coalition: Coalition) -> LieDetection:
    """Collect the reports of all honest members whose design detects misbehaviour."""
    first_us: dict[int, int] = {}
    for address in sorted(world.peers):
        holds = getattr(awake(world.peers[address]), "misbehaviour", None)
        if holds is not None and not coalition.lies(address):
            for other, since_us in holds().items():
                first_us[other] = min(since_us, first_us.get(other, since_us))
    liars = [since_us for address, since_us in first_us.items() if coalition.lies(address)]
    after_s = [max(0, since_us - coalition.begun_us) / 1e6 for since_us in liars]
    return LieDetection(len(liars), fmean(after_s) if after_s else 0.0, len(first_us) - len(liars))
