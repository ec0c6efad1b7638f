"""The delay before `Registered`, which guarantees that every later cast that selects this peer
reaches it once the ring is stable.

The peer waits until every table has had time to include its value. How long that takes depends on
how tables are refreshed.

- *In rounds.* No aggregate is used whose oldest part is older than `stale_us`
  (`overlay/chord_sharp/table.py`). So a peer that has been on the ring with its present value for
  that long, by its own clock and 5 % more, is in every aggregate in use, or the aggregate is
  unknown and prunes nothing. The time starts again when the peer finds that it was bypassed:
  meanwhile a neighbour may have answered for its key. It does not when only its predecessor
  crashed.
- *By update flows.* The peer waits until an update has passed it with the new value, and then for P
  + G per level of its table, in which time every level of every table is refreshed in turn.
- *At rest.* If tables were assembled before the run and nothing refreshes them, a value that grows
  is broadcast by plain splitting, and every node adds it to the aggregates that cover it: n - 1
  messages per change.

A value that adds nothing to one that is already visible is announced at once.
"""

from typing import TYPE_CHECKING

from implicast.casting.condcast.messages import ValueChanged, VisibleDue
from implicast.casting.condcast.split import split
from implicast.language.queries import Everything
from implicast.overlay.links.state import INS, OUT
from implicast.peer.contract import Address, Part, Version, handles
from implicast.peer.events import Registered, Withdrawn
from implicast.space.ring import Arc

if TYPE_CHECKING:
    from implicast.casting.condcast.condcast import Condcast

SLOW_CLOCK = 1.05
"""Clocks may differ: the delay is extended by 5 %."""
ANNOUNCED_US = 10_000_000
"""How long a plain broadcast may take to reach all nodes: log2 n hops of 0.5 s."""


class VisibilityDelay(Part):
    """Announces a value once it is in every table."""

    __slots__ = ("_announced", "_changed_us", "_fresh_us", "_member")

    def __init__(self, member: "Condcast") -> None:
        super().__init__(member.address, member.host)
        self._member = member
        self._announced: Version = 0
        """The last version that was announced."""
        self._changed_us = 0
        """Since when the present value has been on the ring without interruption."""
        self._fresh_us: int | None = None
        """When an update flow first passed with the present value; None: not yet."""

    @property
    def is_announced(self) -> bool:
        """Whether the present value has been announced."""
        return self._announced == self._member.version

    @property
    def is_due(self) -> bool:
        """Whether every table must include the present value by now."""
        return self.is_announced and self._changed_us + self.age_us() <= self.host.now_us

    def restore(self) -> None:
        """In an assembled population the present value counts as announced."""
        self._announced = self._member.version

    def on_value_set(self, known: bool) -> None:
        """The peer has a new value; `known`: every table includes it already. Off the ring the
        delay begins after the join.
        """
        if known and not self._is_out():
            self.announce(Registered(self._member.version))
        else:
            self.on_joined()

    def restart(self) -> None:
        """The present value is on the ring without interruption from now on."""
        self._changed_us, self._fresh_us = self.host.now_us, None

    def on_joined(self) -> None:
        """If the peer is on the ring, its present value is from now on: start the delay."""
        self.restart()
        member = self._member
        if member.own is None or self.is_announced or self._is_out():
            return
        if not member.settings.sharp.rounds and not member.flowing:
            key = member.links.me.key
            self._broadcast(
                ValueChanged((Arc(key, key),), key, member.own)
            )  # to this node too: the top level may extend past it
        self.host.after(self.age_us(), VisibleDue(member.version))

    def on_update_passed(self) -> None:
        """An update flow has refreshed the table."""
        if (
            self._fresh_us is None
            and self._member.flows.updating
            and self._member.ring.table.own is self._member.own
        ):
            self._fresh_us = self.host.now_us

    def _is_out(self) -> bool:
        return self._member.links.state in (OUT, INS)

    def age_us(self) -> int:
        """Return how long a value may be missing from some table.

        By flows: level i of every table is refreshed one period after the levels below it. This is
        a bound as long as every peer is refreshed within P + G. The paper's E (14) is shorter but
        only an estimate: it was exceeded in 26 of 42 rings tried, and some announcements made by it
        came too early (`FIDELITY.md`).
        """
        member = self._member
        if member.settings.sharp.rounds:
            return int(member.settings.sharp.stale_us * SLOW_CLOCK)
        if member.flowing:
            flows = member.settings.flows
            return max(1, len(member.ring.table)) * (flows.period_us + flows.grace_us)
        return ANNOUNCED_US

    def due_us(self) -> int:
        """Return when the present value is in every table, as far as the peer knows now."""
        if not self._member.flowing:
            return self._changed_us + self.age_us()
        if self._fresh_us is None:
            return self.host.now_us + self._member.settings.flows.period_us
        return self._fresh_us + self.age_us()

    @handles(VisibleDue)
    def on_visible_due(self, alarm: VisibleDue) -> None:
        member = self._member
        if (
            alarm.version != member.version
            or self.is_announced
            or member.own is None
            or self._is_out()
        ):
            return
        wait_us = self.due_us() - self.host.now_us
        if wait_us > 0:
            self.host.after(wait_us, alarm)
        else:
            self.announce(Registered(alarm.version))

    def announce(self, event: Registered | Withdrawn) -> None:
        self._announced = event.version
        self.host.deliver(event)

    # --- tables at rest

    @handles(ValueChanged)
    def on_value_changed(self, sender: Address, change: ValueChanged) -> None:
        member, on_ring = (
            self._member,
            all(type(arc.start) is type(arc.end) is int for arc in change.arcs),
        )
        if (
            on_ring
            and change.incarnation == member.links.me.incarnation
            and not member.settings.sharp.rounds
        ):
            self._broadcast(change)

    def _broadcast(self, change: ValueChanged) -> None:
        """Add a value to the aggregates that cover it, and forward it to the rest of its arcs."""
        table = self._member.ring.table
        table.add_value(change.key, change.value)
        for node, pieces in split(table, change.arcs, Everything().match)[1]:
            self.host.send(
                node.address, ValueChanged(pieces, change.key, change.value, node.incarnation)
            )
