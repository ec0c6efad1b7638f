"""Who was found silent is named to others. Ring upkeep, part D.2.

Who found somebody silent says so to its contacts, who look for themselves sooner than they would have. Only own
evidence is passed on, and only while few have passed it on: a liar's accusation costs one probe each. Who speaks again
is told that it was lost: it may have slept, and looks at everything anew.
"""

from collections.abc import Callable

from implicast.overlay.skip_graph.absentees import Absentees
from implicast.overlay.skip_graph.messages import Accuse, Accusing
from implicast.overlay.skip_graph.places import Places
from implicast.peer.contract import Address, Host, Part, handles
from implicast.peer.memory import Recent

TELL_US = 500_000
"""Accusations of so long go together in one message."""
ACCUSERS_ENOUGH = 3
"""Whom so many accuse needs no further accuser."""
ACCUSED_MAX = 1_024
"""Addresses whose accusers are counted; the first accused go first."""
ACCUSED_US = 30_000_000
"""For so long an accuser counts: else those who once accused somebody falsely would silence all who find it dead."""
REFOUND_US = 30_000_000
"""Who says that it had lost us, so soon after we found it again, tells no news: we had lost it too, and asked it."""
FOUND_MAX = 1_024
"""Addresses found again that are remembered; the first found are forgotten first."""


class Accusations(Part):
    """Whom one peer is going to accuse, and whom others accuse. `catch_up()` is called when somebody had lost us."""

    __slots__ = ("_absentees", "_catch_up", "_found_us", "_places", "_tell", "accused")

    def __init__(
        self, address: Address, host: Host, places: Places, absentees: Absentees, catch_up: Callable[[], None]
    ) -> None:
        super().__init__(address, host)
        self._places, self._absentees, self._catch_up = places, absentees, catch_up
        self.accused: Recent[Address, tuple[int, tuple[Address, ...]]] = Recent(ACCUSED_MAX)  # since when, by whom
        self._tell: list[Address] = []
        self._found_us: Recent[Address, int] = Recent(FOUND_MAX)  # who was lost and spoke again, and when

    def found(self, address: Address) -> None:
        """One of the lost spoke. It hears that it was lost."""
        self._found_us.put(address, self.host.now_us)
        self.host.send(address, Accuse((address,)))

    def pass_on(self, address: Address) -> None:
        """Somebody is gone from our lists: tell others, unless enough have."""
        if not self.is_told_of(address):
            if not self._tell:
                self.host.after(int(TELL_US * (1 + self.host.rng.random())), Accusing())
            self._tell.append(address)

    @handles(Accusing)
    def on_accusing(self, alarm: Accusing) -> None:
        lost, gone = self._absentees.lost, self._absentees.detector.gone
        few = [address for address in self._tell if not self.is_told_of(address)]
        told = tuple(address for address in few if address in lost or address in gone)
        self._tell = []
        if told:
            for address in self._places.contact_addresses():
                if address not in lost and address not in told:
                    self.host.send(address, Accuse(told))

    @handles(Accuse)
    def on_accuse(self, sender: Address, accuse: Accuse) -> None:
        """Look for oneself. The accuser is not believed."""
        if self.address in accuse.addresses and self._found_us.get(sender, -REFOUND_US) < self.host.now_us - REFOUND_US:
            self._catch_up()
        for address in accuse.addresses:
            if address == self.address:
                continue
            is_sought = address in self._tell or self._absentees.detector.is_probing(address)  # most are already
            if is_sought or self._lists(address):
                self._note_accuser(address, sender)
                self._absentees.watch(address)

    def _note_accuser(self, address: Address, sender: Address) -> None:
        now_us = self.host.now_us
        since_us, accusers = self.accused.pop(address, (now_us, ()))
        if since_us + ACCUSED_US < now_us:
            since_us, accusers = now_us, ()
        if sender not in accusers and len(accusers) < ACCUSERS_ENOUGH:
            accusers = (*accusers, sender)
        self.accused[address] = (since_us, accusers)

    def is_told_of(self, address: Address) -> bool:
        """Whether enough have accused it lately."""
        since_us, accusers = self.accused.get(address, (0, ()))
        return len(accusers) >= ACCUSERS_ENOUGH and since_us + ACCUSED_US >= self.host.now_us

    def _lists(self, address: Address) -> bool:
        if address in self._absentees.lost or address in self._absentees.detector.gone:
            return False
        held = self._places.held.values()
        return any(node.address == address for place in held for node in place.known.values())
