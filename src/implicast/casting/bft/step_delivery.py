"""Acknowledged delivery of multicast steps, and the count of members reached.

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from implicast.casting.bft.messages import SILENT_MAX, CastHop, CastHopAck, Source
from implicast.overlay.skip_graph.members import GraphMembers
from implicast.peer.contract import Address, CastId, Name, Part, handles
from implicast.peer.events import Settled
from implicast.peer.fields import COUNT_MAX
from implicast.peer.requests import PendingRequest, Requests, RetryPolicy

STEP, REPEATED, INSISTED, SUSPECTED = "step", "repeated step", "insisted step", "suspected step"
TOPICS = (STEP, REPEATED, INSISTED, SUSPECTED)
REPEAT_US = 2_000_000
ONCE, TWICE, LONG, THRICE = (RetryPolicy(REPEAT_US, times) for times in (1, 2, 18, 3))
"""A step is sent once, repeated twice, then repeated 18 times, 2 s apart: 42 s in all, longer than
the freezes and partitions to be survived. If the publisher's own first step is still unacknowledged
after the second stage and the receiver is alive, it counts as refused. A step to a lost peer is
sent three times.
"""
PROGRESS_US = 4_000_000
"""A receiver that reports progress is given the full number of retries again after 4 s. Without
this, one dropped message would count as a refusal: two casts in five were repeated for it.
"""
HEARD_WITHIN_US = 15_000_000
"""A peer heard within 15 s counts as alive."""
RECASTS_MAX = 3
"""How often one cast is cast again."""

Step = tuple[Address, int, int, bytes]
"""A step: the peer at the other end, the query, the level, the key of the forwarding place."""


@dataclass(slots=True)
class CastReport:
    """Outcome of a cast among a set of members."""

    taken: int = 0
    declined: int = 0
    missed: int = 0
    """Members that refused the cast because it has expired."""
    silent: tuple[Name, ...] = ()
    """Members that left a step unacknowledged, once for each such step. A member has k senders: it
    is unreachable if none of them got an acknowledgement.
    """
    uncertain: int = 0
    """Key ranges whose members are not known."""

    def add(self, other: "CastReport | CastHopAck") -> None:
        self.taken, self.declined = self.taken + other.taken, self.declined + other.declined
        self.missed, self.uncertain = self.missed + other.missed, self.uncertain + other.uncertain
        if other.silent:
            named = (*self.silent, *other.silent)
            self.silent = named[:SILENT_MAX]
            self.uncertain += len(named[SILENT_MAX:])

    def unreachable(self, senders: int) -> list[Name]:
        """Members that none of this many senders reached."""
        return [name for name, count in Counter(self.silent).items() if count >= senders]


@dataclass(slots=True)
class CoverageNode:
    """The share of a multicast that one incoming step makes this peer responsible for: its open
    outgoing steps, and the sum of what closed ones reported.
    """

    cast: CastId
    query: int
    parent: Step | None
    """The step to report to; None for an own cast."""
    counts: bool = True
    """Whether reports of outgoing steps are added up."""
    open: int = 0
    lost: int = 0
    """Steps to members outside the range that were never acknowledged; which members they should
    have reached is unknown.
    """
    tally: CastReport = field(default_factory=CastReport)

    def step(self, more: int, is_lost: bool = False) -> None:
        """Add to the number of open steps; a closed one may have been lost."""
        self.open += more
        self.lost += is_lost


class StepDelivery(Part):
    """Outgoing steps of one peer until they are acknowledged.

    Calls `recast(source)` to repeat an own cast, and `unconfirmed(address)` when a live peer never
    acknowledged a step. Without assurance, steps are sent once and nothing is counted.
    `senders`: number of senders of each member. `restarted_us` is the time of the member's restart,
    if any.
    """

    __slots__ = (
        "_inexact",
        "_members",
        "_own_casts",
        "_recast",
        "_recasts",
        "_report_unconfirmed",
        "_requests",
        "_restarted_us",
        "_senders",
        "_starting",
        "assured",
    )

    def __init__(
        self,
        requests: Requests,
        members: GraphMembers,
        senders: int,
        assured: bool,
        recast: Callable[[Source], None],
        unconfirmed: Callable[[Address], None],
        restarted_us: int | None = None,
    ) -> None:
        super().__init__(requests.address, requests.host)
        self._requests, self._members, self._senders = requests, members, senders
        self.assured, self._restarted_us = assured, restarted_us
        self._recast, self._report_unconfirmed = recast, unconfirmed
        # own casts -> coverage of their multicasts by query
        self._own_casts: dict[CastId, dict[int, CoverageNode]] = {}
        self._inexact: dict[CastId, bool] = {}  # own casts that may not select who is in range
        self._recasts: Counter[CastId] = Counter()  # how often own casts were repeated
        self._starting: CastId | None = None  # the own cast whose multicasts have not all begun
        requests.topic(STEP, ONCE, self._unconfirmed)
        requests.topic(REPEATED, TWICE, self._refused)
        requests.topic(INSISTED, LONG, self._lost)
        requests.topic(SUSPECTED, THRICE, self._on_suspect_unconfirmed)

    # --- own casts

    def begin_cast(self, cast: CastId, is_exact: bool) -> None:
        """Register an own cast: the steps sent for it decide its outcome. `is_exact`: the target
        selects every member in the key ranges of its multicasts.
        """
        if self.assured:
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

    # --- sending

    def send(
        self,
        wanted: Mapping[Address, Name | None],
        hop: CastHop,
        coverage: CoverageNode,
        topic: str = STEP,
    ) -> None:
        """Send a step to addresses. A member in range comes with its name, and is reported as
        silent if it never acknowledges.
        """
        if not self.assured:
            for to in wanted:
                self.host.send(to, hop)
            return
        for to, name in wanted.items():
            coverage.step(1)
            step = (to, hop.source.query, hop.level, hop.forwarder.key)
            if not self._requests.ask(topic, step, to, hop, (coverage, name)):
                self.host.send(to, hop)  # too many open requests: sent once, counted as lost
                self._close(coverage, name, is_lost=True)

    def drop_peer(self, address: Address) -> None:
        """Close all steps to a peer that has left. It may have left before its report, so the
        members below it are unknown; below a step of level 0 there are none.
        """
        for topic in TOPICS:
            for step in [each for each in self._requests.pending_keys(topic) if each[0] == address]:
                pending = self._requests.answered(topic, step)
                if pending is not None:
                    self._close(pending.context[0], None, is_lost=step[2] > 0)

    @handles(CastHopAck)
    def on_cast_hop_ack(self, sender: Address, ack: CastHopAck) -> None:
        step, requests = (sender, ack.query, ack.level, ack.place), self._requests
        for topic in TOPICS:  # mostly the first
            pending = requests.open(topic, step) if ack.open else requests.answered(topic, step)
            if pending is not None:
                break
        else:
            return
        if ack.open:
            requests.postpone(topic, step, PROGRESS_US)
            return
        coverage = pending.context[0]
        # true for about one acknowledgement in six
        if coverage.counts and (
            ack.taken or ack.declined or ack.missed or ack.silent or ack.uncertain
        ):
            coverage.tally.add(ack)
        self._close(coverage, None)

    def _unconfirmed(self, step: Step, pending: PendingRequest) -> None:
        self._members.check_alive(step[0])
        self._requests.ask(REPEATED, step, pending.to, pending.message, pending.context)

    def _refused(self, step: Step, pending: PendingRequest) -> None:
        hop = pending.message
        assert isinstance(hop, CastHop), "steps are hops"
        self._requests.ask(INSISTED, step, pending.to, hop, pending.context)
        self._members.check_alive(step[0])
        if pending.context[0].parent is None and self._members.was_heard_within(
            step[0], 2 * REPEAT_US
        ):
            self._cast_anew(hop.source)

    def _lost(self, step: Step, pending: PendingRequest) -> None:
        if self._members.was_heard_within(step[0], HEARD_WITHIN_US):
            self._report_unconfirmed(step[0])
        self._close(pending.context[0], pending.context[1], is_lost=True)

    def _on_suspect_unconfirmed(self, step: Step, pending: PendingRequest) -> None:
        """A lost peer did not acknowledge. If it has sent messages since, the step is repeated like
        any other.
        """
        if self._members.was_heard_within(step[0], HEARD_WITHIN_US):
            self._requests.ask(INSISTED, step, pending.to, pending.message, pending.context)
        else:
            self._close(pending.context[0], pending.context[1], is_lost=True)

    def _cast_anew(self, source: Source) -> None:
        """Repeat the multicast of an own cast with a new query. Open steps of the former attempt
        are dropped; members counted by it are counted again by the new one.
        """
        coverages = self._own_casts.get(source.cast, {})
        if source.query not in coverages or self._recasts[source.cast] == RECASTS_MAX:
            return
        self._recasts[source.cast] += 1
        del coverages[source.query]
        for topic in TOPICS:
            for step in [
                each for each in self._requests.pending_keys(topic) if each[1] == source.query
            ]:
                self._requests.drop(topic, step)
        self._recast(source)
        self._maybe_settled(source.cast)

    # --- acknowledging

    def confirm(self, sender: Address, hop: CastHop, coverage: CoverageNode | None) -> None:
        """Acknowledge a step. To the parent with its coverage: the report, or notice that work is
        in progress.
        """
        source, level, place = hop.source, hop.level, hop.forwarder.key
        ack = (
            CastHopAck(source.cast, source.query, level, place)
            if coverage is None
            else self._report(coverage, level, place)
        )
        self.host.send(sender, ack)  # nine in ten are not from the parent

    def _report(self, coverage: CoverageNode, level: int, place: bytes) -> CastHopAck:
        tally = coverage.tally
        taken, declined, missed = tally.taken, tally.declined, tally.missed
        uncertain = min(COUNT_MAX, tally.uncertain + coverage.lost + (not coverage.counts))
        if taken + declined + missed > COUNT_MAX:
            taken, declined, missed = (min(each, COUNT_MAX) for each in (taken, declined, missed))
        return CastHopAck(
            coverage.cast,
            coverage.query,
            level,
            place,
            bool(coverage.open),
            taken,
            declined,
            missed,
            tally.silent,
            uncertain,
        )

    def _close(self, coverage: CoverageNode, missed: Name | None, is_lost: bool = False) -> None:
        """Close one step of a coverage; the last one completes it and sends the report."""
        coverage.step(-1, is_lost and missed is None)
        if missed is not None:
            coverage.tally.add(CastReport(silent=(missed,)))
        if coverage.open:
            return
        if coverage.parent is None:
            self._maybe_settled(coverage.cast)
        else:
            to, _, level, place = coverage.parent
            self.host.send(to, self._report(coverage, level, place))

    def _maybe_settled(self, cast: CastId) -> None:
        coverages = self._own_casts.get(cast)
        if (
            coverages is None
            or cast == self._starting
            or any(coverage.open for coverage in coverages.values())
        ):
            return
        del self._own_casts[cast], self._recasts[cast]
        self.host.deliver(self._receipt(cast, list(coverages.values())))

    def _receipt(self, cast: CastId, coverages: list[CoverageNode]) -> Settled:
        """A member that some of its senders reached may be reached by all others, which count it. In
        a small ring a member has fewer senders than k, so it is not known.
        """
        total, silent, doubtful = CastReport(), dict[Name, None](), dict[Name, None]()
        uncertain = sum(each.lost for each in coverages) if coverages else 1
        for each in coverages:
            total.add(CastReport(each.tally.taken, each.tally.declined, each.tally.missed))
            uncertain += each.tally.uncertain
            unreachable = each.tally.unreachable(self._senders)
            silent |= dict.fromkeys(unreachable)
            doubtful |= dict.fromkeys(name for name in each.tally.silent if name not in unreachable)
        if self._inexact.pop(cast, False):  # the target may not select who did not answer
            doubtful, silent = doubtful | silent, {}
        names = tuple([name for name in silent if name not in doubtful])
        return Settled(
            cast,
            total.taken,
            total.missed + len(names),
            total.declined,
            0,
            names[:SILENT_MAX],
            uncertain + len(doubtful),
        )
