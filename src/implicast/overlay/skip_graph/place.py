"""One place of a peer: its certificate, those known around it and the lists cut from them, and its search for others.

A place of an assembled world is at rest until it is touched: its table is cut from the standing graph, and it keeps
nothing of its own. A search follows ring upkeep D.1: ask all of the provisional table, the k nearest known on each
side, and the 2 nearest on each side of every single answer, until nobody is left to ask. The union of all answers is
believed: a liar can only name certified nodes, so every further honest witness only adds truth; and following each
answer to its own end keeps colluders nearby from crowding out the witnesses that an honest introducer named.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import attrgetter
from typing import Protocol

from implicast.overlay.skip_graph.accord import Accord, Nodes
from implicast.overlay.skip_graph.table import Around, Both, LevelTable, twin
from implicast.peer.contract import Address
from implicast.peer.identity import Certificate
from implicast.peer.memory import Recent
from implicast.space.vector import Vectors

ASKERS_MAX = 128
"""The last to ask, told too when the place is left: they may list it though it does not list them."""
PASSERS_MAX = 32
"""The last to ask who are in no list, at hand for when somebody has gone."""
NEWS_MAX = 16
"""Others that a place names beside its lists before it cuts them again."""
KNOWN_MAX = 512
"""Others that a place takes in before it cuts its lists again; a table has 50."""
PURSUED = 2
"""How many on each side of the newcomer are asked of every single answer."""
ASKED_MAX = 2_048
"""An end to searching, whatever others answer: many times the 100 that a join needs."""

ADDRESS = attrgetter("address")
ByKey = Mapping[bytes, Certificate]
_by_key = attrgetter("key")
_around = twin(Around[Certificate])


class StandingGraph(Protocol):
    """The whole graph of an assembled world, from which a place at rest reads its lists."""

    def table(self, key: bytes) -> LevelTable[Certificate]:
        """The lists of a place."""

    def named(self, key: bytes, wide: bool) -> dict[bytes, Certificate]:
        """A place and all in its lists, or in the every-class ones, by key."""

    def stored_bytes(self, keys: Iterable[bytes], wide: bool) -> int:
        """Bytes of all in the lists of some places but these, as they would be encoded."""


class Place:
    """A node of the graph that is ours."""

    __slots__ = (
        "_around",
        "_askers",
        "_at",
        "_news",
        "_table",
        "_wide",
        "accord",
        "asked",
        "certificate",
        "hearsay",
        "is_searching",
        "k",
        "key",
        "passers",
        "queue",
        "standing",
        "vectors",
        "waiting",
    )

    def __init__(
        self,
        certificate: Certificate,
        k: int,
        vectors: Vectors,
        standing: StandingGraph | None = None,
    ) -> None:
        self.certificate, self.k, self.vectors, self.standing = certificate, k, vectors, standing
        self.key = certificate.key  # that of a newer certificate of the place too
        self.is_searching = False  # then everybody is kept, whether listed or not
        self.waiting: dict[bytes, None] = {}  # whose answers it awaits
        self._around: Around[Certificate] | None = None
        self._table: LevelTable[Certificate] | None = (
            None  # None: to be cut; at rest that of the standing graph
        )
        self._wide: LevelTable[Certificate] | None = (
            None  # as cut last; None: that means nothing any more
        )
        if standing is None:
            self._wake()

    @property
    def is_at_rest(self) -> bool:
        """Whether it has not been touched since it was assembled."""
        return self.standing is not None

    def _wake(self) -> Around[Certificate]:
        """From now on it keeps its own lists."""
        around = self._around = _around(self.certificate, self.k, self.vectors)
        self._table, self._wide = around.tables()
        self._news: dict[bytes, Certificate] = {}  # who was let in since the lists were cut
        self.hearsay: dict[
            bytes, int
        ] = {}  # whom others named and who was not heard then, and when that was
        self._at: tuple[int, dict[Address, None]] = (
            0,
            {},
        )  # where those known are, after so many changes of them
        self.passers: Recent[bytes, Certificate] = Recent(
            PASSERS_MAX
        )  # the latest to ask who are in no list
        self._askers: Recent[Address, None] = Recent(ASKERS_MAX)
        self.queue: dict[bytes, Certificate] = {}  # whom it is going to ask
        self.asked: dict[bytes, Certificate] = {}  # whom it has asked in its last search
        self.accord = Accord()
        if self.standing is not None:
            named = self.standing.named(self.key, wide=True)
            self.surround([named[key] for key in sorted(named) if key != self.key])
            self.standing = None
            self.accord.agree_with_all(self.wide)
        return around

    @property
    def around(self) -> Around[Certificate]:
        """All others that it knows. Who asks for them wakes a place at rest."""
        return self._around or self._wake()

    # --- whom it lists

    @property
    def table(self) -> LevelTable[Certificate]:
        """The lists by the rule over all that is known, also in the middle of a search: others may ask any time."""
        if self._table is None:
            self._table = self._cut()[0] if self.standing is None else self.standing.table(self.key)
        return self._table

    @property
    def wide(self) -> LevelTable[Certificate]:
        """The every-class lists."""
        return self._cut()[1] if self._table is None or self._wide is None else self._wide

    @property
    def known(self) -> dict[bytes, Certificate]:
        """Everybody it knows, by key."""
        return (self._around or self._wake()).known

    @property
    def addresses(self) -> dict[Address, None]:
        """Where those are whom it knows, worked out once while they stay (saves a twentieth under change)."""
        around = self.around
        if self._at[0] != around.changes:
            self._at = around.changes, dict.fromkeys(map(ADDRESS, around.known.values()))
        return self._at[1]

    def named(self, wide: bool) -> dict[bytes, Certificate]:
        """Itself and everyone in its lists, or in the wider ones, by key."""
        if self.standing is not None:
            return self.standing.named(self.key, wide)
        table = self.wide if wide else self.table
        return table.named(0, len(table.levels))

    def listed(self, key: bytes) -> Certificate | None:
        """Another, if it is in one of the wider lists, or may be while the place searches."""
        if self._table is None:
            self._cut()
        return self.known.get(key)

    def enter(self, other: Certificate) -> bool:
        """Take another in where it fits; True if anything changed. A newer certificate replaces an older one."""
        key, known = other.key, self.known
        held = known.get(key)
        if key == self.key or (held is not None and held.serial >= other.serial):
            return False
        # Who was let in since the lists were cut may have shortened them: then it is for the next cut to decide.
        if (
            not self.is_searching
            and not (self._table is None and len(known) < KNOWN_MAX)
            and not self._fits(other)
        ):
            return False
        self.around.put(other)
        self._news[key] = other
        self._table = None
        return True

    def _fits(self, other: Certificate) -> bool:
        """Whether another belongs into one of the wider lists."""
        shared, key = self.vectors.common(self.certificate.vector, other.vector), other.key
        return True in [level.spans(key) for level in self.wide.levels[: shared + 1]]

    def drop(self, gone: Collection[bytes]) -> None:
        """Entries are no more."""
        for key in gone:
            if self.around.remove(key):
                self.hearsay.pop(key, None)
        self._table = None
        self.unask(gone)

    def surround(self, others: Iterable[Certificate]) -> None:
        """Know these and nobody else; the lists are cut when they are next asked for."""
        self.around.replace(others)
        self._table = self._wide = None

    def renew(self, certificate: Certificate) -> None:
        """The place has a newer certificate."""
        self.around.renew(certificate)
        self.certificate = certificate
        self._table = self._wide = None

    def _cut(self) -> Both[Certificate]:
        """Cut the lists by the rule, and forget who is in none."""
        tables = self._table, self._wide = self.around.tables()
        self._news.clear()
        if not self.is_searching:
            self.around.keep_listed()
            if self.hearsay:
                self.hearsay = {
                    key: named_us for key, named_us in self.hearsay.items() if key in self.known
                }
        return tables

    # --- searching

    def search(self, first: Iterable[Certificate]) -> None:
        """Begin to search for everyone, or widen a search under way."""
        if not self.is_searching:
            self.is_searching = True
            self.asked.clear()
        self._want(first)

    def learn(self, named: Collection[Certificate]) -> list[Certificate]:
        """Take one witness's answer in, and follow its trail to its own end while searching. Who is new?"""
        if self.is_searching:
            self._want(nearest(self.key, named, PURSUED))
            news = take_in(self.around, self.key, named)  # as `enter` would, all at once
            self._news.update(zip(map(_by_key, news), news, strict=True))
            self._table = None if news else self._table
            return news
        return [node for node in strangers(self.known, named) if self.enter(node)]  # one in ten

    def _want(self, nodes: Iterable[Certificate]) -> None:
        """These are to be asked, unless they were."""
        for node in nodes:
            if node.key not in self.asked and node.key != self.key:
                self.queue[node.key] = node

    def unask(self, whom: Iterable[bytes]) -> None:
        """What they may have been asked counts no more: should they come back, they are to be asked anew."""
        for key in whom:
            self.queue.pop(key, None)
            self.asked.pop(key, None)

    def next_to_ask(self) -> Certificate | None:
        """None when there is nobody. When the queue runs dry the provisional table is looked at."""
        if not self.queue and not self.waiting and len(self.asked) < ASKED_MAX:
            self._want(self.wide.contacts())
            self._want(nearest(self.key, self.known.values(), self.k))
        if not self.queue:
            return None
        node = self.queue.pop(next(iter(self.queue)))
        self.asked[node.key] = node
        return node

    def end_search(self) -> None:
        """What was found is the table."""
        self.is_searching = False
        self._cut()  # if they were cut when nobody was left to ask, they stay; the others are forgotten

    # --- who asks, and what others are told

    def asked_by(self, other: Certificate) -> bool:
        """Somebody asked: it is taken in where it fits, and may list this place. True if anything changed."""
        is_news = self.enter(other)
        self._askers[other.address] = None
        return is_news

    def pass_by(self, other: Certificate) -> None:
        """Somebody asked who is in no list: it may have heard sooner than we that another has gone."""
        if other.key not in self.known and other.key != self.key:
            self.passers.put(other.key, other)

    def acquaintances(self) -> list[Address]:
        """Who may list this place: its own wide lists, whoever asked it lately, and whoever it asked."""
        listed = [node.address for node in (*self.wide.contacts(), *self.asked.values())]
        return list(dict.fromkeys([*listed, *self._askers]))

    def vouched(
        self, named: Collection[Certificate], was_heard_since: Callable[[Address, int], bool]
    ) -> Nodes:
        """Of those known, whom the place names to others: not who was only named to it and has not been heard since.

        So hearsay goes one step, and the dead are forgotten for good when those have lost them who ever heard them.
        Else newcomers that come one after another would pass them on to each other for ever.
        """
        hearsay = self.hearsay
        if not hearsay:
            return tuple(named)
        for node in named:
            if node.key in hearsay and was_heard_since(node.address, hearsay[node.key]):
                del hearsay[node.key]
        return tuple([node for node in named if node.key not in hearsay])

    def witness(self, about: Certificate) -> Nodes:
        """Who is near another: the lists, and whoever came since they were cut (saves half of all cuts)."""
        wide = self._wide
        if wide is None or len(self._news) > NEWS_MAX:
            wide = self._cut()[1]
        said = answer(wide, self.vectors, self.k, about)
        if self._table is not None:
            return said
        return updated(said, self._news, self.known, about, self.certificate)


