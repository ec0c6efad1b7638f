"""A peer's share of the skip graph: its places, composed of the parts that keep them listed where they belong.

- `places`: what we hold, whom we believe, what we sign.
- `absentees`: who is there, who was lost until it speaks again, and who is named to others, who look for themselves.
- `search`: how a newcomer finds all who belong into its lists, and how those are met of whom we hear.
- `farewells`: what those are told who ask, announce themselves, or greet; and how places are left.
- `comparison`: neighbours compare lists that changed until they agree.

Every peer watches the nearest few on either side of its home place and asks one entry of one place per turn for its
lists: what slipped through all else is found. Ring upkeep, parts D and E.
"""

from collections.abc import Callable, Mapping, Sequence

from implicast.overlay.skip_graph.absentees import Absentees, Upkeep
from implicast.overlay.skip_graph.comparison import Comparison
from implicast.overlay.skip_graph.farewells import Farewells
from implicast.overlay.skip_graph.messages import GraphLate, GraphWatch, Turn
from implicast.overlay.skip_graph.place import ADDRESS
from implicast.overlay.skip_graph.places import PUBLIC, Places, having, struck
from implicast.overlay.skip_graph.search import Search
from implicast.peer.asking import Asking
from implicast.peer.contract import Address, Host, Part, handles
from implicast.peer.identity import Certificate, Revocation, Trust
from implicast.peer.signatures import Signer
from implicast.space.vector import Vectors

WATCHED = 2
"""Neighbours of the home place that are watched on each side: three must die at once for one to go unnoticed."""
SLEPT_US = 2_000_000
"""Who is woken so much too late has slept, and may have missed what was said."""
CATCH_UP_US = 10_000_000
"""How often one looks at everything anew at most: others may say for ever that they had lost us."""


class GraphAsker(Asking):
    """The questions of the graph. Upkeep asks too: on the alarm of what a verb asks, a verb's repeats would pass for
    it."""

    __slots__ = ()
    alarm = GraphLate()

    @handles(GraphLate)
    def on_graph_late(self, alarm: GraphLate) -> None:
        self.ask_again()


