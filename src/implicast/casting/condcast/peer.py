"""A condcast peer: its value goes into the aggregates of those behind it, casts find their way by aggregates.

What `Registered` promises: every table has had the time to learn of this value. Nobody can know it for certain, for
nobody knows who holds which aggregate; the peer waits until an update has passed it with the new value, and then for
P + G per level of its table, in which time every level of every table has been refreshed in turn. A value that adds
nothing to the one before is promised at once, and so is one that was in every table from the start. A withdrawal is
complete at once: the peer itself decides last, and a value that fell costs messages, never a notice.

Until a peer has said what it is, its value is *unknown*, not empty: aggregates over it are unknown and hide nobody.

While flows rest (an assembled population whose values settled before the run) a value that rises is told to all by
plain split-forward broadcasting, and everybody adds it to the aggregate that covers it: n - 1 messages a change.
"""

from dataclasses import dataclass, field

from implicast.casting.condcast.flows import Flows, FlowSettings
from implicast.casting.condcast.member import CondcastMember
from implicast.casting.condcast.messages import Condcast, Query, Risen, Visible
from implicast.casting.condcast.split import split
from implicast.language.portrait import Sought
from implicast.language.queries import Everything
from implicast.overlay.chord_sharp import ChordSharp, Freight, SharpSettings
from implicast.overlay.links import Links, LinkSettings
from implicast.peer.contract import Address, CastId, Host, handles
from implicast.peer.events import Joined, Left, Registered
from implicast.space.ring import Arc, Key

ANNOUNCED_US = 10_000_000
"""How long a plain broadcast may take to reach everybody: log2 n hops of half a second."""


@dataclass(frozen=True, slots=True)
class CondcastSettings:
    """What a population agrees on."""

    bits: int = 4096
    hashes: int = 4
    flows: FlowSettings = field(default_factory=FlowSettings)
    links: LinkSettings = field(default_factory=LinkSettings)
    sharp: SharpSettings = field(default_factory=SharpSettings)
    resting: bool = False
    """Whether an assembled population starts with settled tables and resting flows."""


class CondcastPeer(CondcastMember, parts={"links": Links, "ring": ChordSharp, "flows": Flows}):
    """One peer at one place of the ring, for life."""

    __slots__ = ("flows", "fresh_us", "ring", "settings")

    ring: ChordSharp
    settings: CondcastSettings

    def __init__(self, address: Address, host: Host, key: Key, settings: CondcastSettings) -> None:
        super().__init__(address, host)
        self.settings = settings
        self.links = Links(address, host, key, settings.links)
        self.ring = ChordSharp(address, host, self.links, settings.sharp)
        self.ring.passenger = self
        self.flows = Flows(address, host, self.ring, settings.flows)
        self.fresh_us: int | None = None
        """When an update first passed with the present value; None: not yet."""

    # --- verbs of the application

    def set_value(self, value: Freight) -> None:
        """Hold this value from now on, as `register` does with a portrait; `Registered` follows likewise."""
        # An unknown value hides nobody, so while flows rest nothing is to be told.
        known = not self.flows.running if self.own is None else self.adds_nothing(value)
        self.own = value
        version = self.next_version()
        self.fresh_us = None
        if self.links.state != "in":
            return  # promised after the join
        if known:
            self._keep_promise(version)
        else:
            self._promise(version)

    def condcast(self, arc: Arc, query: Query, payload: bytes) -> CastId:
        """Cast to whoever matches among the keys of an arc."""
        cast = self.next_cast()
        self._carry(cast, (arc,), query, payload)
        return cast

    # --- casts

    @handles(Condcast)
    def on_condcast(self, sender: Address, message: Condcast) -> None:
        self._carry(message.cast, message.arcs, message.query, message.payload)

    def _carry(self, cast: CastId, arcs: tuple[Arc, ...], query: Query, payload: bytes) -> None:
        match = query.matcher() if isinstance(query, Sought) else query.match
        here, onward = split(self.ring.table, arcs, match)
        if here:
            self.tell(cast, query, payload)
        for node, pieces in onward:
            self.host.send(node.address, Condcast(cast, pieces, query, payload))

    # --- what the overlay tells

    def refreshed(self) -> None:
        if self.flows.updating and self.fresh_us is None and self.ring.table.own is self.own:
            self.fresh_us = self.host.now_us
        self.flows.refreshed()

    def entered(self) -> None:
        self.flows.start()
        self.host.deliver(Joined())
        if self.own is not None:
            self._promise(self.version)

    def departed(self) -> None:
        """Off the ring; the table stays, so that casts already under way to this peer find their way on."""
        self.flows.stop()
        self.description = self.own = None
        self.host.deliver(Left())

    # --- promises

    def _promise(self, version: int) -> None:
        if self.flows.running:
            self.host.after(self.age_us(), Visible(version))
        else:
            self._announce()
            self.host.after(ANNOUNCED_US, Visible(version))

    @handles(Visible)
    def on_visible(self, alarm: Visible) -> None:
        if alarm.version != self.version or self.links.state != "in":
            return
        wait_us = self._until_visible_us() if self.flows.running else 0
        if wait_us > 0:
            self.host.after(wait_us, alarm)
        else:
            self._keep_promise(alarm.version)

    def _until_visible_us(self) -> int:
        if self.fresh_us is None:
            return self.settings.flows.period_us
        return self.fresh_us + self.age_us() - self.host.now_us

    def _keep_promise(self, version: int) -> None:
        self.promised = version
        self.host.deliver(Registered(version))

    def age_us(self) -> int:
        """How long after an update has passed a value may lack in some table: one refresh of all per level.

        Level i of every table is fresh one refresh after the levels below it are. A bound as long as everybody is
        refreshed within P + G. The paper's E (14) is shorter but only an estimate: it was exceeded in 26 of 42
        rings tried, and a promise made by it came too early in some (`FIDELITY.md`).
        """
        flows = self.settings.flows
        return max(1, len(self.ring.table)) * (flows.period_us + flows.grace_us)

    # --- while flows rest

    def _announce(self) -> None:
        assert self.own is not None, "what is announced is known"
        key = self.links.me.key
        self.ring.table.widen(key, self.own)  # the top level may run on past the peer itself
        self._tell((Arc(key, key),), key, self.own)

    @handles(Risen)
    def on_risen(self, sender: Address, risen: Risen) -> None:
        self.ring.table.widen(risen.key, risen.value)
        self._tell(risen.arcs, risen.key, risen.value)

    def _tell(self, arcs: tuple[Arc, ...], key: Key, value: Freight) -> None:
        for node, pieces in split(self.ring.table, arcs, Everything().match)[1]:
            self.host.send(node.address, Risen(pieces, key, value))
