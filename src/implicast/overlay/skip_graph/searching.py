"""How the places of one peer find who belongs into their lists: they take their places, ask, tell, and mend.

Ring upkeep, part D.1. A word of another can only add, and only what bears a certificate. A peer has several places (one
per tag it bears) on one address: each is a node of its own in the graph, with its own certificate and lists;
certificates once checked are remembered for all of them.

In a standing graph (`standing.py`) places are put in at once and lists are cut from the full set: no messages. What
others ask and say is in `graph.py`.
"""

from collections.abc import Callable, Collection, Sequence

from implicast.overlay.skip_graph.belief import Belief
from implicast.overlay.skip_graph.messages import (
    EVERY,
    PRESENT,
    Announce,
    Ask,
    Claim,
    Heard,
    Look,
    Neighbours,
    Waiting,
    claim,
)
from implicast.overlay.skip_graph.place import Place
from implicast.overlay.skip_graph.standing import Standing
from implicast.overlay.skip_graph.table import Table
from implicast.peer.contract import Address, Host, Part, handles
from implicast.peer.identity import Certificate, Trust
from implicast.peer.pending import Pending
from implicast.peer.signatures import Signer
from implicast.space.vector import Vectors

PARALLEL = 5
"""Questions under way at a time, per place."""
TRIES = 4
PATIENCE_US = 1_000_000

NEIGHBOURS_MAX = 1_024
"""Named in one answer; honest ones name 50 to 200. A liar must not keep us checking certificates."""
LOOK_US = 1_000_000
"""After somebody has gone, before one looks for others: witnesses that have not heard of it yet would hide them."""
LOOK_DOUBLINGS = 5
"""Each look in a row that finds nobody waits twice as long as the one before, so many times."""
LOOKS_MAX = 8
"""Looks in a row for the sake of witnesses that name the departed: liars may do so for ever."""

Question = tuple[bytes, bytes]
"""Our place, and whom it waits for: the key of a place, or an address whose places need not be known."""
Request = tuple[Address, Ask | Announce]


