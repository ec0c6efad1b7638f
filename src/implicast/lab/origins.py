"""What each message of a live network was for, and how many led to it: found by going back from one
to the other.

A node wrote for each message the input that it goes back to; that input was a message of another
node, which goes back to an input there, and so on up to a wish of an application. As in the world,
the purpose of the wish is inherited; a message that names a cast is for that cast, and what an
alarm of standing upkeep leads to is upkeep.
"""

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from implicast.lab.numbering import Key, Numbers, serial
from implicast.net.observation.journal import ReceivedRow, RequestRow, SentRow
from implicast.peer.contract import CastId

FORGET_US = 900_000_000
"""Messages older than this are not looked up any more."""
OF_VERB = {
    "join": "join",
    "register": "register",
    "subscribe": "register",
    "withdraw": "withdraw",
    "unsubscribe": "withdraw",
    "leave": "leave",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What a message was for, and how many led to it, itself included."""

    phase: str
    cast: int | None
    depth: int


class Led(NamedTuple):
    """An input: when it came, the message or the verb that it was, and the cast that a verb is for."""

    time_us: int
    what: Key | str
    cast: CastId | None


UNKNOWN = Facts("upkeep", None, 0)


class OriginsState(msgspec.Struct):
    """Inputs and messages of the last `FORGET_US`, as a gatherer keeps them between steps."""

    inputs: dict[Key, Led] = {}
    facts: dict[Key, tuple[int, Facts]] = {}
    sent: dict[Key, SentRow] = {}


class Origins:
    """Inputs, messages and casts of all nodes, as far as they were read."""

    def __init__(self, numbers: Numbers, state: OriginsState) -> None:
        self._numbers, self._state = numbers, state

    def came(self, incarnation: int, row: ReceivedRow, key: Key) -> None:
        self._state.inputs[incarnation, row.input] = Led(row.time_us, key, None)

    def asked(self, incarnation: int, row: RequestRow) -> None:
        self._state.inputs[incarnation, row.input] = Led(row.time_us, row.verb, row.cast)

    def sent(self, key: Key, row: SentRow) -> None:
        self._state.sent[key] = row

    def is_cast(self, cast: CastId) -> bool:
        """A cast whose making was read; things published to subscribers are none."""
        made = self._numbers.made.get(self._numbers.cast(cast))
        return made is not None and made.target is not None

    def cause(self, incarnation: int, origin: int) -> int:
        """The message that led to what an input did; 0: a wish, or the node's beginning."""
        led = self._state.inputs.get((incarnation, origin))
        return serial(led.what) if led is not None and isinstance(led.what, tuple) else 0

    def of_input(self, incarnation: int, origin: int, late: bool) -> Facts | None:
        led = self._state.inputs.get((incarnation, origin))
        return (
            self.of_message(led.what, late)
            if led is not None and isinstance(led.what, tuple)
            else self._wish(led)
        )

    def of_message(self, key: Key, late: bool) -> Facts | None:
        """None: what it needs has not been read yet, unless it is `late`. No recursion: chains may
        be long.
        """
        chain: dict[Key, SentRow] = {}
        at, found = key, self._known(key)
        while found is None:
            row = self._state.sent.get(at)
            if row is None or at in chain or self._unheard_of(row):
                if not late:
                    return None
                if row is None or at in chain:
                    found = UNKNOWN
                    break
            chain[at] = row
            led = self._state.inputs.get((at[0], row.origin))
            if led is None or not isinstance(led.what, tuple):
                found = self._wish(led)
            else:
                at, found = led.what, self._known(led.what)
        for each, row in reversed(chain.items()):
            found = self._inherited(row, found)
            self._state.facts[each] = (row.time_us, found)
            del self._state.sent[each]
        return found

    def forget(self, now_us: int) -> None:
        """What is long past."""
        old_us = now_us - FORGET_US
        kept = self._state
        kept.facts = {key: each for key, each in kept.facts.items() if each[0] >= old_us}
        kept.inputs = {key: each for key, each in kept.inputs.items() if each.time_us >= old_us}
        kept.sent = {key: each for key, each in kept.sent.items() if each.time_us >= old_us}

    def _known(self, key: Key) -> Facts | None:
        found = self._state.facts.get(key)
        return None if found is None else found[1]

    def _unheard_of(self, row: SentRow) -> bool:
        """It names a cast of which it is not known yet what it is."""
        return row.cast is not None and self._numbers.cast(row.cast) not in self._numbers.made

    def _inherited(self, row: SentRow, before: Facts) -> Facts:
        depth = before.depth + 1
        if row.cast is not None and self.is_cast(row.cast):
            return Facts("cast", self._numbers.cast(row.cast), depth)
        return (
            Facts("upkeep", None, depth) if row.upkeep else Facts(before.phase, before.cast, depth)
        )

    def _wish(self, led: Led | None) -> Facts:
        """What an application asked for; a node's own beginning is upkeep."""
        if led is None:
            return UNKNOWN
        if led.cast is not None and self.is_cast(led.cast):
            return Facts("cast", self._numbers.cast(led.cast), 0)
        return Facts(OF_VERB.get(str(led.what), "upkeep"), None, 0)
