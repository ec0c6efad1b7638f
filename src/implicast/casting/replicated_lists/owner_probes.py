"""Drops the entries of crashed owners; each holder decides by its own probes.

When an owner is reported suspect, every holder of its entries probes it. If it answers nothing for
longer than freezes and partitions last, the holder drops its entries, and for a while refuses them
from copies whose holders have not decided yet. No tombstone is stored, so entries held on the other
side of a long partition return with it. An owner that is probed learns that it was suspected, and
puts its entries again. Forgotten owners are probed for an hour at growing intervals, and all at
once when one of them answers, since a partition may have ended.

| owner | event | next |
|---|---|---|
| trusted | reported suspect, and entries of it are stored here | probed, up to `PROBES_MAX` times |
| probed | any put or answer of it | trusted |
| probed | no answer | forgotten: entries dropped, and refused for `ABSENT_US` |
| forgotten | any put or answer of it | trusted; all other forgotten owners are probed at once |
| forgotten | `FORGOTTEN_US` have passed | no longer remembered |
"""

from collections.abc import Callable
from typing import NamedTuple

from implicast.casting.replicated_lists.holder_state import ABSENT_MAX, HolderPart, HolderState
from implicast.peer.contract import Address, Message, Name, StandingAlarm, handles
from implicast.peer.fields import Micros
from implicast.peer.memory import Recent
from implicast.peer.requests import PendingRequest, RetryPolicy, UpkeepRequests

PROBING = "probing owners"
PROBE_US = 5_000_000
PROBES_MAX = 9
"""Probes of a suspect, over at least 30 s: longer than links are cut and peers freeze."""
DOUBTED_MAX = 8 * ABSENT_MAX
"""Owners probed or forgotten whose next put is taken as an answer."""
FORGOTTEN_PROBES_MAX = 16
"""Further probes of a forgotten owner at short intervals, over two minutes: by all holders that
refuse its entries, then by those that own the keys of its entries. They bring the two sides of a
long partition together again.
"""
FORGOTTEN_PROBE_US = 8_000_000
"""Longest interval between these probes."""
FORGOTTEN_US = 3_600_000_000
"""How long owners of the keys go on probing, at intervals that grow with the silence: after a
longer partition the entries of an owner may be lost on both sides.
"""
FORGOTTEN_PROBE_DIVISOR = 4
"""These intervals are the time of silence divided by this."""
PUT_AGAIN_US = 15_000_000
"""Shortest interval between two puts of all own entries because of a probe."""
ABSENT_US = 30_000_000
"""How long entries of an owner considered crashed are refused."""


class ProbeOwner(Message):
    """Asks whether the peer of this name is still at the receiver's address."""

    wire = 0x0612
    name: Name


class OwnerAlive(Message):
    """Positive answer to `ProbeOwner`."""

    wire = 0x0613
    name: Name


class OwnerProbeRound(StandingAlarm):
    """Fires when refusals may end and forgotten owners are due for a probe."""

    due_us: Micros


class PutAgainDue(StandingAlarm):
    """Fires when the own entries may be put again for a probe that came within `PUT_AGAIN_US` of
    the last put.
    """


class ForgottenOwner(NamedTuple):
    """An owner whose entries were dropped: its address, since when, their keys, time of the next
    probe, number of probes.
    """

    address: Address
    since_us: int
    keys: tuple[int, ...]
    due_us: int
    asked: int = 0

    def probed(self, now_us: int) -> "ForgottenOwner":
        """The same after a probe: often at first, then at growing intervals."""
        pause_us = (now_us - self.since_us) // FORGOTTEN_PROBE_DIVISOR
        if self.asked < FORGOTTEN_PROBES_MAX:
            pause_us = min(FORGOTTEN_PROBE_US, PROBE_US << self.asked)
        return self._replace(due_us=now_us + pause_us, asked=self.asked + 1)


