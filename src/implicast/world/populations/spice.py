"""SPICE, basic and unloaded: all peers on a converged surface at once."""

from collections.abc import Sequence

import numpy as np

from implicast.casting.designs import Design, Plan
from implicast.casting.spice.design import settings_of, told_beforehand
from implicast.casting.spice.homes import address_of
from implicast.casting.spice.messages import Entry
from implicast.casting.spice.spice import Spice
from implicast.peer.contract import Peer
from implicast.space.digest import stream
from implicast.world.populations.landmarks import landmark_points
from implicast.world.populations.placement import Owners, lots
from implicast.world.populations.population import Population
from implicast.world.populations.registries import objections
from implicast.world.populations.surface import bequeath, settle, tiling, uniform_points
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


def enrol(plan: Plan, population: Sequence[Peer]) -> None:
    """Every record where it would come to lie (`placement.py`), closed parts closed, heirs with copies of it all."""
    peers = [peer for peer in population if isinstance(peer, Spice)]
    settings, levels = peers[0].settings, peers[0].levels
    owners = Owners(np.array([peer.surface.ground[0] for peer in peers], np.int64))
    by_tag: dict[str, list[Entry]] = {}

    def door(tag: str) -> int:
        return owners.of_one(address_of(tag))

    for peer, description in zip(peers, plan.descriptions, strict=False):
        for tag, entry in peer.registrations.stand(description, door).items():
            by_tag.setdefault(tag, []).append(entry)
    for tag, entries in by_tag.items():
        goal, spots = levels.goal(tag), np.array([each.spot for each in entries], np.int64)
        peers[door(tag)].copies.stand(tag, entries, goal)
        for root in levels.roots_at(tag, goal):
            for lot in lots(settings, owners, tag, root, spots):
                peers[lot.peer].containers.stand(lot.key, [entries[each] for each in lot.chosen.tolist()], lot.closed)
    if settings.assured:
        bequeath([peer.surface for peer in peers])


def population(design: Design) -> Population:
    return Population(assemble, objections, enrol, watcher=Watch)
