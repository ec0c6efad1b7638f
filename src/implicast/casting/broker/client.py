"""A member of BROKER: it looks for the nearest broker and, with receipts, for another one when its
own dies.

It sends its registration and its open casts to the new broker. A false suspicion of the old broker
does no harm: its notifications are recognised as repeats, and it removes the client after a lease.
"""

from implicast.casting.front_end_client import ClientState, FrontEndClient
from implicast.casting.inbox import Outcome
from implicast.casting.notifier import Acks, acknowledge_nothing
from implicast.overlay.backbone.tree import by_rank
from implicast.peer.contract import Address, CastId, Message, handles
from implicast.peer.events import Joined
from implicast.peer.member import DurableState
from implicast.peer.memory import Recent
from implicast.peer.site import Site

PROBE_AGAIN_US = 2_000_000
NOTIFIED_BY_MAX = 4_096
"""Casts for which the notifying broker is remembered: more than arrive while a broker repeats one.
"""
NOTIFIED_BY_DURABLE_MAX = 64
"""The latest of these, which are written to disk: those a broker may still repeat after a crash."""


class BrokerProbe(Message):
    """A client that looks for the nearest broker sends this to all of them and uses the first that
    answers.
    """

    wire = 0x0312


class BrokerProbeAck(Message):
    """A broker that has a view answers a probe."""

    wire = 0x0313


class NotifiedBy(Message):
    """The broker from which a cast was taken."""

    cast: CastId
    broker: Address


class DurableBrokerClient(DurableState):
    """Durable state of a client, with the brokers from which it took its latest casts."""

    notified_by: tuple[NotifiedBy, ...] = ()


class CountedOnce(Acks):
    """Acknowledgements to several brokers: an earlier or a later broker of the client may notify it
    too. The cast counts at the broker that was answered first.
    """

    __slots__ = ("_notified_by",)

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._notified_by: Recent[CastId, Address] = Recent(NOTIFIED_BY_MAX)
        """By cast, the broker from which it was taken."""
        for each in site.durable_state.notified_by if site.durable_state is not None else ():
            self._notified_by[each.cast] = each.broker

    def acknowledge(self, to: Address, cast: CastId, outcome: Outcome) -> None:
        first = self._notified_by.get(cast)
        if first is None and outcome not in (Outcome.REPEAT, Outcome.FULL):
            self._notified_by[cast] = to
        elif first != to and outcome != Outcome.FULL:
            outcome = Outcome.ELSEWHERE
        super().acknowledge(to, cast, outcome)

    def latest(self) -> tuple[NotifiedBy, ...]:
        """The brokers of the latest casts, for the durable state."""
        latest = [*self._notified_by.items()][-NOTIFIED_BY_DURABLE_MAX:]
        return tuple(NotifiedBy(cast, broker) for cast, broker in latest)


class ProbeAgain(Message):
    """Fires when no broker has answered the probes for a while."""


class BrokerClient(FrontEndClient):
    """Knows the addresses of all brokers and, after joining, which of them serves it."""

    __slots__ = ("_acks", "_joined", "_network", "_probing", "brokers", "tries")

    def __init__(self, site: Site) -> None:
        self._acks = CountedOnce(site)
        acknowledge = self._acks.acknowledge if site.assured else acknowledge_nothing
        super().__init__(site, None, int(float(site.parameters["check_s"]) * 1e6), acknowledge)
        self.brokers, self._network = site.infrastructure["broker"], site.network
        self.tries = int(site.parameters["tries"])
        self._joined = self._probing = False

    def restore(self, state: ClientState) -> None:
        self._joined = True
        super().restore(state)

    def join(self, introducers: tuple[Address, ...]) -> None:
        if self.front_end is not None:
            self.host.deliver(Joined())
        else:
            self._probe()

    def durable_state(self) -> DurableBrokerClient:
        return DurableBrokerClient(
            self.durable_member(self.receiver.inbox.seen.blocks()), self._acks.latest()
        )

    def _probe(self) -> None:
        """Probe all brokers in the order of the client's preference, which decides between equally
        near ones.
        """
        if not self._probing:
            self._probing = True
            self.host.after(PROBE_AGAIN_US, ProbeAgain())
        for broker in by_rank(self.name, self.brokers, self._network):
            self.host.send(broker, BrokerProbe())

    @handles(ProbeAgain)
    def on_probe_again(self, alarm: ProbeAgain) -> None:
        self._probing = False
        if self.front_end is None:
            self._probe()

    @handles(BrokerProbeAck)
    def on_broker_probe_ack(self, sender: Address, here: BrokerProbeAck) -> None:
        if self.front_end is not None or sender not in self.brokers:
            return
        self.attach(sender)
        if not self._joined:
            self._joined = True
            self.host.deliver(Joined())

    def send_keep_alive(self, unanswered: int) -> None:
        """Few attempts: a client that leaves a live broker loses nothing."""
        if unanswered < self.tries:
            super().send_keep_alive(unanswered)
        else:
            self.detach()
            self._probe()
