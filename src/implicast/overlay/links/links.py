"""A node of the doubly linked ring: its neighbours, its life, and the parts that keep them right.

A right pointer changes at one place in one step: the node that holds it compares what the asker believes with what is
(`holder.py`). Without crashes and false suspicions the right pointers of the members form one cycle in key order at
every moment, so every key has exactly one holder while peers join and leave. Messages may be lost, delayed, repeated
and overtaken. Right pointers are the truth; left pointers are hints that follow, told apart in age by their numbers.

    company     what is believed of others                  holder    answers those who want to change a link
    membership  joining, leaving, own requests              walks     looks left: detection and repair
    seeking     places: own one from outside, and those of others

The spec's letters stand in `FIDELITY.md`.
"""

from collections.abc import Mapping

from implicast.overlay.links.above import Above
from implicast.overlay.links.company import Company
from implicast.overlay.links.holder import Holder
from implicast.overlay.links.membership import Membership
from implicast.overlay.links.messages import REPLACE
from implicast.overlay.links.patience import RingPatience
from implicast.overlay.links.refs import FIRST, Number, Ref, cut_list
from implicast.overlay.links.seeking import Seeking
from implicast.overlay.links.settings import LinkSettings
from implicast.overlay.links.state import IN, INS, OUT, Operation
from implicast.overlay.links.walks import Looks
from implicast.peer.contract import Address, Host, Life, Message, Part, decisions

__all__ = ["Above", "Links"]

NEIGHBOURS_KEPT = 8
"""Nodes nearby that are written down for the next life."""


