"""One place of a peer: what it knows of others, and the table that follows from it. Pure of messages.

A place in search of its neighbours (joining, or mending a list that became short) follows ring upkeep D.1: ask all of
its provisional table, the k nearest known on each side, and the 2 nearest on each side of every single answer, until
nobody is left to ask. The union of all answers is believed: a liar can only name certified nodes, so every further
honest witness only adds truth; and following each answer to its own end keeps colluders nearby from crowding out
the witnesses that an honest introducer named.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence

from implicast.overlay.skip_graph.answering import answer
from implicast.overlay.skip_graph.around import Around
from implicast.overlay.skip_graph.messages import EVERY
from implicast.overlay.skip_graph.table import Level, Table
from implicast.peer.contract import Address
from implicast.peer.identity import Certificate
from implicast.space.vector import Vectors

Side = tuple[int, bool]
"""A level, and whether its left side is meant."""

PURSUED = 2
"""How many on each side of the newcomer are asked of every single answer."""
ASKERS_MAX = 128
"""The last to ask, told too when the place is left: they may list it though it does not list them."""
PASSERS_MAX = 32
"""The last to ask who are in no list, at hand for when somebody has gone."""
NEWS_MAX = 16
"""Others that a place names beside its lists before it cuts them again."""
KNOWN_MAX = 512
"""Others that a place takes in before it cuts its lists again; a table has 50."""
ASKED_MAX = 2_048
"""An end to searching, whatever others answer: many times the 100 that a join needs."""
DOUBTED_MAX = 64
"""Of those gone that were named in one search, so many are followed up."""


class Place:
    """A certificate, those known around it, the lists cut from them, and the wider every-class lists."""

    __slots__ = (
        "_around", "_asked_for", "_doubted", "_found_at", "_late", "_stale", "_table", "_void", "_wide", "agreed",
        "asked", "askers", "before", "certificate", "compared", "compares", "hearsay", "joining", "k", "key", "known",
        "looking", "looks", "news", "offered", "passers", "queue", "searching", "short", "shown", "silent", "turn",
        "vectors", "waiting", "witnesses",
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
        self.searching = False
        self.compares = False  # whether lists that lack somebody are mended by comparing them with the neighbours'
        self.asked: dict[bytes, Certificate] = {}
        self.queue: dict[bytes, tuple[Certificate, int]] = {}
        self.waiting: dict[bytes, int] = {}  # whom, how often asked
        self.askers: dict[Address, None] = {}  # the latest, oldest first
        self.turn = b""
        self.before: frozenset[bytes] = frozenset()  # who was listed before this search
        self.witnesses = PURSUED  # asked at each end of a list that became shorter
        self.looking = False  # whether one is going to look
        self.looks = 0  # in a row that found nobody new
        self.passers: dict[bytes, Certificate] = {}  # the latest who asked and are in no list
        self.short: dict[Side, bytes] = {}  # sides of lists to look beyond: the last key up to which they are sure
        self.joining = True  # whether everybody is sought, or only those in the stead of who has gone
        self._asked_for: dict[bytes, dict[Side, bytes]] = {}  # witness -> sides for which its answer is awaited
        self._late: dict[bytes, None] = {}  # who came while lists were short
        self._found_at: dict[bytes, int] = {}  # who was found in a search, and at which level
        self._doubted: dict[bytes, Certificate] = {}  # who is gone, and was named in this search all the same
        self.silent: set[bytes] = set()  # who did not answer in this search
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
        if key == self.key or key in self.silent or (held is not None and held.serial >= other.serial):
            return False
        # Who was let in since the lists were cut may have shortened them: then it is for the next cut to decide.
        if not self.searching and not (self._stale and len(self.known) < KNOWN_MAX) and not self.fits(other):
            return False
        self._around.put(other)
        self.news[key] = other
        self._stale = True
        if self.short:
            self._late[key] = None
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

    def acquaintances(self) -> list[Address]:
        """Who may list this place: its own wide lists, whoever asked it lately, and whoever it asked."""
        listed = [node.address for node in (*self.wide.contacts(), *self.asked.values())]
        return list(dict.fromkeys([*listed, *self.askers]))

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

    # --- searching

    def search(self, first: Iterable[Certificate]) -> None:
        """Begin to search for everyone, or widen a search under way."""
        if not self.searching:
            self.searching = self.joining = True
            self.asked = {}
        self._want(first)

    def next_in_turn(self) -> Certificate | None:
        """Whose turn it is to be asked whether it is there: the next listed, clockwise."""
        listed = self.wide.contacts()
        if not listed:
            return None
        node = next((node for node in listed if node.key > self.turn), listed[0])
        self.turn = node.key
        return node

    def drop(self, gone: Collection[bytes]) -> None:
        """Entries are no more. Where that leaves a list too short, one has to look for others beyond (`look`).

        Beyond its end as it is now: newcomers from further out may come before one looks and hide the gap.
        """
        levels = () if self.compares else self.wide.levels
        for number, level in enumerate(levels):
            if any(node.key in gone for node in level.nodes) and not self._is_whole(number, level):
                left, right = level.nodes[: level.own][::-1], level.nodes[level.own + 1 :]
                around = level.full  # only then the ends of a list meet
                self._shorten((number, True), (*left, *(right[::-1] if around else ())), gone)
                self._shorten((number, False), (*right, *(left[::-1] if around else ())), gone)
        for key in gone:
            self._remove(key)
        self.unask(gone)
        self._stale, self.looks = True, 0

    def _remove(self, key: bytes) -> None:
        if self._around.remove(key):
            self._stale = True
            self.hearsay.pop(key, None)

    def unask(self, whom: Iterable[bytes]) -> None:
        """What they may have been asked counts no more: should they come back, they are to be asked anew."""
        for key in whom:
            self.queue.pop(key, None)
            self.asked.pop(key, None)

    def _is_whole(self, number: int, level: Level[Certificate]) -> bool:
        """Whether all of a ring is known: then nobody is missed when it becomes smaller.

        While others are sought, a ring may seem to be all there is because so few are left.
        """
        sought = self.searching or (number, True) in self.short or (number, False) in self.short
        return level.full and not sought

    def _shorten(self, side: Side, path: Sequence[Certificate], gone: Collection[bytes]) -> None:
        """Most lists hold more of one class than they must: only one that then lacks somebody is short.

        `path` leads away from us; the list goes as far as every class has enough members.
        """
        digit, number = self.vectors.digit, side[0]
        met, left = [0] * self.vectors.alpha, [0] * self.vectors.alpha
        for node in path:
            each = digit(node.vector, number)
            met[each] += 1
            left[each] += node.key not in gone
            if min(met) >= self.k - 1:
                break
        if met != left and min(left) < self.k - 1:
            self.short.setdefault(side, node.key)

    def doubt(self, named: Certificate) -> None:
        """A witness named somebody who is gone, which may have hidden who stands behind."""
        if len(self._doubted) < DOUBTED_MAX:
            self._doubted[named.key] = named

    def weigh_doubts(self) -> bool:
        """Whether those gone, had they been there, would have counted in our lists: then one has to look again."""
        doubted, self._doubted = self._doubted, {}
        for node in doubted.values():
            shared = self.vectors.common(self.certificate.vector, node.vector)
            for number, level in enumerate(self.wide.levels[: shared + 1]):
                if level.spans(node.key):
                    for is_left in (True, False) if level.full else (level.position(node.key) <= level.own,):
                        self.short.setdefault((number, is_left), level.nodes[0 if is_left else -1].key)
        return bool(self.short)

    def look(self) -> None:
        """Ask those at the ends of the shortened lists, and then only those newly found."""
        short, self.short = self.short, {}
        self.looks += 1
        first: dict[bytes, tuple[Certificate, int]] = {}
        for side, end in short.items():
            for node, level in self._at_end(side, end):
                if node.key in self.waiting:  # it is being asked something else: next time
                    self.short[side] = end
                    continue
                held = first.get(node.key)
                first[node.key] = (node, level if held is None or held[1] == level else EVERY)
                self._asked_for.setdefault(node.key, {})[side] = end
        self._seek(first.values())
        for key in self._late:  # they may know who stands behind them, and were never asked
            self.asked.pop(key, None)
        self._late = {}

    def answered(self, witness: bytes) -> None:
        """What it was asked for need not be asked of another."""
        self._asked_for.pop(witness, None)

    def _at_end(self, side: Side, end: bytes) -> list[tuple[Certificate, int]]:
        """The outermost known on a side of a level up to where it is sure, to be asked for their list of it.

        And the first beyond: the others may be looking themselves, for the sake of the same who have gone.
        """
        (number, is_left), mine, me = side, self.key, self.certificate.address  # our own places have lost the same
        common, vector = self.vectors.common, self.certificate.vector
        others = [node for node in self.known.values() if node.address != me]
        ring = sorted(
            [((node.key < mine, node.key), node) for node in others if common(vector, node.vector) >= number],
            reverse=is_left,
        )
        last = (end < mine, end)
        sure = [node for place, node in ring if (place >= last if is_left else place <= last)]
        if not sure:  # one peer may have many places in a row, and all go at once
            return [(node, EVERY) for node in self.nearest(others, self.witnesses)]
        beyond = [node for _, node in ring[len(sure) : len(sure) + 1]]
        return [(node, number) for node in (*sure[::-1][: self.witnesses], *beyond)]

    def _seek(self, first: Iterable[tuple[Certificate, int]]) -> None:
        """Search among those newly found, beginning with some, each asked for the list of one level or for all."""
        first = list(first)
        if first and not self.searching:
            self.searching, self.joining = True, False
            self.asked = dict(self.known)
            self.before = frozenset(self.known)
        for node, level in first:
            self.queue[node.key] = (node, level)

    def learn(self, nodes: Sequence[Certificate], level: int = EVERY) -> list[Certificate]:
        """Take one witness's answer in and follow its trail. Nobody is listed for long unasked. Who is new?"""
        known = self.known  # nine in ten named are known
        news = [node for node in nodes if known.get(node.key) is not node and self.enter(node)]
        if self.searching and self.joining:
            if any(node.key not in self.asked for node in nodes):
                self._want(self.nearest(nodes, PURSUED))
        elif self.searching:
            for node in news:
                self._found_at[node.key] = level if self._found_at.get(node.key, level) == level else EVERY
        elif news:
            listed = {node.key for node in self.wide.contacts()}
            self._seek([(node, EVERY) for node in news if node.key in listed])
        return news

    def give_up(self, whom: bytes) -> None:
        """Somebody does not answer: not listed on the word of others, as long as this search lasts."""
        self.silent.add(whom)
        self._remove(whom)

    def next_to_ask(self) -> tuple[Certificate, int] | None:
        """Whom to ask next, and for which level; None when there is nobody.

        The provisional table is looked at again when the queue runs dry.
        """
        if not self.queue and not self.waiting and len(self.asked) < ASKED_MAX:
            self._want(self.wide.contacts())
            self._want(self.nearest(list(self.known.values()), self.k))
        if not self.queue:
            return None
        key = next(iter(self.queue))
        node, level = self.queue.pop(key)
        self.asked[key] = node
        return node, level

    def settle(self) -> None:
        """The search is over: what was found is the table."""
        self.searching = False
        self.silent = set()
        for sides in self._asked_for.values():  # of witnesses that were lost before they answered
            self.short.update(sides)
        self._found_at, self._asked_for = {}, {}
        if self._stale:
            self._cut()
        else:  # the lists were cut when nobody was left to ask
            self._keep_listed()
        if any(node.key not in self.before for node in self.wide.contacts()):
            self.looks = 0

    def nearest(self, nodes: Sequence[Certificate], count: int) -> list[Certificate]:
        """The `count` of them nearest to this place on each side, clockwise."""
        by_key = {node.key: node for node in nodes}
        by_key.pop(self.key, None)
        ring = sorted(by_key)
        if len(ring) <= 2 * count:
            return [by_key[key] for key in ring]
        at = bisect_left(ring, self.key)
        return [by_key[ring[(at + step) % len(ring)]] for step in range(-count, count)]

    def _want(self, nodes: Iterable[Certificate]) -> None:
        for node in nodes:
            if node.key not in self.asked and node.key != self.key:
                self.queue[node.key] = (node, self._found_at.get(node.key, EVERY))
