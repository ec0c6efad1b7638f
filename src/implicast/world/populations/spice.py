"""SPICE, basic and unloaded: all peers on a converged surface at once."""

from implicast.casting.designs import Design, Plan
from implicast.casting.spice.design import settings_of, told_beforehand
from implicast.casting.spice.spice import Spice
from implicast.peer.contract import Peer
from implicast.space.digest import stream
from implicast.world.populations.landmarks import landmark_points
from implicast.world.populations.population import Population
from implicast.world.populations.registries import objections
from implicast.world.populations.surface import settle, tiling, uniform_points
from implicast.world.populations.watch import Watch


def assemble(plan: Plan) -> list[Peer]:
    """All peers on a converged surface, placed at random or by landmarks."""
    settings = settings_of(plan.parameters, told_beforehand(plan, b"", "member"))
    rng = stream(plan.seed, "surface")
    landmarks, dimensions = int(plan.parameters["landmarks"]), settings.dimensions
    if landmarks:
        points = landmark_points(plan.peers, landmarks, dimensions, plan.latency_us, rng.getrandbits)
    else:
        points = uniform_points(plan.peers, rng.getrandbits)
    peers = [Spice(plan.site(address), settings) for address in range(plan.peers)]
    settle(tiling(points, dimensions), [each.surface for each in peers], plan.latency_us)
    return list(peers)


def population(design: Design) -> Population:
    return Population(assemble, objections, Watch)
