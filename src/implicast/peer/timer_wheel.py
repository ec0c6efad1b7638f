"""Timer wheel: alarms of one peer grouped into slots of 100 ms, with one alarm of the host for each
slot.
"""

from typing import ClassVar

from implicast.peer.contract import Message, Part, Peer, handles

SLOT_US = 100_000
"""Width of a slot. An alarm fires at the end of its slot: up to 100 ms late, never early."""


class TimerTick(Message):
    """Fires when a slot ends, for all alarms in it."""

    upkeep: ClassVar[bool] = True
    slot: int


class TimerWheel(Part):
    """Alarms by slot. They are ordinary alarms, handled by the peer's own handlers."""

    __slots__ = ("_armed", "_slots", "_wake")

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer.address, peer.host)
        self._wake = peer.wake
        self._slots: dict[int, list[Message]] = {}
        self._armed: set[type] = set()
        """Kinds of alarms that are pending through `schedule_once`."""

    def schedule(self, delay_us: int, alarm: Message) -> None:
        now_us = self.host.now_us
        slot = (now_us + delay_us) // SLOT_US + 1
        waiting = self._slots.get(slot)
        if waiting is None:
            self._slots[slot] = [alarm]
            self.host.after(slot * SLOT_US - now_us, TimerTick(slot))
        else:
            waiting.append(alarm)

    def schedule_once(self, delay_us: int, alarm: Message) -> None:
        """Schedule an alarm unless one of its kind is pending already."""
        if type(alarm) not in self._armed:
            self._armed.add(type(alarm))
            self.schedule(delay_us, alarm)

    @handles(TimerTick)
    def on_timer_tick(self, tick: TimerTick) -> None:
        for alarm in self._slots.pop(tick.slot, ()):
            self._armed.discard(type(alarm))
            self._wake(alarm)
