"""What a defender sees: which addresses honest members hold something against, and since when."""

from dataclasses import dataclass
from statistics import fmean

from implicast.world.frozen import awake
from implicast.world.liars.gang import Gang
from implicast.world.world import World


@dataclass(frozen=True, slots=True)
class Sight:
    """Liars that some honest member noticed, how long after they began in the mean, and honest ones held for liars."""

    noticed: int = 0
    noticed_s: float = 0.0
    accused: int = 0


def sight(world: World, gang: Gang) -> Sight:
    """Asked of every honest member that can tell."""
    first_us: dict[int, int] = {}
    for address in sorted(world.peers):
        holds = getattr(awake(world.peers[address]), "grievances", None)
        if holds is not None and not gang.lies(address):
            for other, since_us in holds().items():
                first_us[other] = min(since_us, first_us.get(other, since_us))
    liars = [since_us for address, since_us in first_us.items() if gang.lies(address)]
    after_s = [max(0, since_us - gang.begun_us) / 1e6 for since_us in liars]
    return Sight(len(liars), fmean(after_s) if after_s else 0.0, len(first_us) - len(liars))
