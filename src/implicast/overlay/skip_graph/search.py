"""How the places of one peer find who belongs into their lists: they take their places, ask, and tell.

Ring upkeep, part D.1. A word of another can only add, and only what bears a certificate. A peer has several places (one
per tag it bears) on one address: each is a node of its own in the graph, with its own certificate and lists;
certificates once checked are remembered for all of them.
"""

from collections.abc import Callable, Iterable, Sequence

from implicast.overlay.skip_graph.absentees import Absentees
from implicast.overlay.skip_graph.greetings import Greetings
from implicast.overlay.skip_graph.messages import AnnouncePlace, AskNeighbours, Neighbours
from implicast.overlay.skip_graph.place import Place
from implicast.overlay.skip_graph.places import Places
from implicast.overlay.skip_graph.quest import nearest
from implicast.overlay.skip_graph.upkeep import Lost, Upkeep
from implicast.peer.asking import Asking, Patience, Question
from implicast.peer.contract import Address, Host, Part, handles
from implicast.peer.identity import Certificate

PARALLEL = 5
"""Questions under way at a time, per place."""
QUESTION = "question"
PATIENCE_US = 1_000_000
SEEK_US = 60_000_000
"""How often one seeks all own places anew at most."""

Asked = tuple[bytes, bytes]
"""Our place, and whom it waits for: the key of a place, or an address whose places need not be known."""


