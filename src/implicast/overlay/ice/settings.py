"""Settings of a surface: values that all its peers share, timers, and bounds on tables.

All detection times follow from two numbers: `heartbeat_us`, the period of heartbeats between
neighbours, and `rto_us`, the wait for the first answer to a request. An unanswered heartbeat is
repeated at once with doubling waits, so that no second period has to pass: a peer that is silent
for `suspect_after_us` has missed one period and a whole series of repeats.

Safety rests on one inequality. An owner whose backups stop acknowledging answers nothing after
`suspect_after_us`, and no peer takes over its extents before `dead_after_us`, which is longer.
`margin` covers clocks that run at different rates.
"""

from dataclasses import dataclass, field

from implicast.peer.backoff import backed_off_us
from implicast.peer.requests import RetryPolicy

_S = 1_000_000
CALM_TICKS = 2
"""Length, in ticks, of the pause of a peer with nothing pending."""


@dataclass(frozen=True, slots=True)
class Timers:
    """Timers in microseconds and bounds as counts. Fields without a default are computed from the
    others.
    """

    heartbeat_us: int = 12 * _S
    rto_us: int = _S // 2
    """Wait for the first answer of a peer whose round trip is unknown."""
    cap_us: int = 2 * _S
    """Upper limit of the doubling waits."""
    round_trip_us: int = _S // 2
    """Round trip that counts as ordinary."""
    margin: float = 0.03
    """Largest relative difference between the rates of two clocks."""
    backups: int = 2
    tries_heartbeat: int = 4
    tries_hop: int = 3
    tries_offer: int = 5
    tries_prepared: int = 40
    tries_delta: int = 12
    tries_snapshot: int = 6
    poll_rounds: int = 4
    """Rounds of a death poll that no peer answers at all: the poller may itself be cut off."""
    forget_lost_us: int = 3_600 * _S
    """Lost peers are probed for this long."""
    probe_lost_us: int = 8 * _S
    """First pause between probes of a lost peer; later pauses are a quarter of its silence."""

    requests_max: int = 4_096
    """Pending requests. Further ones are sent once and not repeated."""
    parked_max: int = 64
    """Messages parked for extents that no peer answers for at present. Further ones are dropped;
    their senders repeat them.
    """
    seen_max: int = 256
    """Hop numbers of one peer, and finished handoffs of all peers, remembered to recognise repeats;
    the oldest are evicted first.
    """
    members_max: int = 256
    """Peers of which a state is kept. Beyond it, peers that are of no concern are evicted, those
    heard longest ago first.
    """
    lost_max: int = 32
    """Lost peers that are still probed; the one lost longest is evicted first."""
    copies_max: int = 64
    """Owners whose backup copies this peer holds. Further snapshots are not acknowledged, and the
    owner chooses another backup.
    """
    batches_max: int = 1_024
    """Batches that wait for acks of the backups. Further ones are refused, and the store tries
    again.
    """
    relinquished_max: int = 64
    """Claims to relinquished extents that heartbeats mention; the oldest are dropped first."""
    part_bytes: int = 65_536
    """Bytes of items in one part of a handoff or snapshot."""
    hops_max: int = 48
    """Hops after which a message is dropped."""
    visited_max: int = 6
    """Visited peers that a detour records; beyond it, the message is dropped. Enough to pass round
    a few silent neighbours. Round a large hole a detour finds no way, and after correlated failures
    most messages would take one.
    """

    give_up_us: int = field(init=False)
    """Time from the first sending of a heartbeat until it is given up."""
    turn_us: int = field(init=False)
    """A peer that received a heartbeat sends its own after this time unless another one arrives: a
    little more than a period.
    """
    suspect_after_us: int = field(init=False)
    """An owner that no backup has acknowledged for this long is unconfirmed and answers nothing; a
    peer that is silent for this long is suspect.
    """
    dead_after_us: int = field(init=False)
    """The first backup may take over from an owner after this much silence."""
    alive_within_us: int = field(init=False)
    """A vote that heard the suspect within this time is a veto."""
    answers_us: int = field(init=False)
    commit_delay_us: int = field(init=False)
    rank_us: int = field(init=False)
    """Additional wait of each later backup in the backup set."""
    tick_us: int = field(init=False)
    relocate_us: int = field(init=False)
    join_retry_us: int = field(init=False)
    departure_us: int = field(init=False)
    gap_us: int = field(init=False)
    """A dead owner is replaced within this time. Messages to its extents stay parked for this long;
    after it, an extent without an owner may be claimed.
    """
    copy_ttl_us: int = field(init=False)
    """A backup copy is dropped after this much silence of its owner."""

    def __post_init__(self) -> None:
        def derive(name: str, value: float) -> None:
            object.__setattr__(self, name, int(value))

        derive(
            "give_up_us",
            sum(
                backed_off_us(self.rto_us, tried, self.cap_us)
                for tried in range(self.tries_heartbeat)
            ),
        )
        derive("turn_us", 1.1 * self.heartbeat_us)
        derive("tick_us", min(_S, max(self.rto_us // 2, self.heartbeat_us // 6)))
        derive("suspect_after_us", self.heartbeat_us + CALM_TICKS * self.tick_us + self.give_up_us)
        derive("dead_after_us", (1 + self.margin) * self.suspect_after_us + 2 * self.round_trip_us)
        derive("alive_within_us", self.suspect_after_us + self.round_trip_us)
        derive("answers_us", 2 * self.rto_us + 2 * self.round_trip_us)
        derive("commit_delay_us", 2 * self.round_trip_us + self.rto_us)
        derive("rank_us", self.answers_us + self.commit_delay_us + self.round_trip_us)
        derive("relocate_us", max(4 * self.rto_us, self.heartbeat_us // 4))
        derive("join_retry_us", 6 * self.rto_us + 2 * self.round_trip_us)
        # Long enough that a peer that died before is noticed in the meantime.
        derive("departure_us", self.dead_after_us + 2 * self.tick_us)
        derive("gap_us", self.dead_after_us + 2 * self.rank_us)
        derive("copy_ttl_us", 3 * self.dead_after_us + 8 * self.rank_us)

    def retry_policy(self, times: int) -> RetryPolicy:
        """Retry policy of a request that is sent `times` times in all."""
        return RetryPolicy(self.rto_us, times, 2.0, self.cap_us)

    @classmethod
    def of(cls, hello_s: float) -> "Timers":
        """Timers for a heartbeat period in seconds. Below 6 s the waits for answers shrink with the
        period.
        """
        heartbeat_us, rto_us = int(hello_s * _S), int(min(0.5, max(0.1, hello_s / 6)) * _S)
        return cls(
            heartbeat_us,
            rto_us,
            cap_us=4 * rto_us,
            round_trip_us=rto_us,
            probe_lost_us=heartbeat_us,
        )


@dataclass(frozen=True, slots=True)
class SurfaceSettings:
    """Settings that all peers of a surface share: one value for all of them."""

    dimensions: int
    cosine: float
    """Cosine of the largest angle within one branch of a route (the thesis's branch factor)."""
    merge: bool = True
    """Clusters with the same next hop share one message."""
    timers: Timers = field(default_factory=Timers)
    assured: bool = True
    """Hops are acknowledged and repeated, neighbours exchange heartbeats, and owners have backups.
    False: none of these.
    """
    probe_digits: int = 0
    """Number of digits of its place that a joining peer chooses by latency probes (`joining.py`);
    0: the whole place is drawn at random.
    """
    static: bool = False
    """True if nothing will change on an assembled surface: assured messages then need no
    heartbeats.
    """

    @property
    def is_fixed(self) -> bool:
        """True if nothing will change and no message needs an ack: extents and routing suffice."""
        return self.static and not self.assured

    @property
    def monitored(self) -> bool:
        """True if neighbours exchange heartbeats and detect silent peers."""
        return self.assured and not self.static
