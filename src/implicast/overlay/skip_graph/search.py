"""How the places of one peer find who belongs into their lists: they take their places, ask, tell, and greet.

Ring upkeep, part D.1. A peer has several places (one per tag it bears) on one address: each is a node of its own in the
graph, with its own certificate and lists; certificates once checked are remembered for all of them.

Whoever is named by another is listed at once, for its certificate is sound. A place that searches asks it; else it is
greeted: it learns of us by our own signed claim, and who stays silent is lost. A greeting asks for no lists: comparing
(`comparison.py`) brings what else is to be known, and only where two lists differ. Who was heard lately need not be
greeted: it will learn of us as we did of it, when it compares its own lists. Greetings of all our places to all places
of one address go together.
"""

from collections.abc import Callable, Iterable, Sequence

from implicast.overlay.skip_graph.absentees import LIFE_US, Absentees, Lost, Upkeep
from implicast.overlay.skip_graph.messages import (
    GREETED_MAX,
    AnnouncePlace,
    AskNeighbours,
    Greet,
    Greeted,
    Greeting,
    Neighbours,
)
from implicast.overlay.skip_graph.place import Place, nearest, strangers
from implicast.overlay.skip_graph.places import Places
from implicast.peer.asking import Asking, Patience, Question
from implicast.peer.contract import Address, Message, Part, handles
from implicast.peer.identity import Certificate
from implicast.peer.memory import Recent

PARALLEL = 5
"""Questions under way at a time, per place."""
QUESTION, SHOWN = "question", "shown"
PATIENCE_US = 1_000_000
"""Who was shown something and has not answered is looked for then; a question is repeated."""
SEEK_US = 60_000_000
"""How often one seeks all own places anew at most."""
GREET_US = 200_000
"""Greetings of so long go together."""
GREETINGS_MAX = 4_096
"""Places to be greeted that are remembered at a time; the others are met when lists are compared again."""
DOUBTED_MAX = 512
"""Places that others did not know and that are remembered; the oldest are forgotten first."""

Asked = tuple[bytes, bytes]
"""Our place, and whom it waits for: the key of a place, or an address whose places need not be known."""


