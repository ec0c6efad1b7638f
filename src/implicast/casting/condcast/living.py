"""A condcast peer where peers crash and messages get lost.

What `Registered` promises: every later cast that selects this peer reaches it, once all is quiet. The argument: no
aggregate is used whose oldest part is older than `stale_us` (`overlay/chord_sharp/living_table.py`), and what speaks
for a key is said by whoever holds that key on the ring. So a peer that has been on the ring with its present value for
`stale_us` is in every aggregate that anybody uses, or the aggregate is unknown and hides nobody. The peer waits that
long, by its own clock and a little more. It begins anew when it finds that it had been passed over (others took it for
dead): meanwhile a neighbour may have spoken for its key. No table is asked and no message sent for it.

A value that adds nothing to one that has been promised is promised at once. A withdrawal is complete at once: the peer
itself decides last.
"""

from dataclasses import dataclass, field

from implicast.casting.condcast.coverage import Carrier
from implicast.casting.condcast.member import CondcastMember
from implicast.casting.condcast.messages import Query, Visible
from implicast.overlay.chord_sharp import Freight, LivingSharp, RoundSettings
from implicast.overlay.detector import Detector
from implicast.overlay.links import Links, LinkSettings, Ref
from implicast.peer.contract import Address, CastId, Host, handles
from implicast.peer.events import Joined, Left, Registered, Settled
from implicast.space.ring import Arc, Key

SLOW_CLOCK = 1.05
"""Everybody's clock may run differently: a promise waits a little longer than its age says."""
LINK_UP_US = 1_000_000
"""A peer that is off the ring when its promise would be due looks again after this."""


@dataclass(frozen=True, slots=True)
class LivingSettings:
    """What a living population agrees on."""

    bits: int = 4096
    hashes: int = 4
    links: LinkSettings = field(default_factory=LinkSettings.living)
    rounds: RoundSettings = field(default_factory=RoundSettings)


class LivingCondcast(
    CondcastMember, parts={"links": Links, "ring": LivingSharp, "carrier": Carrier, "detector": Detector}
):
    """One peer at one place of a ring that heals."""

    __slots__ = ("carrier", "changed_us", "detector", "joined", "ring", "settings")

    ring: LivingSharp
    settings: LivingSettings

    def __init__(self, address: Address, host: Host, key: Key, settings: LivingSettings) -> None:
        super().__init__(address, host)
        self.settings = settings
        self.links = Links(address, host, key, settings.links)
        assert self.links.detector is not None, "a living ring has a detector"
        self.detector = self.links.detector
        self.ring = LivingSharp(address, host, self.links, settings.rounds)
        self.ring.passenger = self
        self.carrier = Carrier(address, host, self.ring, self.tell, self._settle)
        self.changed_us = 0
        """Since when the present value has been on the ring without interruption."""
        self.joined = False

    # --- verbs of the application

    def set_value(self, value: Freight) -> None:
        """Hold this value from now on, as `register` does with a portrait; `Registered` follows likewise."""
        known, self.own = self.adds_nothing(value), value
        version = self.next_version()
        if known and self.links.state == "in":
            self._keep_promise(version)
        else:
            self.changed_us = self.host.now_us
            self.host.after(self._age_us(), Visible(version))

    def condcast(self, arc: Arc, query: Query, payload: bytes) -> CastId:
        """Cast to whoever matches among the keys of an arc."""
        cast = self.next_cast()
        self.carrier.cast(cast, arc, query, payload)
        return cast

    # --- casts

    def _settle(self, cast: CastId, told: int, lost: int) -> None:
        self.host.deliver(Settled(cast, told, lost))

    # --- what the overlay tells

    def entered(self) -> None:
        self.changed_us = self.host.now_us
        if not self.joined:
            self.joined = True
            self.host.deliver(Joined())

    def departed(self) -> None:
        self.description = self.own = None
        self.carrier.hand_back()
        self.host.deliver(Left())

    def silent(self, ref: Ref) -> None:
        self.carrier.silent(ref)

    def moved(self) -> None:
        self.carrier.moved()

    def returned(self) -> None:
        self.changed_us = self.host.now_us

    # --- promises

    @property
    def is_promised(self) -> bool:
        """Whether all have to know the present value."""
        return self.promised == self.version and self.changed_us + self._age_us() <= self.host.now_us

    def _age_us(self) -> int:
        return int(self.settings.rounds.stale_us * SLOW_CLOCK)

    @handles(Visible)
    def on_visible(self, alarm: Visible) -> None:
        if alarm.version != self.version or self.promised == self.version or self.own is None:
            return
        wait_us = self.changed_us + self._age_us() - self.host.now_us
        if self.links.state != "in":
            wait_us = max(wait_us, LINK_UP_US)
        if wait_us > 0:
            self.host.after(wait_us, alarm)
        else:
            self._keep_promise(alarm.version)

    def _keep_promise(self, version: int) -> None:
        self.promised = version
        self.host.deliver(Registered(version))
