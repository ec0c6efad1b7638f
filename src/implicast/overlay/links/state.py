"""What one node of a linked ring knows, and the small things it does with it.

    OUT --join--> INS --Ack or proof--> IN --leave--> DEL --Ack--> OUT, its life in `graces` for a while
                  INS --Nak--> OUT                    DEL --Nak--> IN

Right pointers are the truth; left pointers are hints that follow, told apart in age by their numbers.
"""

from abc import abstractmethod
from dataclasses import dataclass

from implicast.overlay.detector import Detector, DetectorSettings
from implicast.overlay.links.above import Above
from implicast.overlay.links.messages import GONE, REPLACE, CheckRound, Gone, SetR, SetRAck, SetRNak
from implicast.overlay.links.patience import Attempts, Patient
from implicast.overlay.links.refs import FIRST, Number, Ref, cut_list
from implicast.overlay.links.settings import LinkSettings
from implicast.peer.contract import Address, Host, Message
from implicast.space.ring import Key

OUT, INS, IN, DEL = "out", "ins", "in", "del"
"""Not a member; own insertion unsettled; member; own deletion unsettled. In INS and DEL `right` is frozen."""

Seen = dict[Ref, tuple[int, SetRAck | SetRNak, int]]
"""Per asker: the operation answered last, the answer, and when. An answer is final: given again, never changed."""


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


class LinkState(Patient):
    """The fields of a node and its manners of speaking."""

    __slots__ = (
        "above",
        "conf",
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
        "state",
        "token",
        "turn",
        "walk",
        "wish_to_leave",
    )

    def __init__(self, address: Address, host: Host, key: Key, settings: LinkSettings) -> None:
        super().__init__(address, host, settings)
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
