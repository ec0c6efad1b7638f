"""Who is still there? One failure detector for every overlay: suspicion is private, doubts itself, and expires.

    detector = Detector(address, host, settings, suspected=self.on_suspicion)
    detector.heard(x)          # at every message from x: the cheapest probe is what comes anyway
    detector.probe(x)          # on silence; or probe(x, Check(...)): any message that x answers serves as probe
    detector.answered(x)       # at the answer to such a message: `heard`, and a round trip to learn from
    detector.is_suspect(x)     # skip x in lists and fingers while this holds
    detector.say_gone(x)       # x said so itself: final

A probe is sent `tries` times with doubling waits; any word from the other ends it. The observer counts its *own health*
against itself: an observer that is starved or cut off finds everybody silent, so each unanswered attempt makes it
more patient with all (up to five times), and probes answered at once make it quick again. An alarm that rings late
says that the observer slept, not the other: that attempt is repeated and does not count. A suspicion concerns nobody
else: nobody is told, and it ends at the first word from the suspect or after `forget_us`. Own health after Dadgar et
al., Lifeguard (2017); round trips after Jacobson, with Karn's rule. What it says and how patient it is: `probing.py`.

Left out: second opinions, and every decision what to do about a suspect: that is the overlay's.
"""

from collections.abc import Callable
from typing import Generic, TypeVar, cast

from implicast.overlay.probing import DETECTOR_KINDS, DetectorSettings, Overdue, Ping, Pong, Probe, RoundTrip, Who
from implicast.peer.contract import Address, Host, Message, Part, handles

__all__ = ["DETECTOR_KINDS", "Detector", "DetectorSettings", "Overdue", "Ping", "Pong"]


def _ignore(who: object) -> None:
    """Nobody wants to know."""


