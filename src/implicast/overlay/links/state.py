"""What one node of a linked ring knows, and the small things it does with it.

    OUT --join--> INS --Ack or proof--> IN --leave--> DEL --Ack--> OUT, its life in `graces` for a while
                  INS --Nak--> OUT                    DEL --Nak--> IN

Right pointers are the truth; left pointers are hints that follow, told apart in age by their numbers.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from implicast.overlay.detector import Detector, DetectorSettings
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

    def surrounded(self) -> None:
        """Those beyond the left neighbour have changed."""

    def lost(self, ref: Ref) -> None:
        """This node has left: it is no shortcut any more."""

    def silent(self, ref: Ref) -> None:
        """This node is suspected: take another way while `detector.is_suspect(ref)`, for it may only be slow."""

    def acquaintances(self) -> Sequence[Ref]:
        """Further nodes that are known, in any order: those through whom a ring that fell apart finds itself again."""
        return ()

    def nearest_before(self, place: Place) -> Ref | None:
        """The known node nearest before a place on the clockwise way to it; None: the right neighbour will do."""
        return None


@dataclass(slots=True, kw_only=True)
class Attempts:
    """How often something was asked, when it should have been answered, how often the alarm itself rang late.
    `health` is the observer's when it began: else a single death would make it slow to find that very death."""

    tried: int = 1
    health: int = 0
    late: int = 0
    since_us: int = 0
    due_us: int = 0


@dataclass(slots=True)
class Operation(Attempts):
    """An own SetR that is not settled."""

    request: SetR


@dataclass(slots=True)
class Grace:
    """What a life that has left still knows: its answers, and who was next to it."""

    seen: Seen
    left: Ref
    right: Ref


@dataclass(slots=True)
class Walk(Attempts):
    """A look to the left under way: who is asked, from whom it was reached with which number, who comes next, and
    who of these has shown that it lives."""

    token: int
    at: Ref
    reached_from: tuple[Ref, Number] | None
    rest: list[Ref]
    living: list[Ref]


