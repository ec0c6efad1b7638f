"""Anti-entropy between neighbours: they exchange lists that changed until the lists agree. This
finds every missed join, leave or crash within a few rounds. Follows the ring-upkeep specification,
D.2.

On one ring the lists of two neighbours must be equal where both reach. The list of the left
neighbour reaches as far left as one's own, that of the right neighbour as far right. Each place
therefore sends the keys of a list to its neighbour on each side whenever the list has changed since
they last agreed. Lists that agree are not sent again, so a network at rest sends nothing.

The peer that lacks a node gets its certificate; the peer that lists the node probes it. A
comparison never removes an entry: only a failed probe, a signed leave or a revocation does.

Every wrong list shows as a disagreement of two neighbours. A crashed node that only some peers list
has, next to one of these, either a peer that does not list it or the crashed node itself, which
does not answer. A live node that only some peers list is likewise next to a peer that lacks it.
Adjacent places of one peer compare by a call, because other peers send their lists only to the
nearest of them.
"""

from typing import Annotated

from msgspec import Meta

from implicast.overlay.skip_graph.agreement import (
    Keys,
    ListSpan,
    Named,
    own_neighbours,
    span_agrees,
    span_differences,
)
from implicast.overlay.skip_graph.departures import GraphDepartures
from implicast.overlay.skip_graph.members import GraphMembers
from implicast.overlay.skip_graph.places import Places
from implicast.overlay.skip_graph.probes import PlaceProbes
from implicast.overlay.skip_graph.search import Search
from implicast.overlay.skip_graph.table import LevelTable
from implicast.peer.contract import Address, Message, Part, StandingAlarm, handles
from implicast.peer.fields import Flag
from implicast.peer.identity import Certificate, Key

SPANS_MAX = 64
"""Lists in one comparison; further ones wait for the next round."""


class CompareLists(Message):
    """Asks neighbours to compare these lists with theirs."""

    wire = 0x0B0B
    spans: Annotated[tuple[ListSpan, ...], Meta(max_length=SPANS_MAX)]


class ListDifference(Message):
    """How a list sent by `owner` differs from that of `place`: nodes that it lacks, and keys that
    are unknown to `place`. Both empty: the lists agree.
    """

    owner: Key
    place: Key
    level: Flag
    lacking: Named = ()
    unknown: Keys = ()


class ListDifferences(Message):
    """Answer to `CompareLists`, one entry for each list compared."""

    wire = 0x0B0C
    differences: Annotated[tuple[ListDifference, ...], Meta(max_length=SPANS_MAX)]


class CompareDue(StandingAlarm):
    """Fires when an anti-entropy round is due."""


