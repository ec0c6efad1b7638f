"""Timer wheel: actions of one peer grouped into slots of 100 ms, with one alarm of the host for each
slot.
"""

from collections.abc import Callable
from typing import ClassVar

from implicast.peer.contract import Address, Host, Message, Part, handles

SLOT_US = 100_000
"""Width of a slot. An action runs at the end of its slot: up to 100 ms late, never early."""
Action = Callable[[], None]


class TimerTick(Message):
    """Fires when a slot ends, for all actions in it."""

    upkeep: ClassVar[bool] = True
    slot: int


class TimerWheel(Part):
    """Actions by slot. They are bound methods, with their arguments in a `partial`, so that they
    can be printed and compared.
    """

    __slots__ = ("_armed", "_slots")

    def __init__(self, address: Address, host: Host) -> None:
        super().__init__(address, host)
        self._slots: dict[int, list[Action]] = {}
        self._armed: set[Action] = set()
        """Actions that are pending through `schedule_once`."""

    def schedule(self, delay_us: int, action: Action) -> None:
        now_us = self.host.now_us
        slot = (now_us + delay_us) // SLOT_US + 1
        waiting = self._slots.get(slot)
        if waiting is None:
            self._slots[slot] = [action]
            self.host.after(slot * SLOT_US - now_us, TimerTick(slot))
        else:
            waiting.append(action)

    def schedule_once(self, delay_us: int, action: Action) -> None:
        """Schedule an action unless it is pending already."""
        if action not in self._armed:
            self._armed.add(action)
            self.schedule(delay_us, action)

    @handles(TimerTick)
    def on_timer_tick(self, tick: TimerTick) -> None:
        for action in self._slots.pop(tick.slot, ()):
            self._armed.discard(action)
            action()
