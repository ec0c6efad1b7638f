"""Replication state at one peer: headers of tags at their original roots, and states of replica
roots.

Headers and states are items and move with the extents that contain them. When two headers of a tag
meet, the newer holds, with the deeper level of both. A header is proposed to the backups before it
takes effect.
"""

from typing import Any

from implicast.casting.spice import items
from implicast.casting.spice.homes import address_of, roots_of
from implicast.casting.spice.items import Label, ReplicationHeader, RootState
from implicast.casting.spice.registry import VersionCounter
from implicast.casting.spice.settings import SpiceSettings
from implicast.overlay.ice.item_store import Item
from implicast.space.tract import Tract, contains

NO_HEADER = ReplicationHeader()
NO_STATE = RootState(0, 0, False)
"""State of a root that has been told nothing."""


class Levels:
    """Headers of tags and states of replica roots."""

    __slots__ = (
        "_counter",
        "_unready_sweeps",
        "depth",
        "headers",
        "incomplete",
        "proposals",
        "roots",
        "settings",
    )

    def __init__(self, settings: SpiceSettings, counter: VersionCounter) -> None:
        self.settings, self._counter = settings, counter
        self.headers: dict[str, ReplicationHeader] = {}
        self.proposals: dict[str, ReplicationHeader] = {}
        """Headers that take effect when the backups have them."""
        self.incomplete: dict[str, None] = {}
        """Tags of local headers whose replicas may lack records. They are copied again."""
        self.depth = settings.deepest if settings.levels is not None else 0
        """The deepest level with replicas of any tag, as far as known. Casts start looking there.
        """
        self.roots: dict[tuple[str, int], RootState] = {}
        self._unready_sweeps: dict[tuple[str, int], int] = {}
        """By root that is not ready: number of sweeps since."""

    def header(self, tag: str) -> ReplicationHeader:
        return self.headers.get(tag, NO_HEADER)

    def goal(self, tag: str) -> int:
        """Registrations of the tag are pushed to all roots of this level."""
        return (
            self.header(tag).goal
            if self.settings.levels is None
            else self.settings.levels.get(tag, 0)
        )

    def set_header(self, tag: str, header: ReplicationHeader) -> None:
        self.headers[tag] = header
        self._counter.bump()

    def propose(self, tag: str, header: ReplicationHeader) -> Item:
        """Propose a header. Returns the item for the backups."""
        self.proposals[tag] = header
        self._counter.bump()
        return items.header_item(tag, header)

    def clear_proposal(self, tag: str) -> None:
        self.proposals.pop(tag, None)
        self._counter.bump()

    def learn_depth(self, level: int) -> None:
        self.depth = max(self.depth, min(level, self.settings.deepest))

    # --- roots

    def roots_at(self, tag: str, level: int) -> list[int]:
        return roots_of(
            address_of(tag), min(level, self.settings.deepest), self.settings.dimensions
        )

    def new_roots(self, tag: str, level: int, known: int) -> list[int]:
        """Roots of `level` that are not roots of the lower level `known`."""
        return sorted(set(self.roots_at(tag, level)) - set(self.roots_at(tag, known)))

    def state(self, tag: str, root: int) -> RootState:
        return self.roots.get((tag, root), NO_STATE)

    def learn_root(self, tag: str, root: int, state: RootState) -> None:
        self.roots[tag, root] = max(self.roots.get((tag, root), state), state)
        self._counter.bump()

    def mark_incomplete(self, tag: str) -> None:
        """The replicas of a tag may lack records."""
        self.incomplete[tag] = None

    def mark_complete(self, tag: str) -> None:
        self.incomplete.pop(tag, None)

    def sweep(self, most: int) -> None:
        """Forget roots that have not been ready for more than `most` sweeps."""
        self._unready_sweeps = {
            each: self._unready_sweeps.get(each, 0) + 1
            for each, state in self.roots.items()
            if not state.ready
        }
        for each in [one for one, sweeps in self._unready_sweeps.items() if sweeps > most]:
            del self.roots[each], self._unready_sweeps[each]
            self._counter.bump()

    def is_ready(self, tag: str, root: int) -> bool:
        """Whether casts may stop at this local root."""
        return self.state(tag, root).ready or root == address_of(tag)

    # --- as items

    def pack(self, tract: Tract) -> list[Item]:
        headers = {**self.headers, **self.proposals}.items()
        found = [
            items.header_item(tag, header)
            for tag, header in headers
            if contains(tract, address_of(tag))
        ]
        return found + [
            items.root_item(*key, state)
            for key, state in self.roots.items()
            if contains(tract, key[1])
        ]

    def unite(self, label: Label, item: Item) -> None:
        kind, tag, root, _, _ = label
        if kind == items.HEADER:
            older, header = sorted((self.header(tag), items.header_of(item.body)))
            if (
                older.level > header.level
            ):  # from the other side of a partition: its roots answer casts and must be completed
                self.proposals.pop(tag, None)
                header = ReplicationHeader(
                    header.number + 2, older.level, older.level, False
                )  # newer than the dropped proposal
            if header != NO_HEADER:  # an empty header only reports that there may be more to copy
                self.set_header(tag, header)
            if header.level and not header.ready:  # the progress of the previous owner is unknown
                self.mark_incomplete(tag)
        else:
            self.learn_root(tag, root, items.state_of(item.body))

    def drop(self, tract: Tract) -> None:
        self.headers = {
            tag: each for tag, each in self.headers.items() if not contains(tract, address_of(tag))
        }
        self.proposals = {
            tag: each
            for tag, each in self.proposals.items()
            if not contains(tract, address_of(tag))
        }
        self.incomplete = {
            tag: None for tag in self.incomplete if not contains(tract, address_of(tag))
        }
        self.roots = {key: each for key, each in self.roots.items() if not contains(tract, key[1])}
        self._counter.bump()

    def holdings(self) -> Any:
        return list(self.headers.items()), list(self.roots.items())
