"""The member's side of a cast: receives notifications and acknowledges them."""

from collections.abc import Callable

from implicast.casting.inbox import Outcome
from implicast.casting.notifier import (
    Notify,
    NotifyAck,
    NotifyAgain,
    NotifyAgainAck,
    Receiver,
    acknowledge_nothing,
)
from implicast.language.target import Description, Target
from implicast.peer.contract import Address, CastId, Incarnation, handles
from implicast.peer.member import Fitting
from implicast.peer.memory import Recent
from implicast.peer.policy import UNLIMITED, Policy
from implicast.peer.site import Site
from implicast.space.built import built

_BUILT = built("casting.spice._records")
NOTIFIERS_MAX = 256
"""Maximum number of casts whose notifier is remembered. A repeat of an older cast is counted for no
peer.
"""
DURABLE_NOTIFIERS_MAX = 64
"""Maximum number of notifiers of repeated casts in the durable state. A member that restarts while
a cast is being counted again must not count for a second notifier.
"""
RepeatNotifier = tuple[CastId, Incarnation, Address]
"""Cast, number of its repetition, and the peer that counts the member."""


class SpiceReceiver(Receiver):
    """Delivers each matching cast once and remembers which peer notified it first.

    While a record moves between two holders, a cast may meet it at both, and both notify the
    consumer. Only the first notifier counts the member, however often it repeats; the second one
    receives `Outcome.REPEAT`.
    """

    __slots__ = ("_acknowledges", "_described", "_name", "_notifiers", "_take", "signing")

    def __init__(
        self,
        site: Site,
        policy: Policy,
        fit: Callable[[Target], Fitting],
        described: Callable[[], Description | None],
        repeats: tuple[RepeatNotifier, ...] = (),
    ) -> None:
        """`fit`: which of the member's descriptions a target selects. `described`: the member's
        description. `repeats`: durable state.
        """
        super().__init__(site, policy, fit, acknowledge_nothing)
        self._name, self.signing, self._described = site.name, site.signing, described
        self._acknowledges = site.assured
        is_plain = not (site.assured or site.signing.signed) and policy is UNLIMITED
        self._take = _BUILT.take if is_plain and _BUILT is not None else None
        """The compiled `take`, where nothing is acknowledged, signed or limited. It handles most
        notifications.
        """
        self._notifiers: Recent[tuple[CastId, Incarnation | None], Address] | None = None
        """First notifier by cast and, for repeated casts, by the number of the repetition."""
        for cast, again, by in repeats:
            self._notifier_log()[cast, again] = by

    @handles(Notify, NotifyAgain)
    def on_notify(self, sender: Address, notification: Notify | NotifyAgain) -> None:
        cast, again, by = notification.cast, getattr(notification, "again", None), self._name
        received = (cast, notification.target, notification.payload)
        take, is_counted = self._take, self._acknowledges or again is not None
        if not is_counted and take and take(self.inbox, self.host, self._described(), *received):
            return
        outcome = self.inbox.take(*received)
        if not is_counted:
            return
        if outcome == Outcome.TAKEN:
            self._notifier_log()[cast, None] = sender
        if outcome != Outcome.TAKEN or again is not None:
            outcome = self.outcome_for(sender, cast, again, outcome)
        ack = (
            NotifyAck(cast, by, outcome)
            if again is None
            else NotifyAgainAck(cast, by, outcome, again)
        )
        self.host.send(sender, self.signing.sign_message(ack))

    def outcome_for(
        self, sender: Address, cast: CastId, again: Incarnation | None, outcome: Outcome
    ) -> Outcome:
        """The outcome to report to this notifier. A member counts once in each repetition of a
        cast, also as one that declined it: several terms may find it in several registries.
        """
        if outcome in (Outcome.UNFIT, Outcome.BLOCKED):
            log = self._notifier_log()
            log.once((cast, again), sender)
            return outcome if log[cast, again] == sender else Outcome.UNSELECTED
        if outcome not in (Outcome.TAKEN, Outcome.REPEAT):
            return outcome
        if again is not None:
            self._notifier_log().once((cast, again), sender)
        return (
            Outcome.TAKEN if self._notifier_log().get((cast, again)) == sender else Outcome.REPEAT
        )

    def repeat_notifiers(self) -> tuple[RepeatNotifier, ...]:
        """Notifiers of repeated casts, the newest last, for the durable state."""
        log = self._notifiers.items() if self._notifiers is not None else ()
        repeats = [(cast, again, by) for (cast, again), by in log if again is not None]
        return tuple(repeats[-DURABLE_NOTIFIERS_MAX:])

    def notifier_of(self, cast: CastId) -> Address | None:
        """The peer that notified this cast; None if it is not remembered."""
        return None if self._notifiers is None else self._notifiers.get((cast, None))

    def _notifier_log(self) -> Recent[tuple[CastId, Incarnation | None], Address]:
        if self._notifiers is None:
            self._notifiers = Recent(NOTIFIERS_MAX)
        return self._notifiers
