"""SPICE, basic and unloaded: assembles all peers on a converged surface, and computes what
experiments know in advance.
"""

from collections.abc import Mapping, Sequence
from math import ceil, log

import numpy as np

from implicast.casting.designs import Design
from implicast.casting.spice.design import settings_of
from implicast.casting.spice.homes import address_of, home, spot_of
from implicast.casting.spice.items import Entry, Key, proved
from implicast.casting.spice.registrations import RegisteredState
from implicast.casting.spice.registries import RegistryState
from implicast.casting.spice.settings import SpiceSettings
from implicast.casting.spice.spice import Spice, SpiceState
from implicast.casting.spice.stores import AboveState
from implicast.language.target import Description, Target
from implicast.peer.contract import Name, Peer
from implicast.peer.name import version_of
from implicast.space.built import built
from implicast.space.digest import stream
from implicast.world.plan import Plan
from implicast.world.populations.landmarks import landmark_points
from implicast.world.populations.placement import TileOwners, lots
from implicast.world.populations.population import LazyPeers, Population
from implicast.world.populations.registries import objections
from implicast.world.populations.registry_watch import RegistryWatch
from implicast.world.populations.surface import (
    Tiling,
    copy_to_backups,
    settle,
    tiling,
    uniform_points,
)


def level_for(frequency: float, limit: float, dimensions: int) -> int:
    """The lowest level that brings a tag's frequency to the limit (thesis, equation 8.2)."""
    if limit <= 0 or frequency <= limit:
        return 0
    return ceil(log(frequency / limit) / log(1 << dimensions) - 1e-9)


def levels_for(
    targets: Sequence[Target], interval_us: int, limit: float, dimensions: int, window_us: int = 0
) -> dict[str, int]:
    """Replication levels from the casts of the run, as in the thesis's experiments (section 8.4).

    `window_us`: shortest time over which rates are computed, as where they are measured. Two casts
    in a short run are not a high rate.
    """
    counts: dict[str, int] = {}
    for target in targets:
        for term in target.terms:
            if term.has:
                counts[term.has[0]] = counts.get(term.has[0], 0) + 1
    seconds = max(len(targets) * interval_us, window_us, interval_us) / 1e6
    levels = {
        tag: level_for(count / seconds, limit, dimensions) for tag, count in sorted(counts.items())
    }
    return {tag: level for tag, level in levels.items() if level}


LAZY_FROM = 4_000
"""Number of peers from which on lazy peers are used: a third of the time and half of the memory of
making all peers.
"""
_Levels = Mapping[str, int]
_computed: list[tuple[Sequence[Target], _Levels]] = []
"""The levels computed last, and the casts they follow from: the same for every peer of a
population.
"""


def known_in_advance(plan: Plan, name: Name, role: str) -> _Levels | None:
    """Replication levels from the casts of the run, if the parameters ask for it."""
    given = plan.parameters
    if given.get("replication") != "beforehand":
        return None
    if not _computed or _computed[0][0] is not plan.targets:
        limit, dimensions = float(given.get("frequency_limit", 0.0)), int(given["dimensions"])
        window_us = settings_of(given).rate_us
        _computed[:] = [
            (plan.targets, levels_for(plan.targets, plan.interval_us, limit, dimensions, window_us))
        ]
    return _computed[0][1]


def assemble(plan: Plan) -> list[Peer]:
    """All peers on a converged surface, placed at random or by landmarks."""
    settings = _settings(plan)
    peers = [Spice(plan.site(address), settings) for address in range(plan.peers)]
    settle(_tiles(plan, settings), [each.surface for each in peers], plan.latency_us)
    return list(peers)


def _settings(plan: Plan) -> SpiceSettings:
    return settings_of(plan.parameters, known_in_advance(plan, b"", "member"), plan.resting)


def _tiles(plan: Plan, settings: SpiceSettings) -> Tiling:
    rng = stream(plan.seed, "surface")
    landmarks, dimensions = int(plan.parameters["landmarks"]), settings.dimensions
    if landmarks:
        points = landmark_points(
            plan.peers, landmarks, dimensions, plan.latency_us, rng.getrandbits, plan.router
        )
    else:
        points = uniform_points(plan.peers, rng.getrandbits)
    return tiling(points, dimensions)


