"""A member of BROKER: it looks for the nearest broker, and with receipts for another one when its own dies.

What it has registered, and the casts about which something is open, it tells the new broker. Being wrong about the
old one does no harm: the old one's notifications are recognised as repeats, and it forgets the client after a lease.
"""

from implicast.casting.inbox import Outcome
from implicast.casting.served import Served
from implicast.casting.service import Probe, Serving
from implicast.casting.telling import Got, Notify
from implicast.overlay.backbone.tree import by_rank
from implicast.peer.contract import Address, CastId, Message, handles
from implicast.peer.events import Joined
from implicast.peer.member import Keepsake
from implicast.peer.memory import Recent
from implicast.peer.site import Site

PROBE_AGAIN_US = 2_000_000
TOLD_MAX = 4_096
"""Casts of which is remembered who told them: more than come while a broker repeats one."""
TOLD_KEPT_MAX = 64
"""Of these, the latest that are written down: what a broker may still ask about after a crash."""


class ToldBy(Message):
    """From which broker a cast was taken."""

    cast: CastId
    broker: Address


class KeptBrokered(Keepsake):
    """What outlives a crash of a client: also where it counts."""

    told: tuple[ToldBy, ...] = ()


class ProbeAgain(Message):
    """Rings when no broker has answered for a while."""


class BrokerClient(Served):
    """Knows the addresses of all brokers and, once it has joined, which of them serves it."""

    __slots__ = ("_joined", "_network", "_probing", "_told_by", "_tries", "brokers")

    def __init__(self, site: Site, broker: Address | None = None) -> None:
        """`broker`: the nearest, where that is known beforehand."""
        super().__init__(site, broker, int(float(site.parameters["check_s"]) * 1e6))
        self.brokers, self._network = site.infrastructure["broker"], site.network
        self._tries = int(site.parameters["tries"])
        self._joined, self._probing = broker is not None, False
        self._told_by: Recent[CastId, Address] = Recent(TOLD_MAX)
        """From which broker it took a cast."""
        for each in site.kept.told if site.kept is not None else ():
            self._told_by[each.cast] = each.broker

    def join(self, introducers: tuple[Address, ...]) -> None:
        if self.station is not None:
            self.host.deliver(Joined())
        else:
            self._probe()

    def kept(self) -> KeptBrokered:
        told = [ToldBy(cast, broker) for cast, broker in [*self._told_by.items()][-TOLD_KEPT_MAX:]]
        return KeptBrokered(self.kept_member(self.hearing.inbox.seen.heard()), tuple(told))

    def _probe(self) -> None:
        """Equally near brokers answer in the order in which they were asked: that of the client's preference."""
        if not self._probing:
            self._probing = True
            self.host.after(PROBE_AGAIN_US, ProbeAgain())
        for broker in by_rank(self.name, self.brokers, self._network):
            self.host.send(broker, Probe())

    @handles(ProbeAgain)
    def on_probe_again(self, alarm: ProbeAgain) -> None:
        self._probing = False
        if self.station is None:
            self._probe()

    @handles(Serving)
    def on_here(self, sender: Address, here: Serving) -> None:
        if self.station is not None or sender not in self.brokers:
            return
        self.meet(sender)
        if not self._joined:
            self._joined = True
            self.host.deliver(Joined())

    @handles(Notify)
    def on_notify(self, sender: Address, notify: Notify) -> None:
        """A broker that served this client before, or serves it since, may tell it too: it counts where it took it."""
        outcome = self.hearing.inbox.take(notify.cast, notify.target, notify.payload)
        if not self.assured:
            return
        if outcome == Outcome.TAKEN:
            self._told_by[notify.cast] = sender
        elif outcome == Outcome.REPEAT and self._told_by.get(notify.cast) != sender:
            outcome = Outcome.ELSEWHERE
        self.host.send(sender, self.words.say(Got(notify.cast, self.name, outcome)))

    def check(self, in_vain: int) -> None:
        """Few tries: a client that is wrong about its broker loses nothing by going to another."""
        if in_vain < self._tries:
            super().check(in_vain)
        else:
            self.part()
            self._probe()
