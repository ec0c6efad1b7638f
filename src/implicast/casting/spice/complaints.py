"""Complaints in SPICE: the holders of a registry record them and decline casts of slowed
publishers.

A member complains to the holder that notified it. That holder passes the complaint to the holder
from which the traversal came, and so on to the peer where the cast entered the registry. There all
complaints about one replica meet, together with the number of members reached. A holder that
declines a cast does not forward it. The publisher is told hop by hop along the reverse route while
the traversal is open.
"""

from collections.abc import Callable

from implicast.casting.complaints import Complain, ComplaintLog, Slowing
from implicast.casting.spice.part import SpicePart, Tools
from implicast.casting.spice.receiver import SpiceReceiver
from implicast.casting.spice.traversal_messages import CastRequest, CoverageReport
from implicast.casting.spice.traversal_state import TraversalTask
from implicast.casting.spice.traversals import Traversals
from implicast.peer.contract import Address, CastId, Message, Name, handles
from implicast.peer.events import Slowed
from implicast.peer.fields import Token
from implicast.peer.memory import Recent

WAYS_MAX = 1_024
"""Maximum number of casts whose previous holders are remembered after the first complaint here."""
SLOWING_SENT_MAX = 64
"""Maximum number of casts whose publishers were told that they are slowed. Each holder tells once.
"""


class SlowingRelay(Message):
    """A holder beyond the numbered hop declines the cast because its publisher is slowed. Passed
    back hop by hop.
    """

    wire = 0x0A18

    number: Token
    slowing: Slowing


class ComplaintRelay(Message):
    """Tells the holder from which the traversal came that the member `by`, notified by a holder
    further on, complained about the cast.
    """

    wire = 0x0A19

    cast: CastId
    by: Name


class Complaints(SpicePart):
    """Sends, relays and records complaints, and declines casts of slowed publishers."""

    __slots__ = (
        "_complaint_log",
        "_is_publishing",
        "_name",
        "_on_first",
        "_receiver",
        "_slowing_sent",
        "_traversals",
        "_ways",
        "is_active",
    )

    def __init__(
        self,
        tools: Tools,
        name: Name,
        complaint_log: ComplaintLog,
        receiver: SpiceReceiver,
        traversals: Traversals,
        is_publishing: Callable[[CastId], bool],
        on_first: Callable[[], None],
    ) -> None:
        """`is_publishing`: whether an own cast is open. `on_first`: called at the first complaint;
        from then on every cast that passes here is checked.
        """
        super().__init__(tools)
        self._name, self._complaint_log, self._receiver = name, complaint_log, receiver
        self._traversals, self._is_publishing, self._on_first = traversals, is_publishing, on_first
        self._slowing_sent: Recent[CastId, None] = Recent(SLOWING_SENT_MAX)
        self._ways: Recent[CastId, tuple[Address, ...]] = Recent(WAYS_MAX)
        """By cast: the holders of the registry from which it came."""
        self.is_active = False
        """Whether there has been a complaint."""

    def activate(self) -> None:
        """Check every cast that passes here from now on."""
        if not self.is_active:
            self.is_active = True
            self._on_first()

    def complain(self, cast: CastId) -> bool:
        """Complain to the holder that notified this member; it may be this peer. Returns False if
        the holder is not known.
        """
        self.activate()
        notifier = self._receiver.notifier_of(cast)
        if notifier is not None:
            self.host.send(notifier, self.signing.sign_message(Complain(cast, self._name)))
        elif self._is_known(cast):
            self._complaint_log.complain(Complain(cast, self._name), self.address)
            self._pass_on(cast, self._name)
        else:
            return False
        return True

    def _is_known(self, cast: CastId) -> bool:
        return cast in self._ways or bool(self._traversals.tasks.of_cast(cast))

    @handles(Complain)
    def on_complain(self, sender: Address, complaint: Complain) -> None:
        """Record the complaint of a member notified here, and pass it on to the previous holder."""
        self.activate()
        if self.signing.verifies(complaint):
            self._complaint_log.complain(complaint, sender)
            self._pass_on(complaint.cast, complaint.by)

    @handles(ComplaintRelay)
    def on_complaint_relay(self, sender: Address, complained: ComplaintRelay) -> None:
        self.activate()
        if self._is_known(complained.cast):
            self._complaint_log.complain(Complain(complained.cast, complained.by), None)
            self._pass_on(complained.cast, complained.by)

    def _pass_on(self, cast: CastId, by: Name) -> None:
        for task in self._traversals.tasks.of_cast(cast):
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
        if not self.is_active:
            return False
        if task is not None and not traversal.count_only:
            self._remember(task)
        if traversal.count_only or not self._complaint_log.declines(traversal.cast):
            return False
        slowing = self._complaint_log.slowing(traversal.cast)
        if (
            task is not None
            and slowing is not None
            and self._slowing_sent.once(traversal.cast, None)
        ):
            task.add_report(CoverageReport(0, declined=slowing.reached))
            self._report_slowing(task, slowing)
        return True

    def _report_slowing(self, task: TraversalTask, slowing: Slowing) -> None:
        if self._is_publishing(slowing.cast):
            self.host.deliver(Slowed(slowing.until_us, slowing.complaints, slowing.reached))
        for to, number in task.upstream_hops():
            self.host.send(to, SlowingRelay(number, slowing))

    @handles(SlowingRelay)
    def on_slowing(self, sender: Address, slowing: SlowingRelay) -> None:
        """Pass the message back by one hop. At the publisher, tell the application."""
        from_hop, task = self._traversals.sent_by(sender, slowing.number)
        if from_hop is not None:
            self.host.send(from_hop[0], SlowingRelay(from_hop[1], slowing.slowing))
        elif task is not None:
            self._report_slowing(task, slowing.slowing)
