"""Complaints in SPICE: the holders of a registry record them and decline casts of slowed
publishers.

A member complains to the holder that notified it. That holder passes the complaint to the holder
from which the traversal came, and so on to the peer where the cast entered the registry. There all
complaints about one replica meet, together with the number of members reached. A holder that
declines a cast does not forward it. The publisher is told hop by hop along the reverse route while
the traversal is open.
"""

from implicast.casting.complaints import Complain, ComplaintLog, DurableComplaintLog, Slowing
from implicast.casting.spice.messages import (
    CastRequest,
    ComplaintRelay,
    CoverageReport,
    SlowingRelay,
)
from implicast.casting.spice.part import Spice, SpicePart
from implicast.casting.spice.traversal_state import TraversalTask
from implicast.peer.contract import Address, CastId, Name, handles
from implicast.peer.events import Slowed
from implicast.peer.memory import Recent

WAYS_MAX = 1_024
"""Maximum number of casts whose previous holders are remembered after the first complaint here."""
SLOWING_SENT_MAX = 64
"""Maximum number of casts whose publishers were told that they are slowed. Each holder tells once.
"""


class Complaints(SpicePart):
    """Sends, relays and records complaints, and declines casts of slowed publishers."""

    __slots__ = ("_slowing_sent", "_ways", "complaint_log")

    def __init__(self, spice: Spice, durable: DurableComplaintLog = ()) -> None:
        super().__init__(spice)
        self.complaint_log = ComplaintLog(lambda: spice.host.now_us, durable)
        self._slowing_sent: Recent[CastId, None] = Recent(SLOWING_SENT_MAX)
        self._ways: Recent[CastId, tuple[Address, ...]] = Recent(WAYS_MAX)
        """By cast: the holders of the registry from which it came."""
        spice.on_first_complaint(self)

    def complain(self, cast: CastId) -> bool:
        """Complain to the holder that notified this member; it may be this peer. Returns False if
        the holder is not known.
        """
        notifier = self.spice.receiver.notifier_of(cast)
        if notifier is not None:
            self.host.send(
                notifier, self.spice.signing.sign_message(Complain(cast, self.spice.name))
            )
        elif self._is_known(cast):
            self.complaint_log.complain(Complain(cast, self.spice.name), self.address)
            self._pass_on(cast, self.spice.name)
        else:
            return False
        return True

    def _is_known(self, cast: CastId) -> bool:
        return cast in self._ways or bool(self.spice.traversals.tasks.of_cast(cast))

    @handles(Complain)
    def on_complain(self, sender: Address, complaint: Complain) -> None:
        """Record the complaint of a member notified here, and pass it on to the previous holder."""
        if self.spice.signing.verifies(complaint):
            self.complaint_log.complain(complaint, sender)
            self._pass_on(complaint.cast, complaint.by)

    @handles(ComplaintRelay)
    def on_complaint_relay(self, sender: Address, complained: ComplaintRelay) -> None:
        if self._is_known(complained.cast):
            self.complaint_log.complain(Complain(complained.cast, complained.by), None)
            self._pass_on(complained.cast, complained.by)

    def _pass_on(self, cast: CastId, by: Name) -> None:
        for task in self.spice.traversals.tasks.of_cast(cast):
            self._remember(task)
        for holder in self._ways.get(cast, ()):
            self.host.send(holder, ComplaintRelay(cast, by))

    def _remember(self, task: TraversalTask) -> None:
        """Remember the previous holders of the traversal. There are none where it entered the
        registry.
        """
        traversal = task.traversal
        if isinstance(traversal, CastRequest) and traversal.cast not in self._ways:
            came = [from_hop[0] for from_hop in task.upstream_hops()] if traversal.notch else []
            self._ways[traversal.cast] = tuple(dict.fromkeys(came))

    # --- slowing

    def refuses(self, task: TraversalTask | None, traversal: CastRequest) -> bool:
        """Whether to decline the cast here and beyond because of complaints about its publisher.
        The publisher is told.
        """
        if task is not None and not traversal.count_only:
            self._remember(task)
        if traversal.count_only or not self.complaint_log.declines(traversal.cast):
            return False
        slowing = self.complaint_log.slowing(traversal.cast)
        if (
            task is not None
            and slowing is not None
            and self._slowing_sent.once(traversal.cast, None)
        ):
            task.add_report(CoverageReport(0, declined=slowing.reached))
            self._report_slowing(task, slowing)
        return True

    def _report_slowing(self, task: TraversalTask, slowing: Slowing) -> None:
        if slowing.cast in self.spice.casts.publishing:
            self.host.deliver(Slowed(slowing.until_us, slowing.complaints, slowing.reached))
        for to, number in task.upstream_hops():
            self.host.send(to, SlowingRelay(number, slowing))

    @handles(SlowingRelay)
    def on_slowing(self, sender: Address, slowing: SlowingRelay) -> None:
        """Pass the message back by one hop. At the publisher, tell the application."""
        from_hop, task = self.spice.traversals.sent_by(sender, slowing.number)
        if from_hop is not None:
            self.host.send(from_hop[0], SlowingRelay(from_hop[1], slowing.slowing))
        elif task is not None:
            self._report_slowing(task, slowing.slowing)
