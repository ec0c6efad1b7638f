"""Views: which brokers are alive, and the tree that connects them. The first live broker decides.

All brokers know the list of all configured brokers. The *root* is the first of the list that a
broker does not believe lost. Every broker monitors the root; the root monitors every broker, and
excludes or includes those that changed by a new *view*: a tree over the live brokers, with a number
above every known one. A broker follows the newest view. In a partition two roots lead two trees;
when they hear each other the later one steps back, and the other includes all brokers again.

A broker that starts or restarts announces the number 0 and gets a new view. Its only durable state
is the highest number it knew (`highest`), so that it neither uses a number twice nor follows a view
in two incarnations: its neighbours would take its messages in the second one for repeats. Brokers
that start together make their first tree like every other, once the root knows of each whether it
is alive and its round trips to the others (`round_trips.py`).

Being lost is a private opinion and ends at any message (`detector.py`). Lost brokers are probed
from time to time, because two brokers that believe each other dead would otherwise stay silent for
ever.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice

from implicast.overlay.backbone.fields import BROKERS_MAX, Capacity, Epoch, Neighbours
from implicast.overlay.backbone.round_trips import RoundTrips
from implicast.overlay.backbone.tree import spanning_tree
from implicast.peer.contract import Address, Host, Message, Part, StandingAlarm, handles
from implicast.peer.detector import Detector, DetectorSettings

RECOVERY_US = 180_000_000
"""Time after a restart of a broker in which its former clients register again, here or elsewhere:
three leases of a client.
"""
PROBE_LOST_US = 8_000_000
"""Interval between probes of a lost broker."""
REPORT_ROUNDS_MAX = 3
"""Rounds in which the root asks for round trips before it uses those it has."""
RANK_BITS = 17
"""Low bits of a view's number: the rank of its maker, so that no two brokers make views of the same
number.
"""
FIRST_EPOCH = 1 << RANK_BITS
"""Number of the first view of an assembled backbone."""
RANKS_CACHED = 4
"""Backbones of one process whose ranks are cached."""


class BrokerPing(Message):
    """Liveness probe; the sender follows this view."""

    wire = 0x0306
    epoch: Epoch


class BrokerPong(Message):
    """Answer to a probe; the sender follows this view. 0: it has just started and knows none."""

    wire = 0x0307
    epoch: Epoch


class View(Message):
    """A new view: its number, its root, and the receiver's neighbours in the tree."""

    wire = 0x0308
    epoch: Epoch
    root: Address
    neighbours: Neighbours
    room: Capacity
    """Capacity of the filters in tags; all brokers' filters have the same size."""
    lost: Neighbours = ()
    """Configured brokers that are not in the tree."""
    recovering: Neighbours = ()
    """Brokers that restarted lately: their clients may not have registered again."""


class CheckBrokers(StandingAlarm):
    """Fires when the other brokers are to be checked."""


@lru_cache(maxsize=RANKS_CACHED)
def ranks(brokers: tuple[Address, ...]) -> Mapping[Address, int]:
    """All configured brokers in the agreed order, each with its rank. The brokers of one process
    share the result: otherwise each of 10,000 brokers would store 10,000 ranks.
    """
    return {broker: number for number, broker in enumerate(sorted(brokers))}


