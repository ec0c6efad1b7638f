"""Reports to all nodes of the ring of what only one node can detect (`overlay/chord/broadcast.py`).

- `RangeLost`: a node takes over keys of which it has no copies. Owners of entries there put them
  again. Sent three times, since a node that crashes while forwarding takes its arc with it. More
  nodes are missing than their neighbours can name, so all nodes are uncertain for a while
  (`overlay/links/silence.py`).
- `SuspectReport`: a node has repaired the ring over a silent predecessor. It may be wrong, so
  receivers do not rely on it: those that hold entries of the suspect probe it (`owner_probes.py`),
  and those that have it as a finger check it. Owners of entries that the suspect holds put them
  again, in case its copies are lost too.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from implicast.casting.replicated_lists.entries import RingKey
from implicast.casting.replicated_lists.holder_state import HolderPart, HolderState
from implicast.overlay.chord.broadcast import ArcBroadcast
from implicast.overlay.links import Ref
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, Message, handles
from implicast.peer.fields import Token
from implicast.peer.lease import OWED_US

ROUNDS = 3
"""How often `RangeLost` is sent."""
ROUND_US = 6_000_000
ROUNDS_MAX = 64
"""Repetitions of `RangeLost` under way; beyond that a report is sent once."""


class RangeLost(Message):
    """Broadcast: all copies of the lists of (low, high] are lost, so owners of entries there must
    put them again. Routed to `key`, and forwarded to all nodes from there up to `limit`.
    """

    wire = 0x060F
    serial: Token
    low: RingKey
    high: RingKey
    key: RingKey
    limit: RingKey
    by: Address


class SuspectReport(Message):
    """Broadcast: the peer at address `who`, the predecessor of the reporting node, is suspected to
    have crashed. Receivers probe it themselves. Routed to `key`, and forwarded to all nodes from
    there up to `limit`.
    """

    wire = 0x0610
    serial: Token
    who: Address
    key: RingKey
    limit: RingKey
    by: Address
    silent: Ref | None = None
    """The node at this address."""


class LossRound(NamedTuple):
    """A report of a lost range that is to be sent, `left` times from now on. With `unless_since_us`,
    only if no such report was received since then.
    """

    due_us: int
    low: int
    high: int
    left: int
    unless_since_us: int | None = None


class RingBroadcast(HolderPart, parts={"arcs": ArcBroadcast}):
    """Reports of lost ranges and of suspects."""

    __slots__ = ("_on_suspect", "_rounds", "arcs", "on_range_lost")

    def __init__(
        self,
        state: HolderState,
        on_range_lost: Callable[[int, int], None],
        on_suspect: Callable[[Address], None],
    ) -> None:
        """`on_range_lost(low, high)`: put own entries of that range again. `on_suspect(address)`:
        the peer there may have crashed.
        """
        super().__init__(state)
        self.on_range_lost, self._on_suspect = on_range_lost, on_suspect
        self.arcs = ArcBroadcast(state.chord, self._on_first, self._send_rounds)
        self._rounds: list[LossRound] = []

    def announce_range_lost(self, low: int, high: int) -> None:
        self._state.note_lost(low, high)
        self.arcs.announce(RangeLost, low, high)
        self._add(LossRound(self.host.now_us + ROUND_US, low, high, ROUNDS - 1))

    def announce_suspect(self, ref: Ref) -> None:
        self.arcs.announce(partial(SuspectReport, silent=ref), ref.address)

    @handles(RangeLost, SuspectReport)
    def on_report(self, sender: Address, report: RangeLost | SuspectReport) -> None:
        self.arcs.on_report(sender, report)

    def _on_first(self, report: RangeLost | SuspectReport) -> None:
        silent = self._ring.liveness.silent
        if isinstance(report, RangeLost):
            silent.uncertain_for(OWED_US)
            self.on_range_lost(report.low, report.high)
        else:
            silent.add(() if report.silent is None else (report.silent,))
            self._chord.check_finger(report.who)
            self._on_suspect(report.who)

    def _add(self, each: LossRound) -> None:
        if len(self._rounds) < ROUNDS_MAX:
            self._rounds.append(each)
        self.arcs.arm(has_more=True)

    def _send_rounds(self) -> None:
        """Send the reports that are due."""
        rounds, self._rounds, now_us = self._rounds, [], self.host.now_us
        for each in rounds:
            if each.due_us > now_us:
                self._rounds.append(each)
                continue
            if self._ring.state == IN and not self._was_reported(each):
                self.arcs.announce(RangeLost, each.low, each.high)
            if each.left > 1:
                due_us = now_us + 2 * ROUND_US
                self._rounds.append(each._replace(due_us=due_us, left=each.left - 1))
        self.arcs.arm(has_more=bool(self._rounds))

    def watch_range_lost(self, low: int, high: int) -> None:
        """This node owns keys of a range that another node has reported as lost. Report it again if
        no report comes within a while: the other node may have failed.
        """
        now_us = self.host.now_us
        due_us = now_us + int(ROUND_US * (1 + 2 * self.host.rng.random()))
        self._add(LossRound(due_us, low, high, 1, now_us))

    def _was_reported(self, loss: LossRound) -> bool:
        if loss.unless_since_us is None:
            return False
        mask, since_us = self._chord.table.mask, loss.unless_since_us
        return any(
            isinstance(report, RangeLost)
            and at_us >= since_us
            and (loss.low - report.low) & mask <= (loss.high - report.low - 1) & mask
            and (loss.high - report.low - 1) & mask <= (report.high - report.low - 1) & mask
            for report, at_us in self.arcs.recent.values()
        )
