"""A registry at one peer: records with their home here at one notch, and the closed part.

Code by code: in `closed` everything is passed to the next notch; outside it is kept and answered here. Records that lie
in the closed part are on their way up and answered from meanwhile. In `gathering`, a part of `closed`, what comes is
kept here although casts still go up: it is being drawn together (`containers.py`).
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from implicast.casting.spice.homes import home, homes
from implicast.casting.spice.items import Key, record_item
from implicast.casting.spice.messages import Entry
from implicast.language.target import Description, Target
from implicast.overlay.ice.estate import Item
from implicast.peer.contract import Contact, Name
from implicast.peer.late import unmade
from implicast.space.built import built
from implicast.space.tract import EMPTY, Tract, contains, subtract

NEVER_US = 1 << 62
_BUILT = built("casting.spice._records")
BEFORE_US = 60_000_000
"""How long the description before the newest is still answered from: longer than a cast is under way."""


class Held:
    """An entry as its holder keeps it."""

    __slots__ = ("_item", "before_us", "entry", "home", "safe", "until_us")

    def __init__(self, entry: Entry, home: int, now_us: int, until_us: int, safe: bool) -> None:
        self.entry, self.home, self.until_us, self.safe = entry, home, until_us, safe
        self._item: Item | None = None
        self.before_us = now_us + BEFORE_US if entry.before is not None else 0

    def says(self, now_us: int) -> Iterator[Description]:
        """What the consumer may be, to the holder's knowledge."""
        entry = self.entry
        if entry.description is not None:
            yield entry.description
        if entry.before is not None and now_us < self.before_us:
            yield entry.before

    def as_item(self, key: Key) -> Item:
        """As it travels; made once: copies for heirs are made often and were a tenth of all cost."""
        if self._item is None:
            self._item = record_item(key, self.entry, self.home)
        return self._item

    def renew(self, until_us: int) -> None:
        self.until_us = until_us

    def secure(self) -> None:
        """The heirs have it."""
        self.safe = True


class Stock:
    """Tells whether anything that one peer keeps has come, gone or been replaced.

    What is made of a whole stock is remembered until its version rises: copies for heirs, and what is seen of it from
    outside, at a fifth of the cost.
    """

    __slots__ = ("losses", "version")

    def __init__(self) -> None:
        self.version = 0
        self.losses = 0
        """Rises whenever a record goes, or another part is closed: what was found may be found no more."""

    def changed(self, lost: bool = False) -> None:
        self.version += 1
        self.losses += lost


