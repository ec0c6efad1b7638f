"""A peer's share of the skip graph: what its places answer, how they keep fresh, and how they leave.

Ring upkeep, parts D.1 and D.2; how places are taken and others found is in `searching.py`. An entry is removed by its
own signed farewell.

Who keeps fresh (`keep_fresh`) asks its entries in turn, drops those that stay silent towards itself, and learns whom
it missed. Without it crashed entries stay until they are asked for another reason; the k-redundant lists bear it.
"""

from collections.abc import Collection

from implicast.overlay.skip_graph.answering import answer
from implicast.overlay.skip_graph.messages import (
    GONE,
    PRESENT,
    Announce,
    Ask,
    Farewell,
    Heard,
    Neighbours,
    Refresh,
    claim,
)
from implicast.overlay.skip_graph.place import Place
from implicast.overlay.skip_graph.searching import SearchingGraph
from implicast.overlay.skip_graph.standing import Standing
from implicast.overlay.skip_graph.table import Table
from implicast.peer.contract import Address, Host, handles
from implicast.peer.identity import Certificate, Revocation, Trust
from implicast.peer.signatures import Signer
from implicast.space.vector import Vectors

LEFT_MAX = 64
"""Places that were left, kept at hand for those who ask after them: old answers of others still name them."""


class SkipGraph(SearchingGraph):
    """The places of one peer and all that keeps them listed where they belong."""

    __slots__ = ("_left", "_period_us")

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
        super().__init__(address, host, k, vectors, trust, signer, standing)
        self._left: dict[bytes, Table[Certificate]] = {}
        self._period_us = 0

    # --- leaving a place

    def quit(self, key: bytes) -> None:
        """Leave a place: tell everyone who may list it."""
        place = self.places.pop(key)
        self._arrived.pop(key, None)
        if self.standing is not None:
            self.standing.remove(key)
            return
        farewell = self._remember_left(place)
        self.on_farewell(self.address, farewell)  # always: others who do not know yet may name it to our other places
        for address in place.acquaintances():
            if address != self.address:
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