class LinkState(Part):
    """The fields of a node and its manners of speaking."""

    __slots__ = (
        "above",
        "conf",
        "detector",
        "gen",
        "gone",
        "graces",
        "hint",
        "introducers",
        "key",
        "leave_by_us",
        "left",
        "lefts",
        "lnum",
        "me",
        "met",
        "missed",
        "op",
        "passed",
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
        self.missed: dict[Ref, None] = {}
        """Nodes that fell silent; they are asked now and then, in case they are only cut off."""
        self.met: dict[Ref, None] = {}
        """Former neighbours that did not say they left: who ended alone on its ring knows whom to ask."""
        self.passed: dict[Message, int] = {}
        """Questions of seekers that came by."""
        self.detector = self._detector()
        """None in a world without crashes, where nobody is ever suspected. Overlays above share it."""
        self.introducers: tuple[Address, ...] = ()
        self.op = self.token = self.turn = self.leave_by_us = 0
        self._begin(0)

    def _detector(self) -> Detector[Ref] | None:
        settings = self.settings
        if not settings.tries:
            return None
        patience = DetectorSettings(
            rto_us=settings.rto_us, rto_cap_us=settings.rto_cap_us, tries=settings.tries,
            health_max=settings.health_max, forget_us=settings.forget_us,
        )  # fmt: skip
        return Detector(self.address, self.host, patience, self._fell_silent, lambda ref: ref.address)

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
        self.hint: Ref | None = None
        """Somebody to look from at the next occasion."""

    # Manners of speaking

    def _say(self, to: Ref, message: Message) -> None:
        """Send; to oneself it is a plain call."""
        if to.address == self.address:
            self._hear(message)
        else:
            self.host.send(to.address, message)

    @abstractmethod
    def _hear(self, message: Message) -> None:
        """What this node says to itself."""

    def _later(self, wait_us: int, alarm: Message) -> int:
        wait_us = int(wait_us * (0.5 + self.host.rng.random()))
        self.host.after(wait_us, alarm)
        return wait_us

    def _backoff_us(self, tried: int) -> int:
        return min(self.settings.rto_cap_us, self.settings.rto_us << min(tried, 8))

    # Patience

    def _begin_waiting(self, attempts: Attempts, alarm: Message) -> None:
        attempts.health = self.detector.health if self.detector else 0
        wait_us = self.settings.rto_us * (1 + attempts.health)
        attempts.since_us, attempts.due_us = self.host.now_us, self.host.now_us + wait_us
        self.host.after(wait_us, alarm)

    def _wait_on(self, attempts: Attempts, alarm: Message) -> None:
        wait_us = self._later(self._backoff_us(attempts.tried) * (1 + attempts.health), alarm)
        attempts.due_us = self.host.now_us + wait_us

    def _is_spent(self, attempts: Attempts, ref: Ref) -> bool:
        """An attempt stayed unanswered: whether patience is over with this node. An alarm that rings late says that
        this node slept, not the other: that attempt does not count. Nor is anybody dead who was heard meanwhile."""
        detector, now_us = self.detector, self.host.now_us
        if detector is None:
            attempts.tried += 1
            return False
        is_late = now_us - attempts.due_us > self.settings.rto_us // 2
        if attempts.tried == 1 or is_late:  # silent nodes count, not attempts: else one death would take health away
            detector.ail()
        if is_late and attempts.late < self.settings.tries:
            attempts.late += 1
            return False
        silent_us = detector.silent_for_us(ref)
        heard = silent_us is not None and now_us - silent_us > attempts.since_us
        if attempts.tried >= self.settings.tries * (2 if heard else 1):
            return True
        attempts.tried += 1
        return False

    def _answered(self, attempts: Attempts) -> None:
        if self.detector is not None and attempts.tried == 1 and not attempts.late:
            self.detector.ease()

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
        return ref in self.gone or (self.detector is not None and self.detector.is_suspect(ref))

    def _is_surely_lost(self, ref: Ref) -> bool:
        """Lost by its own word or by fresh evidence. Old suspicions are tried again before a node is passed over: after
        a partition one suspects everybody on the other side."""
        detector = self.detector
        return ref in self.gone or (detector is not None and detector.suspected_within(ref, self.settings.fresh_us))

    def _note_gone(self, ref: Ref) -> None:
        self.gone[ref] = None
        if len(self.gone) > self.settings.gone_max:
            del self.gone[next(iter(self.gone))]
        self.missed.pop(ref, None)
        self.met.pop(ref, None)
        if self.detector is not None:
            self.detector.say_gone(ref)

    def _suspect(self, ref: Ref) -> None:
        if self.detector is not None:
            self.detector.suspect(ref)

    def _fell_silent(self, ref: Ref) -> None:
        """A suspicion arose, here or in what stands on this ring."""
        self._keep_in_mind(self.missed, ref)
        self.above.silent(ref)

    def _keep_in_mind(self, memory: dict[Ref, None], ref: Ref) -> None:
        if ref.address != self.address and ref not in self.gone:
            memory.pop(ref, None)
            memory[ref] = None
            if len(memory) > self.settings.missed_max:
                del memory[next(iter(memory))]

    def heard(self, ref: Ref) -> None:
        """Any word from a suspect ends the suspicion, else two nodes could repair each other in turns without end.
        Whoever was missed may have been on the other side of a partition, with a ring of its own."""
        if self.detector is None or ref.address == self.address:
            return
        self.detector.heard(ref)
        if ref in self.missed:
            del self.missed[ref]
            self.reunite(ref)

    @abstractmethod
    def introduce(self, former: Ref, left: Ref) -> None:
        """Two nodes on the left may not know each other."""

    @abstractmethod
    def reunite(self, ref: Ref) -> None:
        """A node that was missed is there again: look whether it stands on another ring."""

    def _take_left(self, left: Ref, num: Number, lefts: tuple[Ref, ...]) -> None:
        if self.detector is not None:
            for ref in (*reversed(self.lefts), self.left):
                self._keep_in_mind(self.met, ref)
        former = self.left
        self.left, self.lnum, self.lefts = left, num, lefts
        self.above.moved()
        if self.detector is not None and self.state == IN:
            self.introduce(former, left)

    def _take_lefts(self, lefts: tuple[Ref, ...]) -> None:
        """The same neighbour, with those to its left as they are now."""
        if lefts != self.lefts:
            self.lefts = lefts
            self.above.surrounded()

    def _take_right(self, right: Ref, num: Number | None, confirmed: bool) -> None:
        if self.detector is not None:
            self._keep_in_mind(self.met, self.right)
        self.right, self.rnum, self.conf = right, num, confirmed
        self.above.moved()

    def _is_busy(self) -> bool:
        """Whether `right` is frozen."""
        return self.state != IN or (self.pend is not None and self.pend.request.kind != REPLACE)

    def _start_checking(self) -> None:
        if self.settings.check_us:
            self._later(self.settings.check_us, CheckRound(self.me.life))
