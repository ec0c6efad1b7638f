"""Neighbours compare lists until they agree: whatever was missed, by whichever route, is found within a few rounds.

Lists of neighbours on a ring must be the same where both reach, and the list of the left neighbour reaches as far to
the left as one's own, that of the right one as far to the right. So each place shows the keys of a list to the next on
either side whenever it has changed since they last agreed; who agrees is not asked again, so that nothing is sent at
rest. Of what only one of the two lists, the other is given the certificate, and who lists it asks it for a sign of
life. Nobody is removed by a comparison: that takes the own evidence, or the farewell, with which the question ends.

A ghost that only some list is next to one that does not, or to the ghost itself, which is silent; somebody that only
some list is next to one that does not. So every fault of lists is a disagreement of two neighbours. Ring upkeep, D.2.
Where two places of one peer are neighbours they compare by a look, for others show their lists to the nearer only.
"""

from collections.abc import Mapping
from typing import NamedTuple

from implicast.overlay.skip_graph.agreement import agrees, beside, contrast, neighbour
from implicast.overlay.skip_graph.greeting import GreetingGraph
from implicast.overlay.skip_graph.messages import Agree, Compare, Compared, Difference, Span
from implicast.overlay.skip_graph.place import Place
from implicast.overlay.skip_graph.searching import NEIGHBOURS_MAX
from implicast.overlay.skip_graph.table import Table
from implicast.peer.contract import Address, Host, handles
from implicast.peer.identity import Certificate, Trust
from implicast.peer.signatures import Signer
from implicast.space.vector import Vectors

SPANS_MAX = 64
"""Lists in one message; more wait for the next round."""
EAGER = 4
"""Rounds in which a list that stays as it is is shown though the neighbour does not agree; then every fourth."""
SIDES = (True, False)
"""Left, right."""


class Own(NamedTuple):
    """A place of our own: its lists, and which others of our own stand beside it by them, at which levels."""

    table: Table[Certificate]
    beside: tuple[tuple[int, bytes], ...]


