"""The lists of one place: those known around it, its table, and its wider every-class table."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable
from operator import attrgetter

from implicast.overlay.skip_graph.around import Around
from implicast.overlay.skip_graph.table import Level, LevelTable
from implicast.peer.contract import Address
from implicast.peer.identity import Certificate
from implicast.space.vector import Vectors

NEWS_MAX = 16
"""Others that a place names beside its lists before it cuts them again."""
KNOWN_MAX = 512
"""Others that a place takes in before it cuts its lists again; a table has 50."""

_by_key = attrgetter("key")


class Lists:
    """An owner's certificate, those known around it, and the lists cut from them."""

    __slots__ = ("_around", "_hearsay", "_news", "_stale", "_table", "_void", "_wide", "is_open", "k", "known", "owner",
                 "vectors")  # fmt: skip

    def __init__(self, owner: Certificate, k: int, vectors: Vectors) -> None:
        self.owner, self.k, self.vectors = owner, k, vectors
        self._around = Around(owner, k, vectors)
        self.known = self._around.known
        self._table, self._wide = self._around.tables()
        self._news: dict[bytes, Certificate] = {}  # who was let in since the lists were cut
        self._stale = False  # whether anything was learned since the lists were cut
        self._void = False  # whether those lists mean nothing any more
        self._hearsay: dict[bytes, int] = {}  # whom others named and who was not heard then, and when that was
        self.is_open = False  # while the owner searches: then everybody is kept, whether listed or not

    @property
    def table(self) -> LevelTable[Certificate]:
        """The lists by the rule over all that is known, also in the middle of a search: others may ask any time."""
        if self._stale:
            self._cut()
        return self._table

    @property
    def wide(self) -> LevelTable[Certificate]:
        """The every-class lists."""
        if self._stale:
            self._cut()
        return self._wide

    def listed(self, key: bytes) -> Certificate | None:
        """Another, if it is in one of the wider lists, or may be while the lists are open."""
        if self._stale:
            self._cut()
        return self.known.get(key)

    def fits(self, other: Certificate) -> bool:
        """Whether another belongs into one of the wider lists."""
        shared = self.vectors.common(self.owner.vector, other.vector)
        key = other.key
        for level in self.wide.levels[: shared + 1]:  # noqa: SIM110 - no generator for each
            if level.spans(key):
                return True
        return False

    def enter(self, other: Certificate) -> bool:
        """Take another in where it fits; True if anything changed. A newer certificate replaces an older one."""
        key = other.key
        held = self.known.get(key)
        if key == self.owner.key or (held is not None and held.serial >= other.serial):
            return False
        # Who was let in since the lists were cut may have shortened them: then it is for the next cut to decide.
        if not self.is_open and not (self._stale and len(self.known) < KNOWN_MAX) and not self.fits(other):
            return False
        self._around.put(other)
        self._news[key] = other
        self._stale = True
        return True

    def remove(self, gone: Iterable[bytes]) -> None:
        """These are no more."""
        for key in gone:
            if self._around.remove(key):
                self._hearsay.pop(key, None)
        self._stale = True

    def open(self) -> None:
        """A search begins: everybody is kept."""
        self.is_open = True

    def close(self) -> None:
        """The search is over: what was found is the table."""
        self.is_open = False
        if self._stale:
            self._cut()
        else:  # the lists were cut when nobody was left to ask
            self._keep_listed()

    def surround(self, others: Iterable[Certificate]) -> None:
        """Know these and nobody else; the lists are cut when they are next asked for."""
        self._around.replace(others)
        self._stale = self._void = True

    def renew(self, owner: Certificate) -> None:
        """The owner has a newer certificate."""
        self.owner = owner
        self._around.renew(owner)
        self._stale = self._void = True

    def _cut(self) -> None:
        """Cut the lists by the rule, and forget who is in none."""
        self._table, self._wide = self._around.tables()
        self._stale = self._void = False
        self._news.clear()
        if not self.is_open:
            self._keep_listed()

    def _keep_listed(self) -> None:
        self._around.keep_listed()
        if self._hearsay:
            self._hearsay = {key: named_us for key, named_us in self._hearsay.items() if key in self.known}

    # --- hearsay

    def note_hearsay(self, key: bytes, now_us: int) -> None:
        """Somebody was only named to us."""
        self._hearsay[key] = now_us

    def vouched(
        self, named: Collection[Certificate], was_heard_since: Callable[[Address, int], bool]
    ) -> tuple[Certificate, ...]:
        """Of those known, whom the owner names to others: not who was only named to it and has not been heard since.

        So hearsay goes one step, and the dead are forgotten for good when those have lost them who ever heard them.
        Else newcomers that come one after another would pass them on to each other for ever.
        """
        hearsay = self._hearsay
        if not hearsay:
            return tuple(named)
        for node in named:
            if node.key in hearsay and was_heard_since(node.address, hearsay[node.key]):
                del hearsay[node.key]
        return tuple([node for node in named if node.key not in hearsay])

    # --- what others are told

    def witness(self, about: Certificate) -> tuple[Certificate, ...]:
        """Who is near another: the lists, and whoever came since they were cut (saves half of all cuts)."""
        if self._void or len(self._news) > NEWS_MAX:
            self._cut()
        said = answer(self._wide, self.vectors, self.k, about)
        if not self._stale:
            return said
        known = self.known
        named = {node.key: node for node in said if node.key in known}
        named.update({node.key: node for node in self._news.values() if node.key in known})
        named.pop(about.key, None)
        return (self.owner, *named.values())


def answer(table: LevelTable[Certificate], vectors: Vectors, k: int, about: Certificate) -> tuple[Certificate, ...]:
    """What an honest witness says: its lists of the levels they have in common, its k nearest to the claimant."""
    levels = min(vectors.common(table.owner.vector, about.vector) + 1, len(table.levels))
    listed = table.named(0, levels)
    if levels < len(table.levels) and not _is_well_inside(table.levels[0], about.key, k):
        everyone = table.everyone
        at = bisect_left(everyone, about.key, key=_by_key)
        near = [everyone[(at + step) % len(everyone)] for step in range(-k, k + 1)]
        beyond = {node.key: node for node in near if node.key not in listed}
        listed = listed | beyond if beyond else listed
    if about.key not in listed:
        return tuple(listed.values())
    return tuple([node for key, node in listed.items() if key != about.key])


def _is_well_inside(lowest: Level[Certificate], key: bytes, k: int) -> bool:
    """Whether the k nearest to a key on each side are in the lowest list: nobody known stands between those."""
    if lowest.full:
        return True
    at = lowest.position(key)
    return k <= at < len(lowest.nodes) - k
