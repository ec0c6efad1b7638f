"""What is known of replication: the header of a tag at its original root, the states of replica roots at those roots.

Headers and states travel with the ground as items; of two the newer is kept, with the deeper level of both. What is
about to hold (`aims`) is known to heirs before it does.
"""

from typing import Any

from implicast.casting.spice import items
from implicast.casting.spice.homes import address_of, roots_of
from implicast.casting.spice.items import Header, Label, RootState
from implicast.casting.spice.registry import Stock
from implicast.casting.spice.settings import Settings
from implicast.overlay.ice.estate import Item
from implicast.space.tract import Tract, contains

NO_HEADER = Header()
UNTOLD = RootState(0, 0, False)
"""Of a root that was told nothing."""


class Levels:
    """Headers of tags and states of roots at one peer."""

    __slots__ = ("_resting", "_settings", "_stock", "aims", "depth", "doubted", "headers", "roots")

    def __init__(self, settings: Settings, stock: Stock) -> None:
        self._settings, self._stock = settings, stock
        self.headers: dict[str, Header] = {}
        self.aims: dict[str, Header] = {}
        """Headers about to hold: heirs know of them already."""
        self.doubted: dict[str, None] = {}
        """Tags of ours whose replicas may lack some of what their original root has: they are copied to again."""
        self.depth = settings.deepest if settings.levels is not None else 0
        """The deepest level that any tag has copies of, as far as is known here: where casts begin to look."""
        self.roots: dict[tuple[str, int], RootState] = {}
        self._resting: dict[tuple[str, int], int] = {}
        """Roots that are not ready, and for how many sweeps."""

    def header(self, tag: str) -> Header:
        return self.headers.get(tag, NO_HEADER)

    def goal(self, tag: str) -> int:
        """Registrations of this tag go to all roots of this level."""
        return (
            self.header(tag).goal
            if self._settings.levels is None
            else self._settings.levels.get(tag, 0)
        )

    def set_header(self, tag: str, header: Header) -> None:
        self.headers[tag] = header
        self._stock.changed()

    def aim(self, tag: str, header: Header) -> Item:
        """This header is to hold when heirs know; what they are told."""
        self.aims[tag] = header
        self._stock.changed()
        return items.header_item(tag, header)

    def end_aim(self, tag: str) -> None:
        self.aims.pop(tag, None)
        self._stock.changed()

    def learn_depth(self, level: int) -> None:
        self.depth = max(self.depth, min(level, self._settings.deepest))

    # --- roots

    def roots_at(self, tag: str, level: int) -> list[int]:
        return roots_of(
            address_of(tag), min(level, self._settings.deepest), self._settings.dimensions
        )

    def new_roots(self, tag: str, level: int, known: int) -> list[int]:
        """Roots of a level that are not roots of a lower one."""
        return sorted(set(self.roots_at(tag, level)) - set(self.roots_at(tag, known)))

    def state(self, tag: str, root: int) -> RootState:
        return self.roots.get((tag, root), UNTOLD)

    def learn_root(self, tag: str, root: int, state: RootState) -> None:
        self.roots[tag, root] = max(self.roots.get((tag, root), state), state)
        self._stock.changed()

    def sweep(self, most: int) -> None:
        """A root that has not been ready for more sweeps than this has nothing to remember."""
        self._resting = {
            each: self._resting.get(each, 0) + 1
            for each, state in self.roots.items()
            if not state.ready
        }
        for each in [one for one, sweeps in self._resting.items() if sweeps > most]:
            del self.roots[each], self._resting[each]
            self._stock.changed()

    def is_ready(self, tag: str, root: int) -> bool:
        """May casts stop at this root of ours?"""
        return self.state(tag, root).ready or root == address_of(tag)

    # --- as items

    def pack(self, tract: Tract) -> list[Item]:
        headers = {**self.headers, **self.aims}.items()
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
            ):  # another side of a partition: its roots answer casts, and must have all
                self.aims.pop(tag, None)
                header = Header(
                    header.number + 2, older.level, older.level, False
                )  # newer than that aim, too
            if header != NO_HEADER:  # which only says that there may be more to copy
                self.set_header(tag, header)
            if (
                header.level and not header.ready
            ):  # how far whoever led before us had come is not known
                self.doubted[tag] = None
        else:
            self.learn_root(tag, root, items.state_of(item.body))

    def drop(self, tract: Tract) -> None:
        self.headers = {
            tag: each for tag, each in self.headers.items() if not contains(tract, address_of(tag))
        }
        self.aims = {
            tag: each for tag, each in self.aims.items() if not contains(tract, address_of(tag))
        }
        self.doubted = {tag: None for tag in self.doubted if not contains(tract, address_of(tag))}
        self.roots = {key: each for key, each in self.roots.items() if not contains(tract, key[1])}
        self._stock.changed()

    def holdings(self) -> Any:
        return list(self.headers.items()), list(self.roots.items())
