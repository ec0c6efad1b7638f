"""What must hold of quiet registries, seen from outside: every complete registration is where a cast will find it.

For every tag of a complete registration one goes the way of a cast: from the tag's own address up through closed parts,
at each notch to the owner of the record's home there. A ready replica must have it as well.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from implicast.casting.spice.homes import address_of, home, homes
from implicast.casting.spice.messages import Entry
from implicast.casting.spice.registry import Held
from implicast.casting.spice.spice import Spice
from implicast.peer.contract import Name, Peer
from implicast.space.tract import Tract, container, contains, intervals, within
from implicast.world.populations.surface_objections import surface_objections

Kept = tuple[Tract, int, dict[Name, Held]]
"""The ground of an owner, a notch, and the records that it has there."""
OBJECTIONS_MAX = 20
"""More than enough to see what is wrong."""


def objections(population: Sequence[Peer]) -> list[str]:
    """Sentences about what is wrong with a quiet network; none when all is well."""
    peers = [each for each in population if isinstance(each, Spice)]
    found = surface_objections([each.surface for each in peers])
    return (found or list(record_objections(peers)))[:OBJECTIONS_MAX]


class Owners:
    """Who owns a code."""

    def __init__(self, peers: Sequence[Spice]) -> None:
        spans: list[tuple[int, int, int]] = []
        for index, each in enumerate(peers):
            ground = each.surface.ground
            spans += (
                [(*ground, index)]
                if len(ground) == 2
                else [(*span, index) for span in intervals(ground)]
            )
        spans.sort()
        self.lows = [low for low, _, _ in spans]
        self.spans, self.peers = spans, peers
        self.dimensions = peers[0].settings.dimensions if peers else 0
        self._landings: dict[tuple[str, int], int] = {}

    def at(self, code: int) -> Spice | None:
        index = bisect_right(self.lows, code) - 1
        if index < 0 or code >= self.spans[index][1]:
            return None
        return self.peers[self.spans[index][2]]

    def landing(self, tag: str, root: int) -> int:
        """The first notch at which a registry is not closed inside one peer: below it every record goes the same way.

        Large registries are closed there through half of all notches, so looking begins there for each record.
        """
        found = self._landings.get((tag, root))
        if found is None:
            found = self._landings[tag, root] = self._climb(tag, root)
        return found

    def _climb(self, tag: str, root: int) -> int:
        notch, owner = 0, self.at(root)
        while owner is not None:
            inside = container(root, notch, owner.settings.dimensions)
            registry = owner.shelf.registries.get((tag, root, notch))
            if registry is None or not (
                within(inside, owner.surface.ground) and within(inside, registry.closed)
            ):
                break
            notch = owner.settings.above(notch)
        return notch


def record_objections(peers: Sequence[Spice]) -> Iterator[str]:
    """Complete registrations that a cast would not find.

    Most lie with the owner of their home where the ways of all records part, and are met by walking through what owners
    keep there; only others are looked for one by one, at ten times the cost.
    """
    owners, told, replicas = Owners(peers), _told(peers), replicas_of(peers)
    kept = _kept(owners, told)
    for tag, entries in told.items():
        for root in (address_of(tag), *replicas.get(tag, ())):
            met: set[Name] = set()
            for ground, notch, records in kept.get((tag, root), ()):
                met.update(_met(ground, root, notch, records, entries, owners.dimensions))
            for name in entries.keys() - met if len(met) < len(entries) else ():
                if not found(owners, tag, root, entries[name]):
                    yield f"a cast for {tag} at root {root} would not find {entries[name].member.address}"


def _told(peers: Sequence[Spice]) -> dict[str, dict[Name, Entry]]:
    """By tag, what consumers whose registration is complete have said."""
    told: dict[str, dict[Name, Entry]] = {}
    for peer in peers:
        if peer.description is not None and not peer.registrations.awaited:
            for tag, entry in peer.registrations.told.items():
                told.setdefault(tag, {})[entry.member.name] = entry
    return told


def _kept(owners: Owners, told: dict[str, dict[Name, Entry]]) -> dict[tuple[str, int], list[Kept]]:
    """By tag and root, what is kept where the ways of all records part."""
    kept: dict[tuple[str, int], list[Kept]] = {}
    for peer in owners.peers:
        for (tag, root, notch), registry in peer.shelf.registries.items():
            if registry.records and tag in told and notch == owners.landing(tag, root):
                kept.setdefault((tag, root), []).append(
                    (peer.surface.ground, notch, registry.records)
                )
    return kept


def _met(
    ground: Tract,
    root: int,
    notch: int,
    records: dict[Name, Held],
    entries: dict[Name, Entry],
    dimensions: int,
) -> Iterator[Name]:
    """Consumers whose word, as they told it, lies with the owner of its home."""
    here = [each.entry for name, each in records.items() if entries.get(name) is each.entry]
    places = homes(root, notch, [each.spot for each in here], dimensions)
    return (
        each.member.name for each, code in zip(here, places, strict=True) if contains(ground, code)
    )


def replicas_of(peers: Sequence[Spice]) -> dict[str, list[int]]:
    """By tag, the roots at which casts may stop."""
    replicas: dict[str, list[int]] = {}
    for peer in peers:
        for (tag, root), state in peer.levels.roots.items():
            if state.ready and root != address_of(tag):
                replicas.setdefault(tag, []).append(root)
    return replicas


def found(owners: Owners, tag: str, root: int, entry: Entry) -> bool:
    """First from where the ways of all records part, then from the root: a record may be on its way up."""
    landing = owners.landing(tag, root)
    return _found_from(owners, tag, root, landing, entry) or (
        landing > 0 and _found_from(owners, tag, root, 0, entry)
    )


def _found_from(owners: Owners, tag: str, root: int, notch: int, entry: Entry) -> bool:
    settings = owners.peers[0].settings
    while True:
        code = home(root, notch, entry.spot, settings.dimensions)
        owner = owners.at(code)
        registry = owner.shelf.registries.get((tag, root, notch)) if owner is not None else None
        if registry is None:
            return False
        held = registry.records.get(entry.member.name)
        if held is not None and held.entry.version >= entry.version:
            return True
        if not contains(registry.closed, code):
            return False
        notch = settings.above(notch)
