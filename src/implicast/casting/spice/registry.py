"""A registry at one peer: the records with their home here at one notch, and the part that is closed.

Code by code: in the closed part everything is passed to the next notch; outside it is kept and answered here. Records
that lie in the closed part are on their way up and answered from meanwhile. On a quiet surface a peer's whole share of
a container is either open or closed; while pieces change hands it may be both.
"""

from collections.abc import Iterator

from implicast.casting.spice.homes import home
from implicast.casting.spice.messages import Record
from implicast.language.target import Target
from implicast.peer.contract import Address
from implicast.space.tract import EMPTY, Tract, contains

Key = tuple[str, int, int]
"""Tag, root, notch (thesis Table 8.2)."""


class Registry:
    """Records by consumer, and the closed part."""

    __slots__ = ("closed", "dimensions", "notch", "passed", "records", "root")

    def __init__(self, root: int, notch: int, dimensions: int) -> None:
        self.root, self.notch, self.dimensions = root, notch, dimensions
        self.records: dict[Address, Record] = {}
        self.closed: Tract = EMPTY
        self.passed = 0
        """Registrations that went up through here: how large the closed registry above is, about."""

    def home(self, record: Record) -> int:
        return home(self.root, self.notch, record.spot, self.dimensions)

    def keep(self, record: Record) -> int:
        """Keep the newer version; which version is kept now."""
        known = self.records.get(record.consumer)
        if known is not None and known.version >= record.version:
            return known.version
        self.records[record.consumer] = record
        return record.version

    def crowded(self, limit: int) -> bool:
        """More living records in the open part than the limit?"""
        if len(self.records) <= limit:
            return False
        return sum(1 for each in self.records.values() if each.description is not None and self.is_open(each)) > limit

    def is_open(self, record: Record) -> bool:
        return not self.closed or not contains(self.closed, self.home(record))

    def rising(self) -> list[Record]:
        """Records in the closed part: to be moved up."""
        return [each for each in self.records.values() if not self.is_open(each)] if self.closed else []

    def risen(self, consumer: Address, version: int) -> None:
        """The next notch has this record: ours may go, if it is not newer and lies in the closed part."""
        record = self.records.get(consumer)
        if record is not None and record.version <= version and not self.is_open(record):
            del self.records[consumer]

    def within(self, tract: Tract) -> list[Record]:
        return [each for each in self.records.values() if contains(tract, self.home(each))]

    def selected(self, target: Target, term: int, part: Tract) -> Iterator[Address]:
        """Consumers at home in the part whom the target selects and for whom this term is the least that does.

        The least-term rule (Listing 8): every term's peer decides alone, and nobody is notified twice.
        """
        least = target.terms[term]
        for record in self.records.values():
            description = record.description
            if description is None or not least.selects(description) or not contains(part, self.home(record)):
                continue
            if term == 0 or target.least_term(description) == least:
                yield record.consumer

    @property
    def size(self) -> int:
        """How many are registered at and above this place, about."""
        return len(self.records) + self.passed