def lazy_peers(plan: Plan) -> LazyPeers | None:
    """The same network with lazy peers. None if levels are measured during the run, descriptions
    have values, or the compiled records are missing.
    """
    settings = _settings(plan)
    if (
        settings.live
        or built("casting.spice._records") is None
        or any(each.values for each in plan.descriptions)
    ):
        return None
    from implicast.world.populations.lazy_surface import (
        LazySurfacePeers,
    )  # needs the compiled package

    return LazySurfacePeers(plan, settings, _tiles(plan, settings))


def preload(plan: Plan, population: Sequence[Peer]) -> None:
    """Put every record where registering would put it (`placement.py`), close full registries, and
    copy all to backups.
    """
    peers = [peer for peer in population if isinstance(peer, Spice)]
    for peer, state in zip(peers, _registered(plan, peers), strict=False):
        peer.restore(state)
    if peers[0].settings.assured:
        copy_to_backups([peer.surface for peer in peers])


def _registered(plan: Plan, peers: Sequence[Spice]) -> list[SpiceState]:
    """By peer, the state that the registrations of all members leave behind."""
    settings, levels = peers[0].settings, peers[0].levels
    owners = TileOwners(np.array([peer.surface.committed[0] for peer in peers], np.int64))
    entries = [
        _entries(peer, description)
        for peer, description in zip(peers, plan.descriptions, strict=False)
    ]
    by_tag: dict[str, list[Entry]] = {}
    for own in entries:
        for tag, entry in own.items():
            by_tag.setdefault(tag, []).append(entry)
    stored: list[list[RegistryState]] = [[] for _ in peers]
    above: list[list[AboveState]] = [[] for _ in peers]
    copied: list[dict[str, list[Entry]]] = [{} for _ in peers]
    for tag, some in by_tag.items():
        goal, spots = levels.goal(tag), np.array([each.spot for each in some], np.int64)
        copied[owners.of_one(address_of(tag))][tag] = some
        for root in levels.roots_at(tag, goal):
            closed: set[tuple[Key, int]] = set()
            for lot in lots(settings, owners, tag, root, spots):
                records = [some[each] for each in lot.chosen.tolist()]
                stored[lot.peer].append(RegistryState(lot.key, lot.closed, len(records), records))
                if lot.closed:
                    closed.add((lot.key, lot.peer))
            for entry in some if closed else ():
                _lead_up(settings, owners, closed, (tag, root), entry, above)
    return [
        SpiceState(
            RegisteredState(
                version_of(peer.incarnation, 1),
                description,
                own,
                {tag: owners.of_one(address_of(tag)) for tag in own if settings.assured},
            ),
            tuple(registries),
            tuple(holders),
            some_copied,
        )
        for peer, description, own, registries, holders, some_copied in zip(
            peers, plan.descriptions, entries, stored, above, copied, strict=False
        )
    ]


def _entries(peer: Spice, description: Description) -> dict[str, Entry]:
    """By tag, the entry of a member's first version, signed where members sign."""
    version = version_of(peer.incarnation, 1)
    return {
        tag: proved(
            peer.signing, tag, Entry(peer.contact, version, spot_of(peer.name, tag), description)
        )
        for tag in sorted(set(description.tags))
    }


def _lead_up(
    settings: SpiceSettings,
    owners: TileOwners,
    closed: set[tuple[Key, int]],
    where: tuple[str, int],
    entry: Entry,
    above: list[list[AboveState]],
) -> None:
    """Record, at each peer on the way up through closed registries, the holder above that confirmed
    the record, as a registration by messages does. Without it the first renewals search their way
    hop by hop, which takes half as many messages again.
    """
    (tag, root), notch = where, 0
    at = owners.of_one(root)
    while True:
        owner = owners.of_one(home(root, notch, entry.spot, settings.dimensions))
        if owner != at:
            above[at].append(((tag, root, notch), entry.member.name, owner))
            at = owner
        if ((tag, root, notch), at) not in closed:
            return
        notch = settings.above(notch)


def population(design: Design) -> Population:
    return Population(
        assemble, objections, preload, lazy_peers, LAZY_FROM, RegistryWatch, known_in_advance
    )
