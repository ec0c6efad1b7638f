"""One place of a peer: its certificate, its lists, its search for neighbours, and what it knows of their lists.

A place of an assembled world is at rest until it is touched: its table is cut from the standing graph, and it keeps
nothing of its own.
"""

from collections.abc import Collection, Iterable
from typing import Protocol

from implicast.overlay.skip_graph.accord import Accord
from implicast.overlay.skip_graph.lists import Lists
from implicast.overlay.skip_graph.quest import Quest
from implicast.overlay.skip_graph.table import LevelTable
from implicast.peer.contract import Address
from implicast.peer.identity import Certificate
from implicast.peer.memory import Recent
from implicast.space.vector import Vectors

ASKERS_MAX = 128
"""The last to ask, told too when the place is left: they may list it though it does not list them."""
PASSERS_MAX = 32
"""The last to ask who are in no list, at hand for when somebody has gone."""


class StandingGraph(Protocol):
    """The whole graph of an assembled world, from which a place at rest reads its lists."""

    def table(self, key: bytes) -> LevelTable[Certificate]:
        """The lists of a place."""

    def named(self, key: bytes, wide: bool) -> dict[bytes, Certificate]:
        """A place and all in its lists, or in the every-class ones, by key."""

    def surroundings(self, key: bytes) -> list[Certificate]:
        """All in the every-class lists of a place."""

    def stored_bytes(self, keys: Iterable[bytes], wide: bool) -> int:
        """Bytes of all in the lists of some places but these, as they would be encoded."""


class Place:
    """A node of the graph that is ours."""

    __slots__ = (
        "_accord", "_askers", "_lists", "_quest", "_resting", "certificate", "k", "key", "passers", "standing",
        "vectors",
    )  # fmt: skip

    def __init__(
        self, certificate: Certificate, k: int, vectors: Vectors, standing: StandingGraph | None = None
    ) -> None:
        self.certificate, self.k, self.vectors, self.standing = certificate, k, vectors, standing
        self.key = certificate.key  # that of a newer certificate of the place too
        self._resting: LevelTable[Certificate] | None = None  # its table in the standing graph, once asked for
        self._lists: Lists | None = None
        self._quest: Quest | None = None
        self._accord: Accord | None = None
        self._askers: Recent[Address, None] = Recent(ASKERS_MAX)
        self.passers: Recent[bytes, Certificate] = Recent(PASSERS_MAX)
        """The latest who asked and are in no list."""

    # --- its parts, each made when it is first needed

    @property
    def is_at_rest(self) -> bool:
        """Whether it has not been touched since it was assembled."""
        return self.standing is not None

    @property
    def lists(self) -> Lists:
        """Its own lists; it is not at rest any more."""
        if self._lists is None:
            self._lists = Lists(self.certificate, self.k, self.vectors)
            if self.standing is not None:
                self._lists.surround(self.standing.surroundings(self.key))
                self.standing = self._resting = None
                self.accord.agree_with_all(self._lists.wide)
        return self._lists

    @property
    def quest(self) -> Quest:
        if self._quest is None:
            self._quest = Quest(self.key)
        return self._quest

    @property
    def accord(self) -> Accord:
        if self._accord is None:
            self._accord = Accord()
        return self._accord

    # --- whom it lists

    @property
    def table(self) -> LevelTable[Certificate]:
        """Its lists by the rule."""
        if self._resting is not None:
            return self._resting
        if self.standing is None:
            return self.lists.table
        self._resting = self.standing.table(self.key)
        return self._resting

    @property
    def wide(self) -> LevelTable[Certificate]:
        """Its every-class lists."""
        return self.lists.wide

    @property
    def known(self) -> dict[bytes, Certificate]:
        """Everybody it knows, by key."""
        return self.lists.known

    def named(self, wide: bool) -> dict[bytes, Certificate]:
        """Itself and everyone in its lists, or in the wider ones, by key."""
        if self.standing is not None:
            return self.standing.named(self.key, wide)
        table = self.lists.wide if wide else self.lists.table
        return table.named(0, len(table.levels))

    @property
    def is_searching(self) -> bool:
        return self._lists is not None and self._lists.is_open

    def enter(self, other: Certificate) -> bool:
        """Take another in where it fits; True if anything changed."""
        return self.lists.enter(other)

    def drop(self, gone: Collection[bytes]) -> None:
        """Entries are no more."""
        self.lists.remove(gone)
        self.quest.unask(gone)

    def renew(self, certificate: Certificate) -> None:
        """The place has a newer certificate."""
        self.lists.renew(certificate)
        self.certificate = certificate

    # --- searching

    def search(self, first: Iterable[Certificate]) -> None:
        """Begin to search for everyone, or widen a search under way."""
        if not self.is_searching:
            self.lists.open()
            self.quest.begin()
        self.quest.want(first)

    def learn(self, named: Collection[Certificate]) -> list[Certificate]:
        """Take one witness's answer in, and follow its trail while searching. Who is new?"""
        lists, known = self.lists, self.known  # nine in ten named are known
        if not lists.is_open:
            return [node for node in named if lists.enter(node)]
        news = [node for node in named if known.get(node.key) is not node and lists.enter(node)]
        self.quest.follow(list(named))
        return news

    # --- who else knows of it

    def acquaintances(self) -> list[Address]:
        """Who may list this place: its own wide lists, whoever asked it lately, and whoever it asked."""
        listed = [node.address for node in (*self.wide.contacts(), *self.quest.asked.values())]
        return list(dict.fromkeys([*listed, *self._askers]))

    def asked_by(self, asker: Address) -> None:
        self._askers[asker] = None

    def pass_by(self, other: Certificate) -> None:
        """Somebody asked who is in no list: it may have heard sooner than we that another has gone."""
        if other.key not in self.known and other.key != self.key:
            self.passers.put(other.key, other)
