"""The node's own SetR requests: one at a time, repeated until it is answered or its target is lost."""

from collections.abc import Callable
from dataclasses import dataclass

from implicast.overlay.links.attempts import Attempts
from implicast.overlay.links.liveness import RingLiveness
from implicast.overlay.links.messages import REPLACE, SetR, SetRAck, SetRNak
from implicast.overlay.links.position import Position
from implicast.overlay.links.refs import Number, Ref
from implicast.overlay.links.settings import LinkSettings
from implicast.peer.contract import Host, Message, Part, handles

Send = Callable[[Ref, Message], None]
"""Sends to a node; what a node sends to itself is handled at once."""


class SetRTimeout(Message):
    """Fires when an own SetR should have been answered."""

    op: int


@dataclass(slots=True)
class PendingSetR(Attempts):
    """An own SetR that is not settled."""

    request: SetR


class PointerRequests(Part):
    """Asks other nodes to change their right pointers."""

    __slots__ = ("_liveness", "_lost", "_op", "_position", "_send", "_settings", "pending")

    def __init__(
        self,
        position: Position,
        host: Host,
        settings: LinkSettings,
        liveness: RingLiveness,
        send: Send,
        lost: Callable[[int], None],
    ) -> None:
        """`lost(kind)`: the target of a request of this kind is lost."""
        super().__init__(position.address, host)
        self._position, self._settings, self._liveness = position, settings, liveness
        self._send, self._lost = send, lost
        self.pending: PendingSetR | None = None
        """The own request that is not settled."""
        self._op = 0

    @property
    def is_right_frozen(self) -> bool:
        """Whether an own request freezes the right pointer."""
        return self.pending is not None and self.pending.request.kind != REPLACE

    def drop(self) -> None:
        """Forget the request: the incarnation starts or ends."""
        self.pending = None

    def request(
        self,
        kind: int,
        target: Ref,
        new: Ref,
        cur: Ref,
        cur_num: Number,
        new_num: Number,
        bypassed: tuple[Ref, ...] = (),
    ) -> None:
        """Ask a holder to change its right pointer."""
        self._op += 1
        me = self._position.me
        request = SetR(target, me, self._op, kind, new, cur, cur_num, new_num, bypassed)
        self.pending = PendingSetR(request)
        self.pending.start(self.host, self._settings, self._liveness, SetRTimeout(self._op))
        self._send(target, request)

    @handles(SetRTimeout)
    def on_set_r_timeout(self, alarm: SetRTimeout) -> None:
        pending, liveness = self.pending, self._liveness
        if pending is None or alarm.op != pending.request.op:
            return
        target = pending.request.to
        if pending.retry_or_give_up(self.host, self._settings, liveness, target, alarm):
            self._send(target, pending.request)
        else:
            liveness.suspect(target)
            self._target_lost(pending.request.kind)

    def settle(self, answer: SetRAck | SetRNak) -> SetR | None:
        """The own request that this answers, which is then no longer pending; None if there is no
        such request.
        """
        pending = self.pending
        if pending is None or (answer.to, answer.op, answer.by) != (
            self._position.me,
            pending.request.op,
            pending.request.to,
        ):
            return None
        self._liveness.on_message_from(answer.by)
        pending.on_answer(self._liveness)
        self.pending = None
        return pending.request

    def on_gone(self, gone: Ref, op: int) -> bool:
        """A node is gone. Whether it is the target of the own request, which is settled only if
        `op` names it: then the stored answers have expired. Otherwise the departed node may have
        carried the request out.
        """
        if self.pending is None or self.pending.request.to != gone:
            return False
        if op == self.pending.request.op:
            self._target_lost(self.pending.request.kind)
        return True

    def _target_lost(self, kind: int) -> None:
        self.pending = None
        self._lost(kind)