class Registry:
    """Records by consumer, and the parts that are closed and being gathered."""

    __slots__ = (
        "_due_us",
        "_lot",
        "_packed",
        "_rows",
        "closed",
        "dimensions",
        "gathering",
        "notch",
        "passed",
        "records",
        "root",
        "stock",
    )

    def __init__(self, root: int, notch: int, dimensions: int, stock: Stock) -> None:
        self.root, self.notch, self.dimensions, self.stock = root, notch, dimensions, stock
        self.records: dict[Name, Held] = {}
        self.closed: Tract = EMPTY
        self.gathering: Tract = EMPTY
        self.passed = 0
        """Registrations that went up through here: how many there are above, about."""
        self._packed: list[Item] | None = None
        """All records as they travel, while none comes or goes."""
        self._rows: bytes | None = None
        """What the compiled `selected` looks at first, while none comes or goes."""
        self._due_us = NEVER_US
        """Before this time no record runs out."""
        self._lot: Any = None
        """Where the records lie in columns, until they are asked for one by one."""

    def lie(self, lot: Any) -> None:
        """The records are those of a lot in columns that all share (`_records.Lot`)."""
        self._lot, self.__class__ = lot, unmade(Registry, ("records",), Registry.take_up)
        del self.records

    def take_up(self) -> None:
        """Records that have only been looked through until now."""
        lot, self._lot, self.records, self.__class__ = self._lot, None, {}, Registry
        self.stand(lot.entries(), 0, NEVER_US)

    def keep(self, entry: Entry, now_us: int, until_us: int, safe: bool = False) -> Held:
        """Keep the newer version; a renewal begins its lease anew. `safe`: the heirs have it."""
        held = self.records.get(entry.member.name)
        if held is not None and held.entry.version >= entry.version:
            if held.entry.version == entry.version:
                held.renew(until_us)
            return held
        at = home(self.root, self.notch, entry.spot, self.dimensions)
        held = self.records[entry.member.name] = Held(entry, at, now_us, until_us, safe)
        self._packed = self._rows = None
        self.stock.changed()
        self._due_us = min(self._due_us, until_us)
        return held

    def has(self, entry: Entry) -> bool:
        """Is as much as this entry says of its consumer held, do heirs have it, and does nothing of it go up?"""
        held = self.records.get(entry.member.name)
        return (
            held is not None
            and held.safe
            and held.entry.version >= entry.version
            and not self.closed
        )

    def stand(self, entries: Sequence[Entry], now_us: int, until_us: int) -> None:
        """Keep all of these, of different consumers, in a registry that has none; the heirs have them."""
        assert not self.records, "what is there might be newer"
        spots = [each.spot for each in entries]
        for entry, at in zip(
            entries, homes(self.root, self.notch, spots, self.dimensions), strict=True
        ):
            self.records[entry.member.name] = Held(entry, at, now_us, until_us, True)
        self._packed = self._rows = None
        self._due_us = min(self._due_us, until_us)
        self.stock.changed()

    def remove(self, held: Held) -> None:
        """This record is not kept here any more."""
        del self.records[held.entry.member.name]
        self._packed = self._rows = None
        self.stock.changed(lost=True)

    def shut(self, closed: Tract) -> None:
        """From now on this is the closed part."""
        if closed != self.closed:
            self.closed = closed
            self.stock.changed(lost=True)

    def gather(self, tract: Tract) -> None:
        """From now on this part is being drawn together."""
        self.gathering = tract

    def pass_by(self, count: int) -> None:
        """So many more are registered above."""
        self.passed = max(0, self.passed + count)

    def run_out(self, now_us: int) -> list[Held]:
        """Records that have not been renewed for a lease. Renewals only put that off: most sweeps need not look."""
        if now_us < self._due_us:
            return []
        self._due_us = min((each.until_us for each in self.records.values()), default=NEVER_US)
        return [each for each in self.records.values() if each.until_us <= now_us]

    @property
    def passing(self) -> Tract:
        """Where nothing is kept: closed and not being gathered."""
        return subtract(self.closed, self.gathering)

    def living(self) -> int:
        """How many are registered in the open part."""
        closed, alive = (
            self.closed,
            [each for each in self.records.values() if each.entry.description is not None],
        )
        return (
            sum([not bisect_right(closed, each.home) & 1 for each in alive])
            if closed
            else len(alive)
        )

    def rising(self) -> list[Held]:
        """What lies in the closed part and has to go up."""
        passing = self.passing
        return (
            [each for each in self.records.values() if bisect_right(passing, each.home) & 1]
            if passing
            else []
        )

    def within(self, tract: Tract) -> list[Held]:
        if not self.notch:  # all are at home at the root itself
            return list(self.records.values()) if contains(tract, self.root) else []
        return [each for each in self.records.values() if bisect_right(tract, each.home) & 1]

    def packed(self, key: Key, tract: Tract) -> list[Item]:
        """Records at home in a tract as they travel. At notch 0 all are at home at the root itself: one look for all, a
        third of the cost of packing."""
        if self.notch or not contains(tract, self.root):
            return [held.as_item(key) for held in self.within(tract)]
        if self._packed is None:
            self._packed = [held.as_item(key) for held in self.records.values()]
        return self._packed

    def selected(self, target: Target, term: int, part: Tract, now_us: int) -> list[Contact]:
        """Consumers at home in the part whom the target selects and for whom this term is the least that does.

        The least-term rule (Listing 8): every term's peer decides alone.
        """
        least = target.terms[term]
        if _BUILT is None or term or least.where:
            return [
                each.entry.member for each in self.within(part) if fits(each, target, term, now_us)
            ]
        everywhere = not self.notch  # all are at home at the root itself
        if everywhere and not contains(part, self.root):
            return []
        if self._lot is not None:
            looked_through: list[Contact] = self._lot.selected(least, part, everywhere)
            return looked_through
        rows = self._rows = self._rows or _BUILT.rows_of(self.records)
        members: list[Contact] = _BUILT.selected(
            self.records, rows, least, part, everywhere, now_us
        )
        return members

    @property
    def idle(self) -> bool:
        return not (self.records or self.closed)


def fits(held: Held, target: Target, term: int, now_us: int) -> bool:
    """Is the consumer of a record to be notified by the peer that handles this term?"""
    least = target.terms[term]
    for description in held.says(now_us):
        if least.selects(description) and (term == 0 or target.least_term(description) == least):
            return True
    return False
