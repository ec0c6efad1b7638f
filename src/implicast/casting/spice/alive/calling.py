"""Calls to all roots of a tag: said again until every one has answered, or one has objected."""

import msgspec

from implicast.casting.spice.alive.fanning import Fanning
from implicast.casting.spice.alive.messages import AskVeto, ReadyAt, Taken
from implicast.casting.spice.alive.settings import STORE_US, WAIT_LONGEST_US, LivingSettings
from implicast.casting.spice.homes import address_of
from implicast.overlay.ice.estate import Way
from implicast.peer.contract import Address, Host, handles
from implicast.space.tract import Tract, intersect, subtract

CALLS_MAX = 1_024
"""Calls to roots that have not been answered; further ones are put off until the next window."""


class Call:
    """Something said to several roots until all have answered."""

    __slots__ = ("message", "outstanding", "wait_us")

    def __init__(self, message: ReadyAt | AskVeto) -> None:
        self.message, self.outstanding, self.wait_us = message, message.way.tract, STORE_US


class Calling(Fanning):
    """The original root's part in telling and asking the others."""

    __slots__ = ("_calls",)

    def __init__(self, address: Address, host: Host, settings: LivingSettings) -> None:
        super().__init__(address, host, settings)
        self._calls: dict[int, Call] = {}

    def is_calling(self, tag: str) -> bool:
        return any(each.message.tag == tag for each in self._calls.values())

    def end_call(self, token: int) -> None:
        self._calls.pop(token, None)

    def call(self, message: ReadyAt | AskVeto) -> None:
        if len(self._calls) < CALLS_MAX:
            self._calls[message.token] = Call(message)
            self._repeat_call(message.token)

    def _repeat_call(self, token: int) -> None:
        call = self._calls.get(token)
        if call is None:
            return
        if not self.surface.answers(address_of(call.message.tag)):
            del self._calls[token]  # whoever owns the place now goes on
            return
        self.later(call.wait_us, lambda: self._repeat_call(token))
        call.wait_us = min(2 * call.wait_us, WAIT_LONGEST_US)
        self.surface.send(msgspec.structs.replace(call.message, way=Way(call.outstanding)))

    def heard_call(self, reply: Address, token: int, part: Tract, veto: bool = False) -> None:
        self.reply_taken(reply, Taken(token, intersect(part, self.surface.ground), veto))

    @handles(Taken)
    def on_taken(self, sender: Address, taken: Taken) -> None:
        call = self._calls.get(taken.token)
        if call is None:
            super().on_taken(sender, taken)
            return
        call.outstanding = subtract(call.outstanding, taken.part)
        if taken.veto:
            del self._calls[taken.token]
        elif not call.outstanding:
            del self._calls[taken.token]
            self.called_all(call.message)

    def called_all(self, message: ReadyAt | AskVeto) -> None:
        """Every root has answered (`replicating.py`)."""
