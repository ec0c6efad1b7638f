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
al., Lifeguard (2017); round trips after Jacobson, with Karn's rule.

Left out: second opinions, and every decision what to do about a suspect: that is the overlay's.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from implicast.peer.contract import Address, Host, Message, Part, handles
from implicast.peer.fields import Token
from implicast.peer.memory import Recent

Who = TypeVar("Who", bound=Hashable)
"""How an overlay names a peer: its address, or one life of it."""


class Ping(Message):
    """Are you there? For overlays that have no question of their own."""

    wire = 0x0560

    token: Token


class Pong(Message):
    """Yes."""

    wire = 0x0561

    token: Token


class Overdue(Message):
    """Rings when an attempt should have been answered by now."""

    upkeep = True

    token: int
    due_us: int
    """When it was meant to ring."""


DETECTOR_KINDS = (Ping, Pong)
"""What travels, for the codec of a design."""


@dataclass(frozen=True, slots=True)
class DetectorSettings:
    """Patience: what repair costs in time, and what false suspicions cost in repairs."""

    rto_us: int = 250_000
    """The least wait for an answer, and the first one while round trips are unknown."""
    rto_cap_us: int = 2_000_000
    """Waits double up to this."""
    tries: int = 5
    """Attempts before the silent one is suspected."""
    health_max: int = 4
    """An observer in bad health waits up to 1 + this times as long; 0: its own health does not matter."""
    forget_us: int = 20_000_000
    """How long a suspicion lasts without new evidence."""
    jitter: float = 0.5
    """Every wait but the first is multiplied by 1 minus to 1 plus this, so that observers do not fall into step."""
    known_max: int = 1024
    """Peers about whom something is remembered; those heard longest ago are forgotten first."""
    gone_max: int = 256
    """Peers that said they left, remembered."""

    def patience_us(self) -> int:
        """From the first attempt to the suspicion, in good health."""
        return sum(min(self.rto_us << tried, self.rto_cap_us) for tried in range(self.tries))


@dataclass(slots=True)
class OpenProbe(Generic[Who]):
    """A question that is open: the attempts made, and when each was sent."""

    who: Who
    ask: Message | None
    tried: int = 0
    late: int = 0
    sent_us: dict[int, int] = field(default_factory=dict)
    """By token; each attempt has its own."""

    def in_vain(self) -> None:
        self.tried += 1

    def rang_late(self) -> None:
        self.late += 1


@dataclass(slots=True)
class RoundTrip:
    """Smoothed round trip and its mean deviation."""

    smoothed_us: int
    deviation_us: int

    def take(self, sample_us: int) -> None:
        self.deviation_us += (abs(sample_us - self.smoothed_us) - self.deviation_us) // 4
        self.smoothed_us += (sample_us - self.smoothed_us) // 8


def _ignore(who: object) -> None:
    """Nobody wants to know."""


