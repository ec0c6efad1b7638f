"""Membership of the skip graph as one peer sees it: present, lost, left, and reported by others.
Follows the ring-upkeep specification, parts D.2 and E.

A peer that answers no probe is *lost*. Its entries leave all lists, its certificates are stored,
and it is probed at growing intervals; its first message brings it back. Only a peer's own probes
make another peer lost, never the report of a third. All places of an address are lost and
reinstated together, because they run in one process.

A peer that loses another reports it to its contacts, and each contact probes for itself. A peer
reports only what its own probes found, and stops when three others have reported the same address.
A false report therefore costs each receiver one probe. A lost peer that sends a message again is
told that it was lost: it may have been frozen, and checks its contacts and lists.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from implicast.overlay.skip_graph.false_losses import FalseLosses
from implicast.overlay.skip_graph.place import Place
from implicast.overlay.skip_graph.places import Places
from implicast.peer.backoff import backed_off_us
from implicast.peer.contract import Address, Message, Part, StandingAlarm, handles
from implicast.peer.detector import Detector, DetectorSettings, Ping
from implicast.peer.identity import Certificate
from implicast.peer.lease import OWED_US
from implicast.peer.memory import Recent

QUIET_US = 2_000_000
"""A peer heard within the last 2 s is not probed on suspicion."""
PROBE_US = 5_000_000
PROBE_CAP_US = 20_000_000
"""A lost peer is probed first after `PROBE_US` (or after `watch_us`, if shorter), then at intervals
that double up to `PROBE_CAP_US`. It is also probed early, at most once in `PROBE_US`, when another
peer names it or another lost peer returns: a probe or its answer may have been dropped.
"""
PROBE_GROWTH = 4
"""After `LOST_US` the interval is the time since the loss divided by this."""
LOST_US = 180_000_000
"""For 3 min a lost peer is probed at the short intervals, and its first message restores all its
places.
"""
REMEMBERED_US = 3_600_000_000
"""For 1 h a lost peer is not listed when a third peer names it: peers that still hold it for alive
may name it for long. It is probed all this time, so that one message reconnects the two sides of a
long partition.
"""
PRESENT_WITHIN_US = 60_000_000
"""A candidate heard within 60 s counts as present until a probe fails."""
HEARD_WITHIN_US = 15_000_000
"""A peer heard within 15 s needs no probe before it is listed."""
LOST_MAX = 1_024
"""Lost addresses stored; the one lost first is evicted first."""
LOST_PLACES_MAX = 256
"""Places stored for one lost address."""
REPORT_US = 500_000
"""Reports of 0.5 s to 1 s share one message."""
REPORTERS_ENOUGH = 3
"""An address that three peers have reported is not reported again."""
REPORTERS_MAX = 1_024
"""Addresses whose reporters are counted; the one reported first is evicted first."""
REPORTED_MAX = 256
"""Addresses in one suspicion report."""
REPORTED_US = 30_000_000
"""A reporter counts for 30 s. Without a limit, three early false reports would suppress all later
true ones.
"""
REFOUND_US = 30_000_000
"""A report that the sender had lost us is ignored within 30 s after we reinstated the sender: the
loss was mutual, and our own message ended it.
"""
FOUND_MAX = 1_024
"""Reinstated addresses remembered; the oldest is evicted first."""


class SuspicionReport(Message):
    """The sender lost these addresses; the receiver probes them itself. An address of the receiver
    says that the sender had lost it.
    """

    wire = 0x0B08
    addresses: Annotated[tuple[Address, ...], Meta(max_length=REPORTED_MAX)]


class SuspicionReportDue(StandingAlarm):
    """Fires when newly lost peers are to be reported to the contacts."""


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """Intervals and retry limits of list maintenance. Short intervals repair sooner and send more.

    `watch_us` is the interval at which neighbours of the home place are checked, `turn_us` the one
    at which one entry is asked for its lists.
    """

    watch_us: int = 7_000_000
    turn_us: int = 12_000_000
    look_us: int = 5_000_000
    """Interval of anti-entropy rounds. At 5 s most neighbours have detected a crash by themselves.
    """
    asks: int = 6
    """Attempts of a request or of a signed leave, 1 s apart, before its receiver is lost."""
    detector: DetectorSettings = field(default_factory=DetectorSettings)


@dataclass(slots=True)
class LostPeer:
    """A lost peer: time of the loss, time and interval of the next probe, time of the last,
    certificates.
    """

    since_us: int
    probe_at_us: int
    wait_us: int
    probed_us: int = 0
    nodes: dict[bytes, Certificate] = field(default_factory=dict)

    def schedule_probe(self, now_us: int, wait_us: int) -> None:
        """Record a probe sent now, and plan the next one."""
        self.probed_us, self.wait_us, self.probe_at_us = now_us, wait_us, now_us + wait_us

    def store(self, places: Mapping[bytes, Certificate]) -> None:
        """Store places, which are restored when the peer returns."""
        self.nodes.update(places)


class GraphMembers(Part, parts={"detector": Detector}):
    """Lost peers and suspicion reports of one peer, with its failure detector.

    Calls `lose(address)` when a peer fails its probes, `lists_changed()` when entries leave a list,
    and `catch_up()` when another peer reports that it had lost this one.
    """

    __slots__ = (
        "_catch_up",
        "_false_losses",
        "_lose",
        "_places",
        "_reinstated_us",
        "_settings",
        "_unreported",
        "detector",
        "lists_changed",
        "lost",
        "reports",
    )

    def __init__(
        self,
        places: Places,
        settings: GraphSettings,
        lose: Callable[[Address], None],
        lists_changed: Callable[[], None],
        catch_up: Callable[[], None],
    ) -> None:
        super().__init__(places.address, places.host)
        self._places, self._settings, self._false_losses = places, settings, FalseLosses()
        self._lose, self.lists_changed, self._catch_up = lose, lists_changed, catch_up
        self.detector: Detector[Address] = Detector(
            places.address, places.host, settings.detector, self.on_suspected
        )
        self.lost: Recent[Address, LostPeer] = Recent(LOST_MAX)
        # time of the first report, reporters
        self.reports: Recent[Address, tuple[int, tuple[Address, ...]]] = Recent(REPORTERS_MAX)
        self._unreported: list[Address] = []
        # time at which a lost peer sent a message again
        self._reinstated_us: Recent[Address, int] = Recent(FOUND_MAX)

    # --- presence

    def check_alive(self, address: Address) -> None:
        """Probe a peer that left a message unanswered, unless it is lost or was heard within
        `QUIET_US`.
        """
        if address not in self.lost:
            self.detector.check(address, QUIET_US)

    def on_suspected(self, address: Address) -> None:
        """A peer failed a probe, or left a request unanswered: it is lost, or probed again if this
        peer was mistaken about others lately.
        """
        heard_us = self.detector.last_heard_us.get(address, -1)
        if address in self.lost:
            return
        if self._false_losses.is_doubtful(address, heard_us, self.host.now_us):
            self.detector.probe_again(address)
        else:
            self._lose(address)

    def probe_with(self, address: Address, message: Message) -> None:
        """Repeat an unanswered message as a probe. If a probe is under way the message is sent once
        more.
        """
        if self.detector.is_probing(address):
            self.host.send(address, message)
        elif address not in self.lost:
            self.detector.probe(address, message)

    def was_heard_within(self, address: Address, within_us: int) -> bool:
        """Whether a peer is not lost and sent a message within this time."""
        silent_us = self.detector.silent_for_us(address)
        return address not in self.lost and silent_us is not None and silent_us < within_us

    def is_present(self, node: Certificate) -> bool:
        """Whether the holder of a place counts as present: not left, heard lately, certificate
        valid.
        """
        address = node.address
        is_heard = address not in self.detector.left and self.was_heard_within(
            address, PRESENT_WITHIN_US
        )
        return is_heard and self._places.certificate_store.is_valid(node)

    def was_heard_since(self, address: Address, time_us: int) -> bool:
        """Whether a peer has sent a message at or after this time."""
        silent_us = self.detector.silent_for_us(address)
        return silent_us is not None and silent_us <= self.host.now_us - time_us

    def on_left(self, address: Address) -> None:
        """A peer has left for good."""
        self.detector.mark_left(address)
        self.lost.pop(address, None)

    def forget_reports(self, address: Address) -> None:
        """A peer that sends is not suspect."""
        self.reports.pop(address, None)

    # --- nodes named by other peers

    def may_list(self, node: Certificate) -> bool:
        """Whether a node named by another peer may be listed: its certificate is valid and it is
        not lost.

        A valid place of a lost peer is stored, and the peer is probed early.
        """
        lost, is_valid = self.lost.get(node.address), self._places.certificate_store.is_valid
        if lost is None:
            return is_valid(node)
        if len(lost.nodes) < LOST_PLACES_MAX and is_valid(node):
            lost.store({node.key: node})
            self._probe_early(node.address, lost)
        return False

    # --- lost peers

    def record_lost(self, address: Address, places: Mapping[bytes, Certificate]) -> None:
        """Store a peer that failed its probes, with the certificates of its places."""
        now_us = self.host.now_us
        wait_us = min(PROBE_US, self._settings.watch_us)
        lost = self.lost.get(address) or LostPeer(now_us, now_us + wait_us, wait_us)
        self.lost[address] = lost
        lost.store(places)

    def reinstate(self, address: Address) -> LostPeer:
        """Take a peer off the lost ones after it sent a message, and tell it that it was lost.

        Probes all other lost peers early: they may be on the same side of a partition that has
        ended.
        """
        self._reinstated_us.put(address, self.host.now_us)
        self.host.send(address, SuspicionReport((address,)))
        found = self.lost.pop(address)
        self._false_losses.on_reinstated(found.since_us, self.host.now_us)
        for other, lost in list(self.lost.items()):
            self._probe_early(other, lost)
        return found

    def drop_entries(self, place: Place, gone: Collection[bytes]) -> None:
        """Remove entries from the lists of a place, and fill the gap from its candidates.

        A candidate asked this place lately though it was in none of its lists. It may belong there
        now: it learned of the departure sooner, and will not ask again.
        """
        place.drop(gone)
        self.lists_changed()
        for node in list(place.candidates.values()):
            if node.key not in gone and self.is_present(node) and place.insert(node):
                place.note_unconfirmed(node.key, self.host.now_us)  # until it sends a message
                self.check_alive(node.address)

    def probe_lost(self) -> None:
        """Probe the lost peers that are due; forget those lost for over `REMEMBERED_US`."""
        now_us = self.host.now_us
        for address, lost in list(self.lost.items()):
            if lost.since_us + REMEMBERED_US < now_us:
                del self.lost[address]
            elif lost.probe_at_us <= now_us:
                if lost.since_us + OWED_US < now_us:
                    lost.nodes.clear()
                self._probe(address, lost)

    def addresses_lost_within(self, within_us: int) -> list[Address]:
        """Peers lost within this time, which may still be alive: only messages between them and
        this peer may have been dropped.
        """
        since_us = self.host.now_us - within_us
        return [address for address, lost in self.lost.items() if lost.since_us >= since_us]

    def lost_within(self, within_us: int) -> list[Certificate]:
        """Places of peers lost within this time."""
        since_us = self.host.now_us - within_us
        lost = [each for each in self.lost.values() if each.since_us >= since_us]
        return [node for each in lost for node in each.nodes.values()]

    def _probe_early(self, address: Address, lost: LostPeer) -> None:
        if lost.probed_us + PROBE_US <= self.host.now_us:
            self._probe(address, lost)

    def _probe(self, address: Address, lost: LostPeer) -> None:
        now_us = self.host.now_us
        often_us, rarely_us = backed_off_us(lost.wait_us, 1, PROBE_CAP_US), now_us - lost.since_us
        wait_us = often_us if self.may_return(lost) else rarely_us // PROBE_GROWTH
        lost.schedule_probe(now_us, wait_us)
        self.host.send(address, Ping(0))

    def may_return(self, lost: LostPeer) -> bool:
        """Whether a lost peer is still restored to all its places by its first message."""
        return lost.since_us + LOST_US >= self.host.now_us

    # --- suspicion reports

    def report_silent(self, address: Address) -> None:
        """Report an address that left our lists to all contacts, unless three peers have reported
        it.
        """
        if not self.is_widely_reported(address):
            if not self._unreported:
                self.host.after(int(REPORT_US * (1 + self.host.rng.random())), SuspicionReportDue())
            self._unreported.append(address)

    @handles(SuspicionReportDue)
    def on_suspicion_report_due(self, alarm: SuspicionReportDue) -> None:
        """Report to all contacts. Each lost peer is probed once more: where messages are lost, a
        suspicion may be false, and this probe ends it before the planned ones.
        """
        lost, reported = self.lost, list[Address]()
        for address in self._unreported:
            if address in lost:
                self.host.send(address, Ping(0))
            is_out = address in lost or address in self.detector.left
            if is_out and not self.is_widely_reported(address):
                reported.append(address)
        self._unreported = []
        for address in self._places.contact_addresses() if reported else ():
            if address not in lost and address not in reported:
                self.host.send(address, SuspicionReport(tuple(reported)))

    @handles(SuspicionReport)
    def on_suspicion_report(self, sender: Address, report: SuspicionReport) -> None:
        """Probe the reported addresses that are in our lists. The report itself removes nothing.

        A report that names this peer means that the sender had lost it: this peer catches up.
        """
        now_us = self.host.now_us
        if (
            self.address in report.addresses
            and self._reinstated_us.get(sender, -REFOUND_US) < now_us - REFOUND_US
        ):
            self._catch_up()
        for address in report.addresses:
            if address == self.address:
                continue
            # true for most reports
            is_sought = address in self._unreported or self.detector.is_probing(address)
            if is_sought or self.lists(address):
                since_us, reporters = self.reports.pop(address, (now_us, ()))
                if since_us + REPORTED_US < now_us:
                    since_us, reporters = now_us, ()
                if sender not in reporters and len(reporters) < REPORTERS_ENOUGH:
                    reporters = (*reporters, sender)
                self.reports[address] = (since_us, reporters)
                self.check_alive(address)

    def is_widely_reported(self, address: Address) -> bool:
        """Whether three peers reported this address within `REPORTED_US`."""
        since_us, reporters = self.reports.get(address, (0, ()))
        return len(reporters) >= REPORTERS_ENOUGH and since_us + REPORTED_US >= self.host.now_us

    def lists(self, address: Address) -> bool:
        """Whether a place of this address is listed."""
        if address in self.lost or address in self.detector.left:
            return False
        return any(address in place.addresses for place in self._places.held.values())