class Detector(Part, Generic[Who]):
    """Watches peers on behalf of one peer. `suspected(who)` is called once when a suspicion arises."""

    __slots__ = ("_crowded", "_heard_us", "_open", "_round_trip", "_suspected", "_suspects", "_token", "_tokens",
                 "_where", "gone", "health", "settings")  # fmt: skip

    def __init__(
        self, address: Address, host: Host, settings: DetectorSettings | None = None,
        suspected: Callable[[Who], None] = _ignore, where: Callable[[Who], Address] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(address, host)
        self.settings = settings or DetectorSettings()
        self._suspected, self._where = suspected, where
        self.health = 0
        """0: good. Up to `health_max`."""
        self.gone: dict[Who, None] = {}
        self._suspects: dict[Who, int] = {}
        self._heard_us: dict[Who, int] = {}
        self._crowded = self.settings.known_max // 2
        self._round_trip: dict[Who, RoundTrip] = {}
        self._open: dict[Who, Probe[Who]] = {}
        self._tokens: dict[int, Probe[Who]] = {}
        self._token = 0

    # --- what the overlay tells

    def heard(self, who: Who) -> None:
        """Any word from a peer: it ends a probe, and every suspicion. How long a probe took is not learnt from it."""
        if self._suspects:
            self._suspects.pop(who, None)
        heard_us = self._heard_us
        if len(heard_us) > self._crowded:
            _renew(heard_us, who, self.host.now_us, self.settings.known_max)
        else:  # while there is room it does not matter who was heard last: half the price at every message
            heard_us[who] = self.host.now_us
        if self._open and (probe := self._open.get(who)) is not None:
            self._ended(probe, None)

    def answered(self, who: Who) -> None:
        """The answer to the question with which a peer was probed."""
        probe = self._open.get(who)
        if probe is not None and len(probe.sent_us) == 1:
            # Karn's rule: which of several attempts was answered is unknown, so only a single one is a sample.
            self._ended(probe, next(iter(probe.sent_us.values())))
        self.heard(who)

    def say_gone(self, who: Who) -> None:
        """It said itself that it left: that is final."""
        self.forget(who)
        _renew(self.gone, who, None, self.settings.gone_max)

    def forget(self, who: Who) -> None:
        """It is no concern any more: open questions about it lapse."""
        self._close(self._open.get(who))
        for table in (self._suspects, self._heard_us, self._round_trip):
            cast(dict[Who, object], table).pop(who, None)

    def suspect(self, who: Who) -> None:
        """On other evidence than a probe: a request that was repeated in vain."""
        self._close(self._open.get(who))
        new = not self.is_suspect(who)
        _renew(self._suspects, who, self.host.now_us, self.settings.known_max)
        if new:
            self._suspected(who)

    # --- what the overlay asks

    def is_suspect(self, who: Who) -> bool:
        """Silent for longer than patience, not heard since, and not so long ago that it is forgiven."""
        since_us = self._suspects.get(who)
        if since_us is not None and since_us + self.settings.forget_us <= self.host.now_us:
            del self._suspects[who]
            return False
        return since_us is not None

    def suspected_within(self, who: Who, span_us: int) -> bool:
        """Suspected, and that lately: older evidence may be out of date."""
        return self.is_suspect(who) and self._suspects[who] + span_us > self.host.now_us

    def is_lost(self, who: Who) -> bool:
        """Suspected, or gone by its own word."""
        return who in self.gone or self.is_suspect(who)

    def is_probing(self, who: Who) -> bool:
        return who in self._open

    def silent_for_us(self, who: Who) -> int | None:
        """Since its last word; None: it was never heard."""
        heard_us = self._heard_us.get(who)
        return None if heard_us is None else self.host.now_us - heard_us

    def rto_us(self, who: Who) -> int:
        """How long the first attempt waits: round trip plus four deviations, between the least and the longest wait."""
        known = self._round_trip.get(who)
        estimate_us = known.smoothed_us + 4 * known.deviation_us if known else 0
        return max(self.settings.rto_us, min(self.settings.rto_cap_us, estimate_us))

    def probe(self, who: Who, ask: Message | None = None) -> None:
        """Find out whether a peer is there; nothing if that is being found out already, or it is gone."""
        if who not in self._open and who not in self.gone:
            probe = self._open[who] = Probe(who, ask)
            self._attempt(probe)

    def check(self, who: Who, quiet_us: int, ask: Message | None = None) -> None:
        """Probe on silence only: whoever was heard within `quiet_us` needs none."""
        silent_us = self.silent_for_us(who)
        if silent_us is None or silent_us >= quiet_us:
            self.probe(who, ask)

    # --- inside

    def _attempt(self, probe: Probe[Who]) -> None:
        self._token += 1
        probe.sent_us[self._token] = self.host.now_us
        self._tokens[self._token] = probe
        wait_us = self._wait_us(probe)
        self.host.after(wait_us, Overdue(self._token, self.host.now_us + wait_us))
        to = self._where(probe.who) if self._where else cast(Address, probe.who)
        self.host.send(to, probe.ask or Ping(self._token))

    def _wait_us(self, probe: Probe[Who]) -> int:
        rto_us = self.rto_us(probe.who)
        wait_us = min(rto_us << probe.tried, self.settings.rto_cap_us) * (1 + self.health)
        if not probe.tried or not self.settings.jitter:
            return wait_us
        return int(wait_us * (1 + self.settings.jitter * (2 * self.host.rng.random() - 1)))

    def _ended(self, probe: Probe[Who], sent_us: int | None) -> None:
        if sent_us is not None:
            self._sample(probe.who, self.host.now_us - sent_us)
        if not probe.tried and not probe.late:
            self.ease()
        self._close(probe)

    def _sample(self, who: Who, sample_us: int) -> None:
        known = self._round_trip.get(who)
        if known is None:
            _renew(self._round_trip, who, RoundTrip(sample_us, sample_us // 2), self.settings.known_max)
        else:
            known.take(sample_us)

    def _close(self, probe: Probe[Who] | None) -> None:
        if probe is not None and self._open.pop(probe.who, None) is probe:
            for token in probe.sent_us:
                del self._tokens[token]

    def ail(self) -> None:
        """An attempt stayed unanswered, or the observer slept: it should be more patient with everybody."""
        self.health = min(self.settings.health_max, self.health + 1)

    def ease(self) -> None:
        """Somebody answered at once: the observer is well connected."""
        self.health = max(0, self.health - 1)

    @handles(Ping)
    def on_ping(self, sender: Address, ping: Ping) -> None:
        if self._where is None:
            self.heard(cast(Who, sender))
        self.host.send(sender, Pong(ping.token))

    @handles(Pong)
    def on_pong(self, sender: Address, pong: Pong) -> None:
        probe = self._tokens.get(pong.token)
        if probe is not None:
            # A token tells which attempt was answered, so repeated ones are samples too; not if the observer slept.
            self._ended(probe, None if probe.late else probe.sent_us[pong.token])
            self.heard(probe.who)
        elif self._where is None:
            self.heard(cast(Who, sender))

    @handles(Overdue)
    def on_overdue(self, alarm: Overdue) -> None:
        probe = self._tokens.get(alarm.token)
        if probe is None or alarm.token != max(probe.sent_us):
            return
        self.ail()
        if self.host.now_us - alarm.due_us > self.rto_us(probe.who) // 2 and probe.late < self.settings.tries:
            probe.late += 1  # bounded, so that a host whose alarms are always late does not watch in vain
            self._attempt(probe)
            return
        probe.tried += 1
        if probe.tried < self.settings.tries:
            self._attempt(probe)
        else:
            self.suspect(probe.who)


Entry = TypeVar("Entry")


def _renew(table: dict[Who, Entry], who: Who, entry: Entry, bound: int) -> None:
    """Put in as the newest; the oldest goes when there are too many."""
    table.pop(who, None)
    table[who] = entry
    if len(table) > bound:
        del table[next(iter(table))]
