"""Calls to the owners of a tract, repeated until every owner has answered or one has objected.

The original root of a tag calls its other roots (`replicas.py`). A peer that lost a tract to a
stronger ownership claim offers its items there to the new owner (`recovery.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from implicast.casting.spice.homes import address_of
from implicast.casting.spice.items import (
    TOGETHER_MAX,
    Level,
    LevelVersion,
    TagMessage,
    TractField,
)
from implicast.casting.spice.levels import Levels
from implicast.casting.spice.part import SpiceTable, StoreBackoff, Tools
from implicast.casting.spice.settings import NEVER_US
from implicast.overlay.ice.item_store import Item, RouteHeader
from implicast.peer.contract import Address, Message
from implicast.peer.fields import Token
from implicast.space.tract import Tract, intersect, subtract

CALLS_MAX = 2_048
"""Maximum number of open calls. Further calls to roots are tried later; further offers are dropped,
and renewals repair the loss.
"""


class ItemOffer(Message):
    """Items that a peer stored in a tract that it lost to a stronger ownership claim, sent to the
    present owners.
    """

    wire = 0x0A09

    way: RouteHeader
    items: Annotated[tuple[Item, ...], Meta(max_length=TOGETHER_MAX)]
    reply: Address
    token: Token


class ReplicaActivation(TagMessage):
    """Tells roots of a tag to start (`ready`) or stop answering casts."""

    wire = 0x0A0D

    number: LevelVersion
    level: Level
    ready: bool
    reply: Address
    token: Token
    doubtful: bool = False
    """True if the registry was copied from a tract that may lack registrations."""


class VetoRequest(TagMessage):
    """Asks all roots of a level whether it may be lowered."""

    wire = 0x0A0E

    reply: Address
    token: Token


class CallAck(Message):
    """Answer to an offer or to a call to roots: this part is processed and backed up."""

    wire = 0x0A0A

    token: Token
    part: TractField
    veto: bool = False


RootCall = ReplicaActivation | VetoRequest
"""A call to roots of a tag. It ends if its original root has another owner, which continues."""


@dataclass(slots=True)
class OwnerCall(StoreBackoff):
    """A message repeated to several owners until all have answered."""

    message: RootCall | ItemOffer
    until_us: int  # later answers are ignored
    on_answered: Callable[[RootCall], None] | None

    def confirm_part(self, part: Tract) -> bool:
        """An owner has answered for this part. Returns whether all parts are answered."""
        left = subtract(self.message.way.tract, part)
        self.message = replace(self.message, way=RouteHeader(left))
        return not left


class OwnerCalls(SpiceTable):
    """Open calls of this peer."""

    __slots__ = ("_levels", "open_calls")

    def __init__(self, tools: Tools, levels: Levels) -> None:
        super().__init__(tools)
        self._levels = levels
        self.open_calls: dict[int, OwnerCall] = {}

    def is_calling(self, tag: str) -> bool:
        """Whether a call to roots of the tag is open."""
        for call in self.open_calls.values():
            message = call.message
            if isinstance(message, ItemOffer) or message.tag != tag:
                continue
            if self.host.now_us <= call.until_us and not self._is_outdated(message):
                return True
        return False

    def _is_outdated(self, message: RootCall | ItemOffer) -> bool:
        """Whether a newer header exists. Roots activated by this message now could lack
        registrations made since.
        """
        return (
            isinstance(message, ReplicaActivation)
            and message.number < self._levels.header(message.tag).number
        )

    def offer(self, tract: Tract, items: tuple[Item, ...], timeout_us: int = NEVER_US) -> None:
        """Offer items to the owners of a tract."""
        self._begin(
            ItemOffer(RouteHeader(tract), items, self.address, self.next_token()), timeout_us
        )

    def call(
        self, message: RootCall, on_answered: Callable[[RootCall], None], timeout_us: int = NEVER_US
    ) -> None:
        """Call roots. `on_answered`: called when all have agreed."""
        self._begin(message, timeout_us, on_answered)

    def _begin(
        self,
        message: RootCall | ItemOffer,
        timeout_us: int,
        on_answered: Callable[[RootCall], None] | None = None,
    ) -> None:
        if len(self.open_calls) < CALLS_MAX:
            until_us = self.host.now_us + timeout_us
            self.open_calls[message.token] = OwnerCall(message, until_us, on_answered)
            self.retry_call(message.token)

    def retry_call(self, token: int) -> None:
        call = self.open_calls.get(token)
        if call is None:
            return
        message = call.message
        is_over = self.host.now_us > call.until_us or self._is_outdated(message)
        if is_over or not (
            isinstance(message, ItemOffer) or self.surface.answers(address_of(message.tag))
        ):
            del self.open_calls[token]
            return
        self.timer_wheel.schedule(call.next_wait_us(), partial(self.retry_call, token))
        self.surface.send(message)

    def answer(self, reply: Address, token: int, part: Tract, veto: bool = False) -> None:
        """Acknowledge a call for the part within the own tract."""
        ack = CallAck(token, intersect(part, self.surface.committed), veto)
        if reply == self.address:
            self.on_call_ack(ack)
        else:
            self.host.send(reply, ack)

    def on_call_ack(self, ack: CallAck) -> None:
        call = self.open_calls.get(ack.token)
        if call is None or self.host.now_us > call.until_us:
            return
        message = call.message
        if isinstance(message, ItemOffer):
            if not ack.veto and call.confirm_part(ack.part):
                del self.open_calls[ack.token]
            return
        complete = call.confirm_part(ack.part)
        if ack.veto or complete:
            del self.open_calls[ack.token]
        if complete and not ack.veto and call.on_answered is not None:
            call.on_answered(message)
