"""The server of CENTRALISED: stores all descriptions and subscriptions, and resolves all casts.

Theory of operation (thesis, section 3.4: the baseline). Clients register at the server; it resolves
a cast by an inverted index, never by scanning, and sends one copy to each selected member.

State: `ClientRegistry` (newest version and description of each client, and the leases),
`SubscriptionServer` (subscriptions by member and number), `ForwardingTable` (casts under way).
All of it is durable but the entries of requesters: publishers ask again.

Invariants:
- the newest version that a client has stated wins; an older one is answered with the newer and
  never acknowledged;
- `RegisterAck` and `SubscribeAck` leave after the commit of what they acknowledge, so that every
  later cast matches against it, also after a restart;
- a member counts once in a receipt: it recognises repeats, and the server counts answers by name.

| who | when | sends |
|---|---|---|
| client | it registers, subscribes, casts; until it is answered | `Register`, `Subscribe`, `Publish` |
| client | every third of its lease | `KeepAlive` |
| server | a version is stored, or is older than the stored one | `RegisterAck`, `RegisterOutdated` |
| server | a cast selects a member; until it acknowledges, 40 s at most | `Notify`, `EventNotify` |
| member | it has delivered, or declines | `NotifyAck` |
| server | all counts are known; partial ones after 1 s | `CastProgress` |

| state of a client at the server | event | next state |
|---|---|---|
| unknown | `Register` | stored, on lease |
| stored | `KeepAlive`, `Register` | stored, lease renewed |
| stored | `Register` without a description | withdrawn, kept on lease against older versions |
| stored, withdrawn | lease ends | unknown; owed casts as uncertain for `OWED_US` |

After a restart the server repeats the notifications of unfinished casts; members drop repeats.
With `assurance=none` every message is sent once, as in the thesis.

Limits of one server: while it is down nothing is delivered or registered, and if its disk is lost,
everything is.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from implicast.casting.central_subscriptions import (
    EventNotify,
    PublishEvent,
    ServerSubscription,
    Subscribe,
    SubscribeAck,
)
from implicast.casting.client_registry import ClientEntry, ClientRegistry, RegisterAck
from implicast.casting.complaints import DurableComplaintLog
from implicast.casting.forwarding import ForwardingTable
from implicast.casting.forwarding_once import ForwardingOnce
from implicast.casting.notifier import Notification, Notify
from implicast.casting.open_casts import Publish
from implicast.language.standing import StandingTargets
from implicast.language.target import Description
from implicast.overlay.backbone.backbone import NoBackbone
from implicast.peer.backoff import RepairBudget
from implicast.peer.changes import ChangedKeys, Changes
from implicast.peer.contract import (
    Address,
    Contact,
    Incarnation,
    Message,
    Name,
    Part,
    Peer,
    handles,
)
from implicast.peer.requests import Requests
from implicast.peer.signing import Envelopes, envelopes_for
from implicast.peer.site import Site

SUBSCRIPTIONS_MAX = 1_024
"""Subscriptions of one member; further ones get no answer."""
SUBSCRIBERS_MAX = 1 << 20
"""Subscribers of one server. At this number no further subscription is answered."""


class UnfinishedCast(Message):
    """A cast or an event of which these members are being notified."""

    notify: Notify | None
    matched: EventNotify | None
    members: tuple[Contact, ...]


class DurableServer(Message):
    """Durable state of the server: everything it answers from."""

    incarnation: Incarnation
    members: tuple[ClientEntry, ...]
    subscriptions: tuple[ServerSubscription, ...]
    casts: tuple[UnfinishedCast, ...]
    complaint_log: DurableComplaintLog = ()


class SubscriptionServer(Part):
    """All subscriptions at the server. `renew` is called for every member that sends a
    subscription.
    """

    __slots__ = ("_renew_lease", "_signing", "_targets", "by_member", "changed")

    def __init__(
        self, site: Site, renew: Callable[[Name], None], durable: Iterable[ServerSubscription]
    ) -> None:
        super().__init__(site.address, site.host)
        self._renew_lease, self._signing = renew, site.signing
        self._targets: StandingTargets[tuple[Name, int]] = StandingTargets()
        self.by_member: dict[Name, dict[int, ServerSubscription]] = {}
        self.changed: ChangedKeys[Name] = ChangedKeys()
        for each in durable:
            self._keep(each)

    def _keep(self, subscription: ServerSubscription) -> None:
        name = subscription.contact.name
        self._renew_lease(name)
        self.changed.note(name)
        self.by_member.setdefault(name, {})[subscription.subscription] = subscription
        key = (name, subscription.subscription)
        if subscription.target is None:
            self._targets.remove(key)
        else:
            self._targets.put(key, subscription.target)

    @handles(Subscribe)
    def on_subscribe(self, sender: Address, subscribe: Subscribe) -> None:
        if subscribe.target is not None and not all(
            term.has or term.where for term in subscribe.target.terms
        ):
            # without a tag or predicate to index, it would have to be evaluated at every event
            return
        if not self._signing.verifies(subscribe):
            return
        own = self.by_member.get(subscribe.name, {})
        known = own.get(subscribe.subscription)
        if known is None and (
            len(own) >= SUBSCRIPTIONS_MAX or len(self.by_member) >= SUBSCRIBERS_MAX
        ):
            return
        if known is None or (subscribe.incarnation, subscribe.version) >= (
            known.incarnation,
            known.version,
        ):
            contact = Contact(subscribe.name, sender)
            evidence = self._signing.evidence(subscribe)
            known = ServerSubscription(
                contact,
                subscribe.incarnation,
                subscribe.subscription,
                subscribe.version,
                subscribe.target,
                evidence,
            )
            self._keep(known)
        elif known.signed is not None and known.incarnation > subscribe.incarnation:
            self.host.send(sender, known.signed)
        self.host.send(
            sender, SubscribeAck(known.incarnation, subscribe.subscription, known.version)
        )

    def forget(self, name: Name) -> None:
        """The member's lease has expired: remove its subscriptions."""
        self.changed.note(name)
        for number in self.by_member.pop(name, {}):
            self._targets.remove((name, number))

    def count(self, name: Name) -> int:
        """Number of a member's subscriptions that are not removed."""
        return sum(each.target is not None for each in self.by_member.get(name, {}).values())

    def matching(self, description: Description) -> list[Contact]:
        found = self._targets.matching(description)
        return list(dict.fromkeys(self.by_member[name][number].contact for name, number in found))

    def holdings(self) -> Any:
        return [(*key, target) for key, target in self._targets.items()]


