"""Places that outlive crashes, loss and partitions. Ring upkeep, parts D.2 and E.

- *Watching.* Every peer looks for the nearest few on either side of its home place, whenever they have been silent for
  a while; whoever is listed and leaves something unanswered is looked for at once.
- *Losing.* Who stays silent towards this peer is taken out of all its lists, and kept aside: it is called again and
  again, and comes back with its first word. Nobody is lost on the word of others.
- *Accusing.* Who found somebody silent says so to its contacts, who look for themselves sooner than they would have.
  Only own evidence is passed on, and only while few have passed it on: a liar's accusation costs one probe each.
- *Leaving.* One signed farewell for all places, repeated until confirmed (`leaving.py`).
- *Comparing.* Neighbours compare lists that changed until they agree (`comparing.py`).
- *Turning.* One entry of one place is asked for its lists per turn: what slipped through all else is found.

An address lives and dies as a whole, so it is watched as a whole, however many places it has.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from implicast.overlay.detector import Detector, Ping
from implicast.overlay.skip_graph.comparing import ComparingGraph
from implicast.overlay.skip_graph.graph import whoever
from implicast.overlay.skip_graph.greeting import LIFE_US
from implicast.overlay.skip_graph.messages import Accuse, Accusing, Agree, Announce, Ask, Turn, Watch
from implicast.overlay.skip_graph.place import Place
from implicast.overlay.skip_graph.upkeep import Lost, Upkeep
from implicast.peer.contract import Address, Host, Message, handles
from implicast.peer.identity import Certificate, Trust
from implicast.peer.signatures import Signer
from implicast.space.vector import Vectors

WATCHED = 2
"""Neighbours of the home place that are watched on each side: three must die at once for one to go unnoticed."""
ACCUSED_QUIET_US = 2_000_000
"""Who was heard so lately is not looked for, whoever accuses it."""
TELL_US = 500_000
"""Accusations of so long go together in one message."""
ACCUSERS_ENOUGH = 3
"""Whom so many accuse needs no further accuser."""
CALL_US = 5_000_000
CALL_CAP_US = 10_000_000
"""The lost are called after this time, then at doubling intervals up to that."""
LOST_US = 180_000_000
"""After so long the lost are forgotten: they have to join again."""
PASSED_US = 60_000_000
"""Who asked and was heard within this time is taken for present until a probe says otherwise."""
SLEPT_US = 2_000_000
"""Who is woken so much too late has slept, and may have missed what was said."""
CATCH_UP_US = 10_000_000
"""How often one looks at everything anew at most: others may say for ever that they had lost us."""
REFOUND_US = 30_000_000
"""Whom we had lost too is asked anyway."""
LOST_MAX = 1_024
"""Addresses that are kept aside; the first lost are forgotten first."""
LOST_PLACES_MAX = 256
"""Places of one lost address that are kept aside."""
ACCUSED_MAX = 1_024
"""Addresses whose accusers are counted; beyond that accusations are ignored."""


class LivingGraph(ComparingGraph):
    """The places of one peer in a network where others crash, leave and fall silent."""

    __slots__ = (
        "_accused", "_caught_up_us", "_found_us", "_lost", "_tell", "_turn", "_upkeep", "_watch_us", "detector", "gone",
        "lonely",
    )  # fmt: skip

    def __init__(
        self, address: Address, host: Host, k: int, vectors: Vectors, trust: Trust, signer: Signer, upkeep: Upkeep
    ) -> None:
        super().__init__(address, host, k, vectors, trust, signer)
        self.tries, self.look_us = upkeep.asks, upkeep.look_us
        self._upkeep = upkeep
        self.detector: Detector[Address] = Detector(address, host, upkeep.detector, self._lose)
        self.lonely: Callable[[bytes], None] = _ignore
        """Told when a newcomer's introducers were all silent."""
        self.gone: Callable[[Address], None] = _ignore_address
        """Told when a peer has said farewell."""
        self._lost: dict[Address, Lost] = {}
        self._accused: dict[Address, set[Address]] = {}
        self._tell: list[Address] = []
        self._found_us: dict[Address, int] = {}  # who was lost and spoke again, and when
        self._caught_up_us = self._watch_us = host.now_us
        self._turn = 0

    def stand(self, certificate: Certificate, around: Sequence[Certificate]) -> None:
        """A place that is there already, with all who belong into its lists."""
        place = self.places[certificate.key] = self._place(certificate)
        place.known = {node.key: node for node in around}
        place.trim()
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

    def heard(self, sender: Address) -> None:
        """At every message: the cheapest probe is what comes anyway."""
        self.detector.heard(sender)
        if sender in self._lost:
            self._find_again(sender)

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
        level = home.table.levels[0]
        count, found = len(level.nodes), dict[Address, None]()
        for step in (1, -1):
            side = (level.nodes[(level.own + step * place) % count].address for place in range(1, count))
            met = [address for address in dict.fromkeys(side) if address != self.address][:WATCHED]
            found.update(dict.fromkeys(met))
        return list(found)

    def watch(self, address: Address) -> None:
        """Something that it should have answered was not: look for it at once."""
        if address not in self._lost:
            self.detector.check(address, ACCUSED_QUIET_US)

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

    def _look_for(self, address: Address, message: Message) -> None:
        if self.detector.is_probing(address):
            self.host.send(address, message)
        elif address not in self._lost:
            self.detector.probe(address, message)

    def _was_heard(self, address: Address) -> bool:
        silent_us = self.detector.silent_for_us(address)
        return silent_us is not None and silent_us < LIFE_US

    def _may_list(self, node: Certificate) -> bool:
        lost = self._lost.get(node.address)
        if lost is not None and len(lost.nodes) < LOST_PLACES_MAX and self.belief.sound(node):
            lost.nodes[node.key] = node  # for when it speaks again
        return lost is None and self.belief.sound(node)

    # --- losing and finding again

    def _lose(self, address: Address) -> None:
        """It is silent towards us: out of all lists, and kept aside."""
        now_us = self.host.now_us
        lost = self._lost.setdefault(address, Lost(now_us, now_us + CALL_US, CALL_US))
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
                self.watch(node.address)

    def _is_about(self, node: Certificate) -> bool:
        silent_us = self.detector.silent_for_us(node.address)
        lost = node.address in self._lost or node.address in self.detector.gone
        return not lost and silent_us is not None and silent_us < PASSED_US and self.belief.sound(node)

    def _pass_on(self, address: Address) -> None:
        """Others may not know yet, unless enough have told them."""
        if len(self._accused.get(address, ())) < ACCUSERS_ENOUGH:
            if not self._tell:
                self.host.after(int(TELL_US * (1 + self.host.rng.random())), Accusing())
            self._tell.append(address)

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

    def _find_again(self, address: Address) -> None:
        """It spoke: back into the lists where it belongs. It is asked, as it may know of others and not of us."""
        lost = self._lost.pop(address)
        self._accused.pop(address, None)
        self._found_us.pop(address, None)
        self._found_us[address] = self.host.now_us
        if len(self._found_us) > LOST_MAX:
            del self._found_us[next(iter(self._found_us))]
        self.host.send(address, Accuse((address,)))
        nodes = [node for node in lost.nodes.values() if self.belief.sound(node)]
        for place in list(self.places.values()):
            place.unask(lost.nodes)
            self._learn(place, nodes)
            self._go_on(place)

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
            if lost.since_us + LOST_US < now_us:
                del self._lost[address]
                self._accused.pop(address, None)
            elif lost.call_us <= now_us:
                lost.wait_us = min(2 * lost.wait_us, CALL_CAP_US)
                lost.call_us = now_us + lost.wait_us
                self.host.send(address, Ping(0))

    def _credit(self, place: Place, node: Certificate) -> bool:
        """Who is silent towards us is not listed on the word of others."""
        return self._may_list(node)

    def _believed(self, place: Place, named: Sequence[Certificate]) -> Sequence[Certificate]:
        """The same, where most who are new have been met before: a third of the price."""
        known, lost = place.known, self._lost
        fresh = [node for node in named if known.get(node.key) is not node]
        doubtful = self.belief.doubtful(fresh)
        if lost:
            doubtful += [node for node in fresh if node.address in lost]
        refused = {node.key for node in doubtful if not self._may_list(node)}
        chosen = named if place.searching else fresh
        return [node for node in chosen if node.key not in refused] if refused else chosen

    # --- accusing

    @handles(Accusing)
    def on_accusing(self, alarm: Accusing) -> None:
        few = [address for address in self._tell if len(self._accused.get(address, ())) < ACCUSERS_ENOUGH]
        told = tuple(address for address in few if address in self._lost or address in self.detector.gone)
        self._tell = []
        if told:
            for address in self._contact_addresses():
                if address not in self._lost and address not in told:
                    self.host.send(address, Accuse(told))

    @handles(Accuse)
    def on_accuse(self, sender: Address, accuse: Accuse) -> None:
        """Look for oneself. The accuser is not believed."""
        if self.address in accuse.addresses and self._found_us.get(sender, -REFOUND_US) < self.host.now_us - REFOUND_US:
            self._catch_up()
        for address in accuse.addresses:
            if address == self.address or (address not in self._accused and len(self._accused) >= ACCUSED_MAX):
                continue
            lists_it = address in self._tell or self.detector.is_probing(address)  # most have been looked for already
            if lists_it or self._lists(address):
                self._accused.setdefault(address, set()).add(sender)
                self.watch(address)

    def _lists(self, address: Address) -> bool:
        if address in self._lost or address in self.detector.gone:
            return False
        return any(address in {node.address for node in place.known.values()} for place in self.places.values())

    def _contact_addresses(self) -> dict[Address, None]:
        found = dict.fromkeys(node.address for place in self.places.values() for node in place.known.values())
        found.pop(self.address, None)
        return found

    # --- those who leave

    def _forget(self, leaver: Certificate) -> None:
        self.detector.say_gone(leaver.address)
        self._lost.pop(leaver.address, None)
        known = (node for place in self.places.values() for node in place.known.values())
        self._take_out(leaver.address, {node.key: node for node in known if node.public == leaver.public})
        self._pass_on(leaver.address)
        self.gone(leaver.address)

    def _elsewhere(self) -> Iterable[Address]:
        return self._lost  # they may list us all the same

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
            place.certificate = certificate
            place.trim()
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
