"""Invariants of registries at rest: a cast finds every complete registration.

For every tag of a complete registration the check follows the way of a cast: from the tag's address
up through closed parts, at each notch to the owner of the record's home. A ready replica must hold
the record too.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from implicast.casting.spice.homes import address_of, home, homes
from implicast.casting.spice.items import Entry
from implicast.casting.spice.registry import Record
from implicast.casting.spice.spice import Spice
from implicast.peer.contract import Name, Peer
from implicast.space.tract import Tract, container, contains, intervals, within
from implicast.world.populations.surface_objections import surface_objections

OwnerRecords = tuple[Tract, int, Mapping[Name, Record]]
"""(extent of an owner, notch, its records there)."""
OBJECTIONS_MAX = 20
"""Largest number of violations reported."""


def objections(population: Sequence[Peer]) -> list[str]:
    """Violations of a network at rest."""
    peers = [each for each in population if isinstance(each, Spice)]
    found = surface_objections([each.surface for each in peers])
    return (found or list(record_objections(peers)))[:OBJECTIONS_MAX]


class TractOwners:
    """The owner of each code."""

    def __init__(self, peers: Sequence[Spice]) -> None:
        spans: list[tuple[int, int, int]] = []
        for index, each in enumerate(peers):
            ground = each.surface.committed
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
        """The lowest notch at which a registry is not closed within one peer. Below it all records
        take the same way.

        Large registries are closed there through half of all notches, so the search for each record
        begins here.
        """
        found = self._landings.get((tag, root))
        if found is None:
            found = self._landings[tag, root] = self._find_landing(tag, root)
        return found

    def _find_landing(self, tag: str, root: int) -> int:
        notch, owner = 0, self.at(root)
        while owner is not None:
            inside = container(root, notch, owner.settings.dimensions)
            registry = owner.registries.by_key.get((tag, root, notch))
            if registry is None or not (
                within(inside, owner.surface.committed) and within(inside, registry.closed)
            ):
                break
            notch = owner.settings.above(notch)
        return notch


def record_objections(peers: Sequence[Spice]) -> Iterator[str]:
    """Complete registrations that a cast would not find.

    Most records are stored at their home at the landing notch. They are found by iterating over the
    owners' records; only the others are searched one by one, at ten times the cost.
    """
    owners, replicas = TractOwners(peers), replicas_of(peers)
    entries_by_tag = _registered_entries(peers)
    stored = _owner_records(owners, entries_by_tag)
    for tag, entries in entries_by_tag.items():
        for root in (address_of(tag), *replicas.get(tag, ())):
            met: set[Name] = set()
            for ground, notch, records in stored.get((tag, root), ()):
                met.update(_met(ground, root, notch, records, entries, owners.dimensions))
            for name in entries.keys() - met if len(met) < len(entries) else ():
                if not found(owners, tag, root, entries[name]):
                    address = entries[name].member.address
                    yield f"a cast for {tag} at root {root} would not find {address}"


def _registered_entries(peers: Sequence[Spice]) -> dict[str, dict[Name, Entry]]:
    """By tag, the entries of consumers whose registration is complete."""
    entries_by_tag: dict[str, dict[Name, Entry]] = {}
    for peer in peers:
        if peer.description is not None and not peer.registrations.awaited:
            for tag, entry in peer.registrations.announced.items():
                entries_by_tag.setdefault(tag, {})[entry.member.name] = entry
    return entries_by_tag


def _owner_records(
    owners: TractOwners, entries_by_tag: dict[str, dict[Name, Entry]]
) -> dict[tuple[str, int], list[OwnerRecords]]:
    """By tag and root, the records stored at the landing notch."""
    stored: dict[tuple[str, int], list[OwnerRecords]] = {}
    for peer in owners.peers:
        for (tag, root, notch), registry in peer.registries.by_key.items():
            if registry.records and tag in entries_by_tag and notch == owners.landing(tag, root):
                stored.setdefault((tag, root), []).append(
                    (peer.surface.committed, notch, registry.records)
                )
    return stored


def _met(
    ground: Tract,
    root: int,
    notch: int,
    records: Mapping[Name, Record],
    entries: dict[Name, Entry],
    dimensions: int,
) -> Iterator[Name]:
    """Consumers whose current entry is stored with the owner of its home."""
    here = [each.entry for name, each in records.items() if entries.get(name) is each.entry]
    places = homes(root, notch, [each.spot for each in here], dimensions)
    return (
        each.member.name for each, code in zip(here, places, strict=True) if contains(ground, code)
    )


def replicas_of(peers: Sequence[Spice]) -> dict[str, list[int]]:
    """By tag, the ready replica roots."""
    replicas: dict[str, list[int]] = {}
    for peer in peers:
        for (tag, root), state in peer.levels.roots.items():
            if state.ready and root != address_of(tag):
                replicas.setdefault(tag, []).append(root)
    return replicas


def found(owners: TractOwners, tag: str, root: int, entry: Entry) -> bool:
    """Whether a cast finds an entry, from the landing notch or from the root: a record may be on
    its way up.
    """
    landing = owners.landing(tag, root)
    return _found_from(owners, tag, root, landing, entry) or (
        landing > 0 and _found_from(owners, tag, root, 0, entry)
    )


def _found_from(owners: TractOwners, tag: str, root: int, notch: int, entry: Entry) -> bool:
    settings = owners.peers[0].settings
    while True:
        code = home(root, notch, entry.spot, settings.dimensions)
        owner = owners.at(code)
        registry = owner.registries.by_key.get((tag, root, notch)) if owner is not None else None
        if registry is None:
            return False
        held = registry.records.get(entry.member.name)
        if held is not None and held.entry.version >= entry.version:
            return True
        if not contains(registry.closed, code):
            return False
        notch = settings.above(notch)
