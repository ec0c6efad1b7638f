"""Update flows: when each node refreshes its table (section 3.8 of the paper).

Updates travel round the ring from each node to its predecessor. A node that receives one refreshes
its whole table, holds the update for a while and passes it on. The nodes ahead were refreshed just
before, so fresh aggregates travel with it. Each node decides from its own clock only: how long to
hold (8), when a flow is lost, when there are too many.

    Normal   an update arrives before last + P - M: hold it so that the node keeps its period (8)
    Delayed  before last + P + G: hold it for M
    Timeout  none until then: start a flow

The number of flows is not enforced: about M n / P are needed (9). A missing one is replaced after P
+ G; a surplus one (updates held much longer than normal) is dropped with some probability. Answers
of nodes just passed travel along (`piggyback`) and save their calls.
"""

from dataclasses import dataclass
from math import ceil, log2

from implicast.casting.condcast.messages import FlowOverdue, PassUpdate, Update
from implicast.overlay.chord_sharp import ChordSharp
from implicast.overlay.chord_sharp.pull import Rows, rows_for_previous
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, Part, handles

PIGGYBACK_LEVELS_MAX = 8
"""At most 2^8 - 1 answers travel on an update, whatever a node measures."""
PIGGYBACK_MARGIN = 0.95
"""m is computed from rho / delta as the node measures them. Latency makes the quotient slightly too
large, so it is reduced by 5 %: a row that another flow has overtaken is then not used.
"""


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """The paper's parameters (P, M, G, ...) with its defaults; `settings.py` explains each."""

    period_us: int = 30_000_000
    hold_us: int = 2_000_000
    grace_us: int = 5_000_000
    alpha: float = 0.2
    del_flow_thres: int = 3
    del_flow_poss: float = 0.1
    delta_margin: float = 1.2
    piggyback: bool = True


