"""Carries the steps of multicasts until their receivers confirm them.

A receiver confirms when all its places that a step is for have it; a step that it must refuse (its lists are not yet
what the sender's are) it does not confirm, and gets again. Repeats are bounded. Confirming is between two
neighbours: whoever has confirmed serves those below it, and k - 1 others serve them too.

It may also be the publisher's lists that are behind: when somebody leaves, a ring may seem to be all there is because
few of it are in sight. A publisher whose first steps are not taken by somebody who is there casts anew, by its lists as
they are then; whoever was reached by the first attempt recognises the cast.
"""

from collections.abc import Callable
from dataclasses import dataclass

from implicast.casting.bft.messages import Held, Hop, Source, Unheld
from implicast.peer.contract import Address, CastId, Host, Part, handles
from implicast.peer.events import Settled
from implicast.peer.pending import Pending

REPEAT_US = 2_000_000
REPEATS_MAX = 20
"""Patience of 40 s: longer than the freezes and partitions that are to be outlived."""
REFUSED = 2
"""A first step of our own that was repeated so often in vain, to somebody who is there, is refused."""
RECASTS_MAX = 3
"""How often one cast is made anew."""
UNHELD_MAX = 65_536
"""Steps awaiting confirmation at one peer; beyond that they are sent once only."""

Step = tuple[Address, int, int, bytes]
"""Receiver, query, level, key of the place that forwards."""


@dataclass(slots=True)
class Ending:
    """How the first steps of a cast of our own are ending: open, confirmed, given up."""

    open: int = 0
    held: int = 0
    silent: int = 0
    made: bool = False
    recasts: int = 0


class Carriage(Part):
    """Unconfirmed steps of one peer. `silent(address)` is told of whoever does not confirm at once, `is_there(address,
    within_us)` asked whether it was heard lately, and `recast(source)` called to make a cast of our own anew."""

    __slots__ = ("_endings", "_is_there", "_open", "_recast", "_silent")

    def __init__(
        self, address: Address, host: Host, silent: Callable[[Address], None], is_there: Callable[[Address, int], bool],
        recast: Callable[[Source], None],
    ) -> None:  # fmt: skip
        super().__init__(address, host)
        self._silent, self._is_there, self._recast = silent, is_there, recast
        self._endings: dict[CastId, Ending] = {}
        self._open: Pending[Step, tuple[Hop, int]] = Pending(host, Unheld(), REPEAT_US, UNHELD_MAX)

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, cast: CastId) -> None:
        """A cast of our own: what is sent for it from now on decides how it ends."""
        self._endings[cast] = Ending()

    def made(self, cast: CastId) -> None:
        """Everything was sent that the publisher sends."""
        self._endings[cast].made = True
        self._maybe_settled(cast)

    def send(self, to: Address, hop: Hop) -> None:
        source = hop.source
        ending = self._endings.get(source.cast) if self._endings else None
        if self._open.ask((to, source.query, hop.level, hop.forwarder.key), (hop, REPEATS_MAX)) and ending is not None:
            ending.open += 1
        self.host.send(to, hop)

    def confirm(self, sender: Address, hop: Hop) -> None:
        source = hop.source
        self.host.send(sender, Held(source.cast, source.query, hop.level, hop.forwarder.key))

    def drop(self, address: Address) -> None:
        """It has left: nothing need be confirmed any more."""
        for step in [step for step in self._open.awaited() if step[0] == address]:
            self._end(step, held=False)

    @handles(Held)
    def on_held(self, sender: Address, held: Held) -> None:
        self._end((sender, held.query, held.level, held.place), held=True)

    @handles(Unheld)
    def on_unheld(self, alarm: Unheld) -> None:
        refused: dict[int, Source] = {}
        for step, (hop, left) in self._open.due():
            self._silent(step[0])
            if left:
                self._open.ask(step, (hop, left - 1))
                self.host.send(step[0], hop)
                if REPEATS_MAX - left == REFUSED and self._is_there(step[0], 2 * REPEAT_US):
                    refused[hop.source.query] = hop.source
            else:
                self._count(hop, held=False)
        for source in refused.values():
            self._cast_anew(source)

    def _cast_anew(self, source: Source) -> None:
        """What is still open of a cast of our own is made anew."""
        ending = self._endings.get(source.cast)
        if ending is None or ending.recasts == RECASTS_MAX:
            return
        ending.recasts += 1
        for step in [step for step in self._open.awaited() if step[1] == source.query]:
            self._open.answer(step)
            ending.open -= 1
        self._recast(source)
        self._maybe_settled(source.cast)

    def _end(self, step: Step, held: bool) -> None:
        request = self._open.answer(step)
        if request is not None and self._endings:
            self._count(request[0], held)

    def _count(self, hop: Hop, held: bool) -> None:
        ending = self._endings.get(hop.source.cast)
        if ending is not None:
            ending.open -= 1
            ending.held += held
            ending.silent += not held
            self._maybe_settled(hop.source.cast)

    def _maybe_settled(self, cast: CastId) -> None:
        ending = self._endings[cast]
        if ending.made and not ending.open:
            del self._endings[cast]
            self.host.deliver(Settled(cast, ending.held, ending.silent))