class ListAntiEntropy(Part):
    """Rounds in which the places of one peer compare their lists with those of their neighbours.

    After `start_rounds` the rounds never stop. Otherwise a change starts them, and they end when
    all lists agree or have been offered often enough.
    """

    __slots__ = (
        "_armed",
        "_beside",
        "_departures",
        "_is_continuous",
        "_look_us",
        "_members",
        "_own",
        "_places",
        "_probes",
        "_search",
    )

    def __init__(
        self,
        places: Places,
        members: GraphMembers,
        departures: GraphDepartures,
        probes: PlaceProbes,
        search: Search,
        look_us: int,
    ) -> None:
        super().__init__(places.address, places.host)
        self._places, self._members, self._departures = places, members, departures
        self._probes, self._search, self._look_us = probes, search, look_us
        self._armed = self._is_continuous = False
        # wide lists of own places when they were last compared
        self._own: dict[bytes, LevelTable[Certificate]] = {}
        # for each own place: level and key of adjacent own places
        self._beside: dict[bytes, list[tuple[int, bytes]]] = {}

    def start_rounds(self) -> None:
        """Run a round every `look_us` from now on."""
        self._armed = self._is_continuous = True
        self.host.after(int(self._look_us * self.host.rng.random()), CompareDue())

    def schedule_round(self) -> None:
        """Run a round after `look_us`, unless one is planned. Called when a list has changed."""
        if not self._armed:
            self._armed = True
            self.host.after(self._look_us, CompareDue())

    # --- sending lists

    @handles(CompareDue)
    def on_compare_due(self, alarm: CompareDue) -> None:
        held, self._armed = self._places.held, False
        if self._is_continuous:
            self.schedule_round()
        if self._places.are_untouched:
            return
        self._compare_own()
        shown: dict[Address, list[ListSpan]] = {}
        for place in held.values():
            if not place.is_searching and place.agreement.is_due(place.wide):
                for address, span in place.agreement.offers(place.wide, self.address):
                    shown.setdefault(address, []).append(span)
        for address, spans in shown.items():
            self._probes.send_expecting_reply(address, CompareLists(tuple(spans[:SPANS_MAX])))
        if shown and any(place.agreement.is_eager for place in held.values()):
            self.schedule_round()

    def _compare_own(self) -> None:
        """Compare adjacent own places by a call. Only levels whose lists changed in either place
        are compared: about one in five.
        """
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
            key: self._beside[key] if key not in fresh else own_neighbours(own[key], self.address)
            for key in own
        }
        for key, pairs in self._beside.items():
            for number, other in pairs:
                if (
                    number in fresh.get(key, ()) or number in fresh.get(other, ())
                ) and other in own:
                    for level in own[other].levels[number : number + 1]:
                        self._search.learn_new(held[key], level.nodes)

    # --- receiving lists

    @handles(CompareLists)
    def on_compare(self, sender: Address, compare: CompareLists) -> None:
        if not self._places.held:
            self._departures.has_left(sender)
            return
        self._departures.answer_about_left(sender, [span.place for span in compare.spans])
        found = [self._compare_span(sender, span) for span in compare.spans]
        self.host.send(sender, ListDifferences(tuple([each for each in found if each is not None])))

    def _compare_span(self, sender: Address, span: ListSpan) -> ListDifference | None:
        place, other = self._places.held.get(span.place), span.owner
        if place is None or other.address != sender:
            return None
        limits, level = place.vectors.limits, span.level
        if not 0 <= level < len(limits) or place.certificate.vector ^ other.vector >= limits[level]:
            return None
        known = place.known
        is_known = known.get(other.key) is other
        if not is_known and not self._members.may_list(other):
            return None
        if (is_known or other.key in known) and span_agrees(place.wide, span):
            place.agreement.found_same(place.wide, span.level, other.key, self.address)
            return ListDifference(other.key, place.key, span.level)
        lacking, unknown = span_differences(place.wide, place.vectors, span)
        if other.key not in known:
            self._search.learn_new(place, (other,))
        elif not lacking and not unknown:
            place.agreement.found_same(place.wide, span.level, other.key, self.address)
        self._probes.probe_disputed(place, lacking)
        named = place.confirmed_nodes(lacking, self._members.was_heard_since)
        # no answer: the list is sent again, and by then the probes have been answered
        if lacking and not named and not unknown:
            return None
        return ListDifference(other.key, place.key, span.level, named, tuple(unknown))

    # --- receiving differences

    @handles(ListDifferences)
    def on_list_differences(self, sender: Address, compared: ListDifferences) -> None:
        """Add the nodes that our list lacks; probe the nodes that the sender lacks, and send it
        their certificates.
        """
        self._probes.replied(sender, CompareLists)
        answers: list[ListDifference] = []
        for difference in compared.differences:
            place = self._places.held.get(difference.owner)
            other = place.known.get(difference.place) if place is not None else None
            if place is None or other is None or other.address != sender:
                self._places.certificate_store.refuse("unasked_answer")
            elif not difference.lacking and not difference.unknown:
                place.agreement.answered_same(difference.level, difference.place)
            else:
                unknown = [place.known[key] for key in difference.unknown if key in place.known]
                self._probes.probe_disputed(place, unknown)
                self._search.learn_new(place, difference.lacking)
                named = place.confirmed_nodes(unknown, self._members.was_heard_since)
                if named:
                    answers.append(
                        ListDifference(difference.place, place.key, difference.level, named)
                    )
        if answers:
            self.host.send(sender, ListDifferences(tuple(answers)))


def newer(before: LevelTable[Certificate] | None, table: LevelTable[Certificate]) -> set[int]:
    """Levels whose lists changed."""
    old = before.levels if before is not None else ()
    return {
        number
        for number, level in enumerate(table.levels)
        if number >= len(old) or old[number] is not level
    }