class Search(Part):
    """The questions that the places of one peer have put to others. `lose(address)` is called of one that answers none
    of them, `arrived(key)` when all who must know a place have been told, `lonely()` when all introducers of a newcomer
    were silent."""

    __slots__ = (
        "_absentees", "_arrived", "_asker", "_greetings", "_lonely", "_lose", "_places", "_sought_us", "_taking",
    )  # fmt: skip

    def __init__(
        self, address: Address, host: Host, asker: Asking, places: Places, absentees: Absentees, greetings: Greetings,
        upkeep: Upkeep, lose: Callable[[Address], None], arrived: Callable[[bytes], None], lonely: Callable[[], None],
    ) -> None:  # fmt: skip
        super().__init__(address, host)
        self._asker, self._places, self._absentees, self._greetings = asker, places, absentees, greetings
        self._lose, self._arrived, self._lonely = lose, arrived, lonely
        self._taking: dict[bytes, Sequence[Address]] = {}  # places where we have yet to arrive, and who introduces them
        self._sought_us = -SEEK_US
        asker.topic(QUESTION, Patience(PATIENCE_US, upkeep.asks), self._unanswered)

    # --- taking a place

    def take(self, certificate: Certificate, introducers: Sequence[Address]) -> None:
        """Take the certified place; `arrived` is called once all who must know it have been told."""
        self.forget(certificate.key)
        place = self._places.add(certificate)
        self._taking[place.key] = introducers
        place.search(nearest(place.key, self._places.near(), place.k))
        question = AskNeighbours(b"", self._places.claim(place))
        for introducer in introducers:
            if introducer != self.address:
                self.request(place, whoever(introducer), introducer, question)
        self.go_on(place)

    def forget(self, key: bytes) -> None:
        """A place is being left, or taken anew: its questions lapse."""
        self._taking.pop(key, None)
        place = self._places.held.get(key)
        for whom in place.quest.waiting if place is not None else ():
            self._asker.drop(QUESTION, (key, whom))

    def is_taking(self, key: bytes) -> bool:
        """Whether a place has just been taken: it knows nobody yet, and takes itself for all there is."""
        return key in self._taking

    # --- asking and telling

    def request(self, place: Place, whom: bytes, to: Address, message: AskNeighbours | AnnouncePlace) -> None:
        """Send something that wants an answer."""
        if self._asker.ask(QUESTION, (place.key, whom), to, message):
            place.quest.await_answer(whom)

    def go_on(self, place: Place) -> None:
        """AskNeighbours on, five at a time, until nobody is left; then tell those who were not asked; then be there."""
        quest = place.quest
        while place.is_searching and len(quest.waiting) < PARALLEL and (node := quest.next(place.lists)) is not None:
            if node.address == self.address:
                self._ask_myself(place, node)
            else:
                self.request(place, node.key, node.address, AskNeighbours(node.key, self._places.claim(place)))
        if quest.waiting or self._is_lonely(place):
            return
        if place.is_searching:
            self._tell_rest(place)
        if not quest.waiting and self._taking.pop(place.key, None) is not None:
            self._arrived(place.key)

    def _is_lonely(self, place: Place) -> bool:
        """A newcomer that found nobody though there is somebody must not take itself for the whole network."""
        if place.known or not self._taking.get(place.key):
            return False
        self._lonely()
        return True

    def _ask_myself(self, place: Place, node: Certificate) -> None:
        other = self._places.held.get(node.key)
        if other is not None:
            other.enter(place.certificate)
            told = other.lists.witness(place.certificate)
            self._greetings.learn(place, self._absentees.believed(place, told))

    def _tell_rest(self, place: Place) -> None:
        """The search is over. Who was asked has entered the newcomer; the others of the every-class lists are told."""
        place.lists.close()
        if place.key not in self._taking:
            return
        announce, asked = AnnouncePlace(self._places.claim(place)), place.quest.asked
        for address in dict.fromkeys(node.address for node in place.wide.contacts() if node.key not in asked):
            if address == self.address:
                self._places.enter(place.certificate)
            else:
                self.request(place, whoever(address), address, announce)

    def announce(self, place: Place) -> None:
        """A place goes on under a newer certificate: all who may list it are told."""
        announce = AnnouncePlace(self._places.claim(place))
        for address in place.acquaintances():
            if address != self.address:
                self.request(place, whoever(address), address, announce)

    # --- what others named

    @handles(Neighbours)
    def on_neighbours(self, sender: Address, told: Neighbours) -> None:
        place = self._places.held.get(told.claimant)
        answered = place is not None and (
            self._answered(place, told.place, sender) or self._answered(place, whoever(sender), sender)
        )
        if place is None or not answered:
            self._places.belief.refusals["unasked_answer"] += 1
            return
        self._greetings.learn(place, self._absentees.believed(place, told.nodes))
        self.go_on(place)

    def take_in(self, place: Place, named: Iterable[Certificate]) -> None:
        """Of those named, who is new and may be listed."""
        known, may_list = place.known, self._absentees.may_list
        self._greetings.learn(place, [node for node in named if node.key not in known and may_list(node)])
        self.go_on(place)

    def heard_by(self, sender: Address, claimant: bytes) -> None:
        """Somebody has heard our announcement."""
        place = self._places.held.get(claimant)
        if place is not None and self._answered(place, whoever(sender), sender):
            self.go_on(place)

    def meet_again(self, address: Address, lost: Lost) -> None:
        """One of the lost spoke: back into the lists where it belongs. It is asked, as it may know of others and not
        of us."""
        nodes = [node for node in lost.nodes.values() if self._places.belief.sound(node)]
        for place in list(self._places.held.values()):
            place.quest.unask(lost.nodes)
            self._greetings.learn(place, nodes)
            self.go_on(place)
        if not self._absentees.may_return(lost):
            self._seek_anew(address)

    def _seek_anew(self, address: Address) -> None:
        """It was lost for longer than its places are kept, as if it were new; so may we be for all who are around it.
        Each of our places is sought through it like that of a newcomer: what two sides of a long partition know of each
        other may be a home place or two."""
        if self.host.now_us - self._sought_us < SEEK_US:
            return
        self._sought_us = self.host.now_us
        near = self._places.near()
        for place in list(self._places.held.values()):
            if not place.is_searching and whoever(address) not in place.quest.waiting:
                place.search(nearest(place.key, near, place.k))
                self.request(place, whoever(address), address, AskNeighbours(b"", self._places.claim(place)))

    # --- those who do not answer

    def _unanswered(self, asked: Asked, question: Question) -> None:
        """Somebody left a question unanswered as often as it was asked."""
        place = self._places.held.get(asked[0])
        if place is None:
            return
        place.quest.answered(asked[1])
        self._absentees.detector.suspect(question.to)
        if question.to not in self._absentees.lost:
            self._lose(question.to)
        self.go_on(place)

    def give_up_on(self, address: Address) -> None:
        """Nothing is expected of it any more."""
        for place in list(self._places.held.values()):
            asked = [whom for whom in place.quest.waiting if self._asked_address(place, whom) == address]
            for whom in asked:
                self._answered(place, whom)
            if asked:
                self.go_on(place)

    def depart(self, place: Place, key: bytes) -> bool:
        """A place of another was left: it is not asked any more. Whether its answer was awaited."""
        place.quest.skip(key)
        return self._answered(place, key)

    def _answered(self, place: Place, whom: bytes, by: Address | None = None) -> bool:
        """An answer, or nothing more to wait for. Whether it was awaited, and from there if that is said."""
        if whom not in place.quest.waiting or (by is not None and self._asked_address(place, whom) != by):
            return False
        self._asker.answered(QUESTION, (place.key, whom))
        return place.quest.answered(whom)

    def _asked_address(self, place: Place, whom: bytes) -> Address | None:
        question = self._asker.open(QUESTION, (place.key, whom))
        return question.to if question is not None else None


def whoever(address: Address) -> bytes:
    """Stands for whichever place an address has."""
    return b"@" + str(address).encode()
