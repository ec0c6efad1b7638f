"""A broker: serves its clients as a server would, and is one node of a self-repairing backbone
(thesis chapter 6).

Theory of operation. It stores its own clients' descriptions in an inverted index and, for each
neighbour in a tree, a Bloom filter of the tags registered beyond it (`overlay/backbone`). A cast
goes to the own clients that it selects and to the neighbours whose filter it passes. A filter
cannot express excluded tags and predicates; the index of the last broker decides on those.

State: `ClientRegistry`, `Backbone` (filters), `Views` (which brokers live, and their tree),
`ForwardingTable` (casts of this view). Durable are only the highest view number and the complaint
log: clients register again after their next keep-alive.

Invariants:
- a registration is acknowledged when the whole backbone routes by it (`edges.py`), so that no
  broker can fail to route a later cast to it;
- a filter may have tags that no client has, which costs messages and never a wrong notice; it never
  lacks one;
- a report to a neighbour counts only the brokers on this side of their link, in one view;
- a client counts at the broker that it answered first.

| who | when | sends |
|---|---|---|
| client | it has no broker; uses the first that answers | `BrokerProbe`, answered by `BrokerProbeAck` |
| client | as at a server (`centralised/server.py`) | `Register`, `KeepAlive`, `Publish` |
| broker | a tag is new among its clients, or comes from a neighbour | `TagUpdate` to the others |
| broker | all beyond have an update | `CoverageAck` |
| broker | a cast passes the filter of a neighbour; until it finishes | `ForwardToBroker` |
| broker | all counts of its side are known; partial ones after 1 s | `CastProgress` |

| state of a broker | event | next state |
|---|---|---|
| without a view: answers no client, accepts no cast | `View` | in a view |
| in a view | a newer view: filters are rebuilt, casts flood meanwhile, entries restart | in a view |
| in a view | crash and restart | without a view; its number is above all that it knew |

A description that is replaced or withdrawn leaves the index at once. Its tags stay in the filters
until the next generation. Differences from the thesis: receipts, leases, generations of filters and
views; with `assurance=none` it is Listing 2. Not guaranteed: while its broker is dead and this is
undetected, a client receives nothing, and casts of that time are not repeated later.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from implicast.casting.broker.client import BrokerProbe, BrokerProbeAck
from implicast.casting.client_registry import ClientEntry, ClientRegistry, RegisterAck
from implicast.casting.complaints import DurableComplaintLog
from implicast.casting.forwarding import ForwardingTable, ForwardToBroker
from implicast.casting.forwarding_once import ForwardingOnce
from implicast.casting.open_casts import Publish
from implicast.language.target import Description
from implicast.overlay.backbone.backbone import Backbone, WholeFilters
from implicast.overlay.backbone.views import RECOVERY_US, View, Views
from implicast.peer.backoff import RepairBudget
from implicast.peer.contract import Address, Incarnation, Message, Name, Peer, Version, handles
from implicast.peer.detector import DetectorSettings
from implicast.peer.fields import Token
from implicast.peer.requests import Requests
from implicast.peer.signing import Envelopes, envelopes_for
from implicast.peer.site import Site

LEASES = 6
"""Keep-alive intervals in a lease: a client silent for so long is removed."""
HEALTH_MAX = 1
"""Limit of a broker's own health in failure detection: the deaths of a root and of the next one are
detected one after the other, within 40 s in all.
"""
UNUSED_TAGS_MIN = 64
"""Unused tags below which new filters are not worth their messages."""


class DurableBroker(Message):
    """Durable state of a broker: the highest view number it has seen, and the complaint log."""

    incarnation: Incarnation
    highest: Token
    complaint_log: DurableComplaintLog = ()


@dataclass(frozen=True, slots=True)
class BrokerState:
    """State of a broker in a backbone at rest."""

    view: View
    clients: Sequence[ClientEntry] = ()
    filters: WholeFilters | None = None
    """None: no client of any broker is registered."""


PARTS = {
    "requests": Requests,
    "clients": ClientRegistry,
    "forwarding": ForwardingTable,
    "backbone": Backbone,
    "views": Views,
    "envelopes": Envelopes,
}


class Broker(Peer, parts=PARTS):
    """One of several front ends."""

    __slots__ = (
        "_unused_tags",
        "backbone",
        "clients",
        "envelopes",
        "forwarding",
        "incarnation",
        "requests",
        "uncovered",
        "views",
    )
    role = "broker"

    def __init__(self, site: Site, state: BrokerState | None = None) -> None:
        """`state`: that of a broker in a tree that exists from the start; None: the brokers agree
        on a tree.
        """
        address, host, given, brokers = (
            site.address,
            site.host,
            site.parameters,
            site.infrastructure["broker"],
        )
        super().__init__(address, host)
        self.incarnation = site.incarnation
        self.envelopes = envelopes_for(self, site.signing)
        lease_us = int(float(given["check_s"]) * 1e6) * LEASES
        self.clients = ClientRegistry(site, lease_us, self._stored, self._forgotten)
        if site.watched:
            self.clients.start_sweeps()
        self.uncovered: dict[Name, Version] = {}
        """Clients whose newest description the backbone does not route by yet."""
        self._unused_tags = 0
        self.requests = Requests(address, host, budget=RepairBudget.of(given))
        room, error = int(given["expected_tags"]), float(given["routing_error"])
        self.backbone = Backbone(
            address, host, self.requests, room, error, self.clients.tags, self._on_covered
        )
        recovered_us = host.now_us + RECOVERY_US if site.durable_state else 0
        self.forwarding = (ForwardingTable if site.assured else ForwardingOnce)(
            site,
            self.requests,
            self.clients,
            self.backbone,
            is_recovering=lambda: host.now_us < recovered_us,
        )
        watch_us = int(float(given["watch_s"]) * 1e6)
        detector_settings = DetectorSettings(tries=int(given["tries"]), health_max=HEALTH_MAX)
        self.views = Views(
            address,
            host,
            brokers,
            watch_us,
            self.on_view,
            lambda: self.backbone.table.capacity,
            detector_settings,
        )
        if state is None:
            self.views.begin(site.durable_state.highest if site.durable_state else 0)
            return
        self.restore(state)
        if site.watched:
            self.views.start_monitoring()

    def restore(self, state: BrokerState) -> None:
        """Begin in an assembled backbone, with the clients and filters of a preloaded network."""
        self.views.restore()
        self.clients.restore(state.clients)
        self.backbone.restore(state.view, state.filters)

    def durable_state(self) -> DurableBroker:
        return DurableBroker(
            self.incarnation, self.views.highest, self.forwarding.complaint_log.durable_state()
        )

    def holdings(self) -> Any:
        return (self.clients.holdings(), self.backbone.holdings())

    def on_view(self, view: View) -> None:
        """The tree has changed: restart forwarding and announce uncovered descriptions again."""
        self.backbone.follow(view)
        self.forwarding.restart()
        for name, version in list(self.uncovered.items()):
            description = self.clients.index.description(name)
            assert description is not None, "only registered descriptions await coverage"
            self.backbone.announce_tags(description.tags, (name, version))

    # --- clients

    @handles(BrokerProbe)
    def on_broker_probe(self, sender: Address, probe: BrokerProbe) -> None:
        if self.backbone.epoch:
            self.host.send(sender, BrokerProbeAck())

    def _stored(self, entry: ClientEntry, new: bool, before: Description | None) -> None:
        name = entry.contact.name
        if new:
            self.uncovered.pop(name, None)
            if entry.description is not None:
                self.uncovered[name] = entry.version
                if self.backbone.epoch:
                    first = [
                        tag for tag in entry.description.tags if self.clients.index.count(tag) == 1
                    ]
                    self.backbone.announce_tags(
                        first, (name, entry.version)
                    )  # tags that no other client of this broker has
            self._count_unused(before)
        if not new or entry.description is None:
            self._acknowledge(name)

    def _forgotten(self, name: Name, before: Description | None) -> None:
        self.uncovered.pop(name, None)
        self._count_unused(before)

    def _count_unused(self, before: Description | None) -> None:
        """Count tags that no client has after this change. When they are many, ask for a new
        generation of filters.
        """
        self._unused_tags += sum(
            not self.clients.index.count(tag) for tag in (before.tags if before else ())
        )
        if self._unused_tags > max(UNUSED_TAGS_MIN, len(self.clients.index.tags()) // 2):
            self._unused_tags = 0
            self.backbone.request_generation()

    def _on_covered(self, token: tuple[Name, Version]) -> None:
        name, version = token
        if self.uncovered.get(name) == version:
            del self.uncovered[name]
            self._acknowledge(name)

    def _acknowledge(self, name: Name) -> None:
        """Acknowledge a client's registration if the backbone routes by its newest description."""
        if self.backbone.epoch and name not in self.uncovered:
            entry = self.clients.entries[name]
            self.host.send(entry.contact.address, RegisterAck(entry.version))

    # --- casts

    @handles(Publish)
    def on_publish(self, sender: Address, publish: Publish) -> None:
        if self.backbone.epoch:
            self.forwarding.forward_cast(sender, True, publish)

    @handles(ForwardToBroker)
    def on_forward(self, sender: Address, hop: ForwardToBroker) -> None:
        """Ignored unless it is of the present view. The sender repeats one of a later view; a cast
        of an earlier view starts again in the new one.
        """
        if 0 < hop.epoch == self.backbone.epoch:
            self.forwarding.forward_cast(sender, False, hop)
