"""A peer's share of the skip graph: its places, how they join, learn of others, and leave.

Ring upkeep, parts D.1 and D.2. A word of another can only add, and only what bears a certificate; an entry is removed
by its own signed farewell. A peer has several places (one per tag it bears) on one address: each is a node of its own
in the graph, with its own certificate and lists; certificates once checked are remembered for all of them.

In a standing graph (`standing.py`) places are put in at once and lists are cut from the full set: no messages.
Who keeps fresh (`keep_fresh`) asks its entries in turn, drops those that stay silent towards itself, and learns whom
it missed. Without it crashed entries stay until they are asked for another reason; the k-redundant lists bear it.
"""

from collections.abc import Callable, Collection, Sequence

from implicast.overlay.skip_graph.answering import answer
from implicast.overlay.skip_graph.belief import Belief
from implicast.overlay.skip_graph.messages import (
    EVERY,
    GONE,
    PRESENT,
    Announce,
    Ask,
    Claim,
    Farewell,
    Heard,
    Look,
    Neighbours,
    Refresh,
    Waiting,
    claim,
)
from implicast.overlay.skip_graph.place import Place
from implicast.overlay.skip_graph.standing import Standing
from implicast.overlay.skip_graph.table import Table
from implicast.peer.contract import Address, Host, Part, handles
from implicast.peer.identity import Certificate, Revocation, Trust
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
LEFT_MAX = 64
"""Places that were left, kept at hand for those who ask after them: old answers of others still name them."""

Question = tuple[bytes, bytes]
"""Our place, and whom it waits for: the key of a place, or an address whose places need not be known."""
Request = tuple[Address, Ask | Announce]


class SkipGraph(Part):
    """The places of one peer and all that keeps them listed where they belong."""

    __slots__ = (
        "_arrived", "_introduced", "_left", "_period_us", "_signer", "_unanswered", "belief", "k", "look_us", "places",
        "standing", "tries", "vectors",
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
        self._left: dict[bytes, Table[Certificate]] = {}
        self._period_us = 0
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
            place.known = {node.key: node for node in self.standing.surroundings(place.key)}
            place.trim()
        self.standing = None

    def quit(self, key: bytes) -> None:
        """Leave a place: tell everyone who may list it."""
        place = self.places.pop(key)
        self._arrived.pop(key, None)
        if self.standing is not None:
            self.standing.remove(key)
            return
        farewell = self._remember_left(place)
        for address in place.acquaintances():
            if address == self.address:
                self.on_farewell(address, farewell)
            else:
                self._say_farewell(address, farewell)

    def _say_farewell(self, address: Address, farewell: Farewell) -> None:
        self.host.send(address, farewell)

    def _remember_left(self, place: Place) -> Farewell:
        """Who asks after a place that was left gets its farewell, and is told whom it knew."""
        self._left[place.key] = place.wide
        if len(self._left) > LEFT_MAX:
            del self._left[next(iter(self._left))]
        return self._farewell(place.certificate)

    def _farewell(self, certificate: Certificate) -> Farewell:
        """Signed anew each time it is said: an old one proves nothing."""
        return Farewell(claim(self._signer, GONE, certificate, self.host.now_us))

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

    # --- keeping fresh

    def keep_fresh(self, period_us: int) -> None:
        """From now on ask one entry of every place per period (ring upkeep, D.2): probe and anti-entropy in one."""
        self._period_us = period_us
        self.host.after(int(period_us * self.host.rng.random()), Refresh())

    @handles(Refresh)
    def on_refresh(self, alarm: Refresh) -> None:
        self.host.after(self._period_us, alarm)
        for place in self.places.values():
            node = None if place.searching or self.standing is not None else place.next_in_turn()
            if node is not None and node.address != self.address and node.key not in place.waiting:
                self._request(place, node.key, node.address, Ask(node.key, self._claim(place)))

    # --- what others ask and say

    @handles(Ask)
    def on_ask(self, sender: Address, ask: Ask) -> None:
        about = ask.claim.certificate
        if not self.belief.credible(PRESENT, ask.claim):
            return
        asked = self.places.get(ask.place) if ask.place else next(iter(self.places.values()), None)
        if asked is None:
            self._answer_for_nobody(sender, ask)
            return
        told = self._vouched(asked, asked.witness(about, ask.level))
        if not asked.enter(about):
            asked.pass_by(about)
        asked.asked_by(about.address)
        self.host.send(sender, Neighbours(asked.key, about.key, told))

    def _vouched(self, place: Place, named: Collection[Certificate]) -> tuple[Certificate, ...]:
        """Of those whom a place knows, whom it names to others."""
        return tuple(named)

    def _answer_for_nobody(self, sender: Address, ask: Ask) -> None:
        """Who has left still says whom it knew: a newcomer all of whose introducers leave just now would be alone."""
        about = ask.claim.certificate
        if ask.place and ask.place not in self._left:
            self._disown(sender, (ask.place,))
        elif not self._left:
            self.host.send(sender, Neighbours(b"", about.key, ()))
        else:
            table = self._left[ask.place or next(reversed(self._left))]
            told = answer(table, self.vectors, self.k, about, ask.level)
            named = tuple(node for node in told if node.key not in self._left)
            self.host.send(sender, Neighbours(ask.place, about.key, self._still_there(named)))
            self.host.send(sender, self._farewell(table.owner))

    def _disown(self, sender: Address, places: tuple[bytes, ...]) -> None:
        """Somebody asks for places that are none of ours, nor were lately."""
        self.belief.refusals["unknown_place"] += 1

    def _still_there(self, named: tuple[Certificate, ...]) -> tuple[Certificate, ...]:
        """Of those whom a place knew when it was left, who may be named now."""
        return named

    @handles(Announce)
    def on_announce(self, sender: Address, announce: Announce) -> None:
        if self.belief.credible(PRESENT, announce.claim):
            self._enter_everywhere(announce.claim.certificate)
            self.host.send(sender, Heard(announce.claim.certificate.key))

    def _enter_everywhere(self, certificate: Certificate) -> None:
        for place in self.places.values():
            place.enter(certificate)

    @handles(Farewell)
    def on_farewell(self, sender: Address, farewell: Farewell) -> None:
        if not self.belief.credible(GONE, farewell.claim):
            return
        self._departed(farewell.claim.certificate, farewell.claim.sent_us)

    def _departed(self, leaver: Certificate, said_us: int) -> None:
        """Its holder says that a place was left: out of all lists."""
        self.belief.departed(leaver, said_us)
        for place in list(self.places.values()):
            place.queue.pop(leaver.key, None)
            asked = place.waiting.pop(leaver.key, None)
            self._unanswered.answer((place.key, leaver.key))
            if leaver.key in place.known and place.known[leaver.key].serial <= leaver.serial:
                self._drop(place, (leaver.key,))
            if asked:
                self._go_on(place)

    def learn(self, revocation: Revocation) -> bool:
        """Drop entries whose certificates count no more, and mend the lists. False for an old or a forged list."""
        if not self.belief.trust.learn(revocation):
            return False
        revoked = frozenset(revocation.serials)
        for place in list(self.places.values()):
            gone = [key for key, node in place.known.items() if node.serial in revoked]
            if gone:
                self._drop(place, gone)
        return True

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
