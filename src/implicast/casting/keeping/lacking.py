"""Tells everybody what only one node can notice: that some lists are lost, or that somebody seems to be dead.

Along fingers, each node telling those up to the next: n messages, each confirmed and repeated.

- *Lack*: a node inherits keys of which it has no copies, for their keeper and all its copies died together. Those who
  were in these lists lay them again. Said three times over, for a node that dies meanwhile takes those behind it along.
- *Death*: a node has repaired the ring where its left neighbour fell silent. It may be wrong, so nobody believes it:
  whoever keeps entries of that one asks it itself (`mourning.py`).
"""

from collections.abc import Callable

from implicast.casting.keeping.messages import Death, Lack, LackHeard, LackLate
from implicast.overlay.chord import LivingChord
from implicast.overlay.links import Ref
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, Host, Part, handles
from implicast.space.ring import between

REPEAT_US = 2_000_000
REPEATS_MAX = 4
"""Attempts to tell one node."""
SAYINGS = 3
"""How often a lack is said."""
SAYING_US = 6_000_000
KNOWN_MAX = 1024
"""Words remembered as heard."""
SAYINGS_MAX = 64
"""Lacks that are still to be said again; further ones are said once."""
UNHEARD_MAX = 1024
"""Words that await confirmation; further ones are said once."""


class Lacking(Part):
    """One peer's part in telling all."""

    __slots__ = ("_armed", "_known", "_sayings", "_unheard", "chord", "heed", "mourn")

    def __init__(
        self, address: Address, host: Host, chord: LivingChord, heed: Callable[[int, int], None],
        mourn: Callable[[Address], None],
    ) -> None:  # fmt: skip
        """`heed(low, high)`: lay again what this peer has there. `mourn(who)`: it may be dead."""
        super().__init__(address, host)
        self.chord, self.heed, self.mourn = chord, heed, mourn
        self._known: dict[tuple[int, object, int], None] = {}
        self._unheard: dict[tuple[Address, int, int], tuple[Lack | Death, int]] = {}
        self._sayings: list[tuple[int, int, int, int]] = []
        self._armed = False

    def announce(self, low: int, high: int) -> None:
        self._hear(Lack(self.host.now_us, low, high, self.chord.table.own))
        if len(self._sayings) < SAYINGS_MAX:
            self._sayings.append((self.host.now_us + SAYING_US, low, high, SAYINGS - 1))
        self._arm()

    def announce_death(self, who: Address) -> None:
        self._hear(Death(self.host.now_us, who, self.chord.table.own))

    def _hear(self, word: Lack | Death) -> None:
        about = (word.serial, word.low, word.high) if isinstance(word, Lack) else (word.serial, word.who, 0)
        if about in self._known:
            return
        self._known[about] = None
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]
        if isinstance(word, Lack):
            self.heed(word.low, word.high)
        else:
            self.mourn(word.who)
        self._tell_others(word)

    def _tell_others(self, word: Lack | Death) -> None:
        """Each finger up to the limit is told to tell those up to the next."""
        own = self.chord.table.own
        told = [ref for ref in self.chord.table.fingers() if between(own, _key(ref), word.limit)]
        limits = [_key(ref) for ref in told[1:]] + [word.limit]
        for ref, limit in zip(told, limits, strict=False):
            onward = _up_to(word, limit)
            if len(self._unheard) < UNHEARD_MAX:
                self._unheard[ref.address, word.serial, limit] = (onward, REPEATS_MAX)
            self.host.send(ref.address, onward)
        self._arm()

    @handles(Lack)
    def on_lack(self, sender: Address, lack: Lack) -> None:
        self._on_word(sender, lack)

    @handles(Death)
    def on_death(self, sender: Address, death: Death) -> None:
        self._on_word(sender, death)

    def _on_word(self, sender: Address, word: Lack | Death) -> None:
        if self.chord.ring.state == IN:
            self.host.send(sender, LackHeard(word.serial, word.limit))
            self._hear(word)

    @handles(LackHeard)
    def on_lack_heard(self, sender: Address, heard: LackHeard) -> None:
        self._unheard.pop((sender, heard.serial, heard.limit), None)

    def _arm(self) -> None:
        if not self._armed and (self._unheard or self._sayings):
            self._armed = True
            self.host.after(REPEAT_US, LackLate())

    @handles(LackLate)
    def on_lack_late(self, alarm: LackLate) -> None:
        self._armed = False
        for name, (word, left) in list(self._unheard.items()):
            if left:
                self._unheard[name] = (word, left - 1)
                self.host.send(name[0], word)
            else:
                del self._unheard[name]
        self._say_again()
        self._arm()

    def _say_again(self) -> None:
        now_us = self.host.now_us
        due = [saying for saying in self._sayings if saying[0] <= now_us]
        self._sayings = [saying for saying in self._sayings if saying[0] > now_us]
        for _, low, high, left in due:
            if self.chord.ring.state == IN:
                self._hear(Lack(now_us, low, high, self.chord.table.own))
            if left > 1:
                self._sayings.append((now_us + 2 * SAYING_US, low, high, left - 1))


def _up_to(word: Lack | Death, limit: int) -> Lack | Death:
    if isinstance(word, Lack):
        return Lack(word.serial, word.low, word.high, limit)
    return Death(word.serial, word.who, limit)


def _key(ref: Ref) -> int:
    assert isinstance(ref.key, int), "Chord's keys are identifiers"
    return ref.key
