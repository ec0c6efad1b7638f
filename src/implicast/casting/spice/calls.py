"""Calls to the owners of places: said again until every one has answered, or one has objected."""

import msgspec

from implicast.casting.spice.alarms import EndCall, RepeatCall
from implicast.casting.spice.homes import address_of
from implicast.casting.spice.messages import AskVeto, Offer, ReadyAt, Taken
from implicast.casting.spice.repeats import Repeated
from implicast.casting.spice.share import Spice, SpicePart
from implicast.overlay.ice.estate import Way
from implicast.peer.contract import Address, handles
from implicast.space.tract import Tract, intersect, subtract

CALLS_MAX = 2_048
"""Calls that have not been answered. Further ones to roots are put off until the next window, further offers are not
made: renewals bring those records back."""


class Call(Repeated):
    """Something said to several owners until all have answered."""

    __slots__ = ("message", "outstanding")

    def __init__(self, message: ReadyAt | AskVeto | Offer) -> None:
        super().__init__()
        self.message, self.outstanding = message, message.way.tract

    def is_over(self, part: Tract) -> bool:
        """This part has been dealt with; has all?"""
        self.outstanding = subtract(self.outstanding, part)
        return not self.outstanding


class Calls(SpicePart):
    """What the original root of a tag tells and asks the others, and what is offered to new owners of ground."""

    __slots__ = ("_calls",)

    def __init__(self, spice: Spice) -> None:
        super().__init__(spice)
        self._calls: dict[int, Call] = {}

    def is_calling(self, tag: str) -> bool:
        """Are roots of this tag being called?"""
        messages = [each.message for each in self._calls.values()]
        return any(not isinstance(each, Offer) and each.tag == tag for each in messages)

    @handles(EndCall)
    def on_end_call(self, alarm: EndCall) -> None:
        self._calls.pop(alarm.token, None)

    def call(self, message: ReadyAt | AskVeto | Offer) -> None:
        if len(self._calls) < CALLS_MAX:
            self._calls[message.token] = Call(message)
            self.on_repeat_call(RepeatCall(message.token))

    @handles(RepeatCall)
    def on_repeat_call(self, alarm: RepeatCall) -> None:
        call = self._calls.get(alarm.token)
        if call is None:
            return
        message = call.message
        if not isinstance(message, Offer) and not self.surface.answers(address_of(message.tag)):
            del self._calls[alarm.token]  # whoever owns the place now goes on
            return
        self.spice.later.put(call.wait_longer(), alarm)
        self.surface.send(msgspec.structs.replace(message, way=Way(call.outstanding)))

    def heard(self, reply: Address, token: int, part: Tract, veto: bool = False) -> None:
        """Answer a call that concerns ground of ours."""
        taken = Taken(token, intersect(part, self.surface.ground), veto)
        if reply == self.address:
            self.on_taken(reply, taken)
        else:
            self.host.send(reply, taken)

    @handles(Taken)
    def on_taken(self, sender: Address, taken: Taken) -> None:
        call = self._calls.get(taken.token)
        if call is None or (taken.veto and isinstance(call.message, Offer)):
            return
        complete = call.is_over(taken.part)
        if taken.veto or complete:
            del self._calls[taken.token]
        if complete and not taken.veto and not isinstance(call.message, Offer):
            self.spice.replicas.called_all(call.message)
