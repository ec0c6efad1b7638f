"""One place of a peer: its certificate, the nodes it knows, the lists computed from them, and its
search for more.

A place of an assembled world holds no state until it changes: its lists are read from the whole
graph. A search follows the ring-upkeep specification, D.1. It asks every node of the provisional
table, the k nearest known nodes on each side, and of every single answer the 2 nearest on each
side, until none is left. It takes the union of all answers: a liar can name only certified nodes,
so each further honest answer only adds true entries. Following every answer to its end keeps
colluders nearby from crowding out the nodes that an honest introducer named.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import attrgetter
from typing import Protocol

from implicast.overlay.skip_graph.agreement import ListAgreement, Nodes
from implicast.overlay.skip_graph.table import Both, LevelTable, NodeLists, twin
from implicast.peer.contract import Address
from implicast.peer.identity import Certificate
from implicast.peer.memory import Recent
from implicast.space.vector import Vectors

ASKERS_MAX = 128
"""Latest peers that asked, notified of a leave: they may list the place without being listed."""
CANDIDATES_MAX = 32
"""Latest nodes that asked and are in no list, used to fill a gap."""
ADDED_MAX = 16
"""Nodes added beside the lists before an answer makes the place compute them again."""
KNOWN_MAX = 512
"""Nodes known before an insertion computes the lists again; a table has about 50."""
PURSUED = 2
"""Nodes of each answer that are asked, on each side of the newcomer."""
ASKED_MAX = 2_048
"""Bound of nodes asked in one search, against endless answers; a join asks about 100."""

ADDRESS = attrgetter("address")
ByKey = Mapping[bytes, Certificate]
_by_key = attrgetter("key")
_node_lists = twin(NodeLists[Certificate])


class WholeGraph(Protocol):
    """The graph of an assembled world, from which an unchanged place reads its lists."""

    def table(self, key: bytes) -> LevelTable[Certificate]:
        """The lists of a place."""

    def named(self, key: bytes, wide: bool) -> dict[bytes, Certificate]:
        """A place and all nodes in its lists (`wide`: its every-class lists), by key."""

    def stored_bytes(self, keys: Iterable[bytes], wide: bool) -> int:
        """Encoded size of all nodes in the lists of these places, without the places."""


class Place:
    """A node of the graph that this peer holds."""

    __slots__ = (
        "_added",
        "_address_cache",
        "_agreement",
        "_askers",
        "_node_lists",
        "_table",
        "_wide",
        "asked",
        "assembled",
        "candidates",
        "certificate",
        "is_searching",
        "k",
        "key",
        "queue",
        "unconfirmed",
        "vectors",
        "waiting",
    )

    def __init__(
        self,
        certificate: Certificate,
        k: int,
        vectors: Vectors,
        assembled: WholeGraph | None = None,
    ) -> None:
        self.certificate, self.k, self.vectors, self.assembled = certificate, k, vectors, assembled
        self.key = certificate.key  # the same under a renewed certificate
        self.is_searching = False  # while True all nodes learned are kept, listed or not
        self.waiting: dict[bytes, None] = {}  # keys or addresses asked and not answered
        self._node_lists: NodeLists[Certificate] | None = None
        # None: to be computed, or read from the whole graph
        self._table: LevelTable[Certificate] | None = None
        # None: not valid; else as last computed
        self._wide: LevelTable[Certificate] | None = None
        if assembled is None:
            self._materialise()

    def _materialise(self) -> NodeLists[Certificate]:
        """Give the place its own lists, copied from the whole graph if it has one."""
        found = self._node_lists = _node_lists(self.certificate, self.k, self.vectors)
        self._table, self._wide = found.tables()
        self._added: dict[bytes, Certificate] = {}  # nodes added since the lists were computed
        # nodes named by others and not heard since, with the time
        self.unconfirmed: dict[bytes, int] = {}
        # addresses of known nodes, and the change count they are valid for
        self._address_cache: tuple[int, dict[Address, None]] = (0, {})
        self.candidates: Recent[bytes, Certificate] = Recent(CANDIDATES_MAX)
        self._askers: Recent[Address, None] = Recent(ASKERS_MAX)
        self.queue: dict[bytes, Certificate] = {}  # nodes still to be asked
        self.asked: dict[bytes, Certificate] = {}  # nodes asked in the latest search
        self._agreement: ListAgreement | None = None
        if self.assembled is not None:
            named = self.assembled.named(self.key, wide=True)
            self.replace_known([named[key] for key in sorted(named) if key != self.key])
            self.assembled = None
            self.agreement.mark_all_agreed(self.wide)
        return found

    @property
    def node_lists(self) -> NodeLists[Certificate]:
        """The nodes known, other than the place itself. Materialises an unchanged place."""
        return self._node_lists or self._materialise()

    @property
    def agreement(self) -> ListAgreement:
        """What the neighbours confirmed of these lists."""
        if self._agreement is None:
            self._agreement = ListAgreement()
        return self._agreement

    # --- lists

    @property
    def table(self) -> LevelTable[Certificate]:
        """The lists of the paper over all known nodes; valid also during a search."""
        if self._table is None and self.assembled is not None:
            self._table = self.assembled.table(self.key)
        return self._table or self._cut()[0]

    @property
    def wide(self) -> LevelTable[Certificate]:
        """The every-class lists."""
        return self._cut()[1] if self._table is None or self._wide is None else self._wide

    @property
    def known(self) -> dict[bytes, Certificate]:
        """The nodes known, by key."""
        return (self._node_lists or self._materialise()).known

    @property
    def addresses(self) -> dict[Address, None]:
        """Addresses of the known nodes, cached until these change."""
        changes = self.node_lists.changes
        if self._address_cache[0] != changes:
            self._address_cache = changes, dict.fromkeys(map(ADDRESS, self.known.values()))
        return self._address_cache[1]

    def named(self, wide: bool) -> dict[bytes, Certificate]:
        """The place and all nodes in its lists (`wide`: its every-class lists), by key."""
        if self.assembled is not None:
            return self.assembled.named(self.key, wide)
        table = self.wide if wide else self.table
        return table.named(0, len(table.levels))

    def listed(self, key: bytes) -> Certificate | None:
        """A known node once the lists are up to date (or found by a search), else None."""
        if self._table is None:
            self._cut()
        return self.known.get(key)

    def insert(self, other: Certificate) -> bool:
        """Add a node that fits into a list, or a newer certificate. True if anything changed."""
        key, known = other.key, self.known
        held = known.get(key)
        if key == self.key or (held is not None and held.serial >= other.serial):
            return False
        # Nodes added lately may have shortened the lists: the next computation decides.
        if not self.is_searching and (self._table is not None or len(known) >= KNOWN_MAX):
            shared = self.vectors.common(self.certificate.vector, other.vector)
            if True not in [level.spans(key) for level in self.wide.levels[: shared + 1]]:
                return False
        self.node_lists.put(other)
        self._added[key] = other
        self._table = None
        return True

    def note_unconfirmed(self, key: bytes, now_us: int) -> None:
        """A known node was only named by others so far."""
        self.unconfirmed[key] = now_us

    def drop(self, gone: Collection[bytes]) -> None:
        """Remove nodes, and forget that they were asked."""
        for key in gone:
            if self.node_lists.remove(key):
                self.unconfirmed.pop(key, None)
        self._table = None
        self.forget_asked(gone)

    def replace_known(self, others: Iterable[Certificate]) -> None:
        """Replace all known nodes; the lists are computed when next read."""
        self.node_lists.replace(others)
        self._table = self._wide = None

    def renew(self, certificate: Certificate) -> None:
        """Replace the certificate of the place by a newer one."""
        self.node_lists.renew(certificate)
        self.certificate = certificate
        self._table = self._wide = None

    def _cut(self) -> Both[Certificate]:
        """Compute the lists, and forget nodes in none of them unless a search is under way."""
        tables = self._table, self._wide = self.node_lists.tables()
        self._added.clear()
        if not self.is_searching:
            self.node_lists.keep_listed()
            for key in [key for key in self.unconfirmed if key not in self.known]:
                del self.unconfirmed[key]
        return tables

    # --- searching

    def search(self, first: Iterable[Certificate]) -> None:
        """Start a search from these nodes, or add them to one under way."""
        if not self.is_searching:
            self.is_searching = True
            self.asked.clear()
        self._enqueue(first)

    def learn_nodes(self, named: Collection[Certificate]) -> list[Certificate]:
        """Add the nodes of one answer; returns the new ones. A search also queues the nodes of the
        answer nearest to this place.
        """
        if self.is_searching:
            self._enqueue(nearest(self.key, named, PURSUED))
            added = add_nodes(self.node_lists, self.key, named)  # like `insert`, in one call
            self._added.update(zip(map(_by_key, added), added, strict=True))
            self._table = None if added else self._table
            return added
        # about one in ten
        return [node for node in unknown_nodes(self.known, named) if self.insert(node)]

    def _enqueue(self, nodes: Iterable[Certificate]) -> None:
        """Queue nodes that were not asked yet."""
        for node in nodes:
            if node.key not in self.asked and node.key != self.key:
                self.queue[node.key] = node

    def dequeue(self, key: bytes) -> None:
        """A node is not to be asked any more."""
        self.queue.pop(key, None)

    def forget_asked(self, whom: Iterable[bytes]) -> None:
        """Forget that nodes were asked: if they return they are asked again."""
        for key in whom:
            self.queue.pop(key, None)
            self.asked.pop(key, None)

    def await_answer(self, whom: bytes) -> None:
        """A request was sent to this key or address."""
        self.waiting[whom] = None

    def end_wait(self, whom: bytes) -> None:
        """A request was answered, given up or dropped."""
        self.waiting.pop(whom, None)

    def next_to_ask(self) -> Certificate | None:
        """The next node to ask, or None. When queue and answers are exhausted, the provisional
        table is queued.
        """
        if not self.queue and not self.waiting and len(self.asked) < ASKED_MAX:
            self._enqueue(self.wide.contacts())
            self._enqueue(nearest(self.key, self.known.values(), self.k))
        if not self.queue:
            return None
        node = self.queue.pop(next(iter(self.queue)))
        self.asked[node.key] = node
        return node

    def end_search(self) -> None:
        """Finish the search: the lists are computed from all nodes found."""
        self.is_searching = False
        self._cut()  # forgets the nodes in no list

    # --- requests by other peers

    def record_asker(self, other: Certificate, is_candidate: bool = False) -> None:
        """Insert a node that asked, where it fits; it may list this place. A candidate in no list
        is remembered: it may know of a departure missed here.
        """
        changed = self.insert(other)
        self._askers[other.address] = None
        if is_candidate and not changed and other.key not in self.known and other.key != self.key:
            self.candidates.put(other.key, other)

    def addresses_to_notify(self) -> list[Address]:
        """Addresses that may list this place: listed nodes, nodes it asked, peers that asked."""
        listed = [node.address for node in (*self.wide.contacts(), *self.asked.values())]
        return list(dict.fromkeys([*listed, *self._askers]))

    def confirmed_nodes(
        self, named: Collection[Certificate], was_heard_since: Callable[[Address, int], bool]
    ) -> Nodes:
        """Of these nodes, the ones that the place names to others: all but those that it knows only
        from others and has not heard since.

        Second-hand knowledge thus travels one step. Otherwise successive newcomers would pass a
        crashed node on to each other for ever.
        """
        unconfirmed = self.unconfirmed
        if not unconfirmed:
            return tuple(named)
        for node in named:
            if node.key in unconfirmed and was_heard_since(node.address, unconfirmed[node.key]):
                del unconfirmed[node.key]
        return tuple([node for node in named if node.key not in unconfirmed])

    def neighbours_of(self, about: Certificate) -> Nodes:
        """The answer to a request about a node: the lists, and nodes added since they were
        computed. Answering from slightly old lists saves half of the computations.
        """
        wide = self._wide
        if wide is None or len(self._added) > ADDED_MAX:
            wide = self._cut()[1]
        listed = answer(wide, self.vectors, self.k, about)
        if self._table is not None:
            return listed
        return updated(listed, self._added, self.known, about, self.certificate)


@twin
def unknown_nodes(known: ByKey, named: Iterable[Certificate]) -> list[Certificate]:
    """The nodes that are not known, or known by another certificate."""
    return [node for node in named if (held := known.get(node.key)) is not node and held != node]


@twin
def add_nodes(
    node_lists: NodeLists[Certificate], own: bytes, nodes: Iterable[Certificate]
) -> list[Certificate]:
    """Add the nodes that are unknown or have a newer certificate, but not `own`; returns them."""
    added = list[Certificate]()
    for node in nodes:
        held = node_lists.known.get(node.key)
        if node.key != own and (held is None or held.serial < node.serial):
            node_lists.put(node)
            added.append(node)
    return added


@twin
def updated(
    listed: Nodes, added: ByKey, known: ByKey, about: Certificate, own: Certificate
) -> Nodes:
    """An answer from old lists brought up to date: the own place, then nodes still known or added
    since, without the claimant.
    """
    named = {node.key: node for node in (*listed, *added.values()) if node.key in known}
    named.pop(about.key, None)
    return (own, *named.values())


@twin
def nearest(key: bytes, nodes: Iterable[Certificate], count: int) -> list[Certificate]:
    """The `count` nodes nearest to a key on each side, clockwise, without the node at the key."""
    by_key = {node.key: node for node in nodes}
    by_key.pop(key, None)
    ring = sorted(by_key)
    if len(ring) <= 2 * count:
        return [by_key[each] for each in ring]
    at = bisect_left(ring, key)
    return [by_key[ring[(at + step) % len(ring)]] for step in range(-count, count)]


@twin
def answer(table: LevelTable[Certificate], vectors: Vectors, k: int, about: Certificate) -> Nodes:
    """The answer of an honest place: its lists of all levels shared with the claimant, and the k
    nearest nodes that it knows on each side of it.
    """
    levels = min(vectors.common(table.owner.vector, about.vector) + 1, len(table.levels))
    listed = table.named(0, levels)
    lowest = table.levels[0]
    # If the lowest list shows k nodes on each side, they are the k nearest known ones.
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
