"""What is put off: alarms that ring in steps, one alarm of the host for all of a step."""

from typing import ClassVar

from implicast.peer.contract import Message, Part, Peer, handles

SLOT_US = 100_000
"""What is put off rings in steps of this, a little late rather than early."""


class Chime(Message):
    """Rings for all that was put off until about now."""

    upkeep: ClassVar[bool] = True
    slot: int


class Later(Part):
    """Alarms by the step in which they ring. They are values, and the peer handles them like any other alarm."""

    __slots__ = ("_armed", "_ring", "_slots")

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer.address, peer.host)
        self._ring = peer.wake
        self._slots: dict[int, list[Message]] = {}
        self._armed: set[type] = set()
        """Kinds of which one alarm at a time is put off."""

    def put(self, delay_us: int, alarm: Message) -> None:
        now_us = self.host.now_us
        slot = (now_us + delay_us) // SLOT_US + 1
        put_off = self._slots.get(slot)
        if put_off is None:
            self._slots[slot] = [alarm]
            self.host.after(slot * SLOT_US - now_us, Chime(slot))
        else:
            put_off.append(alarm)

    def put_one(self, delay_us: int, alarm: Message) -> None:
        """Unless one of this kind has been put off and has not rung."""
        if type(alarm) not in self._armed:
            self._armed.add(type(alarm))
            self.put(delay_us, alarm)

    @handles(Chime)
    def on_chime(self, chime: Chime) -> None:
        for alarm in self._slots.pop(chime.slot, ()):
            self._armed.discard(type(alarm))
            self._ring(alarm)