class ComparingGraph(GreetingGraph):
    """The places of one peer that compare their lists with those of their neighbours."""

    __slots__ = ("_own",)

    def __init__(self, address: Address, host: Host, k: int, vectors: Vectors, trust: Trust, signer: Signer) -> None:
        super().__init__(address, host, k, vectors, trust, signer)
        self._own: dict[bytes, Own] = {}  # our places, as they were when last compared with each other

    def is_agreed(self, key: bytes, number: int) -> bool:
        """When somebody has gone a ring may seem to be all there is because few of it are left in sight."""
        place = self.places[key]
        level = place.wide.levels[number]
        return all(
            place.agreed.get((number, is_left)) == level.nodes or neighbour(level, self.address, is_left) is None
            for is_left in SIDES
        )

    @handles(Agree)
    def on_agree(self, alarm: Agree) -> None:
        self.host.after(self.look_us, alarm)
        self._compare_own()
        shown: dict[Address, list[Span]] = {}
        for place in self.places.values():
            if not place.searching and place.compared is not place.wide and is_due(place):
                self._offer(place, shown)
        for address, spans in shown.items():
            self._put_to(address, Compare(tuple(spans[:SPANS_MAX])))

    def _offer(self, place: Place, shown: dict[Address, list[Span]]) -> None:
        """What a place has to show, to whom; if nothing, it need not be looked at until it changes."""
        me, held_by, agreed = place.certificate, place.agreed, True
        before = place.compared.levels if place.compared is not None else ()
        for number, level in enumerate(place.wide.levels):
            if number < len(before) and before[number] is level:  # six in ten
                continue
            for is_left in SIDES:
                held = held_by.get((number, is_left))
                if held is level.nodes or held == level.nodes:  # seven in ten
                    continue
                other = neighbour(level, self.address, is_left)
                if other is None:
                    continue
                agreed = False
                place.offered[number, is_left] = (other.key, level.nodes)
                shown.setdefault(other.address, []).append(Span(other.key, me, number, level.keys, level.full))
        if agreed:
            place.compared = place.wide

    def _compare_own(self) -> None:
        """Places of our own that stand side by side compare too, by a look: others show theirs to the nearest of ours
        only. Lists of a level that are what they were have nothing new for each other: four in five."""
        before = self._own
        own = {key: self._looked_at(place) for key, place in self.places.items() if not place.searching}
        changed = {key for key, each in own.items() if before.get(key) is not each}
        if not changed:
            return
        self._own = own
        for key, each in own.items():
            for number, other in each.beside:
                if (key in changed or other in changed) and is_new(before, own, number, key, other):
                    self._take_in(self.places[key], own[other].table.levels[number].nodes)

    def _looked_at(self, place: Place) -> Own:
        """The same as before if its lists are."""
        table, held = place.wide, self._own.get(place.key)
        if held is not None and held.table is table:
            return held
        met = [(number, node) for number, level in enumerate(table.levels) for node in beside(level)]
        return Own(table, tuple([(number, node.key) for number, node in met if node.address == self.address]))

    @handles(Compare)
    def on_compare(self, sender: Address, compare: Compare) -> None:
        if not self.places:
            self.has_left(sender)
            return
        spans = compare.spans[:SPANS_MAX]
        self._say_left(sender, [span.place for span in spans])
        found = [self._contrast(sender, span) for span in spans]
        self.host.send(sender, Compared(tuple([each for each in found if each is not None])))

    def _contrast(self, sender: Address, span: Span) -> Difference | None:
        place, other = self.places.get(span.place), span.owner
        if place is None or other.address != sender or not 0 <= span.level <= self._shared(place, other):
            return None
        is_known = place.known.get(other.key) is other
        if not is_known and not self._may_list(other):
            return None
        if (is_known or other.key in place.known) and agrees(place, span):
            self._agreed(place, span.level, other.key)
            return Difference(other.key, place.key, span.level)
        lacking, unknown = contrast(place, span)
        if other.key not in place.known:
            self._take_in(place, (other,))
        elif not lacking and not unknown:
            self._agreed(place, span.level, other.key)
        self._ask_for_life(place, lacking)
        named = self._vouched(place, lacking)
        if lacking and not named and not unknown:  # without a word it comes again, and by then we shall have heard them
            return None
        return Difference(other.key, place.key, span.level, named, tuple(unknown))

    def _shared(self, place: Place, other: Certificate) -> int:
        return self.vectors.common(place.certificate.vector, other.vector)

    def _agreed(self, place: Place, number: int, whom: bytes) -> None:
        """The other came to us: what it found to be the same need not be shown to it."""
        levels = place.wide.levels
        for is_left in SIDES if number < len(levels) else ():
            other = neighbour(levels[number], self.address, is_left)
            if other is not None and other.key == whom:
                place.agreed[number, is_left] = levels[number].nodes

    @handles(Compared)
    def on_compared(self, sender: Address, compared: Compared) -> None:
        self._unheard.answer((sender, Compare))
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
            to, nodes = place.offered.get((difference.level, is_left), (b"", ()))
            if to == difference.place:
                place.agreed[difference.level, is_left] = nodes
                del place.offered[difference.level, is_left]

    def _even_out(self, place: Place, difference: Difference) -> list[Difference]:
        """Take in what we lack; look for those whom the other lacks, and name them to it."""
        unknown = [place.known[key] for key in difference.unknown if key in place.known]
        self._ask_for_life(place, unknown)
        self._take_in(place, difference.lacking[:NEIGHBOURS_MAX])
        named = self._vouched(place, unknown)
        return [Difference(difference.place, place.key, difference.level, named)] if named else []


def is_new(before: Mapping[bytes, Own], own: Mapping[bytes, Own], number: int, key: bytes, other: bytes) -> bool:
    """Whether either of two lists of a level is not what it was, if the second is there at all."""
    if other not in own or number >= len(own[other].table.levels):
        return False
    for each in (key, other):
        old = before[each].table.levels if each in before else ()
        if number >= len(old) or old[number] is not own[each].table.levels[number]:
            return True
    return False


def is_due(place: Place) -> bool:
    """Whether to show its lists once more, if they are as they were in the round before."""
    table, rounds = place.shown
    place.shown = (place.wide, rounds + 1 if table is place.wide else 0)
    return place.shown[1] < EAGER or place.shown[1] % EAGER == 0
