"""What `Registered` promises: every later cast that selects this peer reaches it, once all is quiet.

The peer waits until every table has had the time to learn of its value. How long that is depends on how they are kept.

- *In rounds.* No aggregate is used whose oldest part is older than `stale_us` (`overlay/chord_sharp/table.py`), so a
  peer that has been on the ring with its present value for that long, by its own clock and a little more, is in every
  aggregate in use, or the aggregate is unknown and hides nobody. It begins anew when it finds that it had been passed
  over: meanwhile a neighbour may have spoken for its key. Where only its left neighbour died nobody has.
- *By update flows.* The peer waits until an update has passed it with the new value, and then for P + G per level of
  its table, in which time every level of every table has been refreshed in turn.
- *At rest.* Where tables settled before the run and nothing refreshes them, a value that rises is told to all by plain
  split-forward broadcasting, and everybody adds it to the aggregate that covers it: n - 1 messages a change.

A value that adds nothing to one that has been promised is promised at once.
"""

from typing import TYPE_CHECKING

from implicast.casting.condcast.messages import Risen, Visible
from implicast.casting.condcast.split import split
from implicast.language.queries import Everything
from implicast.overlay.links.state import INS, OUT
from implicast.peer.contract import Address, Part, Version, handles
from implicast.peer.events import Registered, Withdrawn
from implicast.space.ring import Arc

if TYPE_CHECKING:
    from implicast.casting.condcast.condcast import Condcast

SLOW_CLOCK = 1.05
"""Clocks may run differently: a promise waits a little longer than its age says."""
ANNOUNCED_US = 10_000_000
"""How long a plain broadcast may take to reach everybody: log2 n hops of half a second."""


class Promises(Part):
    """When the present value is in every table."""

    __slots__ = ("_changed_us", "_fresh_us", "_given", "_member")

    def __init__(self, member: "Condcast") -> None:
        super().__init__(member.address, member.host)
        self._member = member
        self._given: Version = 0
        """The last version that was promised."""
        self._changed_us = 0
        """Since when the present value has been on the ring without interruption."""
        self._fresh_us: int | None = None
        """When an update flow first passed with the present value; None: not yet."""

    @property
    def is_given(self) -> bool:
        """Whether the present value has been promised."""
        return self._given == self._member.version

    @property
    def is_due(self) -> bool:
        """Whether all have to know the present value."""
        return self.is_given and self._changed_us + self._age_us() <= self.host.now_us

    def stand(self) -> None:
        """In an assembled population the present value was promised long ago."""
        self._given = self._member.version

    def begin(self, known: bool) -> None:
        """The peer has a new value; `known`: every table has it already. Off the ring it is promised after the join."""
        if known and not self._is_out():
            self.give(Registered(self._member.version))
        else:
            self.entered()

    def restart(self) -> None:
        """From now on the present value is on the ring without interruption."""
        self._changed_us, self._fresh_us = self.host.now_us, None

    def entered(self) -> None:
        """The present value is on the ring from now on, if the peer is: it is promised when all have had the time."""
        self.restart()
        member = self._member
        if member.own is None or self.is_given or self._is_out():
            return
        if not member.settings.sharp.rounds and not member.flowing:
            key = member.links.me.key
            self._tell(
                Risen((Arc(key, key),), key, member.own)
            )  # to itself too: the top level may run on past it
        self.host.after(self._age_us(), Visible(member.version))

    def passed(self) -> None:
        """An update flow has refreshed the table."""
        if (
            self._fresh_us is None
            and self._member.flows.updating
            and self._member.ring.table.own is self._member.own
        ):
            self._fresh_us = self.host.now_us

    def _is_out(self) -> bool:
        return self._member.links.state in (OUT, INS)

    def _age_us(self) -> int:
        """How long a value may lack in some table.

        By flows: level i of every table is fresh one refresh after the levels below it are. A bound as long as every
        peer is refreshed within P + G. The paper's E (14) is shorter but only an estimate: it was exceeded in 26 of 42
        rings tried, and a promise made by it came too early in some (`FIDELITY.md`).
        """
        member = self._member
        if member.settings.sharp.rounds:
            return int(member.settings.sharp.stale_us * SLOW_CLOCK)
        if member.flowing:
            flows = member.settings.flows
            return max(1, len(member.ring.table)) * (flows.period_us + flows.grace_us)
        return ANNOUNCED_US

    def due_us(self) -> int:
        """When the present value is in every table, as far as the peer knows now."""
        if not self._member.flowing:
            return self._changed_us + self._age_us()
        if self._fresh_us is None:
            return self.host.now_us + self._member.settings.flows.period_us
        return self._fresh_us + self._age_us()

    @handles(Visible)
    def on_visible(self, alarm: Visible) -> None:
        member = self._member
        if alarm.version != member.version or self.is_given or member.own is None or self._is_out():
            return
        wait_us = self.due_us() - self.host.now_us
        if wait_us > 0:
            self.host.after(wait_us, alarm)
        else:
            self.give(Registered(alarm.version))

    def give(self, promise: Registered | Withdrawn) -> None:
        self._given = promise.version
        self.host.deliver(promise)

    # --- while tables rest

    @handles(Risen)
    def on_risen(self, sender: Address, risen: Risen) -> None:
        member, on_ring = (
            self._member,
            all(type(arc.start) is type(arc.end) is int for arc in risen.arcs),
        )
        if (
            on_ring
            and risen.incarnation == member.links.me.incarnation
            and not member.settings.sharp.rounds
        ):
            self._tell(risen)

    def _tell(self, risen: Risen) -> None:
        """Add a value to the aggregates that cover it, and let others do so in the rest of its arcs."""
        table = self._member.ring.table
        table.widen(risen.key, risen.value)
        for node, pieces in split(table, risen.arcs, Everything().match)[1]:
            self.host.send(node.address, Risen(pieces, risen.key, risen.value, node.incarnation))
