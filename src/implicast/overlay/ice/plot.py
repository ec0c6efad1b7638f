"""A peer's plot: its pieces with their status, and the atlas around them.

A piece is *firm* unless its status says otherwise. Only firm pieces answer. `learn` is the only way in which titles of
others come in; two kinds do not: titles that name ourselves (own titles arise from own acts, what others say of us can
only be out of date), and the title of the peer to which we are giving a piece (only its `Accepted` ends a give).
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from implicast.overlay.ice.atlas import Atlas, gap_beside, overlap, touches, tract_of
from implicast.overlay.ice.messages import Title
from implicast.overlay.ice.share import Surface, SurfacePart
from implicast.peer.contract import Address, in_order
from implicast.space.morton import BITS
from implicast.space.prefix import sibling
from implicast.space.tract import EMPTY, Tract, subtract, volume

GIVING, PROVISIONAL, SEIZED = "giving", "provisional", "seized"


class Status(NamedTuple):
    """Why a piece is not firm: whom it goes to or comes from, and under which number."""

    kind: str
    peer: Address
    number: int


class Plot(SurfacePart):
    """Pieces and atlas. What changes them is in the other parts, which end every change with `survey`."""

    __slots__ = (
        "_near",
        "_others",
        "atlas",
        "firm",
        "gap",
        "pieces",
        "status",
        "tract",
        "unsettled",
        "version",
    )

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface)
        self.atlas = Atlas()
        self.pieces: list[Title] = []
        self.status: dict[int, Status] = {}
        """By the first code of a piece; firm pieces have none."""
        self.tract: Tract = EMPTY
        """All pieces."""
        self.firm: Tract = EMPTY
        """All firm pieces."""
        self.unsettled: Tract = EMPTY
        self.version = 0
        """Rises whenever the atlas changes."""
        self.gap: tuple[int, int] | None = None
        """A prefix next to ours that nobody has, as far as we know."""
        self._others: list[Title] | None = None
        """Titles of others in the order of their codes; an assembled peer finds these two when they are needed."""
        self._near: list[Address] = []

    @property
    def others(self) -> list[Title]:
        """Titles of others, in the order of their codes."""
        return self._look_about() if self._others is None else self._others

    def neighbours(self) -> list[Address]:
        """Owners of ground next to ours, in order."""
        if self._others is None:
            self._look_about()
        return self._near

    def firm_pieces(self) -> list[Title]:
        return [each for each in self.pieces if each.low not in self.status]

    def of_status(self, kind: str, peer: Address | None = None) -> list[Title]:
        """Pieces that are held for this reason; if a peer is named, those that go to it or come from it."""
        held = ((each, self.status[each.low]) for each in self.pieces if each.low in self.status)
        return [
            each for each, status in held if status.kind == kind and peer in (None, status.peer)
        ]

    def lone_sibling(self, piece: Title) -> Title | None:
        """The other half of what a piece is one half of, if it is one piece of another peer."""
        other = self.atlas.titles.get(sibling(piece.low, piece.bits))
        return (
            other
            if other is not None and other.bits == piece.bits and other.owner != self.address
            else None
        )

    def preference(self, piece: Title, peer: Address) -> tuple[bool, int, Address]:
        """First the owner of a piece's sibling, then the smallest tract, then the smallest id."""
        other = self.lone_sibling(piece)
        return other is None or other.owner != peer, volume(tract_of(self.atlas.of(peer))), peer

    def learn(self, titles: Iterable[Title]) -> list[Title]:
        """Take in what others say; what of it was news."""
        news = [each for each in titles if self.is_news(each) and self.atlas.learn(each)]
        if news:
            self.survey()
        return news

    def is_news(self, title: Title) -> bool:
        """Could this tell us anything?"""
        if self.atlas.titles.get(title.low) == title or title.owner == self.address:
            return False
        if any(overlap(piece, title) for piece in self.of_status(GIVING, title.owner)):
            return False
        dimensions = self.surface.terms.dimensions
        near = any(
            touches(title, piece, dimensions) or overlap(title, piece) for piece in self.pieces
        )
        return near or not self.pieces

    def settle_on(self, atlas: Atlas) -> None:
        """Begin with this atlas, in which one firm piece is ours."""
        self.atlas, self.pieces = atlas, atlas.of(self.address)
        self.tract = self.firm = tract_of(self.pieces)

    def settle_alone(self, title: Title, titles: Callable[[], list[Title]]) -> None:
        """The same with one piece; what is around it is asked for when it is needed."""
        self.atlas.draw_later(titles)
        self.pieces, self.tract = [title], (title.low, title.high)
        self.firm = self.tract

    def release(self, kind: str, number: int) -> bool:
        """The pieces that were held for this reason are firm; halves of one piece are joined. Were there any?"""
        released = [
            low
            for low, status in self.status.items()
            if (status.kind, status.number) == (kind, number)
        ]
        for low in released:
            del self.status[low]
        if released:
            self._merge_pieces()
        return bool(released)

    def survey(self) -> None:
        """The atlas has changed: forget what does not concern us, find out what answers and who is around."""
        before, dimensions = self.pieces, self.surface.terms.dimensions
        self.version += 1
        pieces = self.pieces = sorted(self.atlas.of(self.address), key=lambda title: title.low)
        if pieces:
            others = [each for each in self.atlas.titles.values() if each.owner != self.address]
            self.atlas.drop(
                [
                    each
                    for each in others
                    if not any(touches(each, one, dimensions) for one in pieces)
                ]
            )
        self._inherit_status(before)
        self.unsettled = tract_of(each for each in self.pieces if each.low in self.status)
        self.tract = tract_of(self.pieces)
        self.firm = subtract(self.tract, self.unsettled)
        self._look_about()
        self.gap = gap_beside(pieces, self.atlas.titles.values(), dimensions)
        self.surface.routes.redraw()

    def _look_about(self) -> list[Title]:
        address, titles = self.address, self.atlas.titles.values()
        self._others = sorted(
            (each for each in titles if each.owner != address), key=lambda title: title.low
        )
        self._near = sorted({each.owner for each in self._others}, key=in_order)
        return self._others

    def _inherit_status(self, before: list[Title]) -> None:
        """What is left of a piece after a part of it was lost has the status of the whole."""
        if not self.status:
            return
        held, kept = [each for each in before if each.low in self.status], dict[int, Status]()
        for piece in self.pieces:
            whole = (
                piece
                if piece.low in self.status
                else next((each for each in held if overlap(each, piece)), None)
            )
            if whole is not None:
                kept[piece.low] = self.status[whole.low]
        self.status = kept

    def _merge_pieces(self) -> None:
        """Join halves that are both ours and firm into what they are halves of; the epoch is the largest plus one."""
        pieces = {
            each.low: each for each in self.atlas.of(self.address) if each.low not in self.status
        }
        for each in sorted(pieces.values(), key=lambda title: (-title.bits, title.low)):
            other = pieces.get(sibling(each.low, each.bits))
            if other is not None and other.bits == each.bits:
                self.atlas.drop([each, other])
                low, epoch = min(each.low, other.low), max(each.epoch, other.epoch) + 1
                self.atlas.put([Title(low, each.bits - 1, epoch, self.address)])
                return self._merge_pieces()
        return None

    def split(self, piece: Title, code: int) -> Title:
        """Halve a piece; the half with the code."""
        bits = piece.bits + 1
        half = 1 << (BITS - bits)
        halves = [
            Title(low, bits, piece.epoch + 1, self.address) for low in (piece.low, piece.low + half)
        ]
        self.atlas.drop([piece])
        self.atlas.put(halves)
        self.survey()
        return halves[code >= halves[1].low]
