"""What one node of a linked ring knows, and the small things it does with it.

    OUT --join--> INS --Ack or proof--> IN --leave--> DEL --Ack--> OUT, its life in `graces` for a while
                  INS --Nak--> OUT                    DEL --Nak--> IN

Right pointers are the truth; left pointers are hints that follow, told apart in age by their numbers.
"""

from dataclasses import dataclass

from implicast.overlay.links.messages import GONE, REPLACE, CheckRound, Gone, SetR, SetRAck, SetRNak
from implicast.overlay.links.refs import FIRST, Number, Place, Ref, cut_list
from implicast.overlay.links.settings import LinkSettings
from implicast.peer.contract import Address, Host, Message, Part
from implicast.space.ring import Key

OUT, INS, IN, DEL = "out", "ins", "in", "del"
"""Not a member; own insertion unsettled; member; own deletion unsettled. In INS and DEL `right` is frozen."""

Seen = dict[Ref, tuple[int, SetRAck | SetRNak, int]]
"""Per asker: the operation answered last, the answer, and when. An answer is final: given again, never changed."""


class Above:
    """What the ring tells the overlay that stands on it, and asks of it. Nothing, unless the overlay says otherwise."""

    __slots__ = ()

    def linked(self) -> None:
        """This node has become a member."""

    def unlinked(self) -> None:
        """This node is a member no more, by its own wish."""

    def moved(self) -> None:
        """The left or the right neighbour has changed."""

    def lost(self, ref: Ref) -> None:
        """This node has left: it is no shortcut any more."""

    def nearest_before(self, place: Place) -> Ref | None:
        """The known node nearest before a place on the clockwise way to it; None: the right neighbour will do."""
        return None


@dataclass(slots=True)
class Operation:
    """An own SetR that is not settled."""

    request: SetR
    tried: int = 1


@dataclass(slots=True)
class Grace:
    """What a life that has left still knows: its answers, and who was next to it."""

    seen: Seen
    left: Ref
    right: Ref


@dataclass(slots=True)
class Walk:
    """A look to the left under way: who is asked, from whom it was reached with which number, who comes next."""

    token: int
    at: Ref
    reached_from: tuple[Ref, Number] | None
    rest: list[Ref]
    tried: int = 1
    silent: bool = False


class LinkState(Part):
    """The fields of a node and its manners of speaking."""

    __slots__ = (
        "above",
        "conf",
        "gen",
        "gone",
        "graces",
        "introducers",
        "key",
        "left",
        "lefts",
        "lnum",
        "me",
        "mute",
        "op",
        "pend",
        "right",
        "rnum",
        "seen",
        "settings",
        "state",
        "token",
        "turn",
        "walk",
        "wish_to_leave",
    )

    def __init__(self, address: Address, host: Host, key: Key, settings: LinkSettings) -> None:
        super().__init__(address, host)
        self.settings = settings
        self.above = Above()
        self.key = key
        self.state = OUT
        self.me = Ref(key, address, 0)
        self.seen: Seen = {}
        self.graces: dict[Ref, Grace] = {}
        self.gone: dict[Ref, None] = {}
        self.mute: dict[Ref, int] = {}
        self.introducers: tuple[Address, ...] = ()
        self.op = self.token = self.turn = 0
        self._begin(0)

    def _begin(self, life: int) -> None:
        """A life begins: nothing of an earlier one is known."""
        self.me = Ref(self.key, self.address, life)
        self.left = self.right = self.me
        self.lnum: Number = FIRST
        self.rnum: Number | None = FIRST
        self.conf = True
        self.gen = 0
        self.lefts: tuple[Ref, ...] = ()
        self.seen = {}
        self.pend: Operation | None = None
        self.walk: Walk | None = None
        self.wish_to_leave = False

    # Manners of speaking

    def _say(self, to: Ref, message: Message) -> None:
        """Send; to oneself it is a plain call."""
        if to.address == self.address:
            self._hear(message)
        else:
            self.host.send(to.address, message)

    def _hear(self, message: Message) -> None:
        raise NotImplementedError

    def _later(self, wait_us: int, alarm: Message) -> None:
        self.host.after(int(wait_us * (0.5 + self.host.rng.random())), alarm)

    def _backoff_us(self, tried: int) -> int:
        return min(self.settings.rto_cap_us, self.settings.rto_us << min(tried, 8))

    def _list_for(self, owner: Ref) -> tuple[Ref, ...]:
        return cut_list([self.me, *self.lefts], owner, self.settings.lefts)

    def _answer_for_the_departed(self, request: SetR) -> None:
        """A life that has left gives the answers it gave; to anything new it says that it is gone, and means it."""
        grace = self.graces.get(request.to)
        if grace is None:
            self._say(request.by, Gone(request.by, request.to, request.op))
            return
        known = grace.seen.get(request.by)
        if known is not None and request.op < known[0]:
            return
        if known is None or request.op > known[0]:
            answer = SetRNak(request.by, request.to, request.op, GONE, grace.right, None)
            known = grace.seen[request.by] = (request.op, answer, self.host.now_us)
        self._say(request.by, known[1])

    # Others

    def _is_lost(self, ref: Ref) -> bool:
        """Whether it said that it left, or is suspected."""
        since_us = self.mute.get(ref)
        if since_us is not None and since_us + self.settings.forget_us <= self.host.now_us:
            del self.mute[ref]
            since_us = None
        return since_us is not None or ref in self.gone

    def _note_gone(self, ref: Ref) -> None:
        self.gone[ref] = None
        if len(self.gone) > self.settings.gone_max:
            del self.gone[next(iter(self.gone))]

    def _suspect(self, ref: Ref) -> None:
        self.mute[ref] = self.host.now_us

    def _forgive(self, ref: Ref) -> None:
        """Any word from a suspect ends the suspicion, else two nodes could repair each other in turns without end."""
        if self.mute:
            self.mute.pop(ref, None)

    def _take_left(self, left: Ref, num: Number, lefts: tuple[Ref, ...]) -> None:
        self.left, self.lnum, self.lefts = left, num, lefts
        self.above.moved()

    def _take_right(self, right: Ref, num: Number | None, confirmed: bool) -> None:
        self.right, self.rnum, self.conf = right, num, confirmed
        self.above.moved()

    def _is_busy(self) -> bool:
        """Whether `right` is frozen."""
        return self.state != IN or (self.pend is not None and self.pend.request.kind != REPLACE)

    def _start_checking(self) -> None:
        if self.settings.check_us:
            self._later(self.settings.check_us, CheckRound(self.me.life))
