"""The nodes through which a joining node looks its place up, and when it founds a ring itself.

After a power cut every node looks its place up through nodes that are looking theirs up too. A node
that is joining and cannot forward a lookup says so (`NotOnRing`). A node that was a member before
its restart, has found no member for `FOUND_US`, and is the least of all nodes that said so lately
becomes a ring of one. The others join it. Nodes that know different peers may found several rings;
these merge like the rings of a partition. Newcomers, which remember no ring, wait longer, and found
one only if no former member is waiting: all members that they were told of may have failed.

A node that hears no answer at all does not found a ring: the others may be cut off, and it would
confirm registrations that no other node can find. In a world without crashes no node says that it
waits, so none founds a ring.
"""

from collections.abc import Iterable

from implicast.overlay.links.messages import NotOnRing
from implicast.overlay.links.position import Position
from implicast.overlay.links.refs import Ref
from implicast.peer.contract import Address, Host, Part, handles
from implicast.peer.memory import Recent

INTRODUCERS_MAX = 24
"""Members through which a joining node looks its place up."""
INTRODUCERS_KEPT = 8
"""Of these, those known first are kept when others are added."""
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


class Introducers(Part):
    """The introducers of a joining node, those of its last join, and the nodes known to be waiting
    for a ring.
    """

    __slots__ = ("_began_us", "_position", "_waiting", "addresses", "former", "joined_through")

    def __init__(self, position: Position, host: Host, former: tuple[Ref, ...]) -> None:
        """`former`: the neighbours of an earlier incarnation of the peer."""
        super().__init__(position.address, host)
        self._position, self.former = position, former
        self.addresses: tuple[Address, ...] = ()
        """Members through which to look the own place up; empty: the node is not joining."""
        self.joined_through: tuple[Address, ...] = ()
        """The introducers of the last join."""
        self._began_us = 0
        self._waiting: Recent[Ref, tuple[int, bool]] = Recent(WAITING_MAX)
        """By joining node, when it last answered, and whether it is new."""

    @property
    def is_new(self) -> bool:
        """Whether this node remembers no ring."""
        return not self.former

    def others(self, refs: Iterable[Ref]) -> list[Address]:
        """The addresses of these nodes but the own one."""
        return [ref.address for ref in refs if ref.address != self.address]

    def begin(self, introducers: tuple[Address, ...]) -> bool:
        """The node starts to look its place up, through these and the former neighbours, because
        the introducers may all have left. False: it knows no other node.
        """
        self.set_addresses(tuple(dict.fromkeys((*introducers, *self.others(self.former)))))
        self._began_us = self.host.now_us
        self._waiting.clear()
        return bool(self.addresses)

    def set_addresses(self, introducers: tuple[Address, ...]) -> None:
        """Look the own place up through these."""
        self.addresses = introducers[:INTRODUCERS_MAX]

    def add(self, refs: Iterable[Ref]) -> None:
        """Look the own place up through these nodes too, if it is being looked up."""
        if self.addresses:
            known = tuple(dict.fromkeys((*self.addresses, *self.others(refs))))
            first, others = known[:INTRODUCERS_KEPT], known[INTRODUCERS_KEPT:]
            self.addresses = (*first, *others[INTRODUCERS_KEPT - INTRODUCERS_MAX :])

    def add_surely(self, ref: Ref) -> None:
        """Look the own place up through this node too, in place of the last one if need be."""
        if ref.address not in (self.address, *self.addresses):
            self.addresses = (*self.addresses[: INTRODUCERS_MAX - 1], ref.address)

    def set_joined(self) -> None:
        """The node has become a member."""
        self.joined_through, self.addresses = self.addresses, ()

    def give_up(self) -> None:
        """The node stays off the ring."""
        self.addresses = ()

    # --- founding

    @handles(NotOnRing)
    def on_not_on_ring(self, sender: Address, answer: NotOnRing) -> None:
        if answer.to == self._position.me:
            self._waiting.put(answer.by, (self.host.now_us, answer.is_new))

    def is_founding_due(self) -> bool:
        """Whether this node founds a ring now."""
        now_us, is_new, me = self.host.now_us, self.is_new, self._position.me
        waiting = {
            ref: other_is_new
            for ref, (at_us, other_is_new) in self._waiting.items()
            if at_us >= now_us - ANSWER_US
        }
        are_all_back = {*self.addresses} <= {ref.address for ref in waiting}
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
