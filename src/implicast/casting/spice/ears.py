"""A member's side of a cast: taken once, and confirmed to the peer that told it first as taken, however often it asks.

A record may be met at two peers while it moves from one to the other, and both tell its consumer. Only the first of
them may count it: to the second the member says that it was told before.
"""

from implicast.casting.inbox import Outcome
from implicast.casting.telling import Got, GotAgain, Hearing, Notify, NotifyAgain
from implicast.peer.contract import Address, CastId, Life, handles
from implicast.peer.member import Member
from implicast.peer.memory import HORIZON_US, HeardBlock, Recent, place_of
from implicast.peer.policy import FREE
from implicast.space.built import built

_BUILT = built("casting.spice._records")
TOLD_MAX = 256
"""Casts lately taken of which it is known who told them; of older ones a repeat counts for no peer."""


class Ears(Hearing):
    """Takes what fits, once, and remembers for a while who told it."""

    __slots__ = ("_again", "_is_plain", "_told")

    def __init__(self, member: Member, heard: tuple[HeardBlock, ...] = ()) -> None:
        super().__init__(member, heard)
        self._told: Recent[CastId, Address] | None = None
        self._again: Recent[tuple[CastId, Life], Address] | None = None
        """Casts that were carried on: who told them first in which life of their publishers."""
        self._is_plain = _BUILT is not None and not (member.assured or member.words.signed) and member.policy is FREE
        """Is nothing confirmed and nothing checked? Then what can be taken is, by compiled code (`Inbox.take`)."""

    @handles(Notify)
    def on_notify(self, sender: Address, notify: Notify) -> None:
        if self._is_plain and _BUILT.take(
            self.inbox, self.member, notify.cast, notify.target, notify.payload, place_of, HORIZON_US
        ):
            return
        outcome = self.inbox.take(notify.cast, notify.target, notify.payload)
        if self.member.assured:
            got = Got(notify.cast, self.member.name, self._as_heard(sender, notify.cast, outcome))
            self.host.send(sender, self.member.words.say(got))

    @handles(NotifyAgain)
    def on_notify_again(self, sender: Address, notify: NotifyAgain) -> None:
        cast, again, by = notify.cast, notify.again, self.member.name
        heard = self.inbox.take(cast, notify.target, notify.payload)
        if heard == Outcome.TAKEN:
            self._as_heard(sender, cast, heard)
        got = GotAgain(cast, by, self.heard_again(sender, cast, again, heard), again)
        self.host.send(sender, self.member.words.say(got))

    def heard_again(self, sender: Address, cast: CastId, again: Life, outcome: Outcome) -> Outcome:
        """What became of it, for the publisher's life `again`: whoever has it counts there once."""
        if outcome not in (Outcome.TAKEN, Outcome.REPEAT):
            return outcome
        if self._again is None:
            self._again = Recent(TOLD_MAX)
        self._again.once((cast, again), sender)
        return Outcome.TAKEN if self._again[cast, again] == sender else Outcome.REPEAT

    def teller(self, cast: CastId) -> Address | None:
        """Who told of this cast; None: that is not known any more."""
        return None if self._told is None else self._told.get(cast)

    def _as_heard(self, sender: Address, cast: CastId, outcome: Outcome) -> Outcome:
        if self._told is None:
            self._told = Recent(TOLD_MAX)
        if outcome == Outcome.TAKEN:
            self._told[cast] = sender
        elif outcome == Outcome.REPEAT and self._told.get(cast) == sender:
            return Outcome.TAKEN
        return outcome
