"""The own value, and the delay before `Registered`, which guarantees that every later cast that selects this peer
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

from implicast.casting.condcast.flows import Flows
from implicast.casting.condcast.messages import ValueChanged, VisibleDue
from implicast.casting.condcast.settings import CondcastSettings
from implicast.casting.condcast.split import split
from implicast.language.queries import Everything
from implicast.overlay.chord_sharp import ChordSharp, FingerValue
from implicast.overlay.chord_sharp.table import combine
from implicast.peer.contract import Address, Part, Version, handles
from implicast.peer.events import Registered, Withdrawn
from implicast.space.ring import Arc

SLOW_CLOCK = 1.05
"""Clocks may differ: the delay is extended by 5 %."""
ANNOUNCED_US = 10_000_000
"""How long a plain broadcast may take to reach all nodes: log2 n hops of 0.5 s."""


class VisibilityDelay(Part):
    """Announces the own value once it is in every table."""

    __slots__ = (
        "_announced",
        "_changed_us",
        "_flows",
        "_fresh_us",
        "_position",
        "_ring",
        "_settings",
        "_version",
        "value",
    )

    def __init__(
        self, ring: ChordSharp, flows: Flows, settings: CondcastSettings, value: FingerValue | None
    ) -> None:
        super().__init__(ring.address, ring.host)
        self._ring, self._position = ring, ring.links.position
        self._flows, self._settings = flows, settings
        self.value = value
        """The own value; None: unknown."""
        self._version: Version = 0
        self._announced: Version = 0
        """The last version that was announced."""
        self._changed_us = 0
        """Since when the present value has been on the ring without interruption."""
        self._fresh_us: int | None = None
        """When an update flow first passed with the present value; None: not yet."""

    def restore(self, value: FingerValue | None, version: Version) -> None:
        """The value of an assembled population, whose tables include it and which is announced."""
        self.value, self._version, self._announced = value, version, version

    @property
    def is_announced(self) -> bool:
        """Whether the present value has been announced."""
        return self._announced == self._version

    @property
    def is_due(self) -> bool:
        """Whether every table must include the present value by now."""
        return self.is_announced and self._changed_us + self.age_us() <= self.host.now_us

    # --- the value

    def set_value(self, value: FingerValue, version: Version) -> None:
        """The peer has a new value. Off the ring the delay begins after the join."""
        is_known = self._adds_nothing(value)
        self.value, self._version = value, version
        if is_known and self._position.is_on_ring:
            self._announce(Registered(version))
        else:
            self.on_joined()

    def withdraw(self, empty: FingerValue, version: Version) -> None:
        """The peer has no description any longer; a value that was never known stays unknown."""
        self._version = version
        if self.value is not None:
            self.value = empty
        self._announce(Withdrawn(version))

    def forget(self) -> None:
        """The peer has left."""
        self.value = None

    def _adds_nothing(self, value: FingerValue) -> bool:
        """Whether every table already covers this value. Without refreshes (tables at rest) an
        unknown value prunes nothing, so the first value needs no announcement.
        """
        before = self.value
        if before is None:
            return self._is_at_rest()
        return self.is_announced and before.alike(value) and combine(before, value) == before

    def _is_at_rest(self) -> bool:
        """Whether tables are not refreshed."""
        return not self._settings.sharp.rounds and not self._flows.running

    # --- the delay

    def restart(self) -> None:
        """The present value is on the ring without interruption from now on."""
        self._changed_us, self._fresh_us = self.host.now_us, None

    def on_joined(self) -> None:
        """If the peer is on the ring, its present value is from now on: start the delay."""
        self.restart()
        if self.value is None or self.is_announced or not self._position.is_on_ring:
            return
        if self._is_at_rest():
            key = self._position.me.key
            # to this node too: the top level may extend past it
            self._broadcast(ValueChanged((Arc(key, key),), key, self.value))
        self.host.after(self.age_us(), VisibleDue(self._version))

    def on_update_passed(self) -> None:
        """An update flow has refreshed the table."""
        is_in_table = self._ring.table.own is self.value
        if self._fresh_us is None and self._flows.updating and is_in_table:
            self._fresh_us = self.host.now_us

    def age_us(self) -> int:
        """Return how long a value may be missing from some table.

        By flows: level i of every table is refreshed one period after the levels below it. This is
        a bound as long as every peer is refreshed within P + G. The paper's E (14) is shorter but
        only an estimate: it was exceeded in 26 of 42 rings tried, and some announcements made by it
        came too early (`FIDELITY.md`).
        """
        if self._settings.sharp.rounds:
            return int(self._settings.sharp.stale_us * SLOW_CLOCK)
        if self._flows.running:
            flows = self._settings.flows
            return max(1, len(self._ring.table)) * (flows.period_us + flows.grace_us)
        return ANNOUNCED_US

    def due_us(self) -> int:
        """Return when the present value is in every table, as far as the peer knows now."""
        if not self._flows.running:
            return self._changed_us + self.age_us()
        if self._fresh_us is None:
            return self.host.now_us + self._settings.flows.period_us
        return self._fresh_us + self.age_us()

    @handles(VisibleDue)
    def on_visible_due(self, alarm: VisibleDue) -> None:
        is_present = alarm.version == self._version and not self.is_announced
        if not is_present or self.value is None or not self._position.is_on_ring:
            return
        wait_us = self.due_us() - self.host.now_us
        if wait_us > 0:
            self.host.after(wait_us, alarm)
        else:
            self._announce(Registered(alarm.version))

    def _announce(self, event: Registered | Withdrawn) -> None:
        self._announced = event.version
        self.host.deliver(event)

    # --- tables at rest

    @handles(ValueChanged)
    def on_value_changed(self, sender: Address, change: ValueChanged) -> None:
        is_meant = change.incarnation == self._position.me.incarnation
        on_ring = all(type(arc.start) is type(arc.end) is int for arc in change.arcs)
        if on_ring and is_meant and not self._settings.sharp.rounds:
            self._broadcast(change)

    def _broadcast(self, change: ValueChanged) -> None:
        """Add a value to the aggregates that cover it, and forward it to the rest of its arcs."""
        table = self._ring.table
        table.add_value(change.key, change.value)
        for node, pieces in split(table, change.arcs, Everything().match)[1]:
            news = ValueChanged(pieces, change.key, change.value, node.incarnation)
            self.host.send(node.address, news)
