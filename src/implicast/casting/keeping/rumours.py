"""Tells everybody what only one node can notice: that some lists are lost, or that somebody seems to be dead.

Along fingers, each node telling those up to the next: n messages, each confirmed and repeated. A finger that does not
confirm may be dead, and whoever lies behind it would never know: repeats are routed to its *place*, so whoever answers
for that now tells its arc. One that is told twice tells those whom the second word reaches further.

- *Lack*: a node inherits keys of which it has no copies, for their keeper and all its copies died together. Those who
  were in these lists lay them again. Said three times over, for a node that dies meanwhile takes those behind it along.
- *Death*: a node has repaired the ring where its left neighbour fell silent. It may be wrong, so nobody believes it:
  whoever keeps entries of that one asks it itself (`doubts.py`), and whoever has it for a finger.
  Whoever has entries with it lays them again, in case its copies were lost in the same upheaval.
"""

from bisect import bisect_right
from collections.abc import Callable

from msgspec.structs import replace

from implicast.casting.keeping.messages import Death, Lack, LackHeard
from implicast.casting.keeping.share import Share, Shareholder
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, StandingAlarm, handles
from implicast.peer.memory import Recent
from implicast.space.digest import digest_bits
from implicast.space.ring import from_on

REPEAT_US = 2_000_000
REPEATS_MAX = 14
"""Attempts to tell one arc, for half a minute: a place behind a dead node is reached once the ring is repaired."""
SAYINGS = 3
"""How often a lack is said."""
SAYING_US = 6_000_000
KNOWN_MAX = 1024
"""Words remembered as heard."""
KNOWN_US = 180_000_000
"""And for how long: a word is told by six peers in a row, each after half a minute of silence."""
SAYINGS_MAX = 64
"""Lacks that are still to be said again; further ones are said once."""
UNHEARD_MAX = 1024
"""Words that await confirmation; further ones are said once."""


class LackLate(StandingAlarm):
    """Rings while not everybody has confirmed to know of a lack."""


class Rumours(Shareholder):
    """One peer's part in telling all."""

    __slots__ = ("_armed", "_heed", "_known", "_mourn", "_sayings", "_serial", "_unheard")

    def __init__(
        self, share: Share, heed: Callable[[int, int], None], mourn: Callable[[Address], None]
    ) -> None:
        """`heed(low, high)`: lay again what this peer has there. `mourn(who)`: it may be dead."""
        super().__init__(share)
        self._heed, self._mourn = heed, mourn
        self._known: Recent[tuple[int, object, int], tuple[int, int]] = Recent(KNOWN_MAX)
        """Words that were heard, how far to the right they have been told, and when they were last heard."""
        self._unheard: dict[tuple[int, int, int], tuple[Lack | Death, int]] = {}
        self._sayings: list[tuple[int, int, int, int]] = []
        self._serial = 0
        self._armed = False

    def announce_lack(self, low: int, high: int) -> None:
        self.announce(Lack, low, high)
        if len(self._sayings) < SAYINGS_MAX:
            self._sayings.append((self.host.now_us + SAYING_US, low, high, SAYINGS - 1))
        self._arm()

    def announce(self, kind: Callable[..., Lack | Death], *about: int | Address) -> None:
        """Once. Under a serial of its own: several may be said in one moment, and confirmations must be told apart."""
        own, self._serial = self._chord.table.own, self._serial + 1
        self._hear(
            kind(
                digest_bits(62, own, self.host.now_us, self._serial), *about, own, own, self.address
            )
        )

    def _hear(self, word: Lack | Death) -> None:
        about = (
            (word.serial, word.low, word.high)
            if isinstance(word, Lack)
            else (word.serial, word.who, 0)
        )
        known, table = self._known.pop(about, (None, 0))[0], self._chord.table
        is_within = from_on(word.key, table.own, word.limit)  # else its arc ends before this node
        reach = (word.limit - table.own - 1) & table.mask if is_within else 0
        over_us = self.host.now_us - KNOWN_US
        self._known.drop_while(lambda told: told[1] <= over_us)
        self._known[about] = max(reach, known or 0), self.host.now_us
        if known is None and isinstance(word, Lack):
            self._heed(word.low, word.high)
        elif known is None and isinstance(word, Death):
            self._chord.doubt(word.who)
            self._mourn(word.who)
        if known is None or reach > known:
            self._tell_others(word, reach, known or 0)

    def _tell_others(self, word: Lack | Death, reach: int, known: int) -> None:
        """Each finger within reach is told to tell those up to the next, as far as they have not been told."""
        table = self._chord.table
        own, mask, within = (
            table.own,
            table.mask,
            table.distances[: bisect_right(table.distances, reach)],
        )
        keys = [(own + far) & mask for far in within]
        for address, key, limit in zip(
            table.addresses, keys, [*keys[1:], word.limit], strict=False
        ):
            if (limit - own - 1) & mask > known:
                word = replace(word, key=key, limit=limit, by=self.address)
                if len(self._unheard) < UNHEARD_MAX:
                    self._unheard[word.serial, key, limit] = (word, REPEATS_MAX)
                self.host.send(address, word)
        self._arm()

    @handles(Lack, Death)
    def on_word(self, sender: Address, word: Lack | Death) -> None:
        if self._ring.state == IN and not self._chord.pass_on(word.key, word, sender):
            heard = LackHeard(word.serial, word.key, word.limit)
            if (
                word.by == self.address
            ):  # whom it was for has gone meanwhile, and this node answers for that place
                self.on_lack_heard(sender, heard)
            else:
                self.host.send(word.by, heard)
            self._hear(word)

    @handles(LackHeard)
    def on_lack_heard(self, sender: Address, heard: LackHeard) -> None:
        self._unheard.pop((heard.serial, heard.key, heard.limit), None)

    def _arm(self) -> None:
        if not self._armed and (self._unheard or self._sayings):
            self._armed = True
            self.host.after(REPEAT_US, LackLate())

    @handles(LackLate)
    def on_lack_late(self, alarm: LackLate) -> None:
        self._armed = False
        for name, (word, left) in list(self._unheard.items()):
            if left and self._chord.pass_on(word.key, word):
                self._unheard[name] = (word, left - 1)
            else:  # often enough, or nobody is left there: this node answers for that place itself
                del self._unheard[name]
        sayings, self._sayings, now_us = self._sayings, [], self.host.now_us
        for due_us, low, high, left in sayings:
            if due_us > now_us:
                self._sayings.append((due_us, low, high, left))
                continue
            if self._ring.state == IN:
                self.announce(Lack, low, high)
            if left > 1:
                self._sayings.append((now_us + 2 * SAYING_US, low, high, left - 1))
        self._arm()
