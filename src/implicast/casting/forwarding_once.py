"""Forwarding without receipts: Listing 2 of the thesis (`handle_cast`)."""

from collections.abc import Sequence

from implicast.casting.central_subscriptions import EventNotify
from implicast.casting.forwarding import ForwardingTable, Hop
from implicast.casting.notifier import Notify, UncountedNotifier
from implicast.peer.contract import Address, Contact


class ForwardingOnce(ForwardingTable):
    """Forwards each cast once and counts nothing, as in Listing 2 of the thesis (`handle_cast`):
    to the own selected clients, and to all matching neighbours except the one it came from.
    Estimates are counted as by its base.
    """

    __slots__ = ()
    notifying_by = UncountedNotifier

    def _forward(self, requester: Address, client: bool, hop: Hop) -> None:
        if hop.dry:
            super()._forward(requester, client, hop)
        elif not self._seen.met(hop.cast) and self._notify_own(hop):
            sides = [each for each in self._backbone.neighbours if each != requester]
            for neighbour, onward in self._onward(hop, sides).items():
                self.host.send(neighbour, onward)

    def _start_notifying(
        self, notification: Notify | EventNotify, members: Sequence[Contact]
    ) -> None:
        self.notifier.notify_members(notification, members)
