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

from implicast.overlay.skip_graph.accord import agrees, contrast, ours
from implicast.overlay.skip_graph.farewells import Farewells
from implicast.overlay.skip_graph.messages import (
    SPANS_MAX,
    Agree,
    Compared,
    CompareLists,
    Difference,
    ListSpan,
)
from implicast.overlay.skip_graph.search import SHOWN, Search
from implicast.overlay.skip_graph.table import LevelTable
from implicast.peer.contract import Address, Part, handles
from implicast.peer.identity import Certificate


class Comparison(Part):
    """The rounds in which the places of one peer compare their lists with those of their neighbours.

    One that has begun to does so for ever; else rounds go on from a change until all agree.
    """

    __slots__ = (
        "_absentees",
        "_armed",
        "_beside",
        "_farewells",
        "_for_ever",
        "_look_us",
        "_own",
        "_places",
        "_search",
    )

    def __init__(self, search: Search, farewells: Farewells, look_us: int) -> None:
        super().__init__(search.address, search.host)
        self._search, self._farewells, self._look_us = search, farewells, look_us
        self._places, self._absentees = search.places, search.absentees
        self._armed = self._for_ever = False
        self._own: dict[
            bytes, LevelTable[Certificate]
        ] = {}  # our places, as when last compared with each other
        self._beside: dict[
            bytes, list[tuple[int, bytes]]
        ] = {}  # and by level which of them are neighbours

    def begin(self) -> None:
        """CompareLists from now on."""
        self._armed = self._for_ever = True
        self.host.after(int(self._look_us * self.host.rng.random()), Agree())

    def rouse(self) -> None:
        """Our lists have changed."""
        if not self._armed:
            self._armed = True
            self.host.after(self._look_us, Agree())

    # --- showing

    @handles(Agree)
    def on_agree(self, alarm: Agree) -> None:
        held, self._armed = self._places.held, False
        if self._for_ever:
            self.rouse()
        if all(place.is_at_rest for place in held.values()):
            return
        self._compare_own()
        shown: dict[Address, list[ListSpan]] = {}
        for place in held.values():
            if not place.is_searching and place.accord.is_due(place.wide):
                for address, span in place.accord.offers(place.wide, self.address):
                    shown.setdefault(address, []).append(span)
        for address, spans in shown.items():
            self._search.put_to(address, CompareLists(tuple(spans[:SPANS_MAX])))
        if shown and any(place.accord.is_eager for place in held.values()):
            self.rouse()

    def _compare_own(self) -> None:
        """Places of our own that stand side by side compare too, by a look: others show theirs to the nearest of ours
        only. Lists of a level that are what they were have nothing new for each other: four in five."""
        before, held = self._own, self._places.held
        own = {key: place.wide for key, place in held.items() if not place.is_searching}
        fresh = {
            key: newer(before.get(key), table)
            for key, table in own.items()
            if before.get(key) is not table
        }
        if not fresh:
            return
        self._own = own
        self._beside = {
            key: self._beside[key] if key not in fresh else ours(own[key], self.address)
            for key in own
        }
        for key, pairs in self._beside.items():
            for number, other in pairs:
                if (
                    number in fresh.get(key, ()) or number in fresh.get(other, ())
                ) and other in own:
                    for level in own[other].levels[number : number + 1]:
                        self._search.take_in(held[key], level.nodes)

    # --- being shown

    @handles(CompareLists)
    def on_compare(self, sender: Address, compare: CompareLists) -> None:
        if not self._places.held:
            self._farewells.has_left(sender)
            return
        self._farewells.say_left(sender, [span.place for span in compare.spans])
        found = [self._contrast(sender, span) for span in compare.spans]
        self.host.send(sender, Compared(tuple([each for each in found if each is not None])))

    def _contrast(self, sender: Address, span: ListSpan) -> Difference | None:
        place, other = self._places.held.get(span.place), span.owner
        if place is None or other.address != sender:
            return None
        limits, level = place.vectors.limits, span.level
        if not 0 <= level < len(limits) or place.certificate.vector ^ other.vector >= limits[level]:
            return None
        known = place.known
        is_known = known.get(other.key) is other
        if not is_known and not self._absentees.may_list(other):
            return None
        if (is_known or other.key in known) and agrees(place.wide, span):
            place.accord.found_same(place.wide, span.level, other.key, self.address)
            return Difference(other.key, place.key, span.level)
        lacking, unknown = contrast(place.wide, place.vectors, span)
        if other.key not in known:
            self._search.take_in(place, (other,))
        elif not lacking and not unknown:
            place.accord.found_same(place.wide, span.level, other.key, self.address)
        self._search.ask_for_incarnation(place, lacking)
        named = place.vouched(lacking, self._absentees.was_heard_since)
        if (
            lacking and not named and not unknown
        ):  # without a word it comes again, and by then we shall have heard them
            return None
        return Difference(other.key, place.key, span.level, named, tuple(unknown))

    # --- being answered

    @handles(Compared)
    def on_compared(self, sender: Address, compared: Compared) -> None:
        """Take in what we lack; look for those whom the other lacks, and name them to it."""
        self._search.asker.answered(SHOWN, (sender, CompareLists.wire))
        told: list[Difference] = []
        for difference in compared.differences:
            place = self._places.held.get(difference.owner)
            other = place.known.get(difference.place) if place is not None else None
            if place is None or other is None or other.address != sender:
                self._places.belief.refusals["unasked_answer"] += 1
            elif not difference.lacking and not difference.unknown:
                place.accord.answered_same(difference.level, difference.place)
            else:
                unknown = [place.known[key] for key in difference.unknown if key in place.known]
                self._search.ask_for_incarnation(place, unknown)
                self._search.take_in(place, difference.lacking)
                named = place.vouched(unknown, self._absentees.was_heard_since)
                if named:
                    told.append(Difference(difference.place, place.key, difference.level, named))
        if told:
            self.host.send(sender, Compared(tuple(told)))


def newer(before: LevelTable[Certificate] | None, table: LevelTable[Certificate]) -> set[int]:
    """Levels whose lists are not what they were."""
    old = before.levels if before is not None else ()
    return {
        number
        for number, level in enumerate(table.levels)
        if number >= len(old) or old[number] is not level
    }
