"""Neighbours compare lists until they agree: whatever was missed, by whichever route, is found within a few rounds.

Lists of neighbours on a ring must be the same where both reach, and the list of the left neighbour reaches as far to
the left as one's own, that of the right one as far to the right. So each place shows the keys of a list to the next on
either side whenever it has changed since they last agreed; who agrees is not asked again, so that nothing is sent at
rest. Of what only one of the two lists, the other is given the certificate, and who lists it asks it for a sign of
life. Nobody is removed by a comparison: that takes the own evidence, or the farewell, with which the question ends.

A ghost that only some list is next to one that does not, or to the ghost itself, which is silent; somebody that only
some list is next to one that does not. So every fault of lists is a disagreement of two neighbours. Ring upkeep, D.2.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence

from implicast.overlay.skip_graph.graph import NEIGHBOURS_MAX
from implicast.overlay.skip_graph.leaving import LeavingGraph
from implicast.overlay.skip_graph.messages import Agree, Ask, Compare, Compared, Difference, Span
from implicast.overlay.skip_graph.place import Place
from implicast.peer.contract import Address, Host, handles
from implicast.peer.identity import Certificate, Trust
from implicast.peer.signatures import Signer
from implicast.space.vector import Vectors

SPANS_MAX = 64
"""Lists in one message; more wait for the next round."""
EAGER = 4
"""Rounds in which a list that stays as it is is shown though the neighbour does not agree; then every fourth."""
LIFE_US = 15_000_000
"""Who was asked for a sign of life within this time is not asked again, whatever neighbours say."""
DOUBTED_MAX = 512
"""Questions for a sign of life that are remembered; the oldest are forgotten first."""
SIDES = (True, False)
"""Left, right."""


class ComparingGraph(LeavingGraph):
    """The places of one peer that compare their lists with those of their neighbours."""

    __slots__ = ("_doubted_us",)

    def __init__(self, address: Address, host: Host, k: int, vectors: Vectors, trust: Trust, signer: Signer) -> None:
        super().__init__(address, host, k, vectors, trust, signer)
        self._doubted_us: dict[tuple[bytes, bytes], int] = {}  # who was asked by which place for a sign of life, when

    @abstractmethod
    def _show(self, address: Address, compare: Compare) -> None:
        """Send it, and look for the receiver if it does not answer."""

    @abstractmethod
    def _may_list(self, node: Certificate) -> bool:
        """Whether somebody named by another may be listed, if it answers."""

    @handles(Agree)
    def on_agree(self, alarm: Agree) -> None:
        self.host.after(self.look_us, alarm)
        shown: dict[Address, list[Span]] = {}
        for place in self.places.values():
            if not place.searching and place.compared is not place.wide and is_due(place):
                self._offer(place, shown)
        for address, spans in shown.items():
            self._show(address, Compare(tuple(spans[:SPANS_MAX])))

    def _offer(self, place: Place, shown: dict[Address, list[Span]]) -> None:
        """What a place has to show, to whom; if nothing, it need not be looked at until it changes."""
        me, agreed = place.certificate, True
        for number, level in enumerate(place.wide.levels):
            for is_left in SIDES:
                other = neighbour(place, number, is_left)
                if other is None or place.agreed.get((number, is_left)) == level.nodes:
                    continue
                agreed = False
                place.offered[number, is_left] = level.nodes
                keys = tuple([node.key for node in level.nodes])
                shown.setdefault(other.address, []).append(Span(other.key, me, number, keys, level.full))
        if agreed:
            place.compared = place.wide

    @handles(Compare)
    def on_compare(self, sender: Address, compare: Compare) -> None:
        if not self.places:
            self.has_left(sender)
            return
        found = [self._contrast(sender, span) for span in compare.spans[:SPANS_MAX]]
        self.host.send(sender, Compared(tuple([each for each in found if each is not None])))

    def _contrast(self, sender: Address, span: Span) -> Difference | None:
        place, other = self.places.get(span.place), span.owner
        if place is None and span.place in self._left:
            self.host.send(sender, self._farewell(self._left[span.place].owner))
        if place is None or other.address != sender or not 0 <= span.level <= self._shared(place, other):
            return None
        if not self._may_list(other):
            return None
        difference, lacking = contrast(place, span)
        if other.key not in place.known:
            self._take_in(place, (other,))
        elif not lacking and not difference.unknown:
            self._agreed(place, span.level, other.key)
        self._ask_for_life(place, lacking, span.level)
        return difference

    def _shared(self, place: Place, other: Certificate) -> int:
        return self.vectors.common(place.certificate.vector, other.vector)

    def _agreed(self, place: Place, number: int, whom: bytes) -> None:
        """The other came to us: what it found to be the same need not be shown to it."""
        for is_left in SIDES:
            other = neighbour(place, number, is_left)
            if other is not None and other.key == whom:
                place.agreed[number, is_left] = place.wide.levels[number].nodes

    @handles(Compared)
    def on_compared(self, sender: Address, compared: Compared) -> None:
        told: list[Difference] = []
        for difference in compared.differences[:SPANS_MAX]:
            place = self.places.get(difference.owner)
            other = place.known.get(difference.place) if place is not None else None
            if place is None or other is None or other.address != sender:
                self.belief.refusals["unasked_answer"] += 1
            elif not difference.lacking and not difference.unknown:
                self._note_agreed(place, difference)
            else:
                told += self._even_out(place, difference)
        if told:
            self.host.send(sender, Compared(tuple(told)))

    def _note_agreed(self, place: Place, difference: Difference) -> None:
        for is_left in SIDES:
            side = (difference.level, is_left)
            other = neighbour(place, difference.level, is_left)
            if side in place.offered and other is not None and other.key == difference.place:
                place.agreed[side] = place.offered.pop(side)

    def _even_out(self, place: Place, difference: Difference) -> list[Difference]:
        """Take in what we lack; look for those whom the other lacks, and name them to it."""
        unknown = [place.known[key] for key in difference.unknown if key in place.known]
        self._ask_for_life(place, unknown, difference.level)
        self._take_in(place, difference.lacking[:NEIGHBOURS_MAX])
        return [Difference(difference.place, place.key, difference.level, tuple(unknown))] if unknown else []

    def _take_in(self, place: Place, named: Sequence[Certificate]) -> None:
        """Whoever is new is asked itself."""
        place.learn([node for node in named if node.key not in place.known and self._may_list(node)])
        self._go_on(place)

    def _ask_for_life(self, place: Place, doubted: Iterable[Certificate], level: int) -> None:
        for node in doubted:
            if node.address != self.address and node.key not in place.waiting and self._doubts(place, node):
                self._request(place, node.key, node.address, Ask(node.key, self._claim(place), level))

    def _doubts(self, place: Place, node: Certificate) -> bool:
        """Whether it is time to ask somebody; a neighbour that never agrees must not make us ask all the time."""
        now_us, both = self.host.now_us, (place.key, node.key)
        if self._doubted_us.get(both, -LIFE_US) > now_us - LIFE_US:
            return False
        asked_us = self._doubted_us
        asked_us.pop(both, None)
        asked_us[both] = now_us
        while asked_us[oldest := next(iter(asked_us))] <= now_us - LIFE_US or len(asked_us) > DOUBTED_MAX:
            del asked_us[oldest]
        return True


def is_due(place: Place) -> bool:
    """Whether to show its lists once more, if they are as they were in the round before."""
    table, rounds = place.shown
    place.shown = (place.wide, rounds + 1 if table is place.wide else 0)
    return place.shown[1] < EAGER or place.shown[1] % EAGER == 0


def neighbour(place: Place, number: int, is_left: bool) -> Certificate | None:
    """The next on one side of a list that is not of the same peer: that one has missed the same."""
    levels = place.wide.levels
    if number >= len(levels):
        return None
    nodes, own, me = levels[number].nodes, levels[number].own, place.certificate.address
    step, size = -1 if is_left else 1, len(nodes)
    path = (nodes[(own + step * places) % size] for places in range(1, size))
    return next((node for node in path if node.address != me), None)


def contrast(place: Place, span: Span) -> tuple[Difference, list[Certificate]]:
    """What another's list lacks and has too many by ours, where both reach; and those whom it lacks."""
    levels, common, vector = place.wide.levels, place.vectors.common, place.certificate.vector
    level = levels[min(span.level, len(levels) - 1)]
    mine = {node.key: node for node in level.nodes if common(vector, node.vector) >= span.level}
    theirs = {*span.keys, span.owner.key}
    lacking = [node for key, node in mine.items() if key not in theirs and covers(span, key)]
    unknown = [key for key in span.keys if key not in mine and key != span.owner.key and level.spans(key)]
    return Difference(span.owner.key, place.key, span.level, tuple(lacking), tuple(unknown)), lacking


def covers(span: Span, key: bytes) -> bool:
    """Whether a list that reaches so far would have to name this key."""
    if span.full or not span.keys:
        return True
    first, last = span.keys[0], span.keys[-1]
    return first <= key <= last if first <= last else key >= first or key <= last
