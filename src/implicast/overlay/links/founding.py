"""Founding: members that restart together found the ring again from what they remember.

After a power cut every node looks its place up through nodes that are looking theirs up too. A node
that is joining and cannot forward a lookup says so (`NotOnRing`). A node that was a member before
its restart, has found no member for `FOUND_US`, and is the least of all nodes that said so lately
becomes a ring of one. The others join it. Nodes that know different peers may found several rings;
these merge like the rings of a partition. Newcomers, which remember no ring, wait longer, and found
one only if no former member is waiting: all members that they were told of may have failed.

A node that hears no answer at all does not found a ring: the others may be cut off, and it would
confirm registrations that no other node can find.
"""

from collections.abc import Callable

from implicast.overlay.links.messages import NotOnRing
from implicast.overlay.links.refs import Ref
from implicast.peer.contract import Address, Host, Part, handles
from implicast.peer.memory import Recent

FOUND_US = 5_000_000
"""Time without finding a member after which a restarted node may found a ring."""
FOUND_WITHOUT_US = 15_000_000
"""The same while some of the nodes that it knows have not answered: they may start later, and fewer
rings are founded if it waits for them.
"""
FOUND_NEW_US = 30_000_000
"""The same for a newcomer: longer than members take to start again and found a ring."""
ANSWER_US = 8_000_000
"""How long an answer counts. A joining node asks each of its introducers within this time."""
WAITING_MAX = 64
"""Joining nodes that are remembered."""


class Founding(Part):
    """The nodes known to be waiting for a ring, and the decision which of them founds it."""

    __slots__ = ("_began_us", "_me", "_waiting")

    def __init__(self, address: Address, host: Host, me: Callable[[], Ref]) -> None:
        """`me()`: the own reference in its present incarnation."""
        super().__init__(address, host)
        self._me, self._began_us = me, 0
        self._waiting: Recent[Ref, tuple[int, bool]] = Recent(WAITING_MAX)
        """By joining node, when it last answered, and whether it is new."""

    def begin(self) -> None:
        """The node starts to look its place up."""
        self._began_us = self.host.now_us
        self._waiting.clear()

    @handles(NotOnRing)
    def on_not_on_ring(self, sender: Address, answer: NotOnRing) -> None:
        if answer.to == self._me():
            self._waiting.put(answer.by, (self.host.now_us, answer.is_new))

    def is_due(self, known: tuple[Address, ...], is_new: bool = False) -> bool:
        """Whether this node founds a ring now; `known`: the nodes that it asks; `is_new`: it
        remembers no ring.
        """
        now_us, me = self.host.now_us, self._me()
        waiting = {
            ref: other_is_new
            for ref, (at_us, other_is_new) in self._waiting.items()
            if at_us >= now_us - ANSWER_US
        }
        are_all_back = {*known} <= {ref.address for ref in waiting}
        wait_us = FOUND_NEW_US if is_new else FOUND_US if are_all_back else FOUND_WITHOUT_US
        return (
            now_us - self._began_us >= wait_us
            and bool(waiting)
            and all(
                is_new < other_is_new
                or (
                    is_new == other_is_new
                    and (me.place, me.incarnation) < (ref.place, ref.incarnation)
                )
                for ref, other_is_new in waiting.items()
            )
        )
