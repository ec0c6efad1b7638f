"""What the places of one peer answer to those who ask, announce themselves, or greet."""

from implicast.overlay.skip_graph.absentees import Absentees
from implicast.overlay.skip_graph.farewells import Farewells
from implicast.overlay.skip_graph.messages import (
    PRESENT,
    AnnouncePlace,
    AskNeighbours,
    Greet,
    Greeted,
    Neighbours,
    NewsHeard,
)
from implicast.overlay.skip_graph.places import Places
from implicast.peer.contract import Address, Host, Part, handles


class Answers(Part):
    """Enters whoever shows a credible claim where it fits, and says whom it knows."""

    __slots__ = ("_absentees", "_farewells", "_places")

    def __init__(
        self, address: Address, host: Host, places: Places, absentees: Absentees, farewells: Farewells
    ) -> None:
        super().__init__(address, host)
        self._places, self._absentees, self._farewells = places, absentees, farewells

    @handles(AskNeighbours)
    def on_ask(self, sender: Address, ask: AskNeighbours) -> None:
        if self._places.belief.credible(PRESENT, ask.claim):
            self._answer(sender, ask)
        self._farewells.tell_late(sender)

    def _answer(self, sender: Address, ask: AskNeighbours) -> None:
        about = ask.claim.certificate
        asked = self._places.held.get(ask.place) if ask.place else self._places.home
        if asked is None:
            self._farewells.answer_for_nobody(sender, ask)
            return
        told = asked.lists.vouched(asked.lists.witness(about), self._absentees.was_heard_since)
        if not asked.enter(about):
            asked.pass_by(about)
        asked.asked_by(about.address)
        self.host.send(sender, Neighbours(asked.key, about.key, told))

    @handles(AnnouncePlace)
    def on_announce(self, sender: Address, announce: AnnouncePlace) -> None:
        if self._places.belief.credible(PRESENT, announce.claim):
            self._places.enter(announce.claim.certificate)
            self.host.send(sender, NewsHeard(announce.claim.certificate.key))
        self._farewells.tell_late(sender)

    @handles(Greet)
    def on_greet(self, sender: Address, greet: Greet) -> None:
        if not self._places.held:
            if not self._farewells.has_left(sender):
                self._farewells.say_left(sender, greet.asked)
            return
        greeted = [self._places.held[key] for key in greet.asked if key in self._places.held]
        for said in greet.claims:
            if self._places.belief.credible(PRESENT, said):
                for place in greeted:
                    place.enter(said.certificate)
                    place.asked_by(said.certificate.address)
        self._farewells.say_left(sender, greet.asked)
        self.host.send(sender, Greeted())
        self._farewells.tell_late(sender)
