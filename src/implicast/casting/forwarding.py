"""Forwarding of casts by front ends (servers and brokers): what is open of each cast, and the
answers to those that asked.

A front end that is asked to forward a cast notifies its own clients (`notifier.py`) and forwards
the cast to the neighbours on a path to other selected members. With receipts it answers with the
counts of its own clients and of all beyond, when all are known. After 1 s it answers with what is
known by then, and again at the end. A cast without losses thus takes one answer per hop. A
neighbour that asks already counts the members on its own side of the link, so its answer needs the
counts of all other neighbours only. A cast may enter at two brokers (a client's broker died and the
client asked another); then both wait for the rest of the tree, never for each other.

A new view restarts everything except the notification of own clients: entries are dropped, and
publishers ask again, as they do until nothing is open. A broker with an older view gets no answer,
because its other neighbours may count the same members; it waits for the new view. Therefore a
broker that dies while it forwards a cast does not cut off a part of the tree. A server is a front
end without neighbours.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from implicast.casting.central_subscriptions import EventNotify, PublishEvent
from implicast.casting.client_registry import ClientRegistry
from implicast.casting.complaints import Complain, ComplaintLog, Slowing
from implicast.casting.coverage import CastTally, Coverage, Coverages, Split
from implicast.casting.notifier import Notifier, Notify
from implicast.casting.open_casts import DRY, CastProgress, Publish
from implicast.language.target import Description, Target
from implicast.overlay.backbone.backbone import Backbone, NoBackbone
from implicast.peer.changes import ChangedKeys
from implicast.peer.contract import Address, CastId, Contact, Message, Name, Part, handles
from implicast.peer.expiry import expiry_of
from implicast.peer.fields import Payload, Token
from implicast.peer.memory import HORIZON_US, Recent, SeenLately, Shares
from implicast.peer.policy import policy_of
from implicast.peer.requests import PendingRequest, Requests, RetryPolicy
from implicast.peer.site import Site

FORWARD = "forward"
RETRY = RetryPolicy(2_000_000, times=21, factor=1.05)
"""Attempts for a neighbour that has not finished a cast. Then the cast is left to the next view."""
ANSWER_US = 1_000_000
"""How long a front end waits for complete counts before it answers with partial ones."""
FORWARDING_MAX = 8_192
"""Casts that a front end forwards at a time. Publishers with the most casts are refused first; they
ask again.
"""
ENDED_MAX = 16_384
"""Finished casts whose counts are remembered, in case the answer to the publisher was lost."""


class ForwardToBroker(Message):
    """A broker forwards a cast to a neighbour in this view. `dry`: only count the members it would
    reach.
    """

    wire = 0x0311
    cast: CastId
    epoch: Token
    target: Target
    payload: Payload
    dry: bool = False


class ProgressAnswerDue(Message):
    """Fires when the requesters of a cast should get a partial answer."""

    cast: CastId
    epoch: Token


Hop = Publish | ForwardToBroker | PublishEvent
Selection = tuple[Notify | EventNotify, Sequence[Contact]]
"""The notification of a cast, and the own clients that it goes to."""


@dataclass(slots=True, eq=False)
class ForwardingEntry(Coverage[Address]):
    """The coverage of a cast in the present view. Its regions are the sides of the tree, each named
    by its first broker; this front end stands for its own clients.
    """

    hop: Hop = field(kw_only=True)
    """The cast, as it was asked for last."""
    requesters: dict[Address, bool] = field(default_factory=dict)
    """Peers that asked and have no final answer; True for a client, False for a neighbour, which
    counts the members on its own side.
    """
    is_early: bool = True
    """True while it is too early for partial answers."""
    informed: set[Address] = field(default_factory=set)
    """Requesters that got a partial answer."""

    def add_requester(self, requester: Address, client: bool, hop: Hop) -> None:
        self.requesters[requester], self.hop = client, hop
        self.informed.discard(requester)

    def allow_partial(self) -> None:
        """Allow partial answers."""
        self.is_early = False


class ForwardingTable(Part, parts={"notifier": Notifier}):
    """The casts that one front end forwards in its present view. `matching` gives the subscribers
    of a described event.
    """

    __slots__ = (
        "_backbone",
        "_clients",
        "_coverages",
        "_is_recovering",
        "_matching",
        "_policy",
        "_requests",
        "_seen",
        "_shares",
        "_signing",
        "changed_casts",
        "complaint_log",
        "ended",
        "entries",
        "notifier",
        "notifying",
    )
    notifying_by: ClassVar[type[Notifier]] = Notifier

    def __init__(
        self,
        site: Site,
        requests: Requests,
        clients: ClientRegistry,
        backbone: Backbone | NoBackbone,
        matching: Callable[[Description], Sequence[Contact]] = lambda description: (),
        is_recovering: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_recovering`: whether clients of an earlier incarnation may be unregistered."""
        super().__init__(site.address, site.host)
        self._signing = site.signing
        self._policy = policy_of(site.parameters)
        self._requests, self._clients, self._backbone = requests, clients, backbone
        self._matching, self._is_recovering = matching, is_recovering
        self.complaint_log = ComplaintLog(
            lambda: site.host.now_us, site.durable_state.complaint_log if site.durable_state else ()
        )
        """Complaints of own clients."""
        is_ours = lambda name: backbone.is_alone or clients.is_present(name)  # noqa: E731
        self.notifier = self.notifying_by(
            site.address, site.host, requests, self._on_own_finished, site.signing, is_ours
        )
        self._seen = SeenLately()
        self.entries: dict[CastId, ForwardingEntry] = {}
        self._coverages: Coverages[ForwardingEntry, Address] = Coverages(
            self, lambda: self.host.now_us
        )
        self._shares: Shares[Name] = Shares(FORWARDING_MAX)
        self.ended: Recent[CastId, CastTally] = Recent(ENDED_MAX)
        """Counts of own clients for finished casts. Kept when the view changes."""
        self.notifying: dict[CastId, Selection] = {}
        """Casts of which own clients are being notified."""
        self.changed_casts: ChangedKeys[CastId] = ChangedKeys()
        """Changes of `notifying`."""
        requests.topic(FORWARD, RETRY, self._on_request_lost)

    def restart(self) -> None:
        """The view has changed: drop all entries."""
        for entry in self.entries.values():
            self._coverages.drop(entry)
        self.entries.clear()
        self._shares = Shares(FORWARDING_MAX)

    # --- requests

    def forward_cast(self, requester: Address, client: bool, hop: Hop) -> None:
        """Forward a cast for a client, or for a broker of the present view. Ignored if the payload
        is not signed by the publisher, the cast has expired or the publisher exceeds its rate.
        """
        target = hop.description if isinstance(hop, PublishEvent) else hop.target
        about = (DRY, target) if hop.dry else target
        now_us = self.host.now_us
        if self._signing.verified_payload(hop.cast, about, hop.payload, now_us) is None or (
            client and self._exceeds_rate(hop)
        ):
            return
        self._forward(requester, client, hop)

    def _forward(self, requester: Address, client: bool, hop: Hop) -> None:
        """Forward a cast, and count the members that it reaches for the requester."""
        entry = self.entries.get(hop.cast)
        is_new = entry is None
        if entry is None:
            if not self._shares.allows(hop.cast.publisher) or not self._notify_own(hop):
                return
            entry = self.entries[hop.cast] = ForwardingEntry(hop=hop)
            self._shares.add(hop.cast.publisher)
            self.host.after(ANSWER_US, ProgressAnswerDue(hop.cast, self._backbone.epoch))
        entry.add_requester(requester, client, hop)
        if (slowing := self.complaint_log.slowing(hop.cast)) is not None:
            self.host.send(requester, slowing)
        sides = [each for each in self._backbone.neighbours if client or each != requester]
        new = [each for each in sides if (each, hop.cast) not in entry.children]
        self._coverages.cover(entry, (self.address, *new) if is_new else tuple(new))

    def _exceeds_rate(self, hop: Hop) -> bool:
        """Whether a new cast of a client exceeds its publisher's rate. The client asks again."""
        is_known = hop.cast in self.entries or hop.cast in self.ended or self._seen.met(hop.cast)
        return not is_known and not self._policy.admits(hop.cast, self.host.now_us)

    def _onward(self, hop: Hop, sides: Sequence[Address]) -> dict[Address, ForwardToBroker]:
        """By neighbour on a path to selected members, of these, the message to forward. Events are
        never forwarded: they go through one server.
        """
        backbone = self._backbone
        if isinstance(backbone, NoBackbone) or isinstance(hop, PublishEvent):
            return {}
        onward = ForwardToBroker(hop.cast, backbone.epoch, hop.target, hop.payload, hop.dry)
        known, target = backbone.neighbours, hop.target
        return {each: onward for each in sides if each in known and backbone.leads(each, target)}

    def _notify_own(self, hop: Hop) -> bool:
        """Notify own clients, once per cast. False if there is no room to remember the cast. With
        receipts the clients are notified again when the counts are forgotten: they drop repeats.
        """
        cast = hop.cast
        if cast in self.notifier.casts or cast in self.ended:
            return True
        if hop.dry:
            self.ended[cast] = CastTally(notified=len(self._select(hop)[1]))
            return True
        self._remember(cast)
        if not self._seen.met(cast):
            return False
        is_uncertain = self._is_recovering() or (
            not isinstance(hop, PublishEvent) and self._clients.may_lack(hop.target)
        )
        self.notify_own(*self._select(hop))
        tally = self.notifier.casts.get(cast) or self.ended.get(cast)
        if is_uncertain and tally is not None:
            tally.mark_uncertain()
        return True

    def _remember(self, cast: CastId) -> None:
        """Record a cast as forwarded."""
        now_us = self.host.now_us
        self._seen.first(cast, now_us + HORIZON_US, now_us)

    def _select(self, hop: Hop) -> Selection:
        if isinstance(hop, PublishEvent):
            return EventNotify(hop.cast, hop.description, hop.payload), self._matching(
                hop.description
            )
        return Notify(hop.cast, hop.target, hop.payload), self._clients.select(hop.target)

    def notify_own(self, notification: Notify | EventNotify, members: Sequence[Contact]) -> None:
        """Notify own clients, at first or after a restart. If the audience is too large or the
        publisher is throttled, all count as declined.
        """
        self._remember(notification.cast)
        if not self._policy.allows_audience(len(members)) or not self.complaint_log.admits(
            notification.cast, members
        ):
            self._on_own_finished(notification.cast, CastTally(declined=len(members)))
            return
        self._start_notifying(notification, members)

    def _start_notifying(
        self, notification: Notify | EventNotify, members: Sequence[Contact]
    ) -> None:
        self.notifying[notification.cast] = notification, members
        self.changed_casts.note(notification.cast)
        self.notifier.notify_members(notification, members)

    def resume_own(self, notification: Notify | EventNotify, members: Sequence[Contact]) -> None:
        """Continue to notify own clients after a restart. If the cast has expired meanwhile, all
        count as unreachable.
        """
        if self.host.now_us < expiry_of(notification.payload):
            self.notify_own(notification, members)
        else:
            self._on_own_finished(notification.cast, CastTally(unreachable=len(members)))

    # --- coverage

    def split(self, entry: ForwardingEntry, sides: tuple[Address, ...]) -> Split[Address]:
        onward = self._onward(entry.hop, sides)
        own = (self.address,) if self.address in sides else ()
        return Split(own, [((to, message), (to,)) for to, message in onward.items()])

    def local(self, entry: ForwardingEntry, sides: tuple[Address, ...]) -> None:
        cast = entry.hop.cast
        tally = self.notifier.casts.get(cast) or self.ended.get(cast)
        if tally is not None:
            entry.set_here(tally)

    def pass_on(
        self,
        entry: ForwardingEntry,
        to: tuple[Address, ForwardToBroker],
        sides: tuple[Address, ...],
    ) -> Hashable:
        child = to[0], entry.hop.cast
        return child if self._requests.ask(FORWARD, child, *to) else None

    def stop(self, child: Hashable) -> None:
        self._requests.answered(FORWARD, child)

    def wait(self, entry: ForwardingEntry) -> None:
        raise AssertionError("every neighbour of a view can be asked")

    def changed(self, entry: ForwardingEntry) -> None:
        """Send the final counts to every requester for which they are complete. When a second has
        passed, send partial counts to those that have none.
        """
        for requester, client in list(entry.requesters.items()):
            progress = self._progress(entry, requester, client)
            is_known = entry.is_early or requester in entry.informed
            if progress is None or (progress.open and is_known):
                continue
            self.host.send(requester, progress)
            entry.informed.add(requester)
            if not progress.open:
                del entry.requesters[requester]
        if not entry.requesters:
            self._forget(entry)

    # --- answers

    def _forget(self, entry: ForwardingEntry) -> None:
        if self.entries.pop(entry.hop.cast, None) is not None:
            self._coverages.drop(entry)
            self._shares.drop(entry.hop.cast.publisher)

    def _progress(
        self, entry: ForwardingEntry, requester: Address, client: bool
    ) -> CastProgress | None:
        """Counts of a cast without the side of the requester; None while a neighbour has not
        answered.
        """
        cast = entry.hop.cast
        tally = entry.tally(without=None if client else (requester, cast))
        if tally is None:
            return None
        return CastProgress(
            cast,
            0 if client else self._backbone.epoch,
            tally.notified,
            tally.unreachable,
            tally.declined,
            tally.open,
            tally.silent,
            tally.uncertain + (self._backbone.lost_brokers() if client else 0),
        )

    # --- complaints

    @handles(Complain)
    def on_complain(self, sender: Address, complaint: Complain) -> None:
        if self._signing.verifies(complaint):
            self.complaint_log.complain(complaint, sender)

    @handles(Slowing)
    def on_slowing(self, sender: Address, slowing: Slowing) -> None:
        """A neighbour declines a cast: pass its reason to the requesters."""
        entry = self.entries.get(slowing.cast)
        if entry is not None and (sender, slowing.cast) in entry.children:
            for requester in entry.requesters:
                self.host.send(requester, slowing)

    @handles(ProgressAnswerDue)
    def on_progress_answer_due(self, alarm: ProgressAnswerDue) -> None:
        entry = self.entries.get(alarm.cast)
        if entry is not None and alarm.epoch == self._backbone.epoch:
            entry.allow_partial()
            self.changed(entry)

    def _on_own_finished(self, cast: CastId, tally: CastTally) -> None:
        self.ended[cast] = tally
        self.notifying.pop(cast, None)
        self.changed_casts.note(cast)
        entry = self.entries.get(cast)
        if entry is not None:
            self.changed(entry)

    @handles(CastProgress)
    def on_cast_progress(self, sender: Address, progress: CastProgress) -> None:
        if progress.epoch == self._backbone.epoch:
            counts = (progress.open, progress.notified, progress.declined, progress.unreachable)
            tally = CastTally(*counts, progress.silent, progress.uncertain)
            self._coverages.report((sender, progress.cast), tally)

    def _on_request_lost(self, key: tuple[Address, CastId], request: PendingRequest) -> None:
        """A neighbour does not finish: drop the entry. The requesters will ask again, perhaps in
        another view.
        """
        if (entry := self.entries.get(key[1])) is not None:
            self._forget(entry)
