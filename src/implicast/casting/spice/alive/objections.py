"""What must hold of quiet registries, seen from outside: every complete registration is where a cast will find it.

For every tag of a complete registration one goes the way of a cast: from the tag's own address up through closed parts,
at each notch to the owner of the record's home there. A ready replica must have it as well.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from implicast.casting.spice.alive.messages import Entry
from implicast.casting.spice.alive.registry import Held
from implicast.casting.spice.alive.spice import LivingSpice
from implicast.casting.spice.homes import address_of, home
from implicast.overlay.ice.alive.objections import surface_objections
from implicast.peer.contract import Address, Peer
from implicast.space.tract import contains, intervals

OBJECTIONS_MAX = 20
"""More than enough to see what is wrong."""


def objections(population: Sequence[Peer]) -> list[str]:
    """Sentences about what is wrong with a quiet network; none when all is well."""
    peers = [each for each in population if isinstance(each, LivingSpice)]
    found = surface_objections([each.surface for each in peers])
    return (found or list(record_objections(peers)))[:OBJECTIONS_MAX]


class _Owners:
    """Who owns a code."""

    def __init__(self, peers: Sequence[LivingSpice]) -> None:
        spans = sorted((low, high, index) for index, each in enumerate(peers) for low, high in _spans(each))
        self.lows = [low for low, _, _ in spans]
        self.spans, self.peers = spans, peers

    def at(self, code: int) -> LivingSpice | None:
        index = bisect_right(self.lows, code) - 1
        if index < 0 or code >= self.spans[index][1]:
            return None
        return self.peers[self.spans[index][2]]


def _spans(peer: LivingSpice) -> Iterator[tuple[int, int]]:
    return intervals(peer.surface.ground)


def record_objections(peers: Sequence[LivingSpice]) -> Iterator[str]:
    """Complete registrations that a cast would not find."""
    owners = _Owners(peers)
    replicas: dict[str, list[int]] = {}
    for peer in peers:
        for (tag, root), state in peer.roots.items():
            if state.ready and root != address_of(tag):
                replicas.setdefault(tag, []).append(root)
    doors: dict[str, list[tuple[int, dict[Address, Held]]]] = {}
    for peer in peers:
        if peer.description is None or peer.awaited:
            continue
        for tag, entry in peer.told.items():
            if tag not in doors:
                doors[tag] = [(root, _at_root(owners, tag, root)) for root in (address_of(tag), *replicas.get(tag, ()))]
            for root, records in doors[tag]:
                held = records.get(entry.consumer)
                if (held is None or held.entry.version < entry.version) and not _found(owners, tag, root, entry):
                    yield f"a cast for {tag} at root {root} would not find {peer.address}"


def _at_root(owners: _Owners, tag: str, root: int) -> dict[Address, Held]:
    """What lies at a root itself: looked up once for all consumers, for most records are there."""
    owner = owners.at(root)
    registry = owner.registries.get((tag, root, 0)) if owner is not None else None
    return registry.records if registry is not None else {}


def _found(owners: _Owners, tag: str, root: int, entry: Entry) -> bool:
    notch = 0
    while True:
        code = home(root, notch, entry.spot, owners.peers[0].settings.dimensions)
        owner = owners.at(code)
        if owner is None:
            return False
        registry = owner.registries.get((tag, root, notch))
        if registry is None:
            return False
        held = registry.records.get(entry.consumer)
        if held is not None and held.entry.version >= entry.version:
            return True
        if not contains(registry.closed, code):
            return False
        notch = owner.settings.above(notch)
