"""Gossip of revocation lists between members, without the authority.

A member that learns a newer list sends its number to six contacts at once. Every member also sends
its number to one contact every 15 s, and a member with an older list asks for the newer one. A list
that reached a few members thus reaches all, whatever liars withhold. The authority's signature
makes a list valid whichever peer sends it. An authority that restarted from an old copy of its disk
may issue a list that lacks known revocations: members refuse it and send the authority theirs, so
that it issues a complete one.
"""

from collections.abc import Callable

from implicast.overlay.skip_graph.graph import SkipGraph
from implicast.peer.contract import Address, Host, Message, Part, StandingAlarm, handles
from implicast.peer.fields import Token
from implicast.peer.identity import Revocation, Trust
from implicast.peer.memory import Repeats

PUSHED_TO = 6
"""Contacts that get the number of a new list at once."""
GOSSIP_US = 15_000_000
"""Interval at which one random contact gets the number of our list."""
REPEAT_AFTER_US = 5_000_000
"""Minimum time before the same list is requested again, sent to the same member again, or sent to
the authority again.
"""
SERVED_MAX = 1_024
"""Members remembered with the list they were sent; the oldest is evicted first."""


class NewerList(Message):
    """Sends the authority a revocation list that is newer than its own."""

    wire = 0x0C07
    revocation: Revocation


class ListNumber(Message):
    """Number of the newest revocation list that the sender knows; 0 for none."""

    wire = 0x0C08
    number: Token


class AskList(Message):
    """Asks for the receiver's revocation list if it is newer than this number."""

    wire = 0x0C09
    number: Token


class ListGossipDue(StandingAlarm):
    """Fires when one contact is to be sent the number of our revocation list."""


class RevocationLists(Part):
    """The newest revocation list that one member knows. Calls `refuse(flaw)` for forged lists."""

    __slots__ = ("_asked", "_authority", "_graph", "_refuse", "_served", "_shown_us", "_trust")

    def __init__(
        self,
        address: Address,
        host: Host,
        graph: SkipGraph,
        trust: Trust,
        authority: Address,
        refuse: Callable[[str], None],
    ) -> None:
        super().__init__(address, host)
        self._graph, self._trust, self._authority, self._refuse = graph, trust, authority, refuse
        self._asked = (0, -REPEAT_AFTER_US)  # number of the list requested last, and when
        self._shown_us = -REPEAT_AFTER_US
        # members that were sent a list
        self._served: Repeats[tuple[Address, int]] = Repeats(SERVED_MAX)

    @property
    def number(self) -> int:
        known = self._trust.revocation
        return 0 if known is None else known.number

    def start_gossip(self) -> None:
        """Start the periodic gossip at a random phase."""
        self.host.after(int(GOSSIP_US * self.host.rng.random()), ListGossipDue())

    @handles(Revocation)
    def on_revocation(self, sender: Address, revocation: Revocation) -> None:
        """Take a newer list and gossip it. If the list lacks revocations that we know, or the
        authority sends an older one, send ours to the authority.
        """
        known = self._trust.revocation
        if self._graph.learn_revocation(revocation):
            self._send_number(PUSHED_TO)
        elif known is None or not self._trust.genuine(revocation):
            self._refuse("forged_revocation")
        elif self.host.now_us >= self._shown_us + REPEAT_AFTER_US and (
            revocation.forgets(known)
            or (sender == self._authority and revocation.number < known.number)
        ):
            self._shown_us = self.host.now_us
            self.host.send(self._authority, NewerList(known))

    def _send_number(self, count: int) -> None:
        """Send the number of our list to random contacts."""
        contacts = list(self._graph.places.contact_addresses())
        for address in self.host.rng.sample(contacts, min(count, len(contacts))):
            self.host.send(address, ListNumber(self.number))

    @handles(ListGossipDue)
    def on_list_gossip_due(self, alarm: ListGossipDue) -> None:
        self.host.after(GOSSIP_US, alarm)
        self._send_number(1)

    @handles(ListNumber)
    def on_list_number(self, sender: Address, message: ListNumber) -> None:
        """Ask for a newer list, or reply that ours is newer."""
        now_us = self.host.now_us
        if message.number < self.number:
            self.host.send(sender, ListNumber(self.number))
        elif message.number > self.number and (
            message.number > self._asked[0] or now_us >= self._asked[1] + REPEAT_AFTER_US
        ):
            self._asked = (message.number, now_us)
            self.host.send(sender, AskList(self.number))

    @handles(AskList)
    def on_ask_list(self, sender: Address, request: AskList) -> None:
        """Send our list if it is newer, else its number. A member gets the same list at most once
        in `REPEAT_AFTER_US`; the authority always does.
        """
        known = self._trust.revocation
        if known is None or known.number <= request.number:
            self.host.send(sender, ListNumber(self.number))
            return
        if sender == self._authority or not self._served.came_by(
            (sender, known.number), self.host.now_us, REPEAT_AFTER_US
        ):
            self.host.send(sender, known)
