"""A living peer's ground: pieces with their status, the atlas around them, and what happens when it changes.

A piece is *firm* unless its status says otherwise. Only firm pieces answer. `hear` is the only way in which titles of
others are learnt; two kinds are not: titles that name ourselves (own titles arise from own acts, what others say of us
can only be out of date), and the title of the peer to which we are giving a piece (only its `Accepted` ends a give).
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from implicast.overlay.ice.alive.estate import Keeper
from implicast.overlay.ice.alive.geometry import box_of, gap_beside, touches
from implicast.overlay.ice.alive.settings import Life
from implicast.overlay.ice.atlas import Atlas, overlap, sibling, tract_of
from implicast.overlay.ice.messages import Title
from implicast.overlay.ice.table import UNKNOWN_US, Rows, Table
from implicast.peer.contract import Address, Host, Part
from implicast.space.morton import BITS
from implicast.space.tract import EMPTY, Tract, contains, subtract

GIVING, PROVISIONAL, SEIZED = "giving", "provisional", "seized"


class Status(NamedTuple):
    """Why a piece is not firm: whom it goes to or comes from, and under which number."""

    kind: str
    peer: Address
    number: int


class Ground(Part):
    """Pieces, atlas, table. What changes them is in the other modules."""

    __slots__ = (
        "_gap", "_lows", "_near", "_others", "_table", "atlas", "cosine", "dimensions", "gifts", "ground", "keeper",
        "leaving", "life", "mark", "merge", "number", "pieces", "status", "tract", "unsettled", "version",
    )  # fmt: skip

    def __init__(
        self, address: Address, host: Host, keeper: Keeper, life: Life, dimensions: int, cosine: float,
        merge: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(address, host)
        self.keeper, self.life = keeper, life
        self.dimensions, self.cosine, self.merge = dimensions, cosine, merge
        self.atlas = Atlas()
        self.pieces: list[Title] = []
        self.status: dict[int, Status] = {}
        """By the first code of a piece; firm pieces have none."""
        self.tract: Tract = EMPTY
        """All pieces."""
        self.ground: Tract = EMPTY
        """All firm pieces."""
        self.unsettled: Tract = EMPTY
        self.gifts: list[tuple[int, Title]] = []
        """Titles that others should know of what we parted with, and since when."""
        self.leaving = False
        self.mark = 1
        self.version = 0
        """Rises whenever the atlas changes."""
        self.number = host.rng.getrandbits(40)
        """Names transfers, hops and backups; it starts anywhere, so that a second life is not taken for the first."""
        self._others: list[Title] = []
        self._lows: list[int] = []
        self._near: list[Address] = []
        self._table: Table | None = None
        self._gap: tuple[int, int] | None = None

    # --- what is ours, and what is around it

    @property
    def alone(self) -> bool:
        """Is there nobody else, as far as we know?"""
        return not self._others

    def neighbours(self) -> list[Address]:
        """Owners of ground next to ours, in order."""
        return self._near

    def firm_pieces(self) -> list[Title]:
        return [each for each in self.pieces if each.low not in self.status]

    def of_status(self, kind: str) -> list[Title]:
        return [each for each in self.pieces if each.low in self.status and self.status[each.low].kind == kind]

    def owns_firmly(self, code: int) -> bool:
        return contains(self.ground, code)

    def title_at(self, code: int) -> Title | None:
        """The best title known for a code that is not ours."""
        index = bisect_right(self._lows, code) - 1
        if index < 0:
            return None
        title = self._others[index]
        return title if code < title.high else None

    def lone_sibling(self, piece: Title) -> Title | None:
        """The other half of what a piece is one half of, if it is one piece of another peer."""
        if not piece.bits:
            return None
        other = self.title_at(sibling(piece.low, piece.bits))
        return other if other is not None and other.bits == piece.bits else None

    def next_number(self) -> int:
        self.number += 1
        return self.number

    def is_suspect(self, peer: Address) -> bool:
        """Known better in `asking.py`."""
        return False

    def latency_us(self, peer: Address) -> float:
        return UNKNOWN_US

    # --- change

    def hear(self, titles: Iterable[Title], sender: Address | None = None) -> None:
        """Learn from others; what we lose by it we yield. What is said of third parties is checked with them."""
        before, neighbours = list(self.pieces), self.neighbours()
        news = [each for each in titles if self._is_news(each) and self.atlas.learn(each)]
        if not news:
            return
        self.resurvey()
        hearsay = {each.owner for each in news if each.owner != sender}
        self.check([each for each in self.neighbours() if each in hearsay])
        lost = subtract(tract_of(before), self.tract)
        if lost:
            self.lost(lost, neighbours, [each for each in news if any(overlap(each, piece) for piece in before)])
        else:
            self.met([each for each in self.neighbours() if each not in neighbours])

    def _is_news(self, title: Title) -> bool:
        if self.atlas.titles.get(title.low) == title or title.owner == self.address:
            return False
        for piece in self.pieces:
            status = self.status.get(piece.low)
            if status is not None and status.kind == GIVING and status.peer == title.owner and overlap(piece, title):
                return False
        return not self.pieces or any(
            touches(title, piece, self.dimensions) or overlap(title, piece) for piece in self.pieces
        )

    def lost(self, tract: Tract, neighbours: list[Address], winners: list[Title]) -> None:
        """A better title took ground from us: see `giving.py`."""

    def check(self, owners: list[Address]) -> None:
        """Others say that these own more than we knew: `greeting.py`."""

    def met(self, strangers: list[Address]) -> None:
        """There are neighbours that we did not know: see `greeting.py`."""

    def resurvey(self) -> None:
        """The atlas has changed: forget what does not concern us, find out what answers and who is around."""
        before = self.pieces
        self.version += 1
        self.pieces = sorted(self.atlas.of(self.address), key=lambda title: title.low)
        if self.pieces:
            self._prune()
        self._inherit_status(before)
        unsettled = [each for each in self.pieces if each.low in self.status]
        self.unsettled = tract_of(unsettled)
        self.tract = tract_of(self.pieces)
        self.ground = subtract(self.tract, self.unsettled)
        self._others = sorted(
            (each for each in self.atlas.titles.values() if each.owner != self.address), key=lambda title: title.low
        )
        self._lows = [each.low for each in self._others]
        self._near = sorted({each.owner for each in self._others})
        self._table = None
        self._gap = gap_beside(self.pieces, list(self.atlas.titles.values()), self.dimensions)

    def _prune(self) -> None:
        pieces, dimensions = self.pieces, self.dimensions
        self.atlas.titles = {
            low: each
            for low, each in self.atlas.titles.items()
            if each.owner == self.address or any(touches(each, piece, dimensions) for piece in pieces)
        }

    def _inherit_status(self, before: list[Title]) -> None:
        """What is left of a piece after a part of it was lost has the status of the whole."""
        if not self.status:
            return
        held = {each.low: each for each in before if each.low in self.status}
        kept: dict[int, Status] = {}
        for piece in self.pieces:
            if piece.low in self.status:
                kept[piece.low] = self.status[piece.low]
                continue
            whole = next((each for each in held.values() if overlap(each, piece)), None)
            if whole is not None:
                kept[piece.low] = self.status[whole.low]
        self.status = kept

    def merge_pieces(self) -> None:
        """Join halves that are both ours and firm into what they are halves of; the epoch is the largest plus one."""
        pieces = {each.low: each for each in self.atlas.of(self.address) if each.low not in self.status}
        for each in sorted(pieces.values(), key=lambda title: (-title.bits, title.low)):
            other = pieces.get(sibling(each.low, each.bits)) if each.bits else None
            if other is not None and other.bits == each.bits:
                self.atlas.drop([each, other])
                low, epoch = min(each.low, other.low), max(each.epoch, other.epoch) + 1
                self.atlas.put([Title(low, each.bits - 1, epoch, self.address)])
                return self.merge_pieces()
        return None

    def split(self, piece: Title, code: int) -> Title:
        """Halve a piece; the half with the code."""
        bits = piece.bits + 1
        half = 1 << (BITS - bits)
        halves = [Title(low, bits, piece.epoch + 1, self.address) for low in (piece.low, piece.low + half)]
        self.atlas.drop([piece])
        self.atlas.put(halves)
        self.resurvey()
        return halves[code >= halves[1].low]

    # --- the table that messages are routed by

    @property
    def table(self) -> Table:
        """Neighbours that are not suspect, as rows."""
        if self._table is None:
            others = [each for each in self._others if not self.is_suspect(each.owner)]
            latencies = np.array([self.latency_us(each.owner) for each in others], np.float64)
            owners = [each.owner for each in others]
            self._table = Table(self.dimensions, self._rows(self.pieces), self._rows(others), latencies, owners)
        return self._table

    def _rows(self, titles: list[Title]) -> Rows:
        rows = [[*low, *high] for low, high in (box_of(each.low, each.bits, self.dimensions) for each in titles)]
        return np.array(rows, np.int64).reshape(len(rows), 2 * self.dimensions)

    def inside(self, low: int, bits: int) -> list[Title]:
        """Known titles of others within a prefix."""
        high = low + (1 << (BITS - bits))
        return [each for each in self._others if low <= each.low and each.high <= high]
