"""What those are told who ask after our places; and leaving places: a signed farewell, repeated until everyone who may
list the place knows.

A peer that leaves the network says one farewell for all its places, serves until all have confirmed it or are silent,
and tells those too who learn of it meanwhile; afterwards it tells whoever still asks. Ring upkeep, part D.2: nobody can
say farewell for another, and nobody is removed by the word of others.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from implicast.overlay.skip_graph.messages import (
    DISOWNED_MAX,
    PRESENT,
    AnnouncePlace,
    AskNeighbours,
    Disown,
    Farewell,
    Greet,
    Greeted,
    Leaving,
    Neighbours,
    NewsHeard,
    disowning,
)
from implicast.overlay.skip_graph.place import answer
from implicast.overlay.skip_graph.search import Search
from implicast.overlay.skip_graph.table import LevelTable
from implicast.peer.asking import Patience, Question
from implicast.peer.contract import Address, Part, handles
from implicast.peer.identity import Certificate
from implicast.peer.memory import Recent

LEFT_MAX = 64
"""Places that were left, kept at hand for those who ask after them: old answers of others still name them."""
FAREWELL, AFTERWARDS = "farewell", "afterwards"
PATIENCE_US = 1_000_000
AFTERWARDS_PATIENCE = Patience(PATIENCE_US, times=10)
AGAIN = 3
"""Who was silent may have slept or been cut off: it hears so many further rounds of farewells, each signed anew."""

Confirmed = tuple[Address, bytes]
"""Who is to confirm a farewell, and for which place."""
Goodbye = TypeVar("Goodbye", bound=Farewell | Leaving)


class Farewells(Part):
    """What one peer says of its places and of those that it left, and hears of those that others left.
    `forget(leaver)` is called when a peer has left with all its places."""

    __slots__ = (
        "_absentees",
        "_asker",
        "_forget",
        "_home",
        "_left",
        "_left_all",
        "_places",
        "_search",
    )

    def __init__(self, search: Search, tries: int, forget: Callable[[Certificate], None]) -> None:
        super().__init__(search.address, search.host)
        self._search, self._forget = search, forget
        self._asker, self._places, self._absentees = search.asker, search.places, search.absentees
        self._left: Recent[bytes, LevelTable[Certificate]] = Recent(
            LEFT_MAX
        )  # who asks is told whom a place knew
        self._left_all: Callable[[], None] | None = None
        self._home: Certificate | None = None
        search.asker.topic(FAREWELL, Patience(PATIENCE_US, 1 + tries), self._unconfirmed)
        search.asker.topic(
            AFTERWARDS,
            AFTERWARDS_PATIENCE,
            lambda key, asked: self._say_again(key, asked, asked.about),
        )

    # --- leaving

    def quit(self, key: bytes) -> None:
        """Leave a place: tell everyone who may list it."""
        self._search.forget(key)
        place = self._places.held.pop(key)
        self._left.put(key, place.wide)
        farewell = self._goodbye(Farewell, place.certificate)
        self.on_farewell(
            self.address, farewell
        )  # always: others who do not know yet may name it to our other places
        for address in place.acquaintances():
            if address != self.address:
                self._insist(address, farewell)

    def leave(self, left: Callable[[], None]) -> None:
        """Say farewell for all places at once; `left` is called when everyone has confirmed or is silent."""
        home, held = self._places.home, self._places.held
        told = dict.fromkeys(
            address for place in held.values() for address in place.acquaintances()
        )
        lost, may_return = self._absentees.lost.items(), self._absentees.may_return
        told.update(
            {address: None for address, each in lost if may_return(each)}
        )  # they may list us all the same
        told.pop(self.address, None)
        self._home = home.certificate if home is not None else None
        self._left_all = left
        if home is not None:
            farewell = self._goodbye(Leaving, home.certificate)
            for address in told:
                self._insist(address, farewell)
        self._maybe_left()

    def _insist(self, address: Address, farewell: Leaving | Farewell) -> None:
        self._asker.ask(FAREWELL, (address, farewell.claim.certificate.key), address, farewell)

    def _unconfirmed(self, key: Confirmed, question: Question) -> None:
        """It is silent, and may hear the farewell later."""
        self._say_again(key, question, AGAIN)
        self._maybe_left()

    def _say_again(self, key: Confirmed, question: Question, rounds: int) -> None:
        farewell = question.message
        if rounds and isinstance(farewell, Leaving | Farewell):
            anew = self._goodbye(type(farewell), farewell.claim.certificate)
            self._asker.ask(AFTERWARDS, key, question.to, anew, rounds - 1)

    def _goodbye(self, kind: type[Goodbye], certificate: Certificate) -> Goodbye:
        """That a place was left, or that all our places are."""
        return kind(self._places.sign(kind.verb, certificate))

    def _maybe_left(self) -> None:
        if self._left_all is not None and not self._asker.topics(FAREWELL):
            left, self._left_all = self._left_all, None
            for key in list(self._places.held):
                self._search.forget(key)
                self._left.put(key, self._places.held.pop(key).wide)
            left()

    @handles(NewsHeard)
    def on_heard(self, sender: Address, heard: NewsHeard) -> None:
        """Somebody has heard a farewell, or an announcement."""
        key = (sender, heard.claimant)
        if self._asker.answered(FAREWELL, key) is not None:
            self._maybe_left()
        elif self._asker.answered(AFTERWARDS, key) is None:
            self._search.heard_by(sender, heard.claimant)

    # --- what those are told who ask, announce themselves, or greet

    @handles(AskNeighbours)
    def on_ask(self, sender: Address, ask: AskNeighbours) -> None:
        if self._places.belief.credible(PRESENT, ask.claim):
            self._answer(sender, ask)
        self._tell_late(sender)

    def _answer(self, sender: Address, ask: AskNeighbours) -> None:
        about = ask.claim.certificate
        asked = self._places.held.get(ask.place) if ask.place else self._places.home
        if asked is None:
            self._answer_for_nobody(sender, ask, about)
            return
        told = asked.vouched(asked.witness(about), self._absentees.was_heard_since)
        if not asked.asked_by(about):
            asked.pass_by(about)
        self.host.send(sender, Neighbours(asked.key, about.key, told))

    @handles(AnnouncePlace)
    def on_announce(self, sender: Address, announce: AnnouncePlace) -> None:
        if self._places.belief.credible(PRESENT, announce.claim):
            self._places.enter(announce.claim.certificate)
            self.host.send(sender, NewsHeard(announce.claim.certificate.key))
        self._tell_late(sender)

    @handles(Greet)
    def on_greet(self, sender: Address, greet: Greet) -> None:
        if not self._places.held:
            if not self.has_left(sender):
                self.say_left(sender, greet.asked)
            return
        greeted = [self._places.held[key] for key in greet.asked if key in self._places.held]
        for said in greet.claims:
            if self._places.belief.credible(PRESENT, said):
                for place in greeted:
                    place.asked_by(said.certificate)
        self.say_left(sender, greet.asked)
        self.host.send(sender, Greeted())
        self._tell_late(sender)

    # --- what those are told who ask after what was left

    def has_left(self, sender: Address) -> bool:
        """Whether we have left. Who looks for us all the same is told so instead of being answered."""
        if self._home is None or self._places.held:
            return False
        self.host.send(sender, self._goodbye(Leaving, self._home))
        return True

    def _tell_late(self, sender: Address) -> None:
        """Who learns of us while we are leaving was not among those told: without this it would list us for ever."""
        home = self._home if self._left_all is not None else None
        if home is not None and self._asker.open(FAREWELL, (sender, home.key)) is None:
            self._insist(sender, self._goodbye(Leaving, home))

    def say_left(self, sender: Address, asked: Iterable[bytes]) -> None:
        """Of places for whose holder somebody takes us it gets the farewells, or hears that they are none of ours."""
        others = [key for key in asked if key not in self._places.held]
        for key in others:
            if key in self._left:
                self.host.send(sender, self._goodbye(Farewell, self._left[key].owner))
        unknown = tuple([key for key in others if key not in self._left])
        if unknown:
            self._disown(sender, unknown)

    def _answer_for_nobody(self, sender: Address, ask: AskNeighbours, about: Certificate) -> None:
        """Who has left still says whom it knew: a newcomer all of whose introducers leave just now would be alone."""
        if ask.place and ask.place not in self._left:
            self._disown(sender, (ask.place,))
        elif not self._left:
            self.host.send(sender, Neighbours(b"", about.key, ()))
        else:
            table = self._left[ask.place or next(reversed(self._left))]
            told = answer(table, self._places.vectors, self._places.k, about)
            others = [
                node for node in told if node.key not in self._left
            ]  # lists that nobody keeps any more grow old
            near = [
                node
                for node in others
                if node.address == self.address or self._absentees.is_about(node)
            ]
            self.host.send(sender, Neighbours(ask.place, about.key, tuple(near)))
            self.host.send(sender, self._goodbye(Farewell, table.owner))
        self.has_left(sender)

    def _disown(self, sender: Address, places: tuple[bytes, ...]) -> None:
        """Farewells are kept for so many places only: who lists one that was left long ago would not be rid of it, and
        take us for silent."""
        self._places.belief.refusals["unknown_place"] += 1
        home = self._places.home
        certificate = home.certificate if home is not None else self._home
        if certificate is not None:
            disowned = places[:DISOWNED_MAX]
            self.host.send(
                sender, Disown(disowned, self._places.sign(disowning(disowned), certificate))
            )

    # --- what others say of theirs

    @handles(Farewell)
    def on_farewell(self, sender: Address, farewell: Farewell) -> None:
        leaver, belief = farewell.claim.certificate, self._places.belief
        is_gone = belief.has_left(leaver)
        if not is_gone and (
            belief.trust.is_void(leaver) or belief.credible(farewell.verb, farewell.claim)
        ):
            self._departed(leaver, farewell.claim.sent_us)
        if belief.has_left(leaver) and sender != self.address:
            self.host.send(sender, NewsHeard(leaver.key))

    @handles(Leaving)
    def on_leaving(self, sender: Address, leaving: Leaving) -> None:
        """Only the leaver's own signature takes its places away, all at once.

        Its farewell for the one place that signs may have come before: that says nothing of the others.
        """
        leaver, belief = leaving.claim.certificate, self._places.belief
        if not belief.has_left_with_all(leaver):
            if not belief.credible_from_the_departed(leaving.verb, leaving.claim):
                return
            belief.gone_holders.put(leaver.public, leaving.claim.sent_us)
            self._forget(leaver)
        self.host.send(sender, NewsHeard(leaver.key))

    @handles(Disown)
    def on_disown(self, sender: Address, said: Disown) -> None:
        """Counts for places that we list or asked on that address, by the word of whoever is there."""
        belief, held = self._places.belief, self._places.held.values()
        if not belief.credible_from_the_departed(disowning(said.places), said.claim):
            return
        asked = frozenset(said.places)
        met = (node for place in held for node in (*place.known.values(), *place.asked.values()))
        found = {node.serial: node for node in met if node.key in asked and node.address == sender}
        for node in found.values():
            if belief.disowns(node, said):
                self._departed(node, said.claim.sent_us)

    def _departed(self, leaver: Certificate, said_us: int) -> None:
        """Its holder says that a place was left: out of all lists."""
        self._places.belief.gone.put(leaver.serial, said_us)
        for place in list(self._places.held.values()):
            known = place.known.get(leaver.key)
            place.queue.pop(leaver.key, None)
            was_asked = self._search.answered(place, leaver.key)
            if known is not None and known.serial <= leaver.serial:
                self._absentees.drop(place, (leaver.key,))
            if was_asked:
                self._search.go_on(place)
