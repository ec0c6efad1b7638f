"""What all peers of one surface agree on; how patient they are, and how much they remember.

All times of detection follow from two numbers: `hello_us`, how often neighbours greet each other, and `rto_us`, how
long a question waits for its first answer. Greetings that stay unanswered are repeated at once, so a peer need not
wait for a second period before it doubts: what is silent for `self_us` has missed a period and a whole row of repeats.

The order that safety rests on: an owner whose heirs do not echo stops answering after `self_us`, and nobody takes its
place before `dead_us`. `margin` pays for clocks that run at different rates.
"""

from dataclasses import dataclass, field

from implicast.peer.asking import Patience

_S = 1_000_000
CALM_TICKS = 2
"""A peer with nothing to see to looks about every so many ticks."""


@dataclass(frozen=True, slots=True)
class Timers:
    """Timers in microseconds, bounds as counts. Those without a default are computed from the first few."""

    hello_us: int = 12 * _S
    rto_us: int = _S // 2
    """Wait for the first answer of a peer whose round trip is not known."""
    cap_us: int = 2 * _S
    """Waits double up to this."""
    trip_us: int = _S // 2
    """A round trip that is not unusual."""
    margin: float = 0.03
    """Clocks of two peers may differ in rate by this share."""
    heirs: int = 2
    tries_hail: int = 4
    tries_hop: int = 3
    tries_give: int = 5
    tries_took: int = 40
    tries_backup: int = 12
    tries_copy: int = 6
    rounds: int = 4
    """An inquirer whom nobody answers at all may be cut off itself: it asks so many times."""
    long_us: int = 3_600 * _S
    """How long those that fell silent are still greeted now and then."""
    meet_us: int = 8 * _S
    """How often, at first; later the pauses grow with the silence."""

    asks_max: int = 4_096
    """Questions awaiting an answer; further ones are sent once only."""
    parked_max: int = 64
    """Messages waiting for ground that does not answer now; further ones are dropped, and repeated by their askers."""
    seen_max: int = 256
    """Hops of one peer, and transfers of all, remembered to know repeats; the oldest go first."""
    news_max: int = 256
    """Peers about whom something is known; beyond it strangers are forgotten, those heard longest ago first."""
    missed_max: int = 32
    """Silent peers that are still greeted now and then; the one missed longest goes first."""
    estates_max: int = 64
    """Owners that may name us heir; further copies are not accepted, and the owner picks another."""
    batches_max: int = 1_024
    """Batches awaiting their heirs; further ones are refused, and asked for again."""
    gifts_max: int = 64
    """Titles of ground we parted with that greetings mention; the oldest go first."""
    part_bytes: int = 65_536
    """Items in one message of a give or a copy."""
    hops_max: int = 48
    """Hops of a message; beyond it, it is dropped."""
    visited_max: int = 16
    """Peers that a detour remembers; beyond it, the message is dropped."""

    patience_us: int = field(init=False)
    """From the first attempt of a greeting until it is given up."""
    turn_us: int = field(init=False)
    """Who was greeted greets in turn after so long, if the other does not again: a little more than a period."""
    self_us: int = field(init=False)
    """An owner that no heir has echoed for so long answers no more; who is silent for so long is suspect."""
    dead_us: int = field(init=False)
    """A silent owner may be seized by its first heir after this time."""
    known_us: int = field(init=False)
    """Whom a witness has heard more lately than this is not dead."""
    ask_us: int = field(init=False)
    settle_us: int = field(init=False)
    rank_us: int = field(init=False)
    """Each later heir waits so much longer than the one before it."""
    tick_us: int = field(init=False)
    tidy_us: int = field(init=False)
    join_us: int = field(init=False)
    grace_us: int = field(init=False)
    gap_us: int = field(init=False)
    """The dead are replaced within this time: so long messages wait for them, and then unclaimed ground is taken."""
    estate_us: int = field(init=False)
    """An estate outlives the last word of its owner by this time."""

    def __post_init__(self) -> None:
        def derive(name: str, value: float) -> None:
            object.__setattr__(self, name, int(value))

        derive(
            "patience_us",
            sum(min(self.rto_us << tried, self.cap_us) for tried in range(self.tries_hail)),
        )
        derive("turn_us", 1.1 * self.hello_us)
        derive("tick_us", min(_S, max(self.rto_us // 2, self.hello_us // 6)))
        derive("self_us", self.hello_us + CALM_TICKS * self.tick_us + self.patience_us)
        derive("dead_us", (1 + self.margin) * self.self_us + 2 * self.trip_us)
        derive("known_us", self.self_us + self.trip_us)
        derive("ask_us", 2 * self.rto_us + 2 * self.trip_us)
        derive("settle_us", 2 * self.trip_us + self.rto_us)
        derive("rank_us", self.ask_us + self.settle_us + self.trip_us)
        derive("tidy_us", max(4 * self.rto_us, self.hello_us // 4))
        derive("join_us", 6 * self.rto_us + 2 * self.trip_us)
        derive(
            "grace_us", self.dead_us + 2 * self.tick_us
        )  # whoever died before is noticed meanwhile
        derive("gap_us", self.dead_us + 2 * self.rank_us)
        derive("estate_us", 3 * self.dead_us + 8 * self.rank_us)

    def patience(self, times: int) -> Patience:
        """With a question that is asked so many times in all."""
        return Patience(self.rto_us, times, 2.0, self.cap_us)

    @classmethod
    def of(cls, hello_s: float) -> "Timers":
        """The setting for a period of greetings: waits for answers shrink with it below six seconds."""
        hello_us, rto_us = int(hello_s * _S), int(min(0.5, max(0.1, hello_s / 6)) * _S)
        return cls(hello_us, rto_us, cap_us=4 * rto_us, trip_us=rto_us, meet_us=hello_us)


@dataclass(frozen=True, slots=True)
class Terms:
    """What all peers of one surface agree on: one value, shared by all of them."""

    dimensions: int
    cosine: float
    """Of the largest angle within one branch of a route."""
    merge: bool = True
    """Clusters with the same next hop share one message."""
    timers: Timers = field(default_factory=Timers)
    assured: bool = True
    """Hops are confirmed and repeated, neighbours greet each other, owners have heirs. Else nothing of this."""
    soundings: int = 0
    """How many digits of a place newcomers choose by who is near there (`entry.py`); 0: they draw all of it."""
    resting: bool = False
    """Nothing will change on an assembled surface: what is assured needs no greetings."""

    @property
    def watched(self) -> bool:
        """Do neighbours greet each other, and notice who falls silent?"""
        return self.assured and not self.resting
