"""Places that outlive crashes, loss and partitions. Ring upkeep, parts D.2 and E.

- *Watching.* Every peer looks for the nearest few on either side of its home place, whenever they have been silent for
  a while; whoever is listed and leaves something unanswered is looked for at once.
- *Losing, accusing.* Who stays silent is lost until it speaks, and named to others (`losing.py`, `accusing.py`).
- *Leaving.* One signed farewell for all places, repeated until confirmed (`leaving.py`).
- *Comparing.* Neighbours compare lists that changed until they agree (`comparing.py`), and whoever is met by that is
  greeted unless it was heard lately (`greeting.py`).
- *Turning.* One entry of one place is asked for its lists per turn: what slipped through all else is found.

An address lives and dies as a whole, so it is watched as a whole, however many places it has.
"""

from collections.abc import Callable, Iterable, Sequence

from implicast.overlay.skip_graph.accusing import AccusingGraph
from implicast.overlay.skip_graph.messages import Agree, Announce, Ask, Turn, Watch
from implicast.overlay.skip_graph.place import Place
from implicast.overlay.skip_graph.searching import whoever
from implicast.overlay.skip_graph.upkeep import Upkeep
from implicast.peer.contract import Address, Host, handles
from implicast.peer.identity import Certificate, Trust
from implicast.peer.signatures import Signer
from implicast.space.vector import Vectors

WATCHED = 2
"""Neighbours of the home place that are watched on each side: three must die at once for one to go unnoticed."""
SLEPT_US = 2_000_000
"""Who is woken so much too late has slept, and may have missed what was said."""


class LivingGraph(AccusingGraph):
    """The places of one peer in a network where others crash, leave and fall silent."""

    __slots__ = ("_turn", "_watch_us", "gone", "lonely")

    def __init__(
        self, address: Address, host: Host, k: int, vectors: Vectors, trust: Trust, signer: Signer, upkeep: Upkeep
    ) -> None:
        super().__init__(address, host, k, vectors, trust, signer, upkeep)
        self.lonely: Callable[[bytes], None] = _ignore
        """Told when a newcomer's introducers were all silent."""
        self.gone: Callable[[Address], None] = _ignore_address
        """Told when a peer has said farewell."""
        self._watch_us = host.now_us
        self._turn = 0

    def stand(self, certificate: Certificate, around: Sequence[Certificate]) -> None:
        """A place that is there already, with all who belong into its lists."""
        place = self.places[certificate.key] = self._place(certificate)
        place.surround(around)
        place.agree_with_all()

    def _place(self, certificate: Certificate) -> Place:
        place = super()._place(certificate)
        place.compares = True
        return place

    def begin(self) -> None:
        """Keep watch from now on."""
        self.host.after(int(self._upkeep.watch_us * self.host.rng.random()), Watch())
        self.host.after(int(self._upkeep.turn_us * self.host.rng.random()), Turn())
        self.host.after(int(self._upkeep.look_us * self.host.rng.random()), Agree())

    # --- watching

    @handles(Watch)
    def on_watch(self, alarm: Watch) -> None:
        now_us, watch_us = self.host.now_us, self._upkeep.watch_us
        self.host.after(watch_us, alarm)
        if now_us - self._watch_us > watch_us + SLEPT_US:
            self._catch_up()
        self._watch_us = now_us
        for address in self._watched():
            self.detector.check(address, self._upkeep.watch_us)
        self._call_the_lost()

    def _watched(self) -> list[Address]:
        home = next(iter(self.places.values()), None)
        if home is None:
            return []
        level, found = home.table.levels[0], dict[Address, None]()
        nodes, own = level.nodes, level.own
        for side in ((*nodes[own + 1 :], *nodes[:own]), (*reversed(nodes[:own]), *reversed(nodes[own + 1 :]))):
            met: dict[Address, None] = {}
            for node in side:
                if node.address != self.address:
                    met[node.address] = None
                    if len(met) == WATCHED:
                        break
            found.update(met)
        return list(found)

    @handles(Turn)
    def on_turn(self, alarm: Turn) -> None:
        """Ask one entry of one place, both in turn, for its lists."""
        self.host.after(self._upkeep.turn_us, alarm)
        places = [place for place in self.places.values() if not place.searching]
        if not places:
            return
        self._turn += 1
        place = places[self._turn % len(places)]
        level = self.host.rng.choice(place.wide.levels)
        node = self.host.rng.choice(level.nodes)
        if node.address != self.address and node.key not in place.waiting:
            self._request(place, node.key, node.address, Ask(node.key, self._claim(place)))

    # --- those who leave

    def _forget(self, leaver: Certificate) -> None:
        self.detector.say_gone(leaver.address)
        self._lost.pop(leaver.address, None)
        known = (node for place in self.places.values() for node in place.known.values())
        self._take_out(leaver.address, {node.key: node for node in known if node.public == leaver.public})
        self._pass_on(leaver.address)
        self.gone(leaver.address)

    def _elsewhere(self) -> Iterable[Address]:
        return self._called()  # they may list us all the same

    # --- joining, and looking from outside

    def ask_strangers(self, strangers: Sequence[Address]) -> None:
        """Seek the home place through others than its neighbours: rings that fell apart find together by this."""
        home = next(iter(self.places.values()), None)
        for address in strangers:
            if home is not None and address != self.address and address not in self._lost:
                self._request(home, whoever(address), address, Ask(b"", self._claim(home)))

    def expires_soon(self, key: bytes) -> bool:
        """Whether less than a third of the certificate's time is left."""
        certificate = self.places[key].certificate
        return certificate.until_us - self.host.now_us < (certificate.until_us - certificate.since_us) // 3

    def renew(self, certificate: Certificate) -> None:
        """A place goes on under a newer certificate: all who may list it are told."""
        place = self.places.get(certificate.key)
        if place is not None and place.certificate.serial < certificate.serial:
            place.renew(certificate)
            for other in self.places.values():
                other.enter(certificate)
            announce = Announce(self._claim(place))
            for address in place.acquaintances():
                if address != self.address:
                    self._request(place, whoever(address), address, announce)

    def _is_lonely(self, place: Place) -> bool:
        """A newcomer that found nobody though there is somebody must not take itself for the whole network."""
        if place.known or place.key not in self._arrived or not self._introduced.get(place.key):
            return False
        self.lonely(place.key)
        return True


def _ignore(key: bytes) -> None:
    """Nobody wants to know."""


def _ignore_address(address: Address) -> None:
    """Nobody wants to know."""