class Links(
    Part, parts={"holder": Holder, "walks": Looks, "seeking": Seeking, "membership": Membership}
):  # fmt: skip
    """One peer's share of the ring. `above` is told of changes and asked for shortcuts (`Above`)."""

    __slots__ = ("above", "company", "conf", "detector", "gen", "holder", "key", "left", "lefts", "lnum", "me",
                 "membership", "overlooked", "patience", "right", "rnum", "seeking", "settings", "state",
                 "walks")  # fmt: skip

    def __init__(
        self, address: Address, host: Host, key: int, settings: LinkSettings, life: Life | None = None,
        neighbours: tuple[Ref, ...] = (),
    ) -> None:  # fmt: skip
        """`life`: the peer's; without one, the clock tells lives apart. `neighbours`: those of an earlier life."""
        super().__init__(address, host)
        self.key, self.settings, self.state = key, settings, OUT
        self.above = Above()
        self.company = Company(address, host, settings, lambda ref: self.above.silent(ref), self.reunite)
        self.detector = self.company.detector
        self.patience = RingPatience(host, settings, self.detector)
        self.holder, self.walks = Holder(self), Looks(self)
        self.seeking, self.membership = Seeking(self), Membership(self, life, neighbours)
        self.me = Ref(key, address, 0)
        self.begin(0)

    def begin(self, life: int) -> None:
        """A life begins: nothing of an earlier one is known."""
        self.state = OUT
        self.me = Ref(self.key, self.address, life)
        self.left = self.right = self.me
        self.lnum: Number = FIRST
        self.rnum: Number | None = FIRST
        self.conf = True
        """Whether the right neighbour is known to have this very link."""
        self.gen = 0
        """The last repair of the own place."""
        self.overlooked = False
        """Whether others have passed this node over since it was last linked in."""
        self.lefts: tuple[Ref, ...] = ()
        self.holder.begin()
        self.walks.stop()
        self.membership.begin()

    # --- verbs

    def carry(self, above: Above) -> None:
        """This overlay stands on the ring."""
        self.above = above

    def move(self, key: int) -> None:
        """Off the ring: stand elsewhere from now on."""
        assert self.state == OUT, f"{self.address} is {self.state} and cannot move"
        self.key = key

    def found_ring(self) -> None:
        """Be the first."""
        self.membership.found_ring()

    def join(self, introducers: tuple[Address, ...]) -> None:
        """Find the own place with the help of members, and link in there. A new life begins."""
        self.membership.join(introducers)

    def leave(self) -> None:
        """The wish stays until it is fulfilled."""
        self.membership.leave()

    def stand(self, left: Ref, right: Ref, lefts: tuple[Ref, ...]) -> None:
        """Be part of a ring that has stood for long: nobody is told, for it is no news. Checks begin at a random
        phase, else all would look at once."""
        self.state = IN
        self.left, self.right, self.lefts = left, right, lefts
        self.lnum = self.rnum = FIRST
        self.walks.begin(least=0.0)
        self.seeking.begin(least=0.0)

    def seek_through(self, introducers: tuple[Address, ...]) -> None:
        """A newcomer is told of further members."""
        self.membership.seek_through(introducers)

    @property
    def introducers(self) -> tuple[Address, ...]:
        """Through whom a newcomer seeks its place; none: it does not want to join."""
        return self.membership.introducers

    @property
    def pend(self) -> Operation | None:
        """The own request that is not settled."""
        return self.membership.pend

    @property
    def missed(self) -> Mapping[Ref, None]:
        """Nodes that fell silent and may only be cut off."""
        return self.company.missed

    def near(self) -> tuple[Ref, ...]:
        """Who stands next to this node, its right neighbour first, for its next life to ask; off the ring, who stood
        next to its last one."""
        near = dict.fromkeys((self.right, *self.above.acquaintances()[:2], self.left, *self.lefts))
        near.pop(self.me, None)
        return tuple(near)[:NEIGHBOURS_KEPT] or self.membership.neighbours

    def heard(self, ref: Ref) -> None:
        """Any word from a node."""
        self.company.heard(ref)

    def reunite(self, ref: Ref) -> None:
        """A node that was missed is there again: look whether it stands on another ring."""
        self.seeking.reunite(ref)

    # --- for the parts

    def say(self, to: Ref, message: Message) -> None:
        """Send; to oneself it is a plain call."""
        if to.address == self.address:
            self.hear(self.address, message)
        else:
            self.host.send(to.address, message)

    def hear(self, sender: Address, message: Message) -> None:
        """Decide on a message of the ring."""
        _DECIDES[type(message)](self, sender, message)

    def list_for(self, owner: Ref) -> tuple[Ref, ...]:
        """This node and those on its left, as `owner` may list them."""
        return cut_list([self.me, *self.lefts], owner, self.settings.lefts)

    def is_busy(self) -> bool:
        """Whether `right` is frozen."""
        pend = self.membership.pend
        return self.state != IN or (pend is not None and pend.request.kind != REPLACE)

    def become(self, state: str) -> None:
        self.state = state

    def expect(self, left: Ref, right: Ref) -> None:
        """Between these two the node wants to be inserted."""
        self.left, self.right, self.rnum = left, right, None

    def take_left(self, left: Ref, num: Number, lefts: tuple[Ref, ...]) -> None:
        self.company.note_met(*reversed(self.lefts), self.left)
        former, is_repair = self.left, num[0] != self.lnum[0]
        self.left, self.lnum, self.lefts = left, num, lefts
        self.above.moved()
        if is_repair and self.state != INS:
            self._repaired()
        if self.detector is not None and self.state == IN:
            self.seeking.introduce(former, left)

    def _repaired(self) -> None:
        """The own place is mended: others are told of it from here on."""
        was_overlooked, self.overlooked = self.overlooked, False
        if was_overlooked:
            self.above.overlooked()
        else:
            self.above.mended()

    def note_overlooked(self) -> None:
        """Another stands where this node should: it has been passed over."""
        self.overlooked = True

    def take_lefts(self, lefts: tuple[Ref, ...]) -> None:
        """The same neighbour, with those to its left as they are now."""
        if lefts != self.lefts:
            self.lefts = lefts
            self.above.surrounded()

    def tell_right(self, message: Message) -> None:
        """Tell the right neighbour; not the former life of this node, which stands there until the ring notices."""
        if self.right.address != self.address:
            self.host.send(self.right.address, message)

    def take_right(self, right: Ref, num: Number | None, confirmed: bool) -> None:
        self.company.note_met(self.right)
        self.right, self.rnum, self.conf = right, num, confirmed
        self.above.moved()

    def confirm(self, num: Number) -> None:
        """The right neighbour has this very link, under this number."""
        self.conf = True
        if not self.is_busy():
            self.rnum = num

    def next_repair(self) -> Number:
        """A number that beats all before."""
        self.gen = max(self.gen, self.lnum[0]) + 1
        return self.gen, 0


_DECIDES, _ = decisions(Links)