PARTS = {
    "requests": Requests,
    "clients": ClientRegistry,
    "forwarding": ForwardingTable,
    "subscriptions": SubscriptionServer,
    "envelopes": Envelopes,
}


class Server(Peer, parts=PARTS):
    """The one server of a network."""

    __slots__ = ("clients", "envelopes", "forwarding", "incarnation", "requests", "subscriptions")
    role = "server"

    def __init__(self, site: Site) -> None:
        super().__init__(site.address, site.host)
        self.incarnation, durable = (
            site.incarnation,
            site.durable_state or DurableServer(site.incarnation, (), (), ()),
        )
        self.envelopes = envelopes_for(self, site.signing)
        self.clients = ClientRegistry(
            site,
            int(float(site.parameters["lease_s"]) * 1e6),
            self._stored,
            lambda name, before: self.subscriptions.forget(name),
            lambda name: self.subscriptions.count(name),
        )
        if site.watched:
            self.clients.start_sweeps()
        self.requests = Requests(site.address, site.host, budget=RepairBudget.of(site.parameters))
        self.subscriptions = SubscriptionServer(site, self.clients.renew, durable.subscriptions)
        self.forwarding = (ForwardingTable if site.assured else ForwardingOnce)(
            site, self.requests, self.clients, NoBackbone(), self.subscriptions.matching
        )
        self.restore(durable.members)
        for unfinished in durable.casts:
            notification = unfinished.notify or unfinished.matched
            assert notification is not None, "an unfinished cast has a notification of either kind"
            self.forwarding.resume_own(notification, unfinished.members)

    def restore(self, clients: Iterable[ClientEntry]) -> None:
        """Begin with these clients, as after a restart."""
        self.clients.restore(clients)

    def durable_state(self) -> DurableServer:
        members, complaint_log = (
            tuple(self.clients.entries.values()),
            self.forwarding.complaint_log.durable_state(),
        )
        subscriptions = tuple(
            each for own in self.subscriptions.by_member.values() for each in own.values()
        )
        casts = tuple(_unfinished(*each) for each in self.forwarding.notifying.values())
        return DurableServer(self.incarnation, members, subscriptions, casts, complaint_log)

    def changes(self) -> Changes:
        """A row for each member, for each member's subscriptions, and for each unfinished cast."""
        clients, subscriptions, forwarding = self.clients, self.subscriptions, self.forwarding
        whole = not clients.changed.is_tracking
        rows = {
            "members": clients.changed.rows(clients.entries, lambda entry: (entry,)),
            "subscriptions": subscriptions.changed.rows(
                subscriptions.by_member, lambda own: tuple(own.values())
            ),
            "casts": forwarding.changed_casts.rows(
                forwarding.notifying, lambda unfinished: (_unfinished(*unfinished),)
            ),
        }
        return Changes(
            DurableServer(self.incarnation, (), (), (), forwarding.complaint_log.durable_state()),
            rows,
            whole,
        )

    def holdings(self) -> Any:
        return [*self.clients.holdings(), *self.subscriptions.holdings()]

    def _stored(self, entry: ClientEntry, new: bool, before: Description | None) -> None:
        self.host.send(entry.contact.address, RegisterAck(entry.version))

    # --- casts and events

    @handles(Publish, PublishEvent)
    def on_publish(self, sender: Address, publish: Publish | PublishEvent) -> None:
        self.forwarding.forward_cast(sender, True, publish)


def _unfinished(notification: Notification, members: Sequence[Contact]) -> UnfinishedCast:
    notify = notification if isinstance(notification, Notify) else None
    matched = notification if isinstance(notification, EventNotify) else None
    return UnfinishedCast(notify, matched, tuple(members))