class Flows(Part):
    """One node's part in the update flows."""

    __slots__ = (
        "delta_us",
        "holds_us",
        "last_us",
        "received_us",
        "rho_us",
        "ring",
        "rows",
        "running",
        "send_us",
        "settings",
        "turn",
        "updating",
    )

    def __init__(self, ring: ChordSharp, settings: FlowSettings) -> None:
        super().__init__(ring.address, ring.host)
        self.ring, self.settings = ring, settings
        self.turn = self.send_us = 0
        """`turn`: number of the valid alarm; earlier alarms are stale."""
        self.rows: Rows = ()
        self.stop()

    # --- taking part

    def start(self) -> None:
        """On joining: wait two to three periods for a flow, then start one."""
        self.running = True
        if not self.updating:  # a flow may have arrived while the first fingers were fetched
            self._alarm(int((2 + self.host.rng.random()) * self.settings.period_us), new=True)

    def restore(self, first: bool) -> None:
        """Take part in an assembled ring with circulating flows: the first node of each section
        holds an update now.
        """
        self.running = True
        if first:
            self._alarm(0, new=True)
        else:
            self._alarm(
                self.settings.period_us + self.settings.grace_us + self.settings.hold_us, new=False
            )

    def stop(self) -> None:
        """Stop taking part: off the ring, or while flows are paused."""
        self.running = self.updating = False
        self.last_us: int | None = None
        """Time of the last update passed on; None: not yet, or the last one was dropped."""
        self.received_us: int | None = None
        self.holds_us: list[int] = []
        """d: the latest holds of normal updates, newest last."""
        self.rho_us = self.delta_us = 0
        """As measured by this node; 0: not yet."""
        self.turn += 1

    # --- an update

    @handles(Update)
    def on_update(self, sender: Address, update: Update) -> None:
        if self.ring.links.state == IN and not self.ring.settings.rounds:
            self.running = True
            self.update(False, update.rows)

    def update(self, new_flow: bool, rows: Rows = ()) -> None:
        if self.updating:
            return  # two flows meet: the later one ends here
        self.updating = True
        self.turn += 1
        now_us = self.host.now_us
        if self.received_us is not None and not new_flow:
            self.rho_us = now_us - self.received_us
        self.received_us = now_us
        self.send_us = self._hold_until(now_us, new_flow)
        self.rows = rows[: 1 << max(0, self.levels() - 1)] if self.levels() else ()
        self.ring.pull.refresh(self.rows)
        if self.updating and self.send_us > now_us:
            self.host.after(self.send_us - now_us, PassUpdate(self.turn))

    def _hold_until(self, now_us: int, new_flow: bool) -> int:
        """Return when to pass the update on: by (8) if it is in time, otherwise M from now."""
        settings, last_us = self.settings, self.last_us
        if new_flow:
            self.holds_us = []
            return now_us
        soonest_us = now_us + settings.hold_us
        if last_us is None or last_us + settings.period_us < soonest_us:
            self.holds_us = []
            self.delta_us = settings.hold_us
            return soonest_us
        wanted_us = (
            settings.alpha * (last_us + settings.period_us) + (1 - settings.alpha) * soonest_us
        )
        self.delta_us = round(wanted_us) - now_us
        self.holds_us = [*self.holds_us, self.delta_us][-settings.del_flow_thres :]
        return round(wanted_us)

    def on_table_refreshed(self) -> None:
        """The table is refreshed: pass the update on if it has been held long enough."""
        if self.updating and self.host.now_us >= self.send_us:
            self._pass_on()

    @handles(PassUpdate)
    def on_pass_update(self, alarm: PassUpdate) -> None:
        if self.updating and alarm.turn == self.turn and not self.ring.pull.refreshing:
            self._pass_on()

    def _pass_on(self) -> None:
        settings, left = self.settings, self.ring.links.left
        assert self.received_us is not None, "what is passed on was received"
        if (
            self.surplus(settings.del_flow_thres)
            and self.host.rng.random() < settings.del_flow_poss
        ):
            self.last_us, self.holds_us = None, []
        else:
            self.last_us = self.host.now_us
            if left.address != self.address:
                self.host.send(
                    left.address,
                    Update(rows_for_previous(self.rows, self.ring.table, self.levels())),
                )
        self.updating, self.rows = False, ()
        self._alarm(
            self.received_us + settings.period_us + settings.grace_us - self.host.now_us, new=False
        )

    def levels(self) -> int:
        """m: the number of levels that answers travelling along can serve; 0 until rho and delta
        are known.
        """
        if not self.settings.piggyback or not self.rho_us or not self.delta_us:
            return 0
        spacing = PIGGYBACK_MARGIN * self.rho_us / self.delta_us
        return min(PIGGYBACK_LEVELS_MAX, max(0, ceil(log2(spacing))))

    # --- too few, too many

    @handles(FlowOverdue)
    def on_overdue(self, alarm: FlowOverdue) -> None:
        if alarm.turn != self.turn or not self.running:
            return
        if not alarm.new and self.surplus(1):  # too many flows: wait once more
            self._alarm(self.settings.period_us + self.settings.grace_us, new=True)
        else:
            self.update(True)

    def surplus(self, count: int) -> bool:
        """Whether the last `count` holds were all long, which indicates too many flows: F rho =
        delta n.
        """
        levels, settings = len(self.ring.table), self.settings
        if not levels or len(self.holds_us) < count:
            return False
        normal_us = surplus_delta(levels, settings.period_us, settings.hold_us, settings.alpha)
        return all(
            hold_us > normal_us * settings.delta_margin for hold_us in self.holds_us[-count:]
        )

    def _alarm(self, delay_us: int, new: bool) -> None:
        self.turn += 1
        self.host.after(max(0, delay_us), FlowOverdue(self.turn, new))


def surplus_delta(levels: int, period: float, hold: float, weight: float) -> float:
    """Return delta', the hold that a node considers normal, from its own table: n' = 2^(highest
    level), F' = (M/P) n' + 1.

    The "+ 1" is needed: without it deletions and restarts never stop.
    """
    nodes = 1 << (levels - 1)
    flows = hold / period * nodes + 1
    return (weight * (period - hold) + hold) / (weight * (nodes / flows - 1) + 1)