class Search(Part):
    """The questions and greetings of one peer's places. `lose(address)` is called of one that answers none of them,
    `arrived(key)` when all who must know a place have been told, `lonely()` when all introducers of a newcomer were
    silent."""

    __slots__ = (
        "_arrived",
        "_doubted",
        "_lonely",
        "_look_us",
        "_lose",
        "_planned",
        "_sought_us",
        "absentees",
        "asker",
        "places",
        "taking",
    )

    def __init__(
        self,
        asker: Asking,
        places: Places,
        absentees: Absentees,
        upkeep: Upkeep,
        lose: Callable[[Address], None],
        arrived: Callable[[bytes], None],
        lonely: Callable[[], None],
    ) -> None:
        super().__init__(asker.address, asker.host)
        self.asker, self.places, self.absentees, self._look_us = (
            asker,
            places,
            absentees,
            upkeep.look_us,
        )
        self._lose, self._arrived, self._lonely = lose, arrived, lonely
        self.taking: dict[
            bytes, Sequence[Address]
        ] = {}  # places where we have yet to arrive, and who introduces them
        self._sought_us = -SEEK_US
        self._doubted: Recent[bytes, tuple[int, bool]] = Recent(
            DOUBTED_MAX
        )  # unknown to others: since when; asked?
        self._planned: dict[
            tuple[bytes, bytes], bool
        ] = {}  # our place, known place; whether it is to know of us
        asker.topic(QUESTION, Patience(PATIENCE_US, upkeep.asks), self._unanswered)
        asker.topic(
            SHOWN,
            Patience(PATIENCE_US, 1),
            lambda shown, asked: absentees.look_for(asked.to, asked.message),
        )

    # --- taking a place

    def take(self, certificate: Certificate, introducers: Sequence[Address]) -> None:
        """Take the certified place; `arrived` is called once all who must know it have been told. Until then it knows
        nobody, and takes itself for all there is."""
        self.forget(certificate.key)
        place = self.places.add(certificate)
        self.taking[place.key] = introducers
        place.search(nearest(place.key, self.places.near(), place.k))
        for introducer in introducers:
            if introducer != self.address:
                self.ask(place, introducer)
        self.go_on(place)

    def forget(self, key: bytes) -> None:
        """A place is being left, or taken anew: its questions lapse."""
        self.taking.pop(key, None)
        place = self.places.held.get(key)
        for whom in place.waiting if place is not None else ():
            self.asker.drop(QUESTION, (key, whom))

    # --- asking and telling

    def ask(self, place: Place, to: Address, whom: bytes = b"") -> None:
        """For the lists of one of its places, or of whichever it has."""
        self._request(place, whom or whoever(to), to, AskNeighbours(whom, self.places.claim(place)))

    def _request(
        self, place: Place, whom: bytes, to: Address, message: AskNeighbours | AnnouncePlace
    ) -> None:
        """Send something that wants an answer."""
        if self.asker.ask(QUESTION, (place.key, whom), to, message):
            place.waiting[whom] = None

    def announce(self, place: Place, addresses: Iterable[Address]) -> None:
        """Tell those who may list a place that it is there, or goes on under a newer certificate."""
        announce = AnnouncePlace(self.places.claim(place))
        for address in addresses:
            if address == self.address:
                self.places.enter(place.certificate)
            else:
                self._request(place, whoever(address), address, announce)

    def go_on(self, place: Place) -> None:
        """Ask on, five at a time, until nobody is left; then tell those who were not asked; then be there."""
        while (
            place.is_searching
            and len(place.waiting) < PARALLEL
            and (node := place.next_to_ask()) is not None
        ):
            if node.address != self.address:
                self.ask(place, node.address, node.key)
            elif (own := self.places.held.get(node.key)) is not None:  # asked without a word
                own.enter(place.certificate)
                self.learn(place, self.absentees.believed(place, own.witness(place.certificate)))
        if place.waiting:
            return
        if not place.known and self.taking.get(place.key):
            self._lonely()  # who found nobody though there is somebody must not take itself for the whole network
            return
        if place.is_searching:
            place.end_search()
            if (
                place.key in self.taking
            ):  # who was asked has entered it; the others of the wide lists are told
                others = [
                    node.address for node in place.wide.contacts() if node.key not in place.asked
                ]
                self.announce(place, dict.fromkeys(others))
        if not place.waiting and self.taking.pop(place.key, None) is not None:
            self._arrived(place.key)

    # --- what others named

    @handles(Neighbours)
    def on_neighbours(self, sender: Address, told: Neighbours) -> None:
        place = self.places.held.get(told.claimant)
        asked = (told.place, whoever(sender))
        if place is None or not any(self.answered(place, whom, sender) for whom in asked):
            self.places.belief.refusals["unasked_answer"] += 1
            return
        self.learn(place, self.absentees.believed(place, told.nodes))
        self.go_on(place)

    def learn(self, place: Place, named: Sequence[Certificate]) -> None:
        """Take in whom another named. Who searches asks them; else they are greeted."""
        news = place.learn(named)
        if news:
            self.absentees.changed()
        addresses, since_us = (
            {node.address for node in news} - {self.address},
            self.host.now_us - LIFE_US,
        )
        silent = self.absentees.detector.silent_since(addresses, since_us + 1)
        for node in news if silent else ():
            if node.address in silent:
                place.hearsay[node.key] = self.host.now_us
                if not place.is_searching:
                    self._plan(place, node, is_new=True)

    def take_in(self, place: Place, named: Iterable[Certificate]) -> None:
        """Of those named, who is new and may be listed."""
        known, own = place.known, place.key
        others = [
            node for node in strangers(known, named) if node.key not in known and node.key != own
        ]
        news = self.absentees.believed(place, others) if others else others
        if news or place.is_searching or own in self.taking:  # one in five
            self.learn(place, news)
            self.go_on(place)

    def heard_by(self, sender: Address, claimant: bytes) -> None:
        """Somebody has heard our announcement."""
        place = self.places.held.get(claimant)
        if place is not None and self.answered(place, whoever(sender), sender):
            self.go_on(place)

    def meet_again(self, address: Address, lost: Lost) -> None:
        """One of the lost spoke: back into the lists where it belongs. It is asked, as it may know of others and not
        of us."""
        nodes = [node for node in lost.nodes.values() if self.places.belief.sound(node)]
        for place in list(self.places.held.values()):
            place.unask(lost.nodes)
            self.learn(place, nodes)
            self.go_on(place)
        if not self.absentees.may_return(lost):
            self._seek_anew(address)

    def _seek_anew(self, address: Address) -> None:
        """It was lost for longer than its places are kept, as if it were new; so may we be for all who are around it.
        Each of our places is sought through it like that of a newcomer: what two sides of a long partition know of each
        other may be a home place or two."""
        if self.host.now_us - self._sought_us < SEEK_US:
            return
        self._sought_us = self.host.now_us
        near = self.places.near()
        for place in list(self.places.held.values()):
            if not place.is_searching and whoever(address) not in place.waiting:
                place.search(nearest(place.key, near, place.k))
                self.ask(place, address)

    # --- those who answer, and those who do not

    def answered(self, place: Place, whom: bytes, by: Address | None = None) -> bool:
        """An answer, or nothing more to wait for. Whether it was awaited, and from there if that is said."""
        question = self.asker.open(QUESTION, (place.key, whom))
        if question is None or (by is not None and question.to != by):
            return False
        self.asker.answered(QUESTION, (place.key, whom))
        place.waiting.pop(whom, None)
        return True

    def _unanswered(self, asked: Asked, question: Question) -> None:
        """Somebody left a question unanswered as often as it was asked."""
        place = self.places.held.get(asked[0])
        if place is None:
            return
        place.waiting.pop(asked[1], None)
        self.absentees.detector.suspect(question.to)
        if question.to not in self.absentees.lost:
            self._lose(question.to)
        self.go_on(place)

    def give_up_on(self, address: Address) -> None:
        """Nothing is expected of it any more."""
        for place in list(self.places.held.values()):
            if [whom for whom in list(place.waiting) if self.answered(place, whom, address)]:
                self.go_on(place)

    # --- greeting

    def put_to(self, address: Address, message: Message) -> None:
        """Send it, and look for the receiver if it does not answer."""
        self.asker.ask(SHOWN, (address, type(message).wire), address, message)

    def ask_for_incarnation(self, place: Place, doubted: Iterable[Certificate]) -> None:
        """Somebody does not know those whom we list."""
        for node in doubted:
            if self._doubts(node):
                self._plan(place, node, is_new=False)

    def _plan(self, place: Place, node: Certificate, is_new: bool) -> None:
        if node.address == self.address or len(self._planned) >= GREETINGS_MAX:
            return
        if not self._planned:
            self.host.after(GREET_US, Greeting())
        both = (place.key, node.key)
        self._planned[both] = is_new or self._planned.get(both, False)

    def _doubts(self, node: Certificate) -> bool:
        """Whether it is time to ask somebody; a neighbour that never agrees must not make us ask all the time.

        Mostly the neighbour's list is short and will not be when it has had our answer: who was heard lately is asked
        only if it is still not known then. Saves seven greetings in ten.
        """
        now_us, doubted = self.host.now_us, self._doubted
        first_us, asked = doubted.get(node.key, (-LIFE_US, False))
        if first_us <= now_us - LIFE_US:
            first_us, asked = now_us, False
            doubted.pop(node.key, None)
        was_heard = self.absentees.was_heard_since(node.address, now_us - LIFE_US + 1)
        asks = not asked and (now_us - first_us > self._look_us // 2 or not was_heard)
        doubted[node.key] = (first_us, asked or asks)
        doubted.drop_while(lambda each: each[0] <= now_us - LIFE_US)
        return asks

    @handles(Greeting)
    def on_greeting(self, alarm: Greeting) -> None:
        """Greet those who are still listed."""
        planned, self._planned = self._planned, {}
        ours: dict[Address, dict[bytes, None]] = {}
        theirs: dict[Address, dict[bytes, None]] = {}
        held = self.places.held
        for (key, other), is_new in planned.items():
            node = held[key].listed(other) if key in held else None
            if node is not None:
                theirs.setdefault(node.address, {})[other] = None
                if is_new:
                    ours.setdefault(node.address, {})[key] = None
        for address, asked in theirs.items():
            claims = [self.places.claim(held[key]) for key in ours.get(address, ())]
            self.put_to(address, Greet(tuple(claims[:GREETED_MAX]), tuple(asked)[:GREETED_MAX]))

    @handles(Greeted)
    def on_greeted(self, sender: Address, greeted: Greeted) -> None:
        """It is there."""
        self.asker.answered(SHOWN, (sender, Greet.wire))


def whoever(address: Address) -> bytes:
    """Stands for whichever place an address has."""
    return b"@" + str(address).encode()
