"""Tells everybody that some lists are lost with all their copies, so that those who were in them lay them again.

Along fingers, each node telling those up to the next: n messages, each confirmed and repeated. Said three times over,
for a node that died in between takes those behind it along. This happens only when a node and all keepers of its copies
die within one comparison, or when a partition takes them away together.
"""

from collections.abc import Callable

from implicast.casting.keeping.messages import Lack, LackHeard, LackLate
from implicast.overlay.chord import LivingChord
from implicast.overlay.links import Ref
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, Host, Part, handles
from implicast.space.ring import between

REPEAT_US = 2_000_000
REPEATS_MAX = 4
"""Attempts to tell one node."""
SAYINGS = 3
"""How often a lack is said, at growing pauses."""
SAYING_US = 6_000_000
KNOWN_MAX = 256
"""Lacks remembered as heard."""
UNHEARD_MAX = 1024
"""Words that await confirmation; further ones are said once."""


class Lacking(Part):
    """One peer's part in telling all."""

    __slots__ = ("_armed", "_known", "_sayings", "_unheard", "chord", "heed")

    def __init__(self, address: Address, host: Host, chord: LivingChord, heed: Callable[[int, int], None]) -> None:
        """`heed(low, high)`: lay again what this peer has there."""
        super().__init__(address, host)
        self.chord, self.heed = chord, heed
        self._known: dict[tuple[int, int, int], None] = {}
        self._unheard: dict[tuple[Address, int, int], tuple[Lack, int]] = {}
        self._sayings: list[tuple[int, int, int, int]] = []
        self._armed = False

    def announce(self, low: int, high: int) -> None:
        self._say(low, high)
        if len(self._sayings) < KNOWN_MAX:
            self._sayings.append((self.host.now_us + SAYING_US, low, high, SAYINGS - 1))
        self._arm()

    def _say(self, low: int, high: int) -> None:
        self._hear(Lack(self.host.now_us, low, high, self.chord.table.own))

    def _hear(self, lack: Lack) -> None:
        name = (lack.serial, lack.low, lack.high)
        if name not in self._known:
            self._known[name] = None
            if len(self._known) > KNOWN_MAX:
                del self._known[next(iter(self._known))]
            self.heed(lack.low, lack.high)
            self._tell_others(lack)

    def _tell_others(self, lack: Lack) -> None:
        """Each finger up to the limit is told to tell those up to the next."""
        own = self.chord.table.own
        told = [ref for ref in self.chord.table.fingers() if between(own, _key(ref), lack.limit)]
        limits = [_key(ref) for ref in told[1:]] + [lack.limit]
        for ref, limit in zip(told, limits, strict=False):
            word = Lack(lack.serial, lack.low, lack.high, limit)
            if len(self._unheard) < UNHEARD_MAX:
                self._unheard[ref.address, lack.serial, limit] = (word, REPEATS_MAX)
            self.host.send(ref.address, word)
        self._arm()

    @handles(Lack)
    def on_lack(self, sender: Address, lack: Lack) -> None:
        if self.chord.ring.state == IN:
            self.host.send(sender, LackHeard(lack.serial, lack.limit))
            self._hear(lack)

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
        now_us, due = self.host.now_us, self._sayings
        self._sayings = [(2 * at - now_us + SAYING_US if at <= now_us else at, low, high, left - (at <= now_us))
                         for at, low, high, left in due if left > (at <= now_us)]  # fmt: skip
        for name, (word, left) in list(self._unheard.items()):
            if left:
                self._unheard[name] = (word, left - 1)
                self.host.send(name[0], word)
            else:
                del self._unheard[name]
        for at, low, high, _ in due:
            if at <= now_us and self.chord.ring.state == IN:
                self._say(low, high)
        self._arm()


def _key(ref: Ref) -> int:
    assert isinstance(ref.key, int), "Chord's keys are identifiers"
    return ref.key
