"""Looks at registries from outside again and again, and remembers what it saw: `registries.py` at a fifth of its cost.

A record that a cast would find is found again as long as nobody it was found by has changed: who owned the root, and
whoever a cast would have met above it, has the same ground and has let no record go since. All else (what was not
found, what consumers say anew, roots that have become ready) is looked for each time.

Left out: what `registries.py` says of the surface, which is looked at afresh.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from implicast.casting.spice.homes import address_of
from implicast.casting.spice.messages import Entry
from implicast.casting.spice.spice import Spice
from implicast.peer.contract import Address, Peer
from implicast.space.tract import Tract, contains
from implicast.world.populations.registries import OBJECTIONS_MAX, Owners, found, replicas_of
from implicast.world.populations.surface_objections import Whole, surface_objections

Roots = dict[str, list[int]]
"""By tag."""
NOBODY = None
"""In the place of owners by whom a record was found: it was not."""


class Shown(NamedTuple):
    """What an owner had at the last look: the roots at which it keeps records, and by what it is known to have them."""

    version: int
    losses: int
    ground: Tract
    roots: list[tuple[str, int]]


class Seen(NamedTuple):
    """What was found of a consumer at the last look."""

    version: int
    away: Roots
    """Where it was not at the root itself, ..."""
    by: set[Address | None]
    """... and those by whom it was found then."""


class Watch:
    """Says what `objections` says, look after look, of one population as it changes."""

    def __init__(self) -> None:
        self._shown: dict[Address, Shown] = {}
        self._seen: dict[Address, Seen] = {}
        self._replicas: Roots = {}
        self._whole: Whole = {}

    def __call__(self, population: Sequence[Peer]) -> list[str]:
        peers = [each for each in population if isinstance(each, Spice)]
        wrong = surface_objections([each.surface for each in peers], self._whole)
        return (wrong or list(self._record_objections(peers)))[:OBJECTIONS_MAX]

    def _record_objections(self, peers: Sequence[Spice]) -> Iterator[str]:
        owners, replicas = Followed(peers), replicas_of(peers)
        changed, hot = self._changed(peers)
        self._note_ready(replicas, hot)
        before, self._seen = self._seen, {}
        for peer in peers:
            if peer.description is None or peer.registrations.awaited:
                continue
            seen = before.get(peer.address)
            if seen is None or seen.version != peer.version:
                asked = {
                    tag: [address_of(tag), *replicas.get(tag, ())]
                    for tag in peer.registrations.told
                }
            elif changed.isdisjoint(seen.by) and peer.registrations.told.keys().isdisjoint(hot):
                self._seen[peer.address] = seen
                continue
            else:
                asked = _asked(peer, replicas, hot, seen.away)
            seen = self._seen[peer.address] = Seen(peer.version, {}, set())
            for tag, roots in asked.items():
                yield from _look(owners, peer, tag, roots, seen)

    def _changed(self, peers: Sequence[Spice]) -> tuple[set[Address | None], Roots]:
        """Who may have less than at the last look, and the roots at which they had something then."""
        changed: set[Address | None] = {NOBODY}
        hot: Roots = {}
        before, self._shown = self._shown, {}
        for peer in peers:
            shown = before.pop(peer.address, None)
            stock, ground = peer.stock, peer.surface.ground
            if shown is not None and (shown.losses != stock.losses or shown.ground != ground):
                changed.add(peer.address)
                _add(hot, shown.roots)
            if shown is None or shown.version != stock.version or shown.ground != ground:
                shown = Shown(stock.version, stock.losses, ground, _roots(peer, ground))
            self._shown[peer.address] = shown
        for address, gone in before.items():
            changed.add(address)
            _add(hot, gone.roots)
        return changed, hot

    def _note_ready(self, replicas: Roots, hot: Roots) -> None:
        """Roots that have become ready are looked at for everybody."""
        for tag, roots in replicas.items():
            known = self._replicas.get(tag, ())
            _add(hot, [(tag, root) for root in roots if root not in known])
        self._replicas = replicas


class Followed(Owners):
    """Notes who is met on a way."""

    def __init__(self, peers: Sequence[Spice]) -> None:
        super().__init__(peers)
        self.met: set[Address | None] = set()

    def at(self, code: int) -> Spice | None:
        owner = super().at(code)
        if owner is not None:
            self.met.add(owner.address)
        return owner


def _roots(peer: Spice, ground: Tract) -> list[tuple[str, int]]:
    return [
        (tag, root)
        for tag, root, notch in peer.shelf.registries
        if not notch and contains(ground, root)
    ]


def _add(roots: Roots, more: Sequence[tuple[str, int]]) -> None:
    for tag, root in more:
        roots.setdefault(tag, []).append(root)


def _asked(peer: Spice, replicas: Roots, hot: Roots, away: Roots) -> Roots:
    """Where a consumer that has been looked at before must be looked for again, in the order of a fresh look."""
    asked: Roots = {}
    for tag in peer.registrations.told:
        if tag in hot or tag in away:
            again = {*hot.get(tag, ()), *away.get(tag, ())}
            asked[tag] = [
                each for each in (address_of(tag), *replicas.get(tag, ())) if each in again
            ]
    return asked


def _look(
    owners: Followed, peer: Spice, tag: str, roots: Sequence[int], seen: Seen
) -> Iterator[str]:
    entry = peer.registrations.told[tag]
    for root in roots:
        owners.met = set()
        if not _is_at(owners, tag, root, entry):
            seen.away.setdefault(tag, []).append(root)
            if found(owners, tag, root, entry):
                seen.by.update(owners.met)
            else:
                seen.by.add(NOBODY)
                yield f"a cast for {tag} at root {root} would not find {peer.address}"


def _is_at(owners: Owners, tag: str, root: int, entry: Entry) -> bool:
    """Is the record kept at the root itself?"""
    owner = owners.at(root)
    registry = owner.shelf.registries.get((tag, root, 0)) if owner is not None else None
    held = registry.records.get(entry.member.name) if registry is not None else None
    return held is not None and held.entry.version >= entry.version
