"""Putting things into lists and knowing when they are there: common to both directions.

A request has a serial and is repeated until it is acknowledged; requests of one verb form a group, and the verb is
complete when its group is empty. Requests for a range go from the node of one value to the node of the next.
"""

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from implicast.casting.designs import Plan
from implicast.casting.inbox import Seen
from implicast.casting.pubsub.messages import Collect, Laid, LaidLate, Place, Profile, Spread
from implicast.casting.pubsub.placing import Hashing, Span, spans_of
from implicast.casting.pubsub.subid import SubIdLayout
from implicast.casting.pubsub.walking import nodes_estimate, walks
from implicast.casting.ring_member import RingMember
from implicast.language.attributes import Schema
from implicast.language.target import Target
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, handles
from implicast.peer.pending import Pending
from implicast.peer.subscriber import Subscriber

PATIENCE_US = 4_000_000
"""Patience with one look-up and its answer."""
HOP_US = 100_000
"""Patience with each further hop of a request that goes through a range."""

Slot = tuple[str, str, int | str]
"""One list: of subscriptions or of peers (SUBSCRIBERS, PEERS), its attribute, its value."""
SUBSCRIBERS, PEERS = "s", "p"

ROWS = list[tuple[int, Slot, int | tuple[str, int], int | Profile]]
"""What an estate holds: key, slot, subscription id or address, version or profile."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """What all peers of one population know."""

    schema: Schema
    hashing: Hashing
    layout: SubIdLayout
    walk: str
    """`auto`: by right neighbours unless values lie far apart; `neighbours` or `fingers`: always so."""
    values_max: int

    def refusal(self, target: Target, kept: int) -> str | None:
        """Why a node that keeps so many terms of its own cannot subscribe to this; None: it can."""
        spans = [spans_of(term, self.schema) for term in target.terms]
        values = sum(len(span) for each in spans for span in each)
        if any(not each or len(each) > self.layout.attributes_max for each in spans):
            return "every term needs a tag or a predicate, and not more than an id can count"
        if values > self.values_max:
            return f"it admits {values} values; at most {self.values_max} are stored (values_max)"
        if kept + len(spans) > self.layout.numbers_max:
            return f"a node keeps at most {self.layout.numbers_max} subscriptions"
        return None


class Laying(RingMember, Subscriber):
    """Sends requests out, repeats them, and notices when a group of them is done."""

    __slots__ = ("_group_of", "_groups", "_requests", "_unlaid", "arrangement", "seen")

    def __init__(self, plan: Plan, address: int, arrangement: Arrangement) -> None:
        super().__init__(address, plan.host(address), plan.seed, plan.parameters, ROWS)
        self.arrangement = arrangement
        self.seen = Seen()
        self._requests = 0
        self._unlaid: Pending[int, tuple[int, Spread | Place]] = Pending(self.host, LaidLate(), PATIENCE_US)
        self._group_of: dict[int, Hashable] = {}
        self._groups: dict[Hashable, int] = {}

    @abstractmethod
    def laid(self, group: Any) -> None:
        """Everything of this group is where it belongs."""

    def next_request(self) -> int:
        self._requests += 1
        return self._requests

    def lay(self, group: Hashable, requests: Sequence[Spread | Place]) -> None:
        """Send these requests out; `laid(group)` is called when all have been acknowledged."""
        self._groups[group] = len(requests)
        for request in requests:
            self._group_of[request.serial] = group
        self._send_out(requests)
        if not requests:
            self._finish(group)

    def _send_out(self, requests: Sequence[Spread | Place]) -> None:
        now_us = self.host.now_us
        for request in requests:
            self._unlaid.ask(request.serial, (now_us + self._duration_us(request), request))
        for request in requests:
            self.receive(self.address, request)

    def _duration_us(self, request: Spread | Place) -> int:
        if isinstance(request, Place):
            return PATIENCE_US
        return self.patience_us(Span(request.attribute, request.low, request.high))

    def patience_us(self, span: Span) -> int:
        """How long it may take to go through a range: a walk over a thousand nodes is slow, not lost."""
        gap = 1 + self.arrangement.hashing.gap(span.attribute, self.nodes_estimate())
        return PATIENCE_US + int(HOP_US * (len(span) - 1) * gap)

    def _finish(self, group: Hashable) -> None:
        del self._groups[group]
        self.laid(group)

    def acknowledge(self, origin: Address, serial: int) -> None:
        if origin == self.address:
            self.on_laid(origin, Laid(serial))
        else:
            self.host.send(origin, Laid(serial))

    @handles(Laid)
    def on_laid(self, sender: Address, laid: Laid) -> None:
        if self._unlaid.answer(laid.serial) is None:
            return
        group = self._group_of.pop(laid.serial)
        self._groups[group] -= 1
        if not self._groups[group]:
            self._finish(group)

    @handles(LaidLate)
    def on_laid_late(self, alarm: LaidLate) -> None:
        overdue = []
        for serial, (until_us, request) in self._unlaid.due():
            if self.host.now_us < until_us:
                self._unlaid.ask(serial, (until_us, request))
            else:
                overdue.append(request)
        self._send_out(overdue)

    # Ranges

    def walks(self, span: Span) -> bool:
        """Whether a request goes through a range by right neighbours."""
        return walks(self.arrangement.walk, self.arrangement.hashing, span, self.nodes_estimate())

    def nodes_estimate(self) -> float:
        """How many nodes the ring has, as far as this one can tell."""
        return nodes_estimate(self.chord.table, getattr(self.links, "lefts", ()))

    def comes_by(self, sender: Address, request: Spread | Collect) -> bool:
        """Whether a request for a range is to be served here; otherwise it has been sent on, or waits."""
        if request.walking and self.links.state is IN and not self.chord.owns(request.key):
            self.host.send(self.links.right.address, request)
            return False
        return self.shelves.admit(request.key, sender, request)

    def own_values(self, request: Spread | Collect) -> list[tuple[int, int | str]]:
        """The leading values of the range that belong here, with their keys."""
        hashing, owns = self.arrangement.hashing, self.chord.owns
        found: list[tuple[int, int | str]] = []
        for value in Span(request.attribute, request.low, request.high).values():
            key = hashing.key(request.attribute, value)
            if found and not owns(key):
                break
            found.append((key, value))
        return found
