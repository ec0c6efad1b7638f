"""One place of a peer: what it knows of others, and the table that follows from it. Pure of messages.

A place in search of its neighbours (joining, or mending a list that became short) follows ring upkeep D.1: ask all of
its provisional table, the k nearest known on each side, and the 2 nearest on each side of every single answer, until
nobody is left to ask. The union of all answers is believed: a liar can only name certified nodes, so every further
honest witness only adds truth; and following each answer to its own end keeps colluders nearby from crowding out
the witnesses that an honest introducer named.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from implicast.overlay.skip_graph.table import Table, every_class, table_of
from implicast.peer.contract import Address
from implicast.peer.identity import Certificate
from implicast.space.vector import Vectors

PURSUED = 2
"""How many on each side of the newcomer are asked of every single answer."""
ASKERS_MAX = 128
"""The last to ask, told too when the place is left: they may list it though it does not list them."""
ASKED_MAX = 2_048
"""An end to searching, whatever others answer: many times the 100 that a join needs."""


class Place:
    """A certificate, those known around it, the lists cut from them, and the wider every-class lists."""

    __slots__ = (
        "asked", "askers", "certificate", "k", "known", "queue", "searching", "silent", "table", "turn",
        "vectors", "waiting", "wide",
    )  # fmt: skip

    def __init__(self, certificate: Certificate, k: int, vectors: Vectors) -> None:
        self.certificate, self.vectors, self.k = certificate, vectors, k
        self.known: dict[bytes, Certificate] = {}
        self.table: Table[Certificate] = table_of(certificate, (), k, vectors)
        self.wide: Table[Certificate] = every_class(certificate, (), k, vectors)
        self.searching = False
        self.asked: dict[bytes, Certificate] = {}
        self.queue: dict[bytes, Certificate] = {}
        self.waiting: dict[bytes, int] = {}  # whom, how often asked
        self.askers: dict[Address, None] = {}  # the latest, oldest first
        self.turn = b""
        self.silent: set[bytes] = set()  # who did not answer in this search

    @property
    def key(self) -> bytes:
        return self.certificate.key

    def fits(self, other: Certificate) -> bool:
        """Whether another belongs into one of the wider lists."""
        shared = self.vectors.common(self.certificate.vector, other.vector)
        return any(level.spans(other.key) for level in self.wide.levels[: shared + 1])

    def enter(self, other: Certificate) -> bool:
        """Take another in where it fits; True if anything changed. A newer certificate replaces an older one."""
        held = self.known.get(other.key)
        if other.key == self.key or other.key in self.silent or (held is not None and held.serial >= other.serial):
            return False
        if not self.searching and not self.fits(other):
            return False
        self.known[other.key] = other
        if not self.searching:
            self.trim()
        return True

    def asked_by(self, asker: Address) -> None:
        self.askers[asker] = None
        if len(self.askers) > ASKERS_MAX:
            del self.askers[next(iter(self.askers))]

    def trim(self) -> None:
        """Cut the lists anew by the rule, and forget who is in none."""
        known = self.known.values()
        self.table = table_of(self.certificate, known, self.k, self.vectors)
        self.wide = every_class(self.certificate, known, self.k, self.vectors)
        if not self.searching:
            self.known = {node.key: node for node in self.wide.contacts()}

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

    def mend(self, gone: bytes) -> None:
        """An entry is no more: ask two witnesses at each end of every list that it shortened, then only the new."""
        shortened = [level for level in self.wide.levels if any(node.key == gone for node in level.nodes)]
        ends = [node for level in shortened for node in (*level.nodes[:PURSUED], *level.nodes[-PURSUED:])]
        del self.known[gone]
        if not self.searching:
            self.searching = True
            self.asked = dict(self.known)
        for node in ends:
            if node.key in self.known and node.key not in self.waiting:
                self.queue[node.key] = node
        self.trim()

    def learn(self, nodes: Sequence[Certificate]) -> None:
        """Take one witness's answer in and follow its trail."""
        for node in nodes:
            self.enter(node)
        if self.searching:
            self._want(self.nearest(nodes, PURSUED))

    def give_up(self, whom: bytes) -> None:
        """Somebody does not answer: not listed on the word of others, as long as this search lasts."""
        self.silent.add(whom)
        self.known.pop(whom, None)

    def next_to_ask(self) -> Certificate | None:
        """Whom to ask next; None when there is nobody. Recomputes the provisional table when the queue runs dry."""
        if not self.queue and not self.waiting and len(self.asked) < ASKED_MAX:
            self.trim()
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
