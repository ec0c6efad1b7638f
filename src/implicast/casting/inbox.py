"""How every member handles a notification, in every design: delivers it at most once, and only if
it fits.

Casts that were seen are remembered (`peer/memory.py`). A cast for which there is no room is refused
(`FULL`): the sender gets no acknowledgement of delivery and repeats it later.
"""

from collections.abc import Callable
from enum import IntEnum

from implicast.language.target import Target
from implicast.peer.contract import CastId
from implicast.peer.events import Notice
from implicast.peer.expiry import (
    DEFAULT_MEMORY_US,
    expiry_of,
    is_expired,
    remembered_until_us,
)
from implicast.peer.member import Fitting
from implicast.peer.memory import Seen
from implicast.peer.policy import UNLIMITED, Policy
from implicast.peer.site import Site


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
    """The publisher did not make this cast."""
    EXPIRED = 8
    """The cast has expired, and the member does not remember it."""
    UNSELECTED = 9
    """The target selects neither the member's description nor its former one: the sender combined
    entries of both. The receipt does not count the member.
    """


class Inbox:
    """Delivers notices to a member's application. `fit`: which of the member's descriptions a
    target selects.
    """

    __slots__ = ("_fit", "_host", "_policy", "_signing", "seen")

    def __init__(
        self,
        site: Site,
        policy: Policy,
        fit: Callable[[Target], Fitting],
    ) -> None:
        self._host, self._signing, self._policy, self._fit = site.host, site.signing, policy, fit
        durable = site.durable_state
        blocks = durable.member.seen_blocks if durable is not None else ()
        self.seen = Seen(blocks, now_us=site.host.now_us if blocks else 0)

    def take(self, cast: CastId, target: Target, carried: bytes) -> Outcome:
        """Deliver a notice unless it was delivered before or the member's newest description does
        not fit.
        """
        return self.admit(cast, target, carried, self._fit(target) is Fitting.PRESENT)

    def _misfit(self, about: object) -> Outcome:
        """Whether the member's former description fitted."""
        if isinstance(about, Target) and self._fit(about) is not Fitting.FORMER:
            return Outcome.UNSELECTED
        return Outcome.UNFIT

    def admit(self, cast: CastId, about: object, carried: bytes, fits: bool) -> Outcome:
        """Deliver a notice that fits, once, before its expiry, if its publisher made the cast.
        `about`: the target, or the description of an event. `carried`: the payload as it was sent.
        """
        seen, signing, policy = self.seen, self._signing, self._policy
        if not fits:
            return Outcome.REPEAT if seen.met(cast) else self._misfit(about)
        now_us, expiry_us = self._host.now_us, expiry_of(carried)
        if is_expired(expiry_us, now_us):
            return Outcome.REPEAT if seen.met(cast) else Outcome.EXPIRED
        opened = signing.verified_payload(cast, about, carried, now_us)
        if opened is None:
            return Outcome.FORGED
        if policy is not UNLIMITED and not seen.met(cast) and not policy.admits(cast, now_us):
            return Outcome.FULL
        until_us = remembered_until_us(expiry_us, now_us, signing.signed)
        if not seen.first(cast, until_us, now_us):
            return Outcome.REPEAT if seen.met(cast) else Outcome.FULL
        is_long = until_us > now_us + DEFAULT_MEMORY_US
        self._host.deliver(Notice(cast, opened, until_us if is_long else 0))
        return Outcome.TAKEN
