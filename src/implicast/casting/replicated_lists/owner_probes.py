"""Drops the entries of crashed owners; each holder decides by its own probes.

When an owner is reported suspect, every holder of its entries probes it. If it answers nothing for
longer than freezes and partitions last, the holder drops its entries, and for a while refuses them
from copies whose holders have not decided yet. No tombstone is stored, so entries held on the other
side of a long partition return with it. An owner that is probed learns that it was suspected, and
puts its entries again. Forgotten owners are probed for an hour at growing intervals, and all at
once when one of them answers, since a partition may have ended.
"""

from collections.abc import Callable
from typing import NamedTuple

from implicast.casting.replicated_lists.holder_state import ABSENT_MAX, HolderPart, HolderState
from implicast.casting.replicated_lists.messages import OwnerAlive, ProbeOwner
from implicast.peer.contract import Address, Contact, Name, StandingAlarm, handles
from implicast.peer.fields import Micros
from implicast.peer.memory import Recent
from implicast.peer.requests import PendingRequest, RetryPolicy, UpkeepRequests

PROBING = "probing owners"
PROBE_US = 5_000_000
PROBES_MAX = 9
"""Probes of a suspect, over at least 30 s: longer than links are cut and peers freeze."""
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


class ForgottenOwner(NamedTuple):
    """An owner whose entries were dropped: its address, since when, their keys, time of the next
    probe, number of probes.
    """

    address: Address
    since_us: int
    keys: tuple[int, ...]
    due_us: int
    asked: int = 0


class OwnerProbeRound(StandingAlarm):
    """Fires when refusals may end and forgotten owners are due for a probe."""

    due_us: Micros


class PutAgainDue(StandingAlarm):
    """Fires when the own entries may be put again for a probe that came within `PUT_AGAIN_US` of
    the last put.
    """


class OwnerProbes(HolderPart):
    """Probes suspected owners, and answers the probes of other holders."""

    __slots__ = (
        "_due_us",
        "_forgotten",
        "_name",
        "_put_again",
        "_put_again_armed",
        "_put_again_us",
        "_requests",
    )

    def __init__(
        self, state: HolderState, requests: UpkeepRequests, put_again: Callable[[], None]
    ) -> None:
        """`put_again()` puts all own entries again."""
        super().__init__(state)
        self._name, self._requests, self._put_again = state.contact.name, requests, put_again
        requests.topic(PROBING, RetryPolicy(PROBE_US, PROBES_MAX), self._forget)
        self._put_again_us = -PUT_AGAIN_US
        self._forgotten: Recent[Name, ForgottenOwner] = Recent(ABSENT_MAX)
        self._due_us = 0
        """Time of the next round; 0: none is scheduled."""
        self._put_again_armed = False

    def probe_at(self, where: Address) -> None:
        """The peer at this address is suspect: probe every owner of stored entries there."""
        entries = self._state.entries
        owners = entries.owned if where in entries.addresses else ()  # nearly always none
        for owner in [owner for owner in owners if owner.address == where != self.address]:
            if self._requests.open(PROBING, owner.name) is None:
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
        if probe.name != self._name:
            return  # an earlier peer at this address was meant
        self.host.send(sender, OwnerAlive(self._name))
        wait_us = self._put_again_us + PUT_AGAIN_US - self.host.now_us
        if wait_us <= 0:
            self.on_put_again_due(PutAgainDue())
        elif (
            not self._put_again_armed
        ):  # the prober may have dropped the entries after the last put
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
        self._requests.drop(PROBING, name)
        self._state.absent.pop(name, None)
        if self._forgotten and self._forgotten.pop(name, None) is not None:
            for each, one in self._forgotten.items():
                self._forgotten[each] = one._replace(due_us=self.host.now_us)
            self._probe_forgotten()

    @handles(OwnerProbeRound)
    def on_probe_round(self, alarm: OwnerProbeRound) -> None:
        if alarm.due_us != self._due_us:
            return  # a sooner round has replaced this one
        self._due_us, absent = 0, self._state.absent
        for name in [name for name, until_us in absent.items() if until_us <= self.host.now_us]:
            del absent[name]
        self._probe_forgotten()
        self._arm()

    def _probe_forgotten(self) -> None:
        """Probe the forgotten owners that are due: often at first, then at growing intervals."""
        owns, now_us = self._chord.owns, self.host.now_us
        for name, one in list(self._forgotten.items()):
            if one.since_us + FORGOTTEN_US < now_us:
                del self._forgotten[name]
            elif one.due_us <= now_us:
                often = one.asked < FORGOTTEN_PROBES_MAX
                pause_us = (
                    min(FORGOTTEN_PROBE_US, PROBE_US << one.asked)
                    if often
                    else (now_us - one.since_us) // FORGOTTEN_PROBE_DIVISOR
                )
                self._forgotten[name] = one._replace(due_us=now_us + pause_us, asked=one.asked + 1)
                if name in self._state.absent or any(owns(key) for key in one.keys):
                    self.host.send(one.address, ProbeOwner(name))

    def _forget(self, name: Name, request: PendingRequest) -> None:
        """An owner answered no probe: drop its entries."""
        owner: Contact = request.context
        now_us, entries = self.host.now_us, self._state.entries
        self._state.absent[owner.name] = now_us + ABSENT_US
        theirs = entries.of_owner(owner)
        entries.drop(theirs)
        entries.note_silent(theirs, now_us)
        keys = tuple(dict.fromkeys(entry.key for entry in theirs))
        self._forgotten[owner.name] = ForgottenOwner(owner.address, now_us, keys, now_us)
        self._arm()
