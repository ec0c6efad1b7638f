"""What every member does with a notification, whatever the design: at most once, and only what fits.

What was heard is remembered (`peer/memory.py`). Where there is no room for more a cast is refused (`FULL`): the sender
is not told that it was taken, and says it again later.
"""

from collections.abc import Iterable
from enum import IntEnum

from implicast.language.target import Target
from implicast.peer.contract import CastId
from implicast.peer.events import Notice
from implicast.peer.member import Member
from implicast.peer.memory import HeardBlock, Seen
from implicast.peer.policy import FREE


class Outcome(IntEnum):
    """What became of a notification at a member."""

    TAKEN = 1
    REPEAT = 2
    """It was taken before."""
    UNFIT = 3
    """The member has described itself anew, and the target does not select it any more."""
    BLOCKED = 4
    """The member does not want to hear from this publisher."""
    FULL = 5
    """The member has no room: say it again later."""
    ELSEWHERE = 6
    """The member took it from another station, and counts there."""
    FORGED = 7
    """The publisher did not cast this, or too long ago."""


class Inbox:
    """Guards a member's notices."""

    __slots__ = ("_member", "seen")

    def __init__(self, member: Member, heard: Iterable[HeardBlock] = ()) -> None:
        self._member = member
        self.seen = Seen(heard)

    def take(self, cast: CastId, target: Target, payload: bytes) -> Outcome:
        """Deliver a notice unless it has been delivered before or the member's newest description does not fit."""
        description = self._member.description
        return self.admit(
            cast, target, payload, description is not None and target.selects(description)
        )

    def admit(self, cast: CastId, about: object, payload: bytes, fits: bool) -> Outcome:
        """Deliver a notice that fits, once, if its publisher cast it; `about`: the target, or what happened."""
        member, seen = self._member, self.seen
        if not fits:
            return Outcome.REPEAT if seen.met(cast) else Outcome.UNFIT
        opened = member.words.opened(cast, about, payload)
        if opened is None:
            return Outcome.FORGED
        now_us, policy = member.host.now_us, member.policy
        if policy is not FREE and not seen.met(cast) and not policy.admits(cast, now_us):
            return Outcome.FULL
        if not seen.first(cast, now_us):
            return Outcome.REPEAT if seen.met(cast) else Outcome.FULL
        member.host.deliver(Notice(cast, opened))
        return Outcome.TAKEN
