"""How every member handles a notification, in every design: delivers it at most once, and only if
it fits.

Casts that were seen are remembered (`peer/memory.py`). A cast for which there is no room is refused
(`FULL`): the sender gets no acknowledgement of delivery and repeats it later.
"""

from collections.abc import Iterable
from enum import IntEnum

from implicast.language.target import Target
from implicast.peer.contract import CastId
from implicast.peer.events import Notice
from implicast.peer.member import Member
from implicast.peer.memory import Seen, SeenBlock
from implicast.peer.policy import UNLIMITED


class Outcome(IntEnum):
    """Outcome of a notification at a member."""

    TAKEN = 1
    REPEAT = 2
    """It was delivered before."""
    UNFIT = 3
    """The member's description has changed, and the target does not select it."""
    BLOCKED = 4
    """The member blocks this publisher."""
    FULL = 5
    """The member has no room to remember it, or the publisher exceeds its rate; the sender tries
    again later.
    """
    ELSEWHERE = 6
    """The member took it from another front end, which counts it."""
    FORGED = 7
    """The publisher did not make this cast, or made it too long ago."""


class Inbox:
    """Delivers notices to a member's application."""

    __slots__ = ("_member", "seen")

    def __init__(self, member: Member, seen_blocks: Iterable[SeenBlock] = ()) -> None:
        self._member = member
        self.seen = Seen(seen_blocks)

    def take(self, cast: CastId, target: Target, payload: bytes) -> Outcome:
        """Deliver a notice unless it was delivered before or the member's newest description does
        not fit.
        """
        description = self._member.description
        return self.admit(
            cast, target, payload, description is not None and target.selects(description)
        )

    def admit(self, cast: CastId, about: object, payload: bytes, fits: bool) -> Outcome:
        """Deliver a notice that fits, once, if its publisher made the cast. `about`: the target, or
        the description of an event.
        """
        member, seen = self._member, self.seen
        if not fits:
            return Outcome.REPEAT if seen.met(cast) else Outcome.UNFIT
        opened = member.signing.verified_payload(cast, about, payload)
        if opened is None:
            return Outcome.FORGED
        now_us, policy = member.host.now_us, member.policy
        if policy is not UNLIMITED and not seen.met(cast) and not policy.admits(cast, now_us):
            return Outcome.FULL
        if not seen.first(cast, now_us):
            return Outcome.REPEAT if seen.met(cast) else Outcome.FULL
        member.host.deliver(Notice(cast, opened))
        return Outcome.TAKEN