@twin
def strangers(known: ByKey, named: Iterable[Certificate]) -> list[Certificate]:
    """Of those named, who is not known, or not by this very certificate."""
    return [node for node in named if (held := known.get(node.key)) is not node and held != node]


@twin
def take_in(
    around: Around[Certificate], own: bytes, nodes: Iterable[Certificate]
) -> list[Certificate]:
    """Let all be known but the own place who are not, or only by an older certificate. Who are they?"""
    news = list[Certificate]()
    for node in nodes:
        held = around.known.get(node.key)
        if node.key != own and (held is None or held.serial < node.serial):
            around.put(node)
            news.append(node)
    return news


@twin
def updated(said: Nodes, news: ByKey, known: ByKey, about: Certificate, own: Certificate) -> Nodes:
    """What lists of a while ago say: the own place, and who is still known of them or came since, but the claimant."""
    named = {node.key: node for node in (*said, *news.values()) if node.key in known}
    named.pop(about.key, None)
    return (own, *named.values())


@twin
def nearest(key: bytes, nodes: Iterable[Certificate], count: int) -> list[Certificate]:
    """The `count` of them nearest to a key on each side, clockwise; not the one that has it."""
    by_key = {node.key: node for node in nodes}
    by_key.pop(key, None)
    ring = sorted(by_key)
    if len(ring) <= 2 * count:
        return [by_key[each] for each in ring]
    at = bisect_left(ring, key)
    return [by_key[ring[(at + step) % len(ring)]] for step in range(-count, count)]


@twin
def answer(table: LevelTable[Certificate], vectors: Vectors, k: int, about: Certificate) -> Nodes:
    """What an honest witness says: its lists of the levels they have in common, its k nearest to the claimant."""
    levels = min(vectors.common(table.owner.vector, about.vector) + 1, len(table.levels))
    listed = table.named(0, levels)
    lowest = table.levels[0]
    # Where the k nearest on each side are in the lowest list nobody known stands between those.
    if levels < len(table.levels) and not (
        lowest.full or k <= lowest.position(about.key) < len(lowest) - k
    ):
        everyone = table.everyone
        at = bisect_left(everyone, about.key, key=_by_key)
        near = [everyone[(at + step) % len(everyone)] for step in range(-k, k + 1)]
        beyond = {node.key: node for node in near if node.key not in listed}
        listed = listed | beyond if beyond else listed
    if about.key not in listed:
        return tuple(listed.values())
    return tuple([node for key, node in listed.items() if key != about.key])