class OwnerProbes(HolderPart):
    """Probes suspected owners, and answers the probes of other holders."""

    __slots__ = (
        "_due_us",
        "_forgotten",
        "_put_again",
        "_put_again_armed",
        "_put_again_us",
        "_requests",
        "doubted",
    )

    def __init__(
        self, state: HolderState, requests: UpkeepRequests, put_again: Callable[[], None]
    ) -> None:
        """`put_again()` puts all own entries again."""
        super().__init__(state)
        self._requests, self._put_again = requests, put_again
        requests.topic(PROBING, RetryPolicy(PROBE_US, PROBES_MAX), self._forget)
        self._put_again_us, self._put_again_armed = -PUT_AGAIN_US, False
        self._forgotten: Recent[Name, ForgottenOwner] = Recent(ABSENT_MAX)
        self.doubted: Recent[Name, None] = Recent(DOUBTED_MAX)
        """Owners that are probed or forgotten. A put of one of them is reported (`note_alive`)."""
        self._due_us = 0
        """Time of the next round; 0: none is scheduled."""

    def probe_at(self, where: Address) -> None:
        """The peer at this address is suspect: probe every owner of stored entries there."""
        for owner in self._state.entries.owners_at(where) if where != self.address else ():
            if self._requests.open(PROBING, owner.name) is None:
                self.doubted.put(owner.name, None)
                self._requests.ask(PROBING, owner.name, where, ProbeOwner(owner.name), owner)

    def _arm(self) -> None:
        """Schedule the next round: within seconds while entries of an owner are refused, else when
        the next probe is due.
        """
        if not (self._state.absent or self._forgotten):
            return
        due_us = self.host.now_us + int(PROBE_US * (0.75 + self.host.rng.random() / 2))
        if not self._state.absent:
            due_us = max(due_us, min(one.due_us for one in self._forgotten.values()))
        if not self._due_us or due_us + PROBE_US < self._due_us:
            self._due_us = due_us
            self.host.after(due_us - self.host.now_us, OwnerProbeRound(due_us))

    @handles(ProbeOwner)
    def on_probe_owner(self, sender: Address, probe: ProbeOwner) -> None:
        if probe.name != self._state.contact.name:
            return  # an earlier peer at this address was meant
        self.host.send(sender, OwnerAlive(probe.name))
        wait_us = self._put_again_us + PUT_AGAIN_US - self.host.now_us
        if wait_us <= 0:
            self.on_put_again_due(PutAgainDue())
        elif not self._put_again_armed:  # the prober may have dropped them after the last put
            self._put_again_armed = True
            self.host.after(wait_us, PutAgainDue())

    @handles(PutAgainDue)
    def on_put_again_due(self, alarm: PutAgainDue) -> None:
        self._put_again_armed, self._put_again_us = False, self.host.now_us
        self._put_again()

    @handles(OwnerAlive)
    def on_owner_alive(self, sender: Address, alive: OwnerAlive) -> None:
        self.note_alive(alive.name)

    def note_alive(self, name: Name) -> None:
        """A message shows that this owner is alive. If it was forgotten, probe all other forgotten
        owners at once: they may be back too.
        """
        self.doubted.pop(name, None)
        self._requests.drop(PROBING, name)
        self._state.accept_owner(name)
        if self._forgotten.pop(name, None) is not None:
            for each, one in self._forgotten.items():
                self._forgotten[each] = one._replace(due_us=self.host.now_us)
            self._probe_forgotten()

    @handles(OwnerProbeRound)
    def on_probe_round(self, alarm: OwnerProbeRound) -> None:
        if alarm.due_us != self._due_us:
            return  # a sooner round has replaced this one
        self._due_us = 0
        self._state.end_absences()
        self._probe_forgotten()
        self._arm()

    def _probe_forgotten(self) -> None:
        """Probe the forgotten owners that are due."""
        now_us = self.host.now_us
        for name, one in list(self._forgotten.items()):
            if one.since_us + FORGOTTEN_US < now_us:
                del self._forgotten[name]
            elif one.due_us <= now_us:
                self._forgotten[name] = one.probed(now_us)
                if name in self._state.absent or any(map(self._chord.owns, one.keys)):
                    self.host.send(one.address, ProbeOwner(name))

    def _forget(self, name: Name, request: PendingRequest) -> None:
        """An owner answered no probe: drop its entries."""
        now_us, theirs = self.host.now_us, self._state.forget_owner(request.context, ABSENT_US)
        keys = tuple(dict.fromkeys(entry.key for entry in theirs))
        self._forgotten[name] = ForgottenOwner(request.to, now_us, keys, now_us)
        self._arm()
