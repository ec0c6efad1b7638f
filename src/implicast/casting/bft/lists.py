"""How lists of what counts no more get around: by gossip between members, without the authority.

Who learns a newer list tells a few of its contacts the number at once, and everybody compares numbers with one of its
contacts every now and then; who has an older list asks for the newer. So a list that reached a few members reaches all,
whatever liars keep back. A list counts by the authority's signature, whoever passes it on. One that an authority made
from an old copy of its disk, not knowing what we know, is not taken: the authority is shown ours, and makes another.
"""

from collections.abc import Callable

from implicast.casting.bft.messages import AskList, ListNumber, Outstripped, TellList
from implicast.overlay.skip_graph.graph import SkipGraph
from implicast.peer.contract import Address, Host, Part, handles
from implicast.peer.identity import Revocation, Trust
from implicast.peer.memory import Repeats

TOLD_AT_ONCE = 6
"""Contacts that are told of a new list at once."""
TELL_US = 15_000_000
"""How often one contact is told the number of our list: who has a newer one says so."""
AGAIN_US = 5_000_000
"""The same list is asked of anybody, sent to one member, and shown to the authority, only once in this time."""
SERVED_MAX = 1_024
"""Members that were sent a list and are remembered; the first served are forgotten first."""


class RevocationLists(Part):
    """The newest list that one member knows. `refuse(flaw)` is told of lists that are none."""

    __slots__ = ("_asked", "_graph", "_office", "_refuse", "_served", "_shown_us", "_trust")

    def __init__(
        self,
        address: Address,
        host: Host,
        graph: SkipGraph,
        trust: Trust,
        office: Address,
        refuse: Callable[[str], None],
    ) -> None:
        super().__init__(address, host)
        self._graph, self._trust, self._office, self._refuse = graph, trust, office, refuse
        self._asked = (0, -AGAIN_US)  # which list was asked for, and when
        self._shown_us = -AGAIN_US
        self._served: Repeats[tuple[Address, int]] = Repeats(SERVED_MAX)  # who was sent which list

    @property
    def number(self) -> int:
        known = self._trust.revocation
        return 0 if known is None else known.number

    def begin(self) -> None:
        """Compare numbers from now on."""
        self.host.after(int(TELL_US * self.host.rng.random()), TellList())

    @handles(Revocation)
    def on_revocation(self, sender: Address, revocation: Revocation) -> None:
        """A list came, from the authority or from a member."""
        known = self._trust.revocation
        if self._graph.learn(revocation):
            self._tell(TOLD_AT_ONCE)
        elif known is None or not self._trust.genuine(revocation):
            self._refuse("forged_revocation")
        elif self.host.now_us >= self._shown_us + AGAIN_US and (
            revocation.forgets(known)
            or (sender == self._office and revocation.number < known.number)
        ):
            self._shown_us = self.host.now_us
            self.host.send(self._office, Outstripped(known))

    def _tell(self, count: int) -> None:
        """Some contacts, drawn by lot, which list we have."""
        contacts = list(self._graph.places.contact_addresses())
        for address in self.host.rng.sample(contacts, min(count, len(contacts))):
            self.host.send(address, ListNumber(self.number))

    @handles(TellList)
    def on_tell_list(self, alarm: TellList) -> None:
        self.host.after(TELL_US, alarm)
        self._tell(1)

    @handles(ListNumber)
    def on_list_number(self, sender: Address, told: ListNumber) -> None:
        """Ask for a newer one, or say that ours is newer."""
        now_us = self.host.now_us
        if told.number < self.number:
            self.host.send(sender, ListNumber(self.number))
        elif told.number > self.number and (
            told.number > self._asked[0] or now_us >= self._asked[1] + AGAIN_US
        ):
            self._asked = (told.number, now_us)
            self.host.send(sender, AskList(self.number))

    @handles(AskList)
    def on_ask_list(self, sender: Address, asked: AskList) -> None:
        """Send ours if it is newer; the authority is told its number in any case."""
        known = self._trust.revocation
        if known is None or known.number <= asked.number:
            self.host.send(sender, ListNumber(self.number))
            return
        if sender == self._office or not self._served.came_by(
            (sender, known.number), self.host.now_us, AGAIN_US
        ):
            self.host.send(sender, known)
