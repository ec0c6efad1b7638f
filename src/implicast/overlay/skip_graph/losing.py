"""Who stays silent is lost, and found again when it speaks. Ring upkeep, parts D.2 and E.

Who stays silent towards this peer is taken out of all its lists, and kept aside: it is called again and again, and
comes back with its first word. Nobody is lost on the word of others; how others hear of it is told in `accusing.py`.

An address lives and dies as a whole, so it is lost and found as a whole, however many places it has.
"""

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence

from implicast.overlay.detector import Detector, Ping
from implicast.overlay.skip_graph.comparing import ComparingGraph
from implicast.overlay.skip_graph.messages import Announce, Ask
from implicast.overlay.skip_graph.place import Place
from implicast.overlay.skip_graph.searching import whoever
from implicast.overlay.skip_graph.upkeep import Lost, Upkeep
from implicast.peer.contract import Address, Host, Message
from implicast.peer.identity import Certificate, Trust
from implicast.peer.signatures import Signer
from implicast.space.vector import Vectors

QUIET_US = 2_000_000
"""Who was heard so lately is not looked for, whoever misses it."""
CALL_US = 5_000_000
CALL_CAP_US = 10_000_000
"""The lost are called after this time, or sooner where one watches more often, then at doubling intervals up to that.
"""
CALLS_GROW = 4
"""Later the pauses are the silence divided by this."""
LOST_US = 180_000_000
"""For so long the lost are called so often, and come back to all their places with their first word."""
REMEMBERED_US = 3_600_000_000
"""For so long nobody lists them on the word of others: some who heard them alive may list and name them for long, until
they ask them for another reason. They are called all the while, at pauses that grow with their silence: of two sides of
a long partition one word is enough."""
NAMED_US = 30_000_000
"""Somebody lost whom others name is called at once, unless that was done so lately."""
PASSED_US = 60_000_000
"""Who asked and was heard within this time is taken for present until a probe says otherwise."""
CATCH_UP_US = 10_000_000
"""How often one looks at everything anew at most: others may say for ever that they had lost us."""
SEEK_US = 60_000_000
"""How often one seeks all own places anew at most."""
LOST_MAX = 1_024
"""Addresses that are kept aside; the first lost are forgotten first."""
LOST_PLACES_MAX = 256
"""Places of one lost address that are kept aside."""


