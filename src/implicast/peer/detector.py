"""Failure detector shared by all overlays. Suspicion is local to one observer, depends on the
observer's own health, and expires.

    detector = Detector(address, host, settings, suspected=self.on_suspicion)
    detector.heard_from(x)     # at every message from x: ordinary traffic is the cheapest probe
    detector.probe(x)          # on silence; or probe(x, Check(...)): any message that x answers
    detector.answered(x)       # at the answer to such a message: also samples the round trip
    detector.is_suspect(x)     # skip x in lists and fingers while this holds
    detector.mark_left(x)      # x announced that it left: final

A probe is sent `tries` times with doubling waits; any message from the other peer ends it. The
observer counts its *own health* against itself (Lifeguard): an observer that is starved or cut off
finds all peers silent. Each unanswered attempt therefore multiplies all its waits, up to five
times, and probes answered at once reduce them again. An alarm that fires late shows that the
observer was paused, not that the other peer is silent: that attempt is repeated and not counted. A
suspicion is told to no other peer. It ends with the first message from the suspect or after
`forget_us`.

Own health after Dadgar et al., Lifeguard (2017); round trips after Jacobson, with Karn's rule. Left
to the overlay: second opinions, and what to do about a suspect.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from implicast.peer.backoff import backed_off_us
from implicast.peer.contract import Address, Host, Message, Part, handles
from implicast.peer.fields import Token
from implicast.peer.memory import Recent

Who = TypeVar("Who", bound=Hashable)
"""How an overlay identifies a peer: by address, or by address and incarnation."""


class Ping(Message):
    """Probe for overlays that have no periodic request of their own."""

    wire = 0x0560

    token: Token


class Pong(Message):
    """Answer to a ping."""

    wire = 0x0561

    token: Token


class ProbeTimeout(Message):
    """Fires when the answer to a probe attempt is due."""

    upkeep = True

    token: int
    due_us: int
    """When the alarm should fire; a large difference shows that the observer was paused."""


DETECTOR_KINDS = (Ping, Pong)
"""Kinds of messages for the codec of a design."""


@dataclass(frozen=True, slots=True)
class DetectorSettings:
    """Trade-off between detection time and false suspicions."""

    rto_us: int = 250_000
    """Shortest wait for an answer, and the first wait while the round trip is unknown."""
    rto_cap_us: int = 2_000_000
    """Waits double up to this."""
    tries: int = 5
    """Unanswered attempts before a peer is suspected."""
    health_max: int = 4
    """An observer in bad health waits up to 1 + this times as long. 0: its own health is ignored.
    """
    forget_us: int = 20_000_000
    """How long a suspicion lasts without new evidence."""
    jitter: float = 0.5
    """Every wait but the first is multiplied by a random factor between 1 - jitter and 1 + jitter,
    so that observers do not synchronise.
    """
    known_max: int = 1024
    """Peers about which something is remembered. The one heard from longest ago is forgotten first.
    """
    left_max: int = 256
    """Departed peers that are remembered."""

    def detection_us(self) -> int:
        """Time from the first attempt to the suspicion, in good health."""
        return sum(
            backed_off_us(self.rto_us, tried, self.rto_cap_us) for tried in range(self.tries)
        )


@dataclass(slots=True)
class OpenProbe(Generic[Who]):
    """A probe that awaits an answer: its attempts, and when each was sent."""

    who: Who
    ask: Message | None
    tried: int = 0
    late: int = 0
    sent_us: dict[int, int] = field(default_factory=dict)
    """By token; each attempt has its own."""

    def count_unanswered(self) -> None:
        self.tried += 1

    def count_late(self) -> None:
        self.late += 1


@dataclass(slots=True)
class RoundTrip:
    """Smoothed round-trip time and its mean deviation."""

    smoothed_us: int
    deviation_us: int

    def take(self, sample_us: int) -> None:
        self.deviation_us += (abs(sample_us - self.smoothed_us) - self.deviation_us) // 4
        self.smoothed_us += (sample_us - self.smoothed_us) // 8


def _ignore(who: object) -> None:
    """Default of `suspected`: the overlay only asks `is_suspect`."""


class Detector(Part, Generic[Who]):
    """Watches other peers on behalf of one peer. `suspected(who)` is called once when a suspicion
    arises.
    """

    __slots__ = (
        "_crowded",
        "_open",
        "_round_trip",
        "_suspected",
        "_token",
        "_tokens",
        "_where",
        "health",
        "last_heard_us",
        "left",
        "settings",
        "suspects",
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
        """0 is good, `health_max` is worst."""
        self.left: Recent[Who, None] = Recent(self.settings.left_max)
        self.suspects: Recent[Who, int] = Recent(self.settings.known_max)
        self.last_heard_us: dict[Who, int] = {}
        self._crowded = self.settings.known_max // 2
        self._round_trip: Recent[Who, RoundTrip] = Recent(self.settings.known_max)
        self._open: dict[Who, OpenProbe[Who]] = {}
        self._tokens: dict[int, OpenProbe[Who]] = {}
        self._token = 0

    # --- called by the overlay

    def heard_from(self, who: Who) -> None:
        """A message of any kind arrived from a peer: end its probe and its suspicion. Takes no
        round-trip sample, since the message may not be the answer.
        """
        if self.suspects:
            self.suspects.pop(who, None)
        heard_us = self.last_heard_us
        # Half the price: the order matters only when the table is nearly full.
        if len(heard_us) > self._crowded:
            heard_us.pop(who, None)
            if len(heard_us) >= self.settings.known_max:
                del heard_us[next(iter(heard_us))]
        heard_us[who] = self.host.now_us
        if self._open and (probe := self._open.get(who)) is not None:
            self._ended(probe, None)

    def answered(self, who: Who) -> None:
        """The answer to the message with which a peer was probed."""
        self.sample_round_trip(who)
        self.heard_from(who)

    def sample_round_trip(self, who: Who) -> None:
        """Take a round-trip sample from the open probe of a peer. The caller calls `heard_from`
        next.
        """
        probe = self._open.get(who)
        if probe is not None and len(probe.sent_us) == 1:
            # Karn's rule: which of several attempts was answered is unknown, so only a single one
            # is a sample.
            self._ended(probe, next(iter(probe.sent_us.values())))

    def mark_left(self, who: Who) -> None:
        """A peer announced that it leaves. Final: it is never probed again."""
        self.forget(who)
        self.left.put(who, None)

    def forget(self, who: Who) -> None:
        """Forget a peer: its probe, its suspicion and its round-trip times."""
        self._close(self._open.get(who))
        for table in (self.suspects, self.last_heard_us, self._round_trip):
            cast(dict[Who, object], table).pop(who, None)

    def suspect(self, who: Who) -> None:
        """Suspect a peer on other evidence than a probe, such as a request that was lost."""
        self._close(self._open.get(who))
        new = not self.is_suspect(who)
        over_us = self.host.now_us - self.settings.forget_us
        self.suspects.drop_while(lambda since_us: since_us <= over_us)
        self.suspects.put(who, self.host.now_us)
        if new:
            self._suspected(who)

    def is_suspect(self, who: Who) -> bool:
        """Whether a peer is suspected: unanswered probes, no message since, and the suspicion has
        not expired.
        """
        since_us = self.suspects.get(who)
        if since_us is not None and since_us + self.settings.forget_us <= self.host.now_us:
            del self.suspects[who]
            return False
        return since_us is not None

    def watches(self, who: Who) -> bool:
        """Whether the silence of a peer would be noticed."""
        return True

    def is_enough(self, attempts: int) -> bool:
        """Whether so many unanswered attempts show that a peer is silent."""
        return attempts >= self.settings.tries

    def suspected_within(self, who: Who, span_us: int) -> bool:
        """Suspected, and within the last `span_us`; older evidence may be out of date."""
        return self.is_suspect(who) and self.suspects[who] + span_us > self.host.now_us

    def is_lost(self, who: Who) -> bool:
        """Whether a peer is suspected or has left."""
        return who in self.left or (who in self.suspects and self.is_suspect(who))

    def is_probing(self, who: Who) -> bool:
        return who in self._open

    def is_quiet(self, who: Who, quiet_us: int) -> bool:
        """Not heard from for longer than `quiet_us`, and neither being probed nor departed."""
        heard_us = self.last_heard_us.get(who)
        silent = heard_us is None or self.host.now_us - heard_us > quiet_us
        return silent and who not in self._open and who not in self.left

    def silent_for_us(self, who: Who) -> int | None:
        """Time since the last message from a peer; None if there was none."""
        heard_us = self.last_heard_us.get(who)
        return None if heard_us is None else self.host.now_us - heard_us

    def silent_since(self, some: Iterable[Who], time_us: int) -> set[Who]:
        """Those of several peers from which no message came since `time_us`."""
        heard_us = self.last_heard_us
        return {who for who in some if heard_us.get(who, time_us - 1) < time_us}

    def rto_us(self, who: Who) -> int:
        """Wait of the first attempt: smoothed round trip plus four deviations, between `rto_us` and
        `rto_cap_us` of the settings.
        """
        known = self._round_trip.get(who)
        estimate_us = known.smoothed_us + 4 * known.deviation_us if known else 0
        return max(self.settings.rto_us, min(self.settings.rto_cap_us, estimate_us))

    def probe(self, who: Who, ask: Message | None = None) -> None:
        """Probe a peer, with `ask` or with a ping. No effect if a probe is open or the peer has
        left.
        """
        if who not in self._open and who not in self.left:
            probe = self._open[who] = OpenProbe(who, ask)
            self._attempt(probe)

    def probe_again(self, who: Who) -> None:
        """Drop the suspicion of a peer, and probe it once more."""
        self.suspects.pop(who, None)
        self.probe(who)

    def check(self, who: Who, quiet_us: int, ask: Message | None = None) -> None:
        """Probe a peer unless it was heard from within `quiet_us`."""
        silent_us = self.silent_for_us(who)
        if silent_us is None or silent_us >= quiet_us:
            self.probe(who, ask)

    # --- internal

    def _attempt(self, probe: OpenProbe[Who]) -> None:
        self._token += 1
        probe.sent_us[self._token] = self.host.now_us
        self._tokens[self._token] = probe
        wait_us = self._wait_us(probe)
        self.host.after(wait_us, ProbeTimeout(self._token, self.host.now_us + wait_us))
        to = self._where(probe.who) if self._where else cast(Address, probe.who)
        self.host.send(to, probe.ask or Ping(self._token))

    def _wait_us(self, probe: OpenProbe[Who]) -> int:
        rto_us = self.rto_us(probe.who)
        wait_us = backed_off_us(rto_us, probe.tried, self.settings.rto_cap_us) * (1 + self.health)
        if not probe.tried or not self.settings.jitter:
            return wait_us
        return int(wait_us * (1 + self.settings.jitter * (2 * self.host.rng.random() - 1)))

    def _ended(self, probe: OpenProbe[Who], sent_us: int | None) -> None:
        if sent_us is not None:
            self._sample(probe.who, self.host.now_us - sent_us)
        if not probe.tried and not probe.late:
            self.raise_health()
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

    def lower_health(self) -> None:
        """An attempt stayed unanswered or the observer was paused: wait longer for all peers."""
        self.health = min(self.settings.health_max, self.health + 1)

    def raise_health(self) -> None:
        """A probe was answered at its first attempt: the observer is well connected."""
        self.health = max(0, self.health - 1)

    @handles(Ping)
    def on_ping(self, sender: Address, ping: Ping) -> None:
        if self._where is None:
            self.heard_from(cast(Who, sender))
        self.host.send(sender, Pong(ping.token))

    @handles(Pong)
    def on_pong(self, sender: Address, pong: Pong) -> None:
        probe = self._tokens.get(pong.token)
        if probe is not None:
            # A token tells which attempt was answered, so repeated attempts are samples too, unless
            # the observer was paused.
            self._ended(probe, None if probe.late else probe.sent_us[pong.token])
            self.heard_from(probe.who)
        elif self._where is None:
            self.heard_from(cast(Who, sender))

    @handles(ProbeTimeout)
    def on_probe_timeout(self, alarm: ProbeTimeout) -> None:
        probe = self._tokens.get(alarm.token)
        if probe is None or alarm.token != max(probe.sent_us):
            return
        self.lower_health()
        if (
            self.host.now_us - alarm.due_us > self.rto_us(probe.who) // 2
            and probe.late < self.settings.tries
        ):
            # bounded, else a host whose alarms are always late would never suspect
            probe.count_late()
            self._attempt(probe)
            return
        probe.count_unanswered()
        if probe.tried < self.settings.tries:
            self._attempt(probe)
        else:
            self.suspect(probe.who)
