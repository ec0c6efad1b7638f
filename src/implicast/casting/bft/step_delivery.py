"""Delivery of multicast steps: acknowledged and counted for receipts (`StepDelivery`), or sent once
as in the paper (`SendOnce`).

A receiver acknowledges a step when all its places that the step is for have the message. A step
that it must refuse, because its lists are not yet those of the sender, it does not acknowledge; the
sender repeats it, up to a limit.

Of the k senders of a receiver the first is its *parent*. The receiver acknowledges the parent's
step only when all steps that it sent on are acknowledged, and reports how many members below took
the cast. The other senders are acknowledged at once. The first steps thus form a tree, and its
root, the publisher, learns the outcome without extra messages. A parent that repeats its step
meanwhile is told that work is in progress. A restarted member does not know what its former
incarnation reported; it passes on no counts of casts older than its restart, because some would be
counted twice.

The publisher's own lists may be out of date: after a departure a list may look like the whole ring
because only few of its nodes are known. If a first step is not acknowledged by a peer that is
alive, the publisher casts again from its present lists. Members reached by the first attempt
recognise the cast.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass

from implicast.casting.bft.coverage import CastHopAck, CoverageNode, Step, receipt
from implicast.casting.bft.multicast import KeyRange
from implicast.casting.bft.validator import CastHop, Source
from implicast.casting.inbox import Outcome
from implicast.overlay.skip_graph.graph import SkipGraph
from implicast.overlay.skip_graph.table import Level
from implicast.peer.contract import Address, CastId, Host, Message, Name
from implicast.peer.identity import Certificate
from implicast.peer.memory import Recent
from implicast.peer.requests import PendingRequest, Requests, RetryPolicy

STEP = "step"
REPEAT_US = 2_000_000
ATTEMPTS, REFUSED_AT, SUSPECT_AT = 21, 3, 18
"""A step is sent 21 times, 2 s apart: 42 s in all, longer than the freezes and partitions to be
survived. If the publisher's own first step is still unacknowledged after 3 attempts and the
receiver is alive, it counts as refused. A step to a lost peer is sent 3 times: it begins at 18.
"""
PROGRESS_US = 4_000_000
"""A receiver that reports progress is given the attempts of the stage again, after 4 s. Without
this, one dropped message would count as a refusal: two casts in five were repeated for it.
"""
HEARD_WITHIN_US = 15_000_000
"""A peer heard within 15 s counts as alive."""
RECASTS_MAX = 3
"""How often one cast is cast again."""
COUNTED_MAX = 4_096
"""Casts for which this member remembers the range and attempt it was counted in."""


@dataclass(slots=True)
class OpenStep:
    """A step that is not acknowledged: its coverage, the member in range if any, timeouts."""

    coverage: CoverageNode
    name: Name | None
    is_suspect: bool
    timeouts: int = 0

    def time_out(self) -> int:
        """Count a timeout; returns their number."""
        self.timeouts += 1
        return self.timeouts

    def restart(self) -> None:
        """Begin the present stage anew."""
        first = REFUSED_AT if self.timeouts >= REFUSED_AT else min(self.timeouts, 1)
        self.timeouts = SUSPECT_AT if self.is_suspect else first

    def trust_again(self) -> None:
        """The receiver was lost and has sent messages since."""
        self.is_suspect, self.timeouts = False, REFUSED_AT


def _count_nothing(*given: object, **named: object) -> None:
    """Without receipts nothing is counted and no step is acknowledged."""


class SendOnce:
    """Steps are sent once, as in the paper."""

    __slots__ = ("_host",)
    begin_cast = all_sent = drop_peer = on_ack = confirm = staticmethod(_count_nothing)
    count_start = count_silent = count_outcome = staticmethod(_count_nothing)

    def __init__(self, host: Host) -> None:
        self._host = host

    def open_coverage(self, source: Source, parent: Step | None = None) -> CoverageNode:
        """A coverage that is not reported."""
        return CoverageNode(source.cast, source.query, parent)

    def send(
        self,
        to: Iterable[Certificate],
        hop: CastHop,
        coverage: CoverageNode,
        is_suspect: bool = False,
    ) -> None:
        """Send a step to the addresses of nodes."""
        for address in dict.fromkeys([node.address for node in to]):
            self._host.send(address, hop)


class StepDelivery:
    """Outgoing steps of one peer until they are acknowledged, and the counts for receipts.

    Calls `recast(source)` to repeat an own cast, and `unconfirmed(address)` when a live peer never
    acknowledged a step. `senders`: number of senders of each member. `public`: the member's key.
    `exchanged`: casts received first by digest exchange. `restarted_us` is the time of the member's
    restart, if any.
    """

    __slots__ = (
        "_counted",
        "_exchanged",
        "_graph",
        "_host",
        "_inexact",
        "_own_casts",
        "_public",
        "_recast",
        "_recasts",
        "_report_unconfirmed",
        "_requests",
        "_restarted_us",
        "_senders",
        "_starting",
    )

    def __init__(
        self,
        requests: Requests,
        graph: SkipGraph,
        senders: int,
        public: bytes,
        exchanged: Container[CastId],
        recast: Callable[[Source], None],
        unconfirmed: Callable[[Address], None],
        restarted_us: int | None,
    ) -> None:
        self._host, self._requests, self._graph = requests.host, requests, graph
        self._senders, self._public, self._exchanged = senders, public, exchanged
        self._recast, self._report_unconfirmed = recast, unconfirmed
        self._restarted_us = restarted_us
        # own casts -> coverage of their multicasts by query
        self._own_casts: dict[CastId, dict[int, CoverageNode]] = {}
        self._inexact: dict[CastId, bool] = {}  # own casts that may not select who is in range
        self._recasts: Counter[CastId] = Counter()  # how often own casts were repeated
        self._starting: CastId | None = None  # the own cast whose multicasts have not all begun
        self._counted: Recent[CastId, tuple[KeyRange, int]] = Recent(COUNTED_MAX)
        requests.topic(STEP, RetryPolicy(REPEAT_US, 1), self._on_timeout)

    # --- own casts

    def begin_cast(self, cast: CastId, is_exact: bool) -> None:
        """Register an own cast: the steps sent for it decide its outcome. `is_exact`: the target
        selects every member in the key ranges of its multicasts.
        """
        self._own_casts[cast], self._starting = {}, cast
        if not is_exact:
            self._inexact[cast] = True

    def open_coverage(self, source: Source, parent: Step | None = None) -> CoverageNode:
        """The coverage of an incoming step, or of an own multicast."""
        counts = self._restarted_us is None or source.sent_us > self._restarted_us
        coverage = CoverageNode(source.cast, source.query, parent, counts)
        if parent is None and source.cast in self._own_casts:
            self._own_casts[source.cast][source.query] = coverage
        return coverage

    def all_sent(self, cast: CastId) -> None:
        """The publisher has sent all first steps."""
        self._starting = None
        self._maybe_settled(cast)

    def _maybe_settled(self, cast: CastId) -> None:
        coverages = self._own_casts.get(cast)
        if coverages is None or cast == self._starting:
            return
        if not [each for each in coverages.values() if each.open]:
            del self._own_casts[cast], self._recasts[cast]
            is_exact = self._inexact.pop(cast, None) is None
            self._host.deliver(receipt(cast, coverages.values(), self._senders, is_exact))

    # --- sending

    def send(
        self,
        to: Iterable[Certificate],
        hop: CastHop,
        coverage: CoverageNode,
        is_suspect: bool = False,
    ) -> None:
        """Send a step to the addresses of nodes. A member in range is reported as silent if it
        never acknowledges, unless it is suspect already.
        """
        wanted, holds = dict[Address, Name | None](), hop.source.key_range.holds
        for node in to:
            is_named = not is_suspect and holds(node.key)
            wanted[node.address] = node.name if is_named else wanted.get(node.address)
        for address, name in wanted.items():
            coverage.step(1)
            step = (address, hop.source.query, hop.level, hop.forwarder.key)
            open_step = OpenStep(coverage, name, is_suspect, SUSPECT_AT if is_suspect else 0)
            if not self._requests.ask(STEP, step, address, hop, open_step):
                self._host.send(address, hop)  # too many open requests: sent once, counted as lost
                self._close(coverage, name, is_lost=True)

    def _on_timeout(self, step: Step, pending: PendingRequest) -> None:
        """Send a step once more, or give it up."""
        open_step, address, members = pending.context, step[0], self._graph.members
        timeouts = open_step.time_out()
        if timeouts == ATTEMPTS:
            is_alive = members.was_heard_within(address, HEARD_WITHIN_US)
            if not (is_alive and open_step.is_suspect):
                if is_alive:
                    self._report_unconfirmed(address)
                self._close(open_step.coverage, open_step.name, is_lost=True)
                return
            open_step.trust_again()
        if timeouts == 1:
            members.check_alive(address)
        self._requests.ask(STEP, step, address, pending.message, open_step)
        if timeouts == REFUSED_AT:
            members.check_alive(address)
            is_own = open_step.coverage.parent is None
            if is_own and members.was_heard_within(address, 2 * REPEAT_US):
                self._cast_anew(pending.message)

    def _cast_anew(self, hop: Message) -> None:
        """Repeat the multicast of an own cast with a new query. Open steps of the former attempt
        are dropped; members counted by it are counted again by the new one.
        """
        assert isinstance(hop, CastHop), "steps are hops"
        source = hop.source
        coverages = self._own_casts.get(source.cast, {})
        if source.query in coverages and self._recasts[source.cast] < RECASTS_MAX:
            self._recasts[source.cast] += 1
            del coverages[source.query]
            for step in self._requests.pending_keys(STEP):
                if step[1] == source.query:
                    self._requests.drop(STEP, step)
            self._recast(source)
            self._maybe_settled(source.cast)

    def drop_peer(self, address: Address) -> None:
        """Close all steps to a peer that has left. It may have left before its report, so the
        members below it are unknown; below a step of level 0 there are none.
        """
        for step in [each for each in self._requests.pending_keys(STEP) if each[0] == address]:
            pending = self._requests.answered(STEP, step)
            if pending is not None:
                self._close(pending.context.coverage, None, is_lost=step[2] > 0)

    # --- acknowledging

    def on_ack(self, sender: Address, ack: CastHopAck) -> None:
        """A step is acknowledged, or in progress."""
        step, requests = (sender, ack.query, ack.level, ack.place), self._requests
        pending = requests.open(STEP, step) if ack.open else requests.answered(STEP, step)
        if pending is None:
            return
        if ack.open:
            pending.context.restart()
            requests.postpone(STEP, step, PROGRESS_US)
            return
        coverage = pending.context.coverage
        if coverage.counts:
            coverage.count(ack.taken, ack.declined, ack.missed, ack.silent, ack.uncertain)
        self._close(coverage, None)

    def confirm(self, sender: Address, hop: CastHop, coverage: CoverageNode | None) -> None:
        """Acknowledge a step. To the parent with its coverage: the report, or notice that work is
        in progress.
        """
        source, level, place = hop.source, hop.level, hop.forwarder.key
        if coverage is None:  # nine in ten are not from the parent
            self._host.send(sender, CastHopAck(source.cast, source.query, level, place))
        else:
            self._host.send(sender, coverage.report(level, place))

    def _close(self, coverage: CoverageNode, missed: Name | None, is_lost: bool = False) -> None:
        """Close one step of a coverage; the last one completes it and sends the report."""
        coverage.step(-1, is_lost and missed is None)
        if missed is not None:
            coverage.count(silent=(missed,))
        if coverage.open:
            return
        if coverage.parent is None:
            self._maybe_settled(coverage.cast)
        else:
            to, _, level, place = coverage.parent
            self._host.send(to, coverage.report(level, place))

    # --- counting

    def count_start(self, source: Source, coverage: CoverageNode) -> None:
        """Count an uncertain region if the neighbours of the source do not have its list."""
        if not self._graph.is_agreed(source.certificate.key, source.start):
            coverage.count(uncertain=1)

    def count_silent(
        self,
        key_range: KeyRange,
        coverage: CoverageNode,
        near: Level[Certificate] | None = None,
    ) -> None:
        """Count an uncertain region if a silent peer, which may only be frozen or cut off, had a
        place in the range (`near`: and within this list), or if a contact of an earlier incarnation
        has not been listed again.
        """

        def concerns(key: bytes) -> bool:
            return key_range.holds(key) and (near is None or near.spans(key))

        silent = self._graph.silent
        if not (self._graph.members.lost or silent.named or silent.expected):
            return
        if silent.contacts() or silent.places(concerns):
            coverage.count(uncertain=1)

    def count_outcome(
        self, source: Source, outcome: Outcome | None, coverage: CoverageNode
    ) -> None:
        """Count the outcome at this member, once for each cast; once more when the publisher
        repeats the cast under the same range. Later steps of the former attempt count no more.
        """
        cast, key_range, sent_us = source.cast, source.key_range, source.sent_us
        before = self._counted.get(cast)
        if before is None:  # a repeat: an own cast that went on after a crash, or was exchanged
            is_anew = outcome is Outcome.REPEAT and (
                source.certificate.public == self._public or cast in self._exchanged
            )
        else:
            is_anew = before[0] == key_range and before[1] < sent_us
        if outcome is Outcome.TAKEN or (is_anew and outcome is not None):
            self._counted[cast] = (key_range, sent_us)
            coverage.count(taken=1)
        elif outcome is Outcome.EXPIRED:
            coverage.count(missed=1)
        elif outcome not in (None, Outcome.REPEAT, Outcome.UNSELECTED):
            coverage.count(declined=1)