class SkipGraph(
    Part,
    parts={
        "asker": GraphAsker,
        "absentees": Absentees,
        "search": Search,
        "farewells": Farewells,
        "comparison": Comparison,
    },
):
    """The places of one peer and all that keeps them listed where they belong.

    `arrived(key)` is called when all who must know a place that was taken have been told, `lonely()` when a newcomer's
    introducers were all silent, `gone(address)` when a peer has said farewell.
    """

    __slots__ = (
        "_caught_up_us",
        "_gone",
        "_turn",
        "_upkeep",
        "_watch_us",
        "absentees",
        "asker",
        "comparison",
        "farewells",
        "places",
        "search",
    )

    def __init__(
        self,
        address: Address,
        host: Host,
        k: int,
        vectors: Vectors,
        trust: Trust,
        signer: Signer,
        upkeep: Upkeep,
        arrived: Callable[[bytes], None] = lambda key: None,
        lonely: Callable[[], None] = lambda: None,
        gone: Callable[[Address], None] = lambda address: None,
    ) -> None:
        super().__init__(address, host)
        self._upkeep, self._gone = upkeep, gone
        self.asker, self.places = (
            GraphAsker(address, host),
            Places(address, host, k, vectors, trust, signer),
        )
        self.absentees = Absentees(
            self.places, upkeep, self._lose, lambda: self.comparison.rouse(), self._catch_up
        )
        self.search = Search(
            self.asker, self.places, self.absentees, upkeep, self._lose, arrived, lonely
        )
        self.farewells = Farewells(self.search, upkeep.asks, self._forget)
        self.comparison = Comparison(self.search, self.farewells, upkeep.look_us)
        self._caught_up_us = self._watch_us = host.now_us
        self._turn = 0

    # --- for the casting above

    def settled(self) -> list[bytes]:
        """Places to begin a cast at: one that has just been taken knows nobody yet, and takes itself for all there is.
        If all have, so be it."""
        held, taking = self.places.held, self.search.taking
        return [key for key in held if key not in taking] or list(held)

    def is_agreed(self, key: bytes, number: int) -> bool:
        """Whether the neighbours of a place have the same list of a level. When somebody has gone a ring may seem to be
        all there is because few of it are left in sight."""
        place = self.places.held[key]
        return place.is_at_rest or place.accord.is_agreed(place.wide, number, self.address)

    def certificates(self) -> list[Certificate]:
        """Of our places, in the order of keys."""
        held = self.places.held
        return [held[key].certificate for key in sorted(held)]

    # --- taking, keeping and leaving places

    def has_arrived(self, key: bytes) -> bool:
        """Whether a place is ours, and all who must know it have been told."""
        return key in self.places.held and key not in self.search.taking

    def expires_soon(self, key: bytes) -> bool:
        """Whether less than a third of the certificate's time is left."""
        certificate = self.places.held[key].certificate
        return (
            certificate.until_us - self.host.now_us
            < (certificate.until_us - certificate.since_us) // 3
        )

    def renew(self, certificate: Certificate) -> None:
        """A place goes on under a newer certificate: all who may list it are told."""
        place = self.places.held.get(certificate.key)
        if place is not None and place.certificate.serial < certificate.serial:
            place.renew(certificate)
            self.places.enter(certificate)
            self.search.announce(place, place.acquaintances())

    def ask_strangers(self, strangers: Sequence[Address]) -> None:
        """Seek the home place through others than its neighbours: rings that fell apart find together by this."""
        home = self.places.home
        for address in strangers:
            if home is not None and address != self.address and address not in self.absentees.lost:
                self.search.ask(home, address)

    def learn(self, revocation: Revocation) -> bool:
        """Drop entries whose certificates count no more, and mend the lists. False for an old or a forged list."""
        if not self.places.belief.trust.learn(revocation):
            return False
        revoked, expelled = frozenset(revocation.serials), frozenset(revocation.names)
        for place in list(self.places.held.values()):
            gone = struck(place.known, revoked, expelled)
            if gone:  # one in ten
                self.absentees.drop(place, gone)
        return True

    # --- who speaks, who is silent, who has gone

    def heard(self, sender: Address) -> None:
        """At every message: the cheapest probe is what comes anyway."""
        absentees = self.absentees
        if absentees.accused:
            absentees.accused.pop(sender, None)  # whoever speaks is accused by nobody any more
        absentees.detector.heard(sender)
        if sender in absentees.lost:
            self.search.meet_again(sender, absentees.take_back(sender))

    def _lose(self, address: Address) -> None:
        """It is silent towards us: out of all lists, and kept aside."""
        gone = having(self.places.held.values(), ADDRESS, address)
        self.absentees.put_aside(address, gone)
        self._take_out(address, gone)
        if gone:
            self.absentees.pass_on(address)

    def _forget(self, leaver: Certificate) -> None:
        """It has left with all its places, and said so itself."""
        self.absentees.detector.say_gone(leaver.address)
        self.absentees.lost.pop(leaver.address, None)
        self._take_out(leaver.address, having(self.places.held.values(), PUBLIC, leaver.public))
        self.absentees.pass_on(leaver.address)
        self._gone(leaver.address)

    def _take_out(self, address: Address, gone: Mapping[bytes, Certificate]) -> None:
        """Out of all lists first; only then may places ask each other again."""
        for place in self.places.held.values():
            listed = [key for key in gone if key in place.known]
            if listed:
                self.absentees.drop(place, listed)
        self.search.give_up_on(address)

    def _catch_up(self) -> None:
        """We slept, or were out of reach for somebody: who has gone and who has come meanwhile?"""
        if self.host.now_us - self._caught_up_us < CATCH_UP_US or not self.places.held:
            return
        self._caught_up_us = self.host.now_us
        for address in self.places.contact_addresses():
            self.absentees.watch(address)
        for place in self.places.held.values():
            place.accord.forget()

    # --- watching and turning

    def begin(self) -> None:
        """Keep watch from now on."""
        self.host.after(int(self._upkeep.watch_us * self.host.rng.random()), GraphWatch())
        self.host.after(int(self._upkeep.turn_us * self.host.rng.random()), Turn())
        self.comparison.begin()

    @handles(GraphWatch)
    def on_watch(self, alarm: GraphWatch) -> None:
        now_us, watch_us = self.host.now_us, self._upkeep.watch_us
        self.host.after(watch_us, alarm)
        if now_us - self._watch_us > watch_us + SLEPT_US:
            self._catch_up()
        self._watch_us = now_us
        for address in self._watched():
            self.absentees.detector.check(address, watch_us)
        self.absentees.call_due()

    def _watched(self) -> list[Address]:
        home = self.places.home
        if home is None:
            return []
        level, found = home.table.levels[0], dict[Address, None]()
        nodes, own = level.nodes, level.own
        for side in (
            (*nodes[own + 1 :], *nodes[:own]),
            (*reversed(nodes[:own]), *reversed(nodes[own + 1 :])),
        ):
            others = dict.fromkeys(node.address for node in side if node.address != self.address)
            found.update(dict.fromkeys(list(others)[:WATCHED]))
        return list(found)

    @handles(Turn)
    def on_turn(self, alarm: Turn) -> None:
        """Ask one entry of one place, both in turn, for its lists."""
        self.host.after(self._upkeep.turn_us, alarm)
        places = [place for place in self.places.held.values() if not place.is_searching]
        if not places:
            return
        self._turn += 1
        place = places[self._turn % len(places)]
        level = self.host.rng.choice(place.wide.levels)
        node = self.host.rng.choice(level.nodes)
        if node.address != self.address and node.key not in place.waiting:
            self.search.ask(place, node.address, node.key)
