"""A broker: serves its clients as a server would, and is one node of a backbone that heals (thesis chapter 6).

It keeps its own clients' descriptions in an inverted index and, for each neighbour, a Bloom filter of the tags
registered beyond it (`overlay/backbone`). Excluded tags and predicates cannot be seen in a filter: they are left to the
broker's index. A description is complete when the whole backbone routes by it. One that is replaced or withdrawn leaves
the index at once; its tags stay in the filters until the next generation, which costs messages but never a wrong
notice.

Before it follows a view (`overlay/backbone/views.py`), a broker answers no client and takes no cast. One that comes
back remembers one number; its clients tell it what they are at their next reminder. What is not promised: while its
broker is dead and unnoticed, a client hears nothing; what it missed then stays missed.
"""

from typing import Any

from implicast.casting.complaints import KeptDocket
from implicast.casting.roster import Enrolled, Roster
from implicast.casting.routes import Pass, Routes
from implicast.casting.service import Probe, Publish, Serving, Stored
from implicast.language.target import Description
from implicast.overlay.backbone.backbone import Backbone
from implicast.overlay.backbone.messages import View
from implicast.overlay.backbone.views import FIRST, Views
from implicast.peer.asking import Asker
from implicast.peer.contract import Address, Incarnation, Message, Name, Peer, Version, handles
from implicast.peer.fields import Token
from implicast.peer.liveness import DetectorSettings
from implicast.peer.site import Site
from implicast.peer.words import Envelopes, opener

LEASES = 6
"""A client that has been silent for so many of its reminders is forgotten."""
HEALTH_MAX = 1
"""How much a broker doubts itself: a root's death and another's are noticed one after the other, within 40 s in all."""
GONE_LEAST = 64
"""Fewer tags gone than this are not worth a new generation of filters."""


class KeptBroker(Message):
    """What outlives a crash of a broker: no view that it has heard of has a higher number; what was complained of."""

    incarnation: Incarnation
    highest: Token
    docket: KeptDocket = ()


PARTS = {
    "asker": Asker,
    "roster": Roster,
    "routes": Routes,
    "backbone": Backbone,
    "views": Views,
    "envelopes": Envelopes,
}


class Broker(Peer, parts=PARTS):
    """One of several stations."""

    __slots__ = (
        "_gone",
        "asker",
        "backbone",
        "covering",
        "envelopes",
        "incarnation",
        "roster",
        "routes",
        "views",
    )
    role = "broker"

    def __init__(self, site: Site, neighbours: tuple[Address, ...] | None = None) -> None:
        """`neighbours`: in a tree that is there at once; else the brokers agree on one."""
        address, host, given, brokers = (
            site.address,
            site.host,
            site.parameters,
            site.infrastructure["broker"],
        )
        super().__init__(address, host)
        self.incarnation = site.incarnation
        self.envelopes = opener(self, site.words)
        lease_us = int(float(given["check_s"]) * 1e6) * LEASES
        self.roster = Roster(site, lease_us, self._stored, self._forgotten)
        self.covering: dict[Name, Version] = {}
        """Clients whose newest description the backbone does not route by yet."""
        self._gone = 0
        self.asker = Asker(address, host)
        room, error = int(given["expected_tags"]), float(given["routing_error"])
        self.backbone = Backbone(
            address, host, self.asker, room, error, self.roster.index.tags, self._covered
        )
        self.routes = Routes(site, self.asker, self.roster, self.backbone)
        watch_us = int(float(given["watch_s"]) * 1e6)
        patience = DetectorSettings(tries=int(given["tries"]), health_max=HEALTH_MAX)
        self.views = Views(
            address,
            host,
            brokers,
            watch_us,
            self._follow,
            lambda: self.backbone.table.capacity,
            patience,
        )
        if neighbours is None:
            self.views.arrive(site.kept.highest if site.kept else 0)
        else:
            self.views.stand(site.watched)
            self.backbone.stand(View(FIRST, min(brokers), neighbours, room))

    def kept(self) -> KeptBroker:
        return KeptBroker(self.incarnation, self.views.highest, self.routes.docket.kept())

    def holdings(self) -> Any:
        return (self.roster.holdings(), self.backbone.holdings())

    def _follow(self, view: View) -> None:
        """Another tree: what is under way begins again in it."""
        self.backbone.follow(view)
        self.routes.begin_again()
        for name, version in list(self.covering.items()):
            description = self.roster.index.description(name)
            assert description is not None, "only descriptions are covered"
            self.backbone.say(description.tags, (name, version))

    # --- clients

    @handles(Probe)
    def on_probe(self, sender: Address, probe: Probe) -> None:
        if self.backbone.epoch:
            self.host.send(sender, Serving())

    def _stored(self, entry: Enrolled, new: bool, before: Description | None) -> None:
        name = entry.contact.name
        if new:
            self.covering.pop(name, None)
            if entry.description is not None:
                self.covering[name] = entry.version
                if self.backbone.epoch:
                    first = [
                        tag for tag in entry.description.tags if self.roster.index.count(tag) == 1
                    ]
                    self.backbone.say(
                        first, (name, entry.version)
                    )  # what no other client of ours holds
            self._lose(before)
        if not new or entry.description is None:
            self._answer(name)

    def _forgotten(self, name: Name, before: Description | None) -> None:
        self.covering.pop(name, None)
        self._lose(before)

    def _lose(self, before: Description | None) -> None:
        """Count tags that no client holds any more; when they are many, ask for filters without them."""
        self._gone += sum(
            not self.roster.index.count(tag) for tag in (before.tags if before else ())
        )
        if self._gone > max(GONE_LEAST, len(self.roster.index.tags()) // 2):
            self._gone = 0
            self.backbone.forget()

    def _covered(self, token: tuple[Name, Version]) -> None:
        name, version = token
        if self.covering.get(name) == version:
            del self.covering[name]
            self._answer(name)

    def _answer(self, name: Name) -> None:
        """Tell a client that the backbone routes by its newest description, if so."""
        if self.backbone.epoch and name not in self.covering:
            entry = self.roster.entries[name]
            self.host.send(entry.contact.address, Stored(entry.version))

    # --- casts

    @handles(Publish)
    def on_publish(self, sender: Address, publish: Publish) -> None:
        if self.backbone.epoch:
            self.routes.carry(sender, True, publish)

    @handles(Pass)
    def on_pass(self, sender: Address, hop: Pass) -> None:
        """Of a view that has not come yet, it will be said again; one that is over begins again in the next."""
        if 0 < hop.epoch == self.backbone.epoch:
            self.routes.carry(sender, False, hop)
