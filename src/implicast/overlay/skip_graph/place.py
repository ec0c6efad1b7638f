"""One place of a peer in search of its neighbours, pure of messages: when it joins, and when a list became short.

It follows ring upkeep D.1: ask all of its provisional table, the k nearest known on each side, and the 2 nearest on
each side of every single answer, until nobody is left to ask. The union of all answers is believed: a liar can only
name certified nodes, so every further honest witness only adds truth; and following each answer to its own end keeps
colluders nearby from crowding out the witnesses that an honest introducer named.
"""

from collections.abc import Collection, Iterable, Sequence

from implicast.overlay.skip_graph.listing import Listing, Side
from implicast.overlay.skip_graph.messages import EVERY
from implicast.overlay.skip_graph.table import Level
from implicast.peer.contract import Address
from implicast.peer.identity import Certificate
from implicast.space.vector import Vectors

PURSUED = 2
"""How many on each side of the newcomer are asked of every single answer."""
ASKED_MAX = 2_048
"""An end to searching, whatever others answer: many times the 100 that a join needs."""
DOUBTED_MAX = 64
"""Of those gone that were named in one search, so many are followed up."""


class Place(Listing):
    """A place that asks others until nobody is missing in its lists."""

    __slots__ = (
        "_asked_for", "_doubted", "_found_at", "_late", "asked", "before", "compares", "joining", "looking", "looks",
        "queue", "short", "silent", "waiting", "witnesses",
    )  # fmt: skip

    def __init__(self, certificate: Certificate, k: int, vectors: Vectors) -> None:
        super().__init__(certificate, k, vectors)
        self.compares = False  # whether lists that lack somebody are mended by comparing them with the neighbours'
        self.joining = True  # whether everybody is sought, or only those in the stead of who has gone
        self.asked: dict[bytes, Certificate] = {}
        self.queue: dict[bytes, tuple[Certificate, int]] = {}
        self.waiting: dict[bytes, int] = {}  # whom, how often asked
        self.silent: set[bytes] = set()  # who did not answer in this search
        self.before: frozenset[bytes] = frozenset()  # who was listed before this search
        self.witnesses = PURSUED  # asked at each end of a list that became shorter
        self.looking = False  # whether one is going to look
        self.looks = 0  # in a row that found nobody new
        self.short: dict[Side, bytes] = {}  # sides of lists to look beyond: the last key up to which they are sure
        self._asked_for: dict[bytes, dict[Side, bytes]] = {}  # witness -> sides for which its answer is awaited
        self._late: dict[bytes, None] = {}  # who came while lists were short
        self._found_at: dict[bytes, int] = {}  # who was found in a search, and at which level
        self._doubted: dict[bytes, Certificate] = {}  # who is gone, and was named in this search all the same

    def enter(self, other: Certificate) -> bool:
        """Who did not answer in this search is not let in while it lasts."""
        if other.key in self.silent or not super().enter(other):
            return False
        if self.short:
            self._late[other.key] = None
        return True

    def acquaintances(self) -> list[Address]:
        """Who may list this place: its own wide lists, whoever asked it lately, and whoever it asked."""
        listed = [node.address for node in (*self.wide.contacts(), *self.asked.values())]
        return list(dict.fromkeys([*listed, *self.askers]))

    # --- searching

    def search(self, first: Iterable[Certificate]) -> None:
        """Begin to search for everyone, or widen a search under way."""
        if not self.searching:
            self.searching = self.joining = True
            self.asked = {}
        self._want(first)

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

    def _want(self, nodes: Iterable[Certificate]) -> None:
        for node in nodes:
            if node.key not in self.asked and node.key != self.key:
                self.queue[node.key] = (node, self._found_at.get(node.key, EVERY))