class Detector(Part, Generic[Who]):
    """Watches peers on behalf of one peer. `suspected(who)` is called once when a suspicion arises."""

    __slots__ = (
        "_crowded",
        "_heard_us",
        "_open",
        "_round_trip",
        "_suspected",
        "_suspects",
        "_token",
        "_tokens",
        "_where",
        "gone",
        "health",
        "settings",
    )

    def __init__(
        self,
        address: Address,
        host: Host,
        settings: DetectorSettings | None = None,
        suspected: Callable[[Who], None] = _ignore,
        where: Callable[[Who], Address] | None = None,
    ) -> None:
        super().__init__(address, host)
        self.settings = settings or DetectorSettings()
        self._suspected, self._where = suspected, where
        self.health = 0
        """0: good. Up to `health_max`."""
        self.gone: Recent[Who, None] = Recent(self.settings.gone_max)
        self._suspects: Recent[Who, int] = Recent(self.settings.known_max)
        self._heard_us: dict[Who, int] = {}
        self._crowded = self.settings.known_max // 2
        self._round_trip: Recent[Who, RoundTrip] = Recent(self.settings.known_max)
        self._open: dict[Who, OpenProbe[Who]] = {}
        self._tokens: dict[int, OpenProbe[Who]] = {}
        self._token = 0

    # --- what the overlay tells

    def heard(self, who: Who) -> None:
        """Any word from a peer: it ends a probe, and every suspicion. How long a probe took is not learnt from it."""
        if self._suspects:
            self._suspects.pop(who, None)
        heard_us = self._heard_us
        if (
            len(heard_us) > self._crowded
        ):  # while there is room it does not matter who was heard last: half the price
            heard_us.pop(who, None)
            if len(heard_us) >= self.settings.known_max:
                del heard_us[next(iter(heard_us))]
        heard_us[who] = self.host.now_us
        if self._open and (probe := self._open.get(who)) is not None:
            self._ended(probe, None)

    def answered(self, who: Who) -> None:
        """The answer to the question with which a peer was probed."""
        self.timed(who)
        self.heard(who)

    def timed(self, who: Who) -> None:
        """How long that took. Whoever calls this says next that it was heard."""
        probe = self._open.get(who)
        if probe is not None and len(probe.sent_us) == 1:
            # Karn's rule: which of several attempts was answered is unknown, so only a single one is a sample.
            self._ended(probe, next(iter(probe.sent_us.values())))

    def say_gone(self, who: Who) -> None:
        """It said itself that it left: that is final."""
        self.forget(who)
        self.gone.put(who, None)

    def forget(self, who: Who) -> None:
        """It is no concern any more: open questions about it lapse."""
        self._close(self._open.get(who))
        for table in (self._suspects, self._heard_us, self._round_trip):
            cast(dict[Who, object], table).pop(who, None)

    def suspect(self, who: Who) -> None:
        """On other evidence than a probe: a request that was repeated in vain."""
        self._close(self._open.get(who))
        new = not self.is_suspect(who)
        over_us = self.host.now_us - self.settings.forget_us
        self._suspects.drop_while(lambda since_us: since_us <= over_us)
        self._suspects.put(who, self.host.now_us)
        if new:
            self._suspected(who)

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
        return who in self.gone or (who in self._suspects and self.is_suspect(who))

    def is_probing(self, who: Who) -> bool:
        return who in self._open

    def is_doubtful(self, who: Who, quiet_us: int) -> bool:
        """Not heard for longer than this, and neither being asked nor gone."""
        heard_us = self._heard_us.get(who)
        silent = heard_us is None or self.host.now_us - heard_us > quiet_us
        return silent and who not in self._open and who not in self.gone

    def silent_for_us(self, who: Who) -> int | None:
        """Since its last word; None: it was never heard."""
        heard_us = self._heard_us.get(who)
        return None if heard_us is None else self.host.now_us - heard_us

    def silent_since(self, some: Iterable[Who], time_us: int) -> set[Who]:
        """Who of them has not been heard since then, or never."""
        heard_us = self._heard_us
        return {who for who in some if heard_us.get(who, time_us - 1) < time_us}

    def rto_us(self, who: Who) -> int:
        """How long the first attempt waits: round trip plus four deviations, between the least and the longest wait."""
        known = self._round_trip.get(who)
        estimate_us = known.smoothed_us + 4 * known.deviation_us if known else 0
        return max(self.settings.rto_us, min(self.settings.rto_cap_us, estimate_us))

    def probe(self, who: Who, ask: Message | None = None) -> None:
        """Find out whether a peer is there; nothing if that is being found out already, or it is gone."""
        if who not in self._open and who not in self.gone:
            probe = self._open[who] = OpenProbe(who, ask)
            self._attempt(probe)

    def check(self, who: Who, quiet_us: int, ask: Message | None = None) -> None:
        """Probe on silence only: whoever was heard within `quiet_us` needs none."""
        silent_us = self.silent_for_us(who)
        if silent_us is None or silent_us >= quiet_us:
            self.probe(who, ask)

    # --- inside

    def _attempt(self, probe: OpenProbe[Who]) -> None:
        self._token += 1
        probe.sent_us[self._token] = self.host.now_us
        self._tokens[self._token] = probe
        wait_us = self._wait_us(probe)
        self.host.after(wait_us, Overdue(self._token, self.host.now_us + wait_us))
        to = self._where(probe.who) if self._where else cast(Address, probe.who)
        self.host.send(to, probe.ask or Ping(self._token))

    def _wait_us(self, probe: OpenProbe[Who]) -> int:
        rto_us = self.rto_us(probe.who)
        wait_us = min(rto_us << probe.tried, self.settings.rto_cap_us) * (1 + self.health)
        if not probe.tried or not self.settings.jitter:
            return wait_us
        return int(wait_us * (1 + self.settings.jitter * (2 * self.host.rng.random() - 1)))

    def _ended(self, probe: OpenProbe[Who], sent_us: int | None) -> None:
        if sent_us is not None:
            self._sample(probe.who, self.host.now_us - sent_us)
        if not probe.tried and not probe.late:
            self.ease()
        self._close(probe)

    def _sample(self, who: Who, sample_us: int) -> None:
        known = self._round_trip.get(who)
        if known is None:
            self._round_trip.put(who, RoundTrip(sample_us, sample_us // 2))
        else:
            known.take(sample_us)

    def _close(self, probe: OpenProbe[Who] | None) -> None:
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
        if (
            self.host.now_us - alarm.due_us > self.rto_us(probe.who) // 2
            and probe.late < self.settings.tries
        ):
            probe.rang_late()  # bounded, so that a host whose alarms are always late does not watch in vain
            self._attempt(probe)
            return
        probe.in_vain()
        if probe.tried < self.settings.tries:
            self._attempt(probe)
        else:
            self.suspect(probe.who)
