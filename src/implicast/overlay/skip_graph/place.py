"""One place of a peer: what it knows of others, and the table that follows from it. Pure of messages.

A place in search of its neighbours (joining, or mending a list that became short) follows ring upkeep D.1: ask all of
its provisional table, the k nearest known on each side, and the 2 nearest on each side of every single answer, until
nobody is left to ask. The union of all answers is believed: a liar can only name certified nodes, so every further
honest witness only adds truth; and following each answer to its own end keeps colluders nearby from crowding out
the witnesses that an honest introducer named.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from implicast.overlay.skip_graph.table import Level, Table, every_class, table_of
from implicast.peer.contract import Address
from implicast.peer.identity import Certificate
from implicast.space.vector import Vectors

PURSUED = 2
"""How many on each side of the newcomer are asked of every single answer."""
ASKERS_MAX = 128
"""The last to ask, told too when the place is left: they may list it though it does not list them."""
KNOWN_MAX = 512
"""Others that a place takes in before it cuts its lists again; a table has 50."""
ASKED_MAX = 2_048
"""An end to searching, whatever others answer: many times the 100 that a join needs."""


class Place:
    """A certificate, those known around it, the lists cut from them, and the wider every-class lists."""

    __slots__ = (
        "_stale", "_table", "_wide", "asked", "askers", "certificate", "ends", "k", "known", "looks", "queue",
        "searching", "silent", "turn", "vectors", "waiting",
    )  # fmt: skip

    def __init__(self, certificate: Certificate, k: int, vectors: Vectors) -> None:
        self.certificate, self.vectors, self.k = certificate, vectors, k
        self.known: dict[bytes, Certificate] = {}
        self._table: Table[Certificate] = table_of(certificate, (), k, vectors)
        self._wide: Table[Certificate] = every_class(certificate, (), k, vectors)
        self._stale = False  # whether anything was learned since the lists were cut
        self.searching = False
        self.asked: dict[bytes, Certificate] = {}
        self.queue: dict[bytes, Certificate] = {}
        self.waiting: dict[bytes, int] = {}  # whom, how often asked
        self.askers: dict[Address, None] = {}  # the latest, oldest first
        self.turn = b""
        self.looks = 0  # in a row that found nobody new
        self.ends: dict[bytes, Certificate] = {}  # of lists from which somebody has gone since one last looked
        self.silent: set[bytes] = set()  # who did not answer in this search

    @property
    def key(self) -> bytes:
        return self.certificate.key

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

    def fits(self, other: Certificate) -> bool:
        """Whether another belongs into one of the wider lists."""
        shared = self.vectors.common(self.certificate.vector, other.vector)
        return any(level.spans(other.key) for level in self.wide.levels[: shared + 1])

    def enter(self, other: Certificate) -> bool:
        """Take another in where it fits; True if anything changed. A newer certificate replaces an older one."""
        held = self.known.get(other.key)
        if other.key == self.key or other.key in self.silent or (held is not None and held.serial >= other.serial):
            return False
        # Who was let in since the lists were cut may have shortened them: then it is for the next cut to decide.
        if not self.searching and not (self._stale and len(self.known) < KNOWN_MAX) and not self.fits(other):
            return False
        self.known[other.key] = other
        self._stale = True
        return True

    def asked_by(self, asker: Address) -> None:
        self.askers[asker] = None
        if len(self.askers) > ASKERS_MAX:
            del self.askers[next(iter(self.askers))]

    def acquaintances(self) -> list[Address]:
        """Who may list this place: its own wide lists, whoever asked it lately, and whoever it asked."""
        listed = [node.address for node in (*self.wide.contacts(), *self.asked.values())]
        return list(dict.fromkeys([*listed, *self.askers]))

    def trim(self) -> None:
        """The lists are to be cut anew, when they are next asked for."""
        self._stale = True

    def _cut(self) -> None:
        """Cut the lists by the rule, and forget who is in none."""
        known = self.known.values()
        self._table = table_of(self.certificate, known, self.k, self.vectors)
        self._wide = every_class(self.certificate, known, self.k, self.vectors)
        self._stale = False
        if not self.searching:
            self.known = {node.key: node for node in self._wide.contacts()}

    # --- searching

    def search(self, first: Iterable[Certificate]) -> None:
        """Begin to search for everyone, or widen a search under way."""
        if not self.searching:
            self.searching = True
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

    def drop(self, gone: bytes) -> None:
        """An entry is no more. Who stands at the ends of the lists that it shortened is to be asked (`look`).

        At the ends as they are now: newcomers from further out may come before one looks and hide the gap.
        """
        for level in self.wide.levels:
            if any(node.key == gone for node in level.nodes):
                self._ask_ends(level)
        for where in (self.known, self.queue, self.ends):
            where.pop(gone, None)
        self._stale = True

    def doubt(self, named: Certificate) -> None:
        """A witness named somebody who is gone, which may have hidden who stands behind. Look again."""
        for level in self.wide.levels[: self.vectors.common(self.certificate.vector, named.vector) + 1]:
            self._ask_ends(level)

    def _ask_ends(self, level: Level[Certificate]) -> None:
        for node in (*level.nodes[:PURSUED], *level.nodes[-PURSUED:]):
            if node.key != self.key:
                self.ends[node.key] = node

    def look(self) -> None:
        """Ask those at the ends of the shortened lists, and then only those newly found."""
        first, self.ends = self.ends, {}
        self.looks += 1
        self._seek([node for node in first.values() if node.key not in self.waiting])

    def _seek(self, first: Iterable[Certificate]) -> None:
        """Search among those newly found, beginning with some."""
        if not self.searching:
            self.searching = True
            self.asked = dict(self.known)
        for node in first:
            self.queue[node.key] = node

    def learn(self, nodes: Sequence[Certificate]) -> None:
        """Take one witness's answer in and follow its trail. Nobody is listed for long without being asked itself."""
        news = [node for node in nodes if self.enter(node)]
        self.looks = 0 if news else self.looks
        if self.searching:
            self._want(self.nearest(nodes, PURSUED))
        elif news:
            self._seek([node for node in news if node.key in self.known])

    def give_up(self, whom: bytes) -> None:
        """Somebody does not answer: not listed on the word of others, as long as this search lasts."""
        self.silent.add(whom)
        self.known.pop(whom, None)

    def next_to_ask(self) -> Certificate | None:
        """Whom to ask next; None when there is nobody. Recomputes the provisional table when the queue runs dry."""
        if not self.queue and not self.waiting and len(self.asked) < ASKED_MAX:
            self._want(self.wide.contacts())
            self._want(self.nearest(list(self.known.values()), self.k))
        if not self.queue:
            return None
        key = next(iter(self.queue))
        node = self.asked[key] = self.queue.pop(key)
        return node

    def settle(self) -> None:
        """The search is over: what was found is the table."""
        self.searching = False
        self.silent = set()
        self.trim()

    def nearest(self, nodes: Sequence[Certificate], count: int) -> list[Certificate]:
        """The `count` of them nearest to this place on each side, clockwise."""
        ring = sorted({node.key: node for node in nodes if node.key != self.key}.items())
        if len(ring) <= 2 * count:
            return [node for _, node in ring]
        at = bisect_left(ring, (self.key,))
        return [ring[(at + step) % len(ring)][1] for step in range(-count, count)]

    def _want(self, nodes: Iterable[Certificate]) -> None:
        for node in nodes:
            if node.key != self.key and node.key not in self.asked:
                self.queue[node.key] = node


def answer(table: Table[Certificate], vectors: Vectors, k: int, about: Certificate) -> tuple[Certificate, ...]:
    """What an honest witness says: its k nearest on each side of the claimant, its lists of their common levels."""
    owner = table.owner
    named = {owner.key: owner}
    for level in table.levels[: vectors.common(owner.vector, about.vector) + 1]:
        named.update((node.key, node) for node in level.nodes)
    everyone = sorted({owner.key: owner, **{node.key: node for node in table.contacts()}}.items())
    at = bisect_left(everyone, (about.key,))
    for step in range(-k, k + 1):
        key, node = everyone[(at + step) % len(everyone)]
        named[key] = node
    named.pop(about.key, None)
    return tuple(named[key] for key in sorted(named))
