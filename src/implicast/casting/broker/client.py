"""A member of BROKER: it looks for the nearest broker, and with receipts for another one when its own dies.

What it has registered, and the casts about which something is open, it tells the new broker. Being wrong about the
old one does no harm: the old one's notifications are recognised as repeats, and it forgets the client after a lease.
"""

from typing import Any

from implicast.casting.broker.messages import Here, Probe
from implicast.casting.served import KeptServed, Served
from implicast.overlay.backbone.tree import by_rank
from implicast.peer.contract import Address, Message, handles
from implicast.peer.events import Joined
from implicast.peer.site import Site

PROBE_AGAIN_US = 2_000_000


class ProbeAgain(Message):
    """Rings when no broker has answered for a while."""


class Client(Served):
    """Knows the addresses of all brokers and, once it has joined, which of them serves it."""

    __slots__ = ("_joined", "_network", "_probing", "_tries", "brokers")

    def __init__(self, site: Site, broker: Address | None = None) -> None:
        """`broker`: the nearest, where that is known beforehand."""
        super().__init__(site, broker, int(float(site.parameters["check_s"]) * 1e6))
        self.brokers, self._network = site.infrastructure["broker"], site.network
        self._tries = int(site.parameters["tries"])
        self._joined, self._probing = broker is not None, False

    def join(self, introducers: tuple[Address, ...]) -> None:
        if self.station is not None:
            self.host.deliver(Joined())
        else:
            self._probe()

    def kept(self) -> KeptServed:
        return KeptServed(self.kept_member(self.hearing.inbox.seen.heard()), self.kept_requests())

    def holdings(self) -> Any:
        return (self.station, self.description)

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

    @handles(Here)
    def on_here(self, sender: Address, here: Here) -> None:
        if self.station is not None or sender not in self.brokers:
            return
        self.meet(sender)
        if not self._joined:
            self._joined = True
            self.host.deliver(Joined())

    def check(self, in_vain: int) -> None:
        """Few tries: a client that is wrong about its broker loses nothing by going to another."""
        if in_vain < self._tries:
            super().check(in_vain)
        else:
            self.part()
            self._probe()
