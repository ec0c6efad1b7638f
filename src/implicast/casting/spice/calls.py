"""Calls to all roots of a tag: said again until every one has answered, or one has objected."""

import msgspec

from implicast.casting.spice.alarms import EndCall, RepeatCall
from implicast.casting.spice.homes import address_of
from implicast.casting.spice.messages import AskVeto, ReadyAt, Taken
from implicast.casting.spice.repeats import Repeated
from implicast.casting.spice.share import Spice, SpicePart
from implicast.overlay.ice.estate import Way
from implicast.peer.contract import Address, handles
from implicast.space.tract import Tract, intersect

CALLS_MAX = 1_024
"""Calls to roots that have not been answered; further ones are put off until the next window."""


class Call(Repeated):
    """Something said to several roots until all have answered."""

    __slots__ = ("message",)

    def __init__(self, message: ReadyAt | AskVeto) -> None:
        super().__init__(message.way.tract)
        self.message = message


class Calls(SpicePart):
    """The original root's part in telling and asking the others."""

    __slots__ = ("_calls",)

    def __init__(self, spice: Spice) -> None:
        super().__init__(spice)
        self._calls: dict[int, Call] = {}

    def is_calling(self, tag: str) -> bool:
        return any(each.message.tag == tag for each in self._calls.values())

    @handles(EndCall)
    def on_end_call(self, alarm: EndCall) -> None:
        self._calls.pop(alarm.token, None)

    def call(self, message: ReadyAt | AskVeto) -> None:
        if len(self._calls) < CALLS_MAX:
            self._calls[message.token] = Call(message)
            self.on_repeat_call(RepeatCall(message.token))

    @handles(RepeatCall)
    def on_repeat_call(self, alarm: RepeatCall) -> None:
        call = self._calls.get(alarm.token)
        if call is not None and not self.surface.answers(address_of(call.message.tag)):
            del self._calls[alarm.token]  # whoever owns the place now goes on
        elif call is not None:
            self.spice.later.put(call.wait_longer(), alarm)
            self.surface.send(msgspec.structs.replace(call.message, way=Way(call.outstanding)))

    def heard(self, reply: Address, token: int, part: Tract, veto: bool = False) -> None:
        """Answer a call to roots of ours."""
        taken = Taken(token, intersect(part, self.surface.ground), veto)
        if reply == self.address:
            self.taken(taken)
        else:
            self.host.send(reply, taken)

    def taken(self, taken: Taken) -> bool:
        """Is this an answer to a call of ours?"""
        call = self._calls.get(taken.token)
        if call is None:
            return False
        complete = call.is_over(taken.part)
        if taken.veto:
            del self._calls[taken.token]
        elif complete:
            del self._calls[taken.token]
            self.spice.replicas.called_all(call.message)
        return True
