"""A member's side of a cast: taken once, and confirmed to the peer that told it first as taken, however often it asks.

A record may be met at two peers while it moves from one to the other, and both tell its consumer. Only the first of
them may count it: to the second the member says that it was told before.
"""

from implicast.casting.inbox import Outcome
from implicast.casting.telling import Got, Hearing, Notify
from implicast.peer.contract import Address, CastId, handles
from implicast.peer.member import Member
from implicast.peer.memory import HeardBlock, Recent

TOLD_MAX = 256
"""Casts lately taken of which it is known who told them; of older ones a repeat counts for no peer."""


class Ears(Hearing):
    """Takes what fits, once, and remembers for a while who told it."""

    __slots__ = ("_told",)

    def __init__(self, member: Member, heard: tuple[HeardBlock, ...] = ()) -> None:
        super().__init__(member, heard)
        self._told: Recent[CastId, Address] | None = None

    @handles(Notify)
    def on_notify(self, sender: Address, notify: Notify) -> None:
        outcome = self.inbox.take(notify.cast, notify.target, notify.payload)
        if self.member.assured:
            got = Got(notify.cast, self.member.name, self._as_heard(sender, notify.cast, outcome))
            self.host.send(sender, self.member.words.say(got))

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
