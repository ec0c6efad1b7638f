"""How neighbours keep track of each other: greetings with marks, and better titles for whoever is behind.

Correction on change: whose pieces change says hello to all old and new neighbours. Correction on use: every hello is
answered with the answerer's mark; who does not know that mark asks for more. A hello lists all pieces of its sender
and what it gave away lately, so a peer that is behind by several steps catches up step by step. Round trips of
greetings measure the latencies that the next hop is chosen by.

Room is left for what an unkind network needs: silence and suspicion, heirs, gaps in the atlas.
"""

from collections.abc import Iterable

from implicast.overlay.ice.atlas import overlap
from implicast.overlay.ice.ground import Ground, Tenant
from implicast.overlay.ice.messages import Heard, Hello, More, Title, Titles
from implicast.peer.contract import Address, Host, handles

GIFTS_US = 20_000_000
"""How long a peer tells what it gave away: twice the time after which a silent peer would count as dead."""

MARKS_MAX = 256
"""Peers whose marks are remembered; beyond it those that are no neighbours are forgotten."""


class Greeting(Ground):
    """Keeps the atlas true."""

    __slots__ = ("gifts", "leaving", "mark", "marks")

    def __init__(
        self, address: Address, host: Host, tenant: Tenant, dimensions: int, cosine: float, merge: bool = True
    ) -> None:
        super().__init__(address, host, tenant, dimensions, cosine, merge)
        self.mark = 0
        self.marks: dict[Address, int] = {}
        self.gifts: list[tuple[int, Title]] = []
        self.leaving = False

    def in_transit(self) -> list[Title]:
        """Pieces of ours that do not answer now (`giving.py`)."""
        return []

    def not_yet(self) -> list[Title]:
        """Pieces that we have received and not yet been granted: others must not learn of them (`giving.py`)."""
        return []

    def hello(self) -> Hello:
        since_us = self.host.now_us - GIFTS_US
        self.gifts = [(at_us, title) for at_us, title in self.gifts if at_us >= since_us]
        pieces = tuple(each for each in self.pieces if each not in self.not_yet())
        return Hello(self.host.now_us, self.mark, pieces, tuple(title for _, title in self.gifts), self.leaving)

    def greet(self, peers: Iterable[Address]) -> None:
        hello = self.hello()
        for peer in peers:
            self.host.send(peer, hello)

    def announce(self, before: list[Address]) -> None:
        """Our pieces have changed: tell old and new neighbours."""
        self.mark += 1
        self._resurvey()
        self.greet(sorted({*before, *self.neighbours()}))
        self.tenant.settled()
        self.unpark()

    def hear(self, titles: Iterable[Title]) -> None:
        """Learn from others. What they say of ourselves can only be out of date: own titles come of own acts."""
        before = self.neighbours()
        moving = self.in_transit()
        news = [
            each for each in titles if each.owner != self.address and not any(overlap(each, piece) for piece in moving)
        ]
        if sum(self.atlas.learn(each) for each in news):
            self._resurvey()
            self.greet(each for each in self.neighbours() if each not in before)
            self.unpark()

    def _resurvey(self) -> None:
        if len(self.marks) > MARKS_MAX:
            self.marks = {each: self.marks[each] for each in self.neighbours() if each in self.marks}
        if self.pieces:
            self.atlas.prune(self.address, self.dimensions)
        self.survey(self.in_transit())

    @handles(Hello)
    def on_hello(self, sender: Address, hello: Hello) -> None:
        self.host.send(sender, Heard(hello.stamp_us, self.mark))
        if hello.mark < self.marks.get(sender, 0):
            return
        self.marks[sender] = hello.mark
        self.hear((*hello.gifts, *hello.pieces))
        gone = [each for each in self.atlas.of(sender) if not any(_within(each, piece) for piece in hello.pieces)]
        if gone:
            self.atlas.drop(gone)
            self._resurvey()
        known = [title for piece in hello.pieces for title in self.atlas.better_than(piece)]
        if known:
            self.host.send(sender, Titles(tuple(known)))

    @handles(Heard)
    def on_heard(self, sender: Address, heard: Heard) -> None:
        self.latency_us[sender] = max(1.0, (self.host.now_us - heard.stamp_us) / 2)
        self._table = None
        if self.marks.get(sender) != heard.mark:
            self.host.send(sender, More())

    @handles(More)
    def on_more(self, sender: Address, more: More) -> None:
        self.greet([sender])

    @handles(Titles)
    def on_titles(self, sender: Address, better: Titles) -> None:
        self.hear(better.titles)


def _within(title: Title, piece: Title) -> bool:
    return title.epoch == piece.epoch and overlap(title, piece)
