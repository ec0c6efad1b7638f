"""Round-trip times between brokers: measured by probes, and reported to the root, which computes
the tree.

Before the root makes a tree it asks every member for its round trips to the others. A broker
measures the missing ones, and answers when all are known or when it is asked again, so that a
member that died meanwhile delays no answer. Of several measurements the shortest counts, because a
longer one contains a queue or a pause. A pair that neither end could measure counts as `FAR_US`
apart.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

from msgspec import Meta

from implicast.overlay.backbone.fields import BROKERS_MAX, Neighbours
from implicast.peer.contract import Address, Host, Message, Part, handles
from implicast.peer.fields import Micros

FAR_US = 10_000_000
"""Assumed between brokers that could not measure; longer measurements are ignored."""


class RttProbe(Message):
    """Measures the round trip to another broker."""

    wire = 0x0309
    sent_us: Micros


class RttReply(Message):
    """Immediate answer to `RttProbe`."""

    wire = 0x030A
    sent_us: Micros


class RttRequest(Message):
    """The root asks a broker for its round trips to these members."""

    wire = 0x030B
    members: Neighbours


class RttReport(Message):
    """Round trips to all brokers in the order of their addresses; 0: not measured."""

    wire = 0x030C
    round_trips_us: Annotated[tuple[Micros, ...], Meta(max_length=BROKERS_MAX)]


class RoundTrips(Part):
    """Round trips known to one broker; `reported` is called when a reply or report arrives."""

    __slots__ = ("_own_us", "_ranks", "_reported", "_reports", "_requesters")

    def __init__(
        self,
        address: Address,
        host: Host,
        ranks: Mapping[Address, int],
        reported: Callable[[], None],
    ) -> None:
        """`ranks`: position of every configured broker in the agreed order."""
        super().__init__(address, host)
        self._reported = reported
        self._ranks = ranks
        self._own_us: dict[Address, int] = {}
        self._reports: dict[Address, tuple[int, ...]] = {}
        """Reports of other brokers, at a broker that is or was root."""
        self._requesters: dict[Address, RttRequest] = {}
        """Brokers that asked for a report and have no answer yet."""

    def is_complete(self, members: Sequence[Address]) -> bool:
        """True if every member has reported and this broker has measured all of them."""
        return all(
            member in self._reports for member in members if member != self.address
        ) and not self._unmeasured(members)

    def request_reports(self, members: Sequence[Address]) -> None:
        """Ask the members that have not reported, and measure what is missing here."""
        self._measure(members)
        for member in members:
            if member != self.address and member not in self._reports:
                self.host.send(member, RttRequest(tuple(members)))

    def _unmeasured(self, members: Sequence[Address]) -> list[Address]:
        return [
            each
            for each in members
            if each != self.address and each in self._ranks and each not in self._own_us
        ]

    def _measure(self, members: Sequence[Address]) -> None:
        for member in self._unmeasured(members):
            self.host.send(member, RttProbe(self.host.now_us))

    @handles(RttProbe)
    def on_probe(self, sender: Address, probe: RttProbe) -> None:
        if sender in self._ranks:
            self.host.send(sender, RttReply(probe.sent_us))

    @handles(RttReply)
    def on_reply(self, sender: Address, reply: RttReply) -> None:
        took_us = self.host.now_us - reply.sent_us
        if sender not in self._ranks or not 0 <= took_us < FAR_US:
            return
        self._own_us[sender] = max(1, min(took_us, self._own_us.get(sender, FAR_US)))
        for requester, request in list(self._requesters.items()):
            if not self._unmeasured(request.members):
                self._send_report(requester)
        self._reported()

    @handles(RttRequest)
    def on_request(self, sender: Address, request: RttRequest) -> None:
        if sender not in self._ranks:
            return
        if sender in self._requesters or not self._unmeasured(request.members):
            self._send_report(sender)
        else:
            self._requesters[sender] = request
            self._measure(request.members)

    def _send_report(self, requester: Address) -> None:
        self._requesters.pop(requester, None)
        self.host.send(
            requester, RttReport(tuple(self._own_us.get(broker, 0) for broker in self._ranks))
        )

    @handles(RttReport)
    def on_report(self, sender: Address, report: RttReport) -> None:
        if sender in self._ranks and len(report.round_trips_us) == len(self._ranks):
            self._reports[sender] = report.round_trips_us
            self._reported()

    def round_trip_us(self, a: Address, b: Address) -> int:
        """The shorter of the measurements of both ends."""
        return min(self._measured_us(a, b) or FAR_US, self._measured_us(b, a) or FAR_US)

    def _measured_us(self, a: Address, b: Address) -> int:
        if a == self.address:
            return self._own_us.get(b, 0)
        return self._reports[a][self._ranks[b]] if a in self._reports else 0
