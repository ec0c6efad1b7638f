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

from implicast.overlay.links.above import Above
from implicast.overlay.links.company import Company
from implicast.overlay.links.holder import Holder
from implicast.overlay.links.membership import Membership
from implicast.overlay.links.messages import REPLACE, LinkRound, MergeRound
from implicast.overlay.links.refs import FIRST, Number, Ref, cut_list
from implicast.overlay.links.seeking import Seeking
from implicast.overlay.links.settings import LinkSettings
from implicast.overlay.links.state import IN, INS, OUT
from implicast.overlay.links.walks import Looks
from implicast.peer.contract import Address, Host, Life, Message, Part, decisions

__all__ = ["Above", "Links"]

NEIGHBOURS_KEPT = 8
"""Nodes nearby that are written down for the next life."""


class Links(Part, parts={"holder": Holder, "walks": Looks, "seeking": Seeking, "membership": Membership}):
    """One peer's share of the ring. `above` is told of changes and asked for shortcuts (`Above`)."""

    __slots__ = ("above", "company", "conf", "detector", "gen", "holder", "key", "left", "lefts", "lnum", "me",
                 "membership", "overlooked", "right", "rnum", "seeking", "settings", "state", "walks")  # fmt: skip

    def __init__(
        self, address: Address, host: Host, key: int, settings: LinkSettings, life: Life | None = None,
        neighbours: tuple[Ref, ...] = (),
    ) -> None:  # fmt: skip
        """`life`: the peer's; without one, the clock tells lives apart. `neighbours`: those of an earlier life."""
        super().__init__(address, host)
        self.key, self.settings, self.state = key, settings, OUT
        self.above = Above()
        self.company = Company(self)
        self.detector = self.company.detector
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

    def join(self, introducers: tuple[Address, ...]) -> None:
        """Find the own place with the help of members, and link in there; none: be the first. A new life begins."""
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
        self.watch(least=0.0)

    def watch(self, least: float = 0.5) -> None:
        """Look once per period from now on, to the left and from outside; the first time after so much of one at
        least."""
        for period_us, kind in ((self.settings.check_us, LinkRound), (self.settings.merge_us, MergeRound)):
            if period_us:
                self.later(period_us, kind(self.me.life), least)

    def near(self) -> tuple[Ref, ...]:
        """Who stands next to this node, its right neighbour first, for its next life to ask; off the ring, who stood
        next to its last one."""
        near = dict.fromkeys((self.right, *self.above.acquaintances()[:2], self.left, *self.lefts))
        near.pop(self.me, None)
        return tuple(near)[:NEIGHBOURS_KEPT] or self.membership.neighbours

    def heard(self, ref: Ref) -> None:
        """Any word from a node."""
        self.company.heard(ref)

    # --- for the parts

    def later(self, wait_us: int, alarm: Message, least: float = 0.5) -> int:
        """Ring after about so long: after so much of it at least, and at most as much and once the whole."""
        wait_us = int(wait_us * (least + self.host.rng.random()))
        self.host.after(wait_us, alarm)
        return wait_us

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
        self.state, self.left, self.right, self.rnum = INS, left, right, None

    def take_left(self, left: Ref, num: Number, lefts: tuple[Ref, ...]) -> None:
        self.company.note_met(*reversed(self.lefts), self.left)
        former, is_repair = self.left, num[0] != self.lnum[0]
        self.left, self.lnum, self.lefts = left, num, lefts
        self.above.moved()
        if is_repair and self.state != INS:  # the own place is mended: others are told of it from here on
            was_overlooked, self.overlooked = self.overlooked, False
            (self.above.overlooked if was_overlooked else self.above.mended)()
        if self.detector is not None and self.state == IN:
            self.seeking.introduce(former, left)

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

    def next_repair(self, overlooked: bool) -> Number:
        """A number that beats all before; and whether another stands where this node should: it was passed over."""
        self.overlooked = self.overlooked or overlooked
        self.gen = max(self.gen, self.lnum[0]) + 1
        return self.gen, 0


_DECIDES, _ = decisions(Links)
