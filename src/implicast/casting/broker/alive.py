"""A broker that outlives the death of others, and its own.

- Brokers agree on who of them is there and on a tree (`overlay/backbone/views.py`); with each new tree the filters are
  built anew while casts flood (`overlay/backbone/living.py`).
- A cast is confirmed to its publisher when all brokers of a view have it (`routes.py`), and repeated until then.
- Notifications are repeated until confirmed, for 40 s; clients drop what they have heard.
- Clients remind their broker of themselves; whoever does not for a lease is forgotten.
- A broker that comes back remembers one number; its clients tell it what they are at their next reminder.

What is not promised: while its broker is dead and unnoticed, a client hears nothing; what it missed then stays missed.
"""

from collections.abc import Sequence

from implicast.casting.broker.kind import Broker
from implicast.casting.broker.messages import Check, Known, Notify, Pass, Publish, Register, Sweep
from implicast.casting.broker.routes import Routes
from implicast.casting.reliable import Hops
from implicast.language.parameters import Parameters
from implicast.overlay.backbone.living import LivingBackbone
from implicast.overlay.backbone.tree import Latency
from implicast.overlay.backbone.views import Beating, View, Views
from implicast.overlay.detector import Detector, DetectorSettings
from implicast.peer.contract import Address, Host, Message, handles

LEASES = 6
"""A client that has been silent for so many of its reminders is forgotten."""


class LivingBroker(
    Broker, parts={"hops": Hops, "backbone": LivingBackbone, "views": Views, "detector": Detector, "routes": Routes}
):
    """Serves its clients, and is one node of a backbone that heals."""

    __slots__ = ("_others", "detector", "heard_us", "lease_us", "notices", "routes", "views")

    def __init__(
        self, address: int, host: Host, brokers: Sequence[int], neighbours: tuple[int, ...] | None,
        latency_us: Latency, parameters: Parameters, highest: int = 0,
    ) -> None:  # fmt: skip
        """`neighbours`: in the first view; None for a broker that comes back, and has the highest number it knew."""
        super().__init__(address, host, neighbours or (), brokers[0], parameters)
        self._others = frozenset(brokers) - {address}
        self.lease_us = int(float(parameters["check_s"]) * 1e6) * LEASES
        self.heard_us: dict[Address, int] = {}
        self.notices = Hops(address, host)
        self.hops = self.notices  # type: ignore[assignment]
        self.backbone: LivingBackbone = LivingBackbone(
            address, host, neighbours or (), brokers[0], int(parameters["expected_tags"]),
            float(parameters["routing_error"]), self.index.tags, self._covered,
        )  # fmt: skip
        watch_us = int(float(parameters["watch_s"]) * 1e6)
        room = lambda: self.backbone.table.capacity  # noqa: E731
        patience = DetectorSettings(tries=int(parameters["tries"]))
        self.views = Views(address, host, brokers, latency_us, watch_us, self._follow, room, patience)
        self.detector = self.views.detector
        self.routes = Routes(address, host, self.backbone, self.notices.confirm)
        if neighbours is None:
            self.views.arrive(highest)
        else:
            self.views.stand()
            self.backbone.stand(self.views.epoch)
        host.after(self.lease_us // LEASES, Sweep())

    def disk(self) -> int:
        return self.views.highest

    def _follow(self, view: View) -> None:
        """Another tree: what is under way begins again in it."""
        self.backbone.follow(view)
        self.routes.begin_again()
        for client, version in list(self.covering.items()):
            description = self.index.description(client)
            assert description is not None, "only descriptions are covered"
            self.backbone.say(description.tags, (client, version))

    def receive(self, sender: Address, message: Message) -> None:
        if sender in self._others and type(message) is not Beating:
            self.views.heard(sender)
        super().receive(sender, message)

    # --- clients

    @handles(Register)
    def on_register(self, sender: Address, register: Register) -> None:
        self.heard_us[sender] = self.host.now_us
        super().on_register(sender, register)

    @handles(Check)
    def on_check(self, sender: Address, check: Check) -> None:
        known = self.versions.get(sender, 0)
        if known:
            self.heard_us[sender] = self.host.now_us
        self.host.send(sender, Known(known))

    @handles(Sweep)
    def on_sweep(self, alarm: Sweep) -> None:
        """Forget clients that have been silent for a lease."""
        self.host.after(self.lease_us // LEASES, Sweep())
        over_us = self.host.now_us - self.lease_us
        for client in [client for client, heard_us in self.heard_us.items() if heard_us < over_us]:
            del self.heard_us[client]
            self.versions.pop(client, None)
            self.covering.pop(client, None)
            before = self.index.remove(client)
            if before is not None:
                self._lose(before)

    # --- casts

    @handles(Publish)
    def on_publish(self, sender: Address, publish: Publish) -> None:
        self._notify(publish)
        self.routes.carry(sender, None, publish)

    @handles(Pass)
    def on_pass(self, sender: Address, hop: Pass) -> None:
        if hop.epoch > self.backbone.epoch:
            return  # of a view that has not come yet: it will be said again
        self._notify(hop)
        self.routes.carry(sender, hop.epoch, hop)

    def _notify(self, hop: Publish | Pass) -> None:
        """Tell the own clients, once."""
        if self.seen.first(hop.cast):
            notify = Notify(hop.cast, hop.target, hop.payload)
            for client in self.index.select(hop.target):
                self.notices.send(client, hop.cast, notify)