class Views(Part, parts={"detector": Detector, "round_trips": RoundTrips}):
    """A broker's part in the agreement; `follow` is called with each view that it follows."""

    __slots__ = (
        "_follow_view",
        "_lost",
        "_members",
        "_previous_highest",
        "_probed_us",
        "_ranks",
        "_recovering",
        "_report_rounds",
        "_restored_epoch",
        "_room",
        "_sent_views",
        "_served",
        "_stale",
        "_unheard",
        "_watch_us",
        "detector",
        "epoch",
        "followed",
        "highest",
        "round_trips",
    )

    def __init__(
        self,
        address: Address,
        host: Host,
        brokers: Sequence[Address],
        watch_us: int,
        follow: Callable[[View], None],
        room: Callable[[], int],
        detector_settings: DetectorSettings,
    ) -> None:
        super().__init__(address, host)
        assert len(brokers) <= BROKERS_MAX, f"a backbone has at most {BROKERS_MAX} brokers"
        self._ranks = ranks(tuple(brokers))
        self._watch_us, self._follow_view, self._room = watch_us, follow, room
        self.detector: Detector[Address] = Detector(
            address, host, detector_settings, self._on_suspicion
        )
        self.round_trips = RoundTrips(address, host, self._ranks, self._on_report)
        self.epoch = 0
        self.highest = 0
        """Highest view number known to this broker; its only durable state."""
        self._previous_highest = 0
        """Highest number of a view that an earlier incarnation may have followed."""
        self._members: Collection[Address] = ()
        self._lost: dict[Address, None] = {}
        self._probed_us: dict[Address, int] = {}
        self.followed: dict[Address, int] = {}
        """At the root: the newest view that each broker reported to follow."""
        self._restored_epoch = 0
        """The view that brokers without a report follow: the first one, in an assembled backbone.
        """
        self._unheard: set[Address] = set()
        """Brokers that have never been heard; it is unknown whether they are alive."""
        self._served: set[Address] = set()
        """Brokers of the views that this broker made: they may have clients."""
        self._recovering: dict[Address, int] = {}
        """At the root: brokers that restarted, and until when their clients register again."""
        self._stale = False
        self._report_rounds = 0
        self._sent_views: dict[Address, View] = {}
        """At the root: the view of each broker, sent unchanged at every repeat; later measurements
        are for the next view.
        """

    def restore(self) -> None:
        """Begin in an assembled backbone, where all brokers follow the first view."""
        self.epoch = self.highest = self._restored_epoch = FIRST_EPOCH
        self._members = self._ranks
        self._served.update(self._ranks)

    def begin(self, highest: int) -> None:
        """Start alone, with the highest known number as the only memory. Probes all brokers at
        once: if this broker has to become root, probing them one after the other would cost one
        detection time each.
        """
        self.highest = self._previous_highest = highest
        if highest:
            self._recovering[self.address] = self.host.now_us + RECOVERY_US
        self._unheard.update(self._others())
        for other in self._others():
            self.detector.probe(other, BrokerPing(0))
        self.start_monitoring()

    def heard_from(self, broker: Address) -> None:
        """Any message of another broker is a sign of life."""
        if self._is_other(broker):
            self._unheard.discard(broker)
            self._lost.pop(broker, None)
            self.detector.heard_from(broker)

    def _others(self) -> Iterator[Address]:
        return (broker for broker in self._ranks if broker != self.address)

    def _is_other(self, address: Address) -> bool:
        return address in self._ranks and address != self.address

    def root(self) -> Address:
        """The first broker that is not believed lost."""
        return next(
            broker for broker in self._ranks if broker == self.address or broker not in self._lost
        )

    def _on_suspicion(self, broker: Address) -> None:
        """A broker is lost. If it was the root, all candidates for its place are probed together;
        one after the other would cost one detection time each.
        """
        was_root = broker == self.root()
        self._lost[broker] = None
        if was_root:
            for other in islice(self._ranks, self._ranks[self.address]):
                if other not in self._lost:
                    self.detector.probe(other, BrokerPing(self.epoch))

    # --- monitoring

    def start_monitoring(self) -> None:
        """Check the other brokers from now on."""
        self.host.after(int(self._watch_us * (0.75 + 0.5 * self.host.rng.random())), CheckBrokers())

    @handles(CheckBrokers)
    def on_check_brokers(self, alarm: CheckBrokers) -> None:
        self.start_monitoring()
        root = self.root()
        for other in self._others():
            if other in self._lost:
                self.probe_lost(other)
            elif root in (self.address, other):
                self.detector.check(other, self._watch_us, BrokerPing(self.epoch))
        if root == self.address:
            self.update_view()

    def probe_lost(self, lost: Address) -> None:
        if self._probed_us.get(lost, -PROBE_LOST_US) + PROBE_LOST_US <= self.host.now_us:
            self._probed_us[lost] = self.host.now_us
            self.host.send(lost, BrokerPing(self.epoch))

    def update_view(self) -> None:
        """At the root: make a new view if a broker has come or gone; else repeat the current one to
        those that do not follow it.
        """
        members = self._present()
        if members == list(self._members) and not self._stale:
            self._send_view()
        elif self._unheard.isdisjoint(members):
            self._report_rounds += 1
            if self._report_rounds > REPORT_ROUNDS_MAX or self.round_trips.is_complete(members):
                self._make_view(members)
            else:
                self.round_trips.request_reports(members)

    def _present(self) -> list[Address]:
        return [broker for broker in self._ranks if broker not in self._lost]

    def _on_report(self) -> None:
        """A report of round trips has arrived; a new view may have waited for it."""
        if (
            self._report_rounds
            and self.root() == self.address
            and self.round_trips.is_complete(members := self._present())
        ):
            self._make_view(members)

    def _make_view(self, members: list[Address]) -> None:
        self._report_rounds, self._stale, self._members = 0, False, members
        self._served.update(members)
        self.epoch = (((self.highest >> RANK_BITS) + 1) << RANK_BITS) + self._ranks[self.address]
        self.highest = self.epoch
        self.followed, self._restored_epoch = {}, 0
        tree, room = spanning_tree(members, self.round_trips.round_trip_us), self._room()
        lost = tuple(broker for broker in self._ranks if broker in self._lost)
        now_us = self.host.now_us
        recovering = tuple(
            broker for broker, until_us in self._recovering.items() if until_us > now_us
        )
        self._sent_views = {
            broker: View(self.epoch, self.address, beside, room, lost, recovering)
            for broker, beside in tree.items()
        }
        self._send_view()
        self._follow_view(self._sent_views[self.address])

    def _send_view(self) -> None:
        for broker, view in self._sent_views.items():
            if broker != self.address and self.followed.get(broker) != self.epoch:
                self.host.send(broker, view)

    # --- messages of other brokers

    @handles(BrokerPing, BrokerPong)
    def on_ping(self, sender: Address, ping: BrokerPing | BrokerPong) -> None:
        """The root's view must be above every other one, and the root makes a new one for a broker
        that has lost its memory.
        """
        if not self._is_other(sender):
            return
        if isinstance(ping, BrokerPing):
            self.host.send(sender, BrokerPong(self.epoch))
        else:
            self.detector.answered(sender)
        self.heard_from(sender)
        self.highest = max(self.highest, ping.epoch)
        if self.root() == self.address:
            self._stale |= ping.epoch > self.epoch or ping.epoch < self.followed.get(
                sender, self._restored_epoch
            )
            if not ping.epoch and sender in self._served:
                self._recovering[sender] = self.host.now_us + RECOVERY_US
            self.followed[sender] = ping.epoch

    @handles(View)
    def on_view(self, sender: Address, view: View) -> None:
        """A view that an earlier incarnation may have followed is not followed again. The root may
        not know that that incarnation has ended, so the answer is a number above the view, which
        makes the root send another.
        """
        if not self._is_other(sender) or not {view.root, *view.neighbours} <= self._ranks.keys():
            return
        self.heard_from(sender)
        self.highest = max(self.highest, view.epoch)
        if self.root() == self.address:
            self._stale |= view.epoch > self.epoch
        elif view.epoch > max(self.epoch, self._previous_highest):
            self.epoch = view.epoch
            self._members = ()  # an earlier view of this broker must not count as the current one
            self._follow_view(view)
        self.host.send(sender, BrokerPong(self.epoch or self._previous_highest + 1))
