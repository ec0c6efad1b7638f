"""A registry at one peer: the records with their home here at one notch, and the part that is closed.

Code by code: in the closed part everything is passed to the next notch; outside it is kept and answered here. Records
that lie in the closed part are on their way up and answered from meanwhile. On a quiet surface a peer's whole share of
a container is either open or closed; while pieces change hands it may be both.
"""

from implicast.casting.spice.homes import home
from implicast.casting.spice.messages import Record
from implicast.language.target import Target
from implicast.peer.contract import Address
from implicast.space.tract import EMPTY, Tract, contains, subtract

Key = tuple[str, int, int]
"""Tag, root, notch (thesis Table 8.2)."""


LINGER_US = 60_000_000
"""How long the version before the newest is still answered from: longer than a cast is under way."""


class Registry:
    """Records by consumer, and the closed part.

    A consumer that describes itself anew is, for a while, told of what either version fits (it drops what its newest
    does not). Otherwise a cast of two terms could meet the new version where the old one was responsible, and the old
    where the new one is: the least-term rule would leave it to nobody.
    """

    __slots__ = ("closed", "dimensions", "notch", "passed", "past", "records", "root")

    def __init__(self, root: int, notch: int, dimensions: int) -> None:
        self.root, self.notch, self.dimensions = root, notch, dimensions
        self.records: dict[Address, Record] = {}
        self.past: list[tuple[int, Record]] = []
        """Records that were replaced, and until when they are answered from."""
        self.closed: Tract = EMPTY
        self.passed = 0
        """Registrations that went up through here: how large the closed registry above is, about."""

    def home(self, record: Record) -> int:
        return home(self.root, self.notch, record.spot, self.dimensions)

    def keep(self, record: Record, now_us: int) -> int:
        """Keep the newer version; which version is kept now."""
        known = self.records.get(record.consumer)
        if known is not None:
            if known.version >= record.version:
                return known.version
            self._remember(known, now_us)
        self.records[record.consumer] = record
        return record.version

    def _remember(self, record: Record, now_us: int) -> None:
        self.past = [each for each in self.past if each[0] > now_us]
        if record.description is not None:
            self.past.append((now_us + LINGER_US, record))

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

    def risen(self, consumer: Address, version: int, now_us: int) -> None:
        """The next notch has this record: ours may go, if it is not newer and lies in the closed part."""
        record = self.records.get(consumer)
        if record is not None and record.version <= version and not self.is_open(record):
            del self.records[consumer]
            if record.version < version:
                self._remember(record, now_us)

    def within(self, tract: Tract) -> list[Record]:
        return [each for each in self.records.values() if contains(tract, self.home(each))]

    def past_within(self, tract: Tract) -> list[tuple[int, Record]]:
        return [each for each in self.past if contains(tract, self.home(each[1]))]

    def drop(self, tract: Tract) -> None:
        """The tract is in other hands."""
        for record in self.within(tract):
            del self.records[record.consumer]
        self.past = [each for each in self.past if not contains(tract, self.home(each[1]))]
        self.closed = subtract(self.closed, tract)

    def selected(self, target: Target, term: int, part: Tract, now_us: int) -> list[Address]:
        """Consumers at home in the part whom the target selects and for whom this term is the least that does.

        The least-term rule (Listing 8): every term's peer decides alone, and nobody is notified twice.
        """
        found = {each.consumer: None for each in self.records.values() if self._fits(each, target, term, part)}
        for until_us, record in self.past:
            if until_us > now_us and self._fits(record, target, term, part):
                found[record.consumer] = None
        return list(found)

    def _fits(self, record: Record, target: Target, term: int, part: Tract) -> bool:
        description, least = record.description, target.terms[term]
        if description is None or not least.selects(description) or not contains(part, self.home(record)):
            return False
        return term == 0 or target.least_term(description) == least

    @property
    def size(self) -> int:
        """How many are registered at and above this place, about."""
        return len(self.records) + self.passed

    @property
    def idle(self) -> bool:
        return not (self.records or self.closed or self.past)