class SearchingGraph(Part):
    """The places of one peer, in search of those who belong into their lists."""

    __slots__ = (
        "_arrived", "_introduced", "_signer", "_unanswered", "belief", "k", "look_us", "places", "standing", "tries",
        "vectors",
    )  # fmt: skip

    def __init__(
        self,
        address: Address,
        host: Host,
        k: int,
        vectors: Vectors,
        trust: Trust,
        signer: Signer,
        standing: Standing[Certificate] | None = None,
    ) -> None:
        super().__init__(address, host)
        self.k, self.vectors, self.standing = k, vectors, standing
        self.belief, self._signer = Belief(host, trust), signer
        self.places: dict[bytes, Place] = {}
        self._unanswered: Pending[Question, Request] = Pending(host, Waiting(), PATIENCE_US)
        self._arrived: dict[bytes, Callable[[], None]] = {}
        self._introduced: dict[bytes, Sequence[Address]] = {}
        self.tries, self.look_us = TRIES, LOOK_US

    # --- for the casting above

    def table(self, key: bytes) -> Table[Certificate]:
        """The lists of one of our places."""
        return self.standing.table(key) if self.standing is not None else self.places[key].table

    def contacts(self, key: bytes) -> list[Certificate]:
        """Everyone in the lists of one of our places."""
        return self.standing.contacts(key) if self.standing is not None else self.places[key].wide.contacts()

    def settled(self) -> list[bytes]:
        """Places to begin a cast at: one that has just been taken knows nobody yet, and takes itself for all there is.
        If all have, so be it."""
        return [key for key in self.places if key not in self._arrived] or list(self.places)

    def is_agreed(self, key: bytes, number: int) -> bool:
        """Whether the neighbours of a place have the same list of a level, as far as that is known: `comparing.py`."""
        return True

    def certificates(self) -> list[Certificate]:
        """Of our places, in the order of keys."""
        return [self.places[key].certificate for key in sorted(self.places)]

    def take(self, certificate: Certificate, introducers: Sequence[Address], arrived: Callable[[], None]) -> None:
        """Take the certified place; `arrived` is called once all who must know it have been told."""
        place = self.places[certificate.key] = self._place(certificate)
        if self.standing is not None:
            self.standing.add(certificate)
            arrived()
            return
        self._arrived[place.key], self._introduced[place.key] = arrived, introducers
        near = {node.key: node for other in self.places.values() for node in (*other.known.values(), other.certificate)}
        place.search(place.nearest(list(near.values()), self.k))
        question = Ask(b"", self._claim(place))
        for introducer in introducers:
            if introducer != self.address:
                self._request(place, whoever(introducer), introducer, question)
        self._go_on(place)

    def _place(self, certificate: Certificate) -> Place:
        return Place(certificate, self.k, self.vectors)

    def detach(self) -> None:
        """From now on the lists are our own and change by messages."""
        assert self.standing is not None, "only who stands in an assembled graph can step out of it"
        for place in self.places.values():
            place.surround(self.standing.surroundings(place.key))
        self.standing = None

    # --- searching and telling

    def _claim(self, place: Place) -> Claim:
        return claim(self._signer, PRESENT, place.certificate, self.host.now_us)

    def _request(self, place: Place, whom: bytes, to: Address, message: Ask | Announce) -> None:
        """Send something that wants an answer."""
        place.waiting[whom] = place.waiting.get(whom, 0) + 1
        self._unanswered.ask((place.key, whom), (to, message))
        self.host.send(to, message)

    def _go_on(self, place: Place) -> None:
        """Ask on, five at a time, until nobody is left; then tell those who were not asked; then be there."""
        while place.searching and len(place.waiting) < PARALLEL and (wanted := place.next_to_ask()) is not None:
            node, level = wanted
            if node.address == self.address:
                self._ask_myself(place, node)
            else:
                self._request(place, node.key, node.address, Ask(node.key, self._claim(place), level))
        if place.waiting:
            return
        if self._is_lonely(place):
            return
        if place.searching:
            self._tell_rest(place)
        if place.weigh_doubts():
            self._look_later(place)
        if not place.waiting and place.key in self._arrived:
            self._introduced.pop(place.key, None)
            self._arrived.pop(place.key)()

    def _is_lonely(self, place: Place) -> bool:
        """Whether a newcomer should rather look for others to introduce it."""
        return False

    def _ask_myself(self, place: Place, node: Certificate) -> None:
        other = self.places.get(node.key)
        if other is not None:
            other.enter(place.certificate)
            told = other.witness(place.certificate, EVERY)
            self._learn(place, self._believed(place, told), EVERY)

    def _tell_rest(self, place: Place) -> None:
        """The search is over. Who was asked has entered the newcomer; the others of the every-class lists are told."""
        place.settle()
        if place.key not in self._arrived:
            return
        announce = Announce(self._claim(place))
        for address in dict.fromkeys(node.address for node in place.wide.contacts() if node.key not in place.asked):
            if address == self.address:
                self._enter_everywhere(place.certificate)
            else:
                self._request(place, whoever(address), address, announce)

    @handles(Neighbours)
    def on_neighbours(self, sender: Address, told: Neighbours) -> None:
        place = self.places.get(told.claimant)
        whom = told.place
        if (told.claimant, whom) not in self._unanswered:
            whom = whoever(sender)
        if place is None or (told.claimant, whom) not in self._unanswered:
            self.belief.refusals["unasked_answer"] += 1
            return
        request = self._unanswered.answer((told.claimant, whom))
        place.waiting.pop(whom, None)
        place.answered(told.place)
        level = request[1].level if request is not None and isinstance(request[1], Ask) else EVERY
        self._learn(place, self._believed(place, told.nodes[:NEIGHBOURS_MAX]), level)
        self._go_on(place)

    def _believed(self, place: Place, named: Sequence[Certificate]) -> Sequence[Certificate]:
        """Of those whom a witness named, who is there. Who is known needs no second look: nine in ten."""
        known = place.known
        return [
            node
            for node in named
            if (held := known.get(node.key)) is node or held == node or self._credit(place, node)
        ]  # fmt: skip

    def _learn(self, place: Place, named: Sequence[Certificate], level: int) -> None:
        place.learn(named, level)

    def _credit(self, place: Place, node: Certificate) -> bool:
        """Whether to believe that somebody is there whom another named."""
        if self.belief.sound(node):
            return True
        if self.belief.has_left(node):
            self._doubt(place, node)
        return False

    def _doubt(self, place: Place, node: Certificate) -> None:
        """Somebody named one who is gone, and may not see beyond it: look again when the news has got around."""
        if place.looks < LOOKS_MAX:
            place.doubt(node)

    @handles(Heard)
    def on_heard(self, sender: Address, heard: Heard) -> None:
        place = self.places.get(heard.claimant)
        if self._unanswered.answer((heard.claimant, whoever(sender))) is not None and place is not None:
            place.waiting.pop(whoever(sender), None)
            self._go_on(place)

    @handles(Waiting)
    def on_waiting(self, alarm: Waiting) -> None:
        for (ours, whom), (to, message) in self._unanswered.due():
            place = self.places.get(ours)
            if place is None:
                continue
            if place.waiting.get(whom, self.tries) < self.tries:
                self._request(place, whom, to, message)
            else:
                place.waiting.pop(whom, None)
                self._silent(place, whom, to, message)
                self._go_on(place)

    def _silent(self, place: Place, whom: bytes, to: Address, message: Ask | Announce) -> None:
        """Somebody left a question unanswered as often as it was asked."""
        if isinstance(message, Ask) and message.place:
            self._fell_silent(place, whom)

    def _fell_silent(self, place: Place, whom: bytes) -> None:
        """Who does not answer me is not listed by me, whatever others say, until it speaks or some time has passed."""
        node = place.asked.get(whom) or place.known.get(whom)
        if node is not None:
            self.belief.fell_silent(node)
        if place.searching:
            place.give_up(whom)
        elif whom in place.known:
            self._drop(place, (whom,))

    def _enter_everywhere(self, certificate: Certificate) -> None:
        for place in self.places.values():
            place.enter(certificate)

    # --- mending

    def _drop(self, place: Place, gone: Collection[bytes]) -> None:
        """Take entries out. One looks for whoever is to be listed in its stead when all have had the news."""
        place.drop(gone)
        if place.short:
            self._look_later(place)

    def _look_later(self, place: Place) -> None:
        if not place.looking:
            place.looking = True
            self.host.after(self.look_us << min(place.looks, LOOK_DOUBLINGS), Look(place.key))

    @handles(Look)
    def on_look(self, alarm: Look) -> None:
        place = self.places.get(alarm.key)
        if place is not None:
            place.looking = False
            place.look()
            self._go_on(place)


def whoever(address: Address) -> bytes:
    """Stands for whichever place an address has."""
    return b"@" + str(address).encode()
