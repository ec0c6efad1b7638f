"""A member of the Byzantine-tolerant design that outlives crashes, loss and partitions, its own sleep included.

Lists are kept by own evidence and signed words alone (`overlay/skip_graph/living.py`); steps of multicasts are
confirmed and repeated (`carriage.py`); places come and go by messages, and whoever leaves serves until all know.
"""

from implicast.casting.bft.carriage import Carriage
from implicast.casting.bft.gate import Gate
from implicast.casting.bft.keys import HOME
from implicast.casting.bft.member import Bft, Manner
from implicast.casting.bft.messages import Granted, Hop, Present, Source
from implicast.casting.bft.multicast import Arc
from implicast.casting.bft.settler import CLEARING, JOINING, PRESENT, RENEWING, Settler
from implicast.language.target import Target
from implicast.overlay.detector import Detector, Ping
from implicast.overlay.skip_graph.living import LivingGraph
from implicast.peer.contract import Address, CastId, Host, Message, handles
from implicast.peer.events import Left
from implicast.peer.signatures import Signer

PRESENT_US = 60_000_000
"""How often a member tells the authority that it is there, and looks at its place through strangers drawn by it."""
ALONE_US = 2_000_000
"""A newcomer whose introducers were all silent asks for others after this time."""


class LivingSettler(Settler):
    """Comes to its places by messages, says that it is there, renews its certificates, and leaves with a farewell."""

    __slots__ = ("_given", "living")

    def __init__(self, address: Address, host: Host, graph: LivingGraph, signer: Signer, office: Address) -> None:
        super().__init__(address, host, graph, signer, office)
        self.living = graph
        self._given: tuple[Address, ...] = ()
        graph.lonely = self._lonely

    def start(self) -> None:
        self.host.after(int(PRESENT_US * self.host.rng.random()), Present(PRESENT))

    def begin(self, introducers: tuple[Address, ...]) -> None:
        self._given = introducers
        super().begin(introducers)

    def depart(self) -> None:
        """All places at once: they serve until everyone who may list them knows."""
        self._departed, self._wish = True, None
        self.living.leave(self._gone)

    def _gone(self) -> None:
        given_up = list(self._held)
        self._held.clear()
        self._superfluous.clear()
        if given_up:
            self._send_application(CLEARING, [], given_up)
        self.host.deliver(Left())

    def _lonely(self, key: bytes) -> None:
        self.host.after(ALONE_US, Present(JOINING))

    @handles(Present)
    def on_present(self, alarm: Present) -> None:
        if alarm.errand == JOINING:
            if not self._departed:
                self._send_application(JOINING, [HOME], [])
            return
        self.host.after(PRESENT_US, alarm)
        if self._departed or HOME not in self._held:
            return
        expiring = [realm for realm, key in self._held.items() if self.living.expires_soon(key)]
        self._send_application(RENEWING if expiring else PRESENT, expiring, [])

    @handles(Granted)
    def on_granted(self, sender: Address, granted: Granted) -> None:
        """The authority's draw and the application's own contacts introduce a newcomer together."""
        if granted.errand in (PRESENT, RENEWING):
            self._noted_present(sender, granted)
            return
        both = tuple(dict.fromkeys((*granted.introducers, *self._given)))
        super().on_granted(sender, Granted(granted.errand, granted.certificates, both, granted.revocation))

    def _noted_present(self, sender: Address, granted: Granted) -> None:
        if sender != self._office or self._unanswered.answer(granted.errand) is None or self._departed:
            return
        if granted.revocation is not None:
            self.graph.learn(granted.revocation)
        for certificate in granted.certificates:
            self.living.renew(certificate)
        self.living.ask_strangers(granted.introducers)
        self._next_wish()


class LivingBft(
    Bft, parts={"graph": LivingGraph, "settler": LivingSettler, "detector": Detector, "carriage": Carriage}
):
    """One participant that trusts nobody but the authority, in a world that fails."""

    __slots__ = ("carriage", "detector")

    graph: LivingGraph

    def __init__(
        self, address: Address, host: Host, graph: LivingGraph, gate: Gate, signer: Signer, settler: LivingSettler,
        manner: Manner,
    ) -> None:  # fmt: skip
        super().__init__(address, host, graph, gate, signer, settler, manner)
        self.detector = graph.detector
        self.carriage = Carriage(address, host, graph.watch, graph.is_there, self._recast)
        graph.gone = self.carriage.drop

    def receive(self, sender: Address, message: Message) -> None:
        self.graph.heard(sender)
        if type(message) is not Ping or not self.graph.has_left(sender):
            super().receive(sender, message)

    def leave(self) -> None:
        self.description = None
        self.settler.depart()

    def cast(self, target: Target, payload: bytes) -> CastId:
        cast = self.upcoming_cast()
        if self.graph.places:
            self.carriage.begin(cast)
        super().cast(target, payload)
        if self.graph.places:
            self.carriage.made(cast)
        return cast

    @handles(Hop)
    def on_hop(self, sender: Address, hop: Hop) -> None:
        if self._judge(hop):
            self.carriage.confirm(sender, hop)

    def _carry(self, address: Address, hop: Hop) -> None:
        self.carriage.send(address, hop)

    def _recast(self, source: Source) -> None:
        if self.graph.places:
            self._multicast(self._source(source.cast, source.target, source.handles, source.payload, source.arc))

    def _waits(self, arc: Arc, key: bytes) -> bool:
        """A place in range whose lists do not reach the level of a message yet waits for another copy of it."""
        return arc.holds(key)