class LosingGraph(ComparingGraph):
    """The places of one peer in a network where others fall silent and speak again."""

    __slots__ = ("_caught_up_us", "_lost", "_sought_us", "_upkeep", "detector")

    def __init__(
        self, address: Address, host: Host, k: int, vectors: Vectors, trust: Trust, signer: Signer, upkeep: Upkeep
    ) -> None:
        super().__init__(address, host, k, vectors, trust, signer)
        self.tries, self.look_us = upkeep.asks, upkeep.look_us
        self._upkeep = upkeep
        self.detector: Detector[Address] = Detector(address, host, upkeep.detector, self._lose)
        self._lost: dict[Address, Lost] = {}
        self._caught_up_us = host.now_us
        self._sought_us = -SEEK_US

    @abstractmethod
    def _pass_on(self, address: Address) -> None:
        """Somebody is gone from our lists: others may not know yet."""

    def heard(self, sender: Address) -> None:
        """At every message: the cheapest probe is what comes anyway."""
        self.detector.heard(sender)
        if sender in self._lost:
            self._find_again(sender)

    def watch(self, address: Address) -> None:
        """Something that it should have answered was not: look for it at once."""
        if address not in self._lost:
            self.detector.check(address, QUIET_US)

    def is_there(self, address: Address, within_us: int) -> bool:
        """Whether it was heard lately."""
        silent_us = self.detector.silent_for_us(address)
        return address not in self._lost and silent_us is not None and silent_us < within_us

    def _look_for(self, address: Address, message: Message) -> None:
        if self.detector.is_probing(address):
            self.host.send(address, message)
        elif address not in self._lost:
            self.detector.probe(address, message)

    def _was_heard_since(self, address: Address, time_us: int) -> bool:
        silent_us = self.detector.silent_for_us(address)
        return silent_us is not None and silent_us <= self.host.now_us - time_us

    def _may_list(self, node: Certificate) -> bool:
        lost = self._lost.get(node.address)
        if lost is None:
            return self.belief.sound(node)
        if len(lost.nodes) < LOST_PLACES_MAX and self.belief.sound(node):
            lost.nodes[node.key] = node  # for when it speaks again
            if not self._is_called(lost) and lost.called_us + NAMED_US <= self.host.now_us:
                self._call(node.address, lost)
        return False

    def _believed(self, place: Place, named: Sequence[Certificate]) -> Sequence[Certificate]:
        """The same, where most who are new have been met before: they are looked at all at once."""
        known, lost = place.known, self._lost
        fresh = [node for node in named if known.get(node.key) is not node]
        doubtful = self.belief.doubtful(fresh)
        if lost:
            doubtful += [node for node in fresh if node.address in lost]
        refused = {node.key for node in doubtful if not self._may_list(node)}
        chosen = named if place.searching else fresh
        return [node for node in chosen if node.key not in refused] if refused else chosen

    def _credit(self, place: Place, node: Certificate) -> bool:
        """Who is silent towards us is not listed on the word of others."""
        return self._may_list(node)

    # --- losing

    def _lose(self, address: Address) -> None:
        """It is silent towards us: out of all lists, and kept aside."""
        now_us = self.host.now_us
        wait_us = min(CALL_US, self._upkeep.watch_us)
        lost = self._lost.setdefault(address, Lost(now_us, now_us + wait_us, wait_us))
        if len(self._lost) > LOST_MAX:
            del self._lost[next(iter(self._lost))]
        known = (node for place in self.places.values() for node in place.known.values())
        gone = {node.key: node for node in known if node.address == address}
        lost.nodes.update(gone)
        self._take_out(address, gone)
        if gone:
            self._pass_on(address)

    def _take_out(self, address: Address, gone: Mapping[bytes, Certificate]) -> None:
        """Out of all lists first; only then may places ask each other again."""
        for place in self.places.values():
            listed = [key for key in gone if key in place.known]
            if listed:
                self._drop(place, listed)
        for place in list(self.places.values()):
            self._give_up_on(place, address)

    def _drop(self, place: Place, gone: Collection[bytes]) -> None:
        """Who asked lately may belong where somebody has gone: it knew before us, and will not ask again."""
        super()._drop(place, gone)
        for node in list(place.passers.values()):
            if node.key not in gone and self._is_about(node) and place.enter(node):
                place.hearsay[node.key] = self.host.now_us  # as long as it does not speak again
                self.watch(node.address)

    def _is_about(self, node: Certificate) -> bool:
        address = node.address
        return address not in self.detector.gone and self.is_there(address, PASSED_US) and self.belief.sound(node)

    def _still_there(self, named: tuple[Certificate, ...]) -> tuple[Certificate, ...]:
        """Lists of a place that was left are kept by nobody, and grow old."""
        return tuple([node for node in named if node.address == self.address or self._is_about(node)])

    def _give_up_on(self, place: Place, address: Address) -> None:
        """Nothing is expected of it any more."""
        asked = [whom for whom in place.waiting if self._asked_address(place, whom) == address]
        for whom in asked:
            place.waiting.pop(whom)
            self._unanswered.answer((place.key, whom))
        if asked:
            self._go_on(place)

    def _asked_address(self, place: Place, whom: bytes) -> Address | None:
        request = self._unanswered.get((place.key, whom))
        return request[0] if request is not None else None

    def _silent(self, place: Place, whom: bytes, to: Address, message: Ask | Announce) -> None:
        self.detector.suspect(to)
        if to not in self._lost:
            self._lose(to)

    # --- finding again

    def _find_again(self, address: Address) -> None:
        """It spoke: back into the lists where it belongs. It is asked, as it may know of others and not of us."""
        lost = self._lost.pop(address)
        self._call_the_others()
        nodes = [node for node in lost.nodes.values() if self.belief.sound(node)]
        for place in list(self.places.values()):
            place.unask(lost.nodes)
            self._learn(place, nodes)
            self._go_on(place)
        if not self._is_called(lost):
            self._seek_anew(address)

    def _seek_anew(self, address: Address) -> None:
        """It was lost for longer than its places are kept, as if it were new; so may we be for all who are around it.
        Each of our places is sought through it like that of a newcomer: what two sides of a long partition know of each
        other may be a home place or two."""
        if self.host.now_us - self._sought_us < SEEK_US:
            return
        self._sought_us = self.host.now_us
        near = {node.key: node for each in self.places.values() for node in (*each.known.values(), each.certificate)}
        for place in list(self.places.values()):
            if not place.searching and whoever(address) not in place.waiting:
                place.search(place.nearest(list(near.values()), self.k))
                self._request(place, whoever(address), address, Ask(b"", self._claim(place)))

    def _catch_up(self) -> None:
        """We slept, or were out of reach for somebody: who has gone and who has come meanwhile?"""
        if self.host.now_us - self._caught_up_us < CATCH_UP_US or not self.places:
            return
        self._caught_up_us = self.host.now_us
        for address in self._contact_addresses():
            self.watch(address)
        for place in self.places.values():
            place.disagree()

    def _call_the_lost(self) -> None:
        now_us = self.host.now_us
        for address, lost in list(self._lost.items()):
            if lost.since_us + REMEMBERED_US < now_us:
                del self._lost[address]
            elif lost.call_us <= now_us:
                if not self._is_called(lost):
                    lost.nodes = {}
                self._call(address, lost)

    def _call_the_others(self) -> None:
        """Where one was only cut off, others may have been: of those on the other side of a partition all are called
        as soon as one has spoken."""
        for address, lost in list(self._lost.items()):
            if lost.called_us + CALL_US <= self.host.now_us:
                self._call(address, lost)

    def _call(self, address: Address, lost: Lost) -> None:
        now_us = self.host.now_us
        often = self._is_called(lost)
        lost.wait_us = min(2 * lost.wait_us, CALL_CAP_US) if often else (now_us - lost.since_us) // CALLS_GROW
        lost.called_us, lost.call_us = now_us, now_us + lost.wait_us
        self.host.send(address, Ping(0))

    def _is_called(self, lost: Lost) -> bool:
        """Whether it may still come back to all its places."""
        return lost.since_us + LOST_US >= self.host.now_us

    def _called(self) -> list[Address]:
        return [address for address, lost in self._lost.items() if self._is_called(lost)]

    def _contact_addresses(self) -> dict[Address, None]:
        found = dict.fromkeys(node.address for place in self.places.values() for node in place.known.values())
        found.pop(self.address, None)
        return found
