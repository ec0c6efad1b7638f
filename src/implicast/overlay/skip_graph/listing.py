"""One place of a peer as others see it: its certificate, whom it lists, and what it says of them. Pure of messages."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from implicast.overlay.skip_graph.answering import answer
from implicast.overlay.skip_graph.around import Around
from implicast.overlay.skip_graph.table import Table
from implicast.peer.contract import Address
from implicast.peer.identity import Certificate
from implicast.space.vector import Vectors

Side = tuple[int, bool]
"""A level, and whether its left side is meant."""

ASKERS_MAX = 128
"""The last to ask, told too when the place is left: they may list it though it does not list them."""
PASSERS_MAX = 32
"""The last to ask who are in no list, at hand for when somebody has gone."""
NEWS_MAX = 16
"""Others that a place names beside its lists before it cuts them again."""
KNOWN_MAX = 512
"""Others that a place takes in before it cuts its lists again; a table has 50."""


class Listing:
    """A certificate, those known around it, the lists cut from them, and the wider every-class lists."""

    __slots__ = (
        "_around", "_stale", "_table", "_void", "_wide", "agreed", "askers", "certificate", "compared", "hearsay", "k",
        "key", "known", "news", "offered", "passers", "searching", "shown", "turn", "vectors",
    )  # fmt: skip

    def __init__(self, certificate: Certificate, k: int, vectors: Vectors) -> None:
        self.certificate, self.vectors, self.k = certificate, vectors, k
        self.key = certificate.key  # that of a newer certificate of the place too
        self._around = Around(certificate, k, vectors)
        self.known = self._around.known
        self._table, self._wide = self._around.tables()
        self.news: dict[bytes, Certificate] = {}  # who was let in since the lists were cut
        self._stale = False  # whether anything was learned since the lists were cut
        self._void = False  # whether those lists mean nothing any more
        self.hearsay: dict[bytes, int] = {}  # whom others named and who was not heard then, and when that was
        self.searching = False  # then everybody is kept, whether listed or not
        self.askers: dict[Address, None] = {}  # the latest, oldest first
        self.passers: dict[bytes, Certificate] = {}  # the latest who asked and are in no list
        self.turn = b""
        self.agreed: dict[Side, tuple[Certificate, ...]] = {}  # lists as they were when the neighbour had the same
        self.offered: dict[Side, tuple[bytes, tuple[Certificate, ...]]] = {}  # to whom a list was shown, and which
        self.compared: Table[Certificate] | None = None  # the wide lists with all of which neighbours agreed
        self.shown: tuple[Table[Certificate] | None, int] = (None, 0)  # the lists last shown, and in how many rounds

    @property
    def table(self) -> Table[Certificate]:
        """The lists by the rule over all that is known, also in the middle of a search: others may ask any time."""
        if self._stale:
            self._cut()
        return self._table

    @property
    def wide(self) -> Table[Certificate]:
        """The every-class lists."""
        if self._stale:
            self._cut()
        return self._wide

    def listed(self, key: bytes) -> Certificate | None:
        """Another, if it is in one of the wider lists, or may be while we search."""
        if self._stale:
            self._cut()
        return self.known.get(key)

    def fits(self, other: Certificate) -> bool:
        """Whether another belongs into one of the wider lists."""
        shared = self.vectors.common(self.certificate.vector, other.vector)
        key = other.key
        for level in self.wide.levels[: shared + 1]:  # noqa: SIM110 - no generator for each
            if level.spans(key):
                return True
        return False

    def enter(self, other: Certificate) -> bool:
        """Take another in where it fits; True if anything changed. A newer certificate replaces an older one."""
        key = other.key
        held = self.known.get(key)
        if key == self.key or (held is not None and held.serial >= other.serial):
            return False
        # Who was let in since the lists were cut may have shortened them: then it is for the next cut to decide.
        if not self.searching and not (self._stale and len(self.known) < KNOWN_MAX) and not self.fits(other):
            return False
        self._around.put(other)
        self.news[key] = other
        self._stale = True
        return True

    def agree_with_all(self) -> None:
        """Its lists are known to be what those of its neighbours are."""
        self.compared = self.wide
        for number, level in enumerate(self.wide.levels):
            self.agreed[number, True] = self.agreed[number, False] = level.nodes

    def disagree(self) -> None:
        """Its lists may be out of date, all of them: they are to be shown to its neighbours."""
        self.agreed.clear()
        self.compared, self.shown = None, (None, 0)

    def pass_by(self, other: Certificate) -> None:
        """Somebody asked who is in no list: it may have heard sooner than we that another has gone."""
        if other.key not in self.known and other.key != self.key:
            self.passers.pop(other.key, None)
            self.passers[other.key] = other
            if len(self.passers) > PASSERS_MAX:
                del self.passers[next(iter(self.passers))]

    def asked_by(self, asker: Address) -> None:
        self.askers[asker] = None
        if len(self.askers) > ASKERS_MAX:
            del self.askers[next(iter(self.askers))]

    def surround(self, others: Iterable[Certificate]) -> None:
        """Know these and nobody else; the lists are cut when they are next asked for."""
        self._around.replace(others)
        self._stale = self._void = True

    def renew(self, certificate: Certificate) -> None:
        """The place has a newer certificate."""
        self.certificate = certificate
        self._around.renew(certificate)
        self._stale = self._void = True

    def _cut(self) -> None:
        """Cut the lists by the rule, and forget who is in none."""
        self._table, self._wide = self._around.tables()
        self._stale = self._void = False
        self.news.clear()
        if not self.searching:
            self._keep_listed()

    def _keep_listed(self) -> None:
        self._around.keep_listed()
        if self.hearsay:
            self.hearsay = {key: named_us for key, named_us in self.hearsay.items() if key in self.known}

    def _remove(self, key: bytes) -> None:
        """Somebody is no more."""
        if self._around.remove(key):
            self._stale = True
            self.hearsay.pop(key, None)

    def witness(self, about: Certificate, level: int) -> tuple[Certificate, ...]:
        """What this place says of another: its lists, and whoever came since they were cut (saves half of all cuts)."""
        if self._void or len(self.news) > NEWS_MAX:
            self._cut()
        said = answer(self._wide, self.vectors, self.k, about, level)
        if not self._stale:
            return said
        common, vector, known = self.vectors.common, self.certificate.vector, self.known
        named = {node.key: node for node in said if node.key in known}
        news = [node for node in self.news.values() if common(vector, node.vector) >= level]
        named.update({node.key: node for node in news if node.key in known})
        named.pop(about.key, None)
        return (self.certificate, *named.values())

    def next_in_turn(self) -> Certificate | None:
        """Whose turn it is to be asked whether it is there: the next listed, clockwise."""
        listed = self.wide.contacts()
        if not listed:
            return None
        node = next((node for node in listed if node.key > self.turn), listed[0])
        self.turn = node.key
        return node

    def nearest(self, nodes: Sequence[Certificate], count: int) -> list[Certificate]:
        """The `count` of them nearest to this place on each side, clockwise."""
        by_key = {node.key: node for node in nodes}
        by_key.pop(self.key, None)
        ring = sorted(by_key)
        if len(ring) <= 2 * count:
            return [by_key[key] for key in ring]
        at = bisect_left(ring, self.key)
        return [by_key[ring[(at + step) % len(ring)]] for step in range(-count, count)]
