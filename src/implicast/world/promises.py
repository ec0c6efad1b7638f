"""What a design promises to publishers and members beyond the notices, judged from all events that
applications were given:

    every cast ends           a living publisher is given a final receipt in the promised time
    every registration ends   a registration of a living member is complete in the promised time
    every receipt is true     progress receipts and all final ones, also those that a later one
                              replaced; the journal has only the last final one
    refused only if so        no publisher hears `Refused` of a cast that notified all owed members
    no relapse                after the repair time no check of the invariants finds a violation

`promised_times.py` states the times. Each broken promise is one sentence with its number and the
first example.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from implicast.world.application import Cast, Registration
from implicast.world.change import PeerIncarnation, Timeline
from implicast.world.invariants import NEVER_US, ContractChecker
from implicast.world.promised_times import PromisedTimes
from implicast.world.receipts import CastFacts, ReceiptReport, falsehood, overcounts

_S = 1_000_000
RELAPSE_CHECKS = 15
"""A violation after calm is a relapse if this many checks in a row, one a second, find one. Designs
create and remove replicas and rebuild filters at any time, which violates invariants until it is
done: for some seconds where a quarter of all messages is lost. A cast that misses a member
meanwhile breaks the contract itself.
"""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known of a run beyond its journal."""

    incarnations: Sequence[tuple[int, PeerIncarnation]]
    times: PromisedTimes
    end_us: int
    assured: bool
    """Whether publishers are given receipts."""
    undisturbed: bool
    """Whether there was neither churn nor a fault of the network."""
    limited: bool
    """Whether peers limit the casts that they accept."""
    samples: Sequence[tuple[int, list[str]]] = ()
    timeline: Timeline | None = None


class PromiseChecker:
    """Checks one run."""

    def __init__(
        self, judge: ContractChecker, registrations: Sequence[Registration], run: RunFacts
    ) -> None:
        self.judge, self.registrations, self.run = judge, registrations, run
        self.gone_us: dict[int, list[int]] = {}
        """By member, when it crashed or asked to leave."""
        for number, one in run.incarnations:
            ended_us = [each for each in (one.leaving_us, one.to_us) if each is not None]
            self.gone_us.setdefault(number, []).extend(ended_us)

    def broken(self) -> list[str]:
        """One sentence for each promise that was not kept."""
        found = {
            "casts have no final receipt in time": list(self.unended()),
            "registrations were not complete in time": list(self.unregistered()),
            "relapses after calm": list(self.relapses()),
        }
        for cast, facts in self.judge.facts():
            for kind, example in self.untrue(cast, facts):
                found.setdefault(kind, []).append(f"cast {cast.number}: {example}")
        return [
            f"{len(examples)} {kind}; first: {examples[0]}"
            for kind, examples in found.items()
            if examples
        ]

    def unended(self) -> Iterator[str]:
        for cast in self.judge.casts if self.run.assured else ():
            due_us = self.run.times.ended_by_us(cast.begun_us)
            ended_us = _first_end_us(cast)
            if (
                ended_us > due_us
                and due_us <= self.run.end_us
                and not self.is_gone(cast.publisher, cast.begun_us, due_us)
            ):
                yield f"cast {cast.number} of {cast.publisher}, {_span(cast.begun_us, due_us)}"

    def unregistered(self) -> Iterator[str]:
        later_us: dict[int, int] = {}
        for each in sorted(self.registrations, key=_latest_first):
            superseded_us = later_us.get(each.peer, NEVER_US)
            later_us[each.peer] = each.begun_us
            due_us = self.run.times.registered_by_us(each.begun_us)
            completed_us = NEVER_US if each.completed_us is None else each.completed_us
            if (
                completed_us > due_us
                and due_us <= min(self.run.end_us, superseded_us)
                and not self.is_gone(each.peer, each.begun_us, due_us)
            ):
                yield f"version {each.version} of {each.peer}, {_span(each.begun_us, due_us)}"
        for number, one in self.run.incarnations:
            due_us = self.run.times.registered_by_us(one.from_us)
            if one.returned and one.back_us is not None and one.back_us > due_us:
                yield f"{number} restarted, {_span(one.from_us, due_us)}"

    def is_gone(self, peer: int, begun_us: int, due_us: int) -> bool:
        """Whether a member crashed or asked to leave before its time was over."""
        return any(begun_us <= each <= due_us for each in self.gone_us.get(peer, ()))

    def untrue(self, cast: Cast, facts: CastFacts) -> Iterator[tuple[str, str]]:
        """(kind, example) of each false statement about a cast, but for its last final receipt,
        which the contract covers.
        """
        for report in _reports(cast):
            reason = falsehood(facts, report, exact=False)
            if reason is not None and not _is_last_final(cast, report):
                yield "false receipts before the last", f"at {report.time_us / _S:.3f} s {reason}"
            reason = None if self.run.limited else overcounts(facts, report.receipt)
            if reason is not None:
                yield "receipts with too many declined", reason
            receipt = report.receipt
            if report.named > receipt.unreachable:
                example = f"{report.named} named, {receipt.unreachable} counted"
                yield "receipts that name more unreachable members than they count", example
            if self.run.undisturbed and (receipt.unreachable or receipt.uncertain):
                example = f"{receipt.unreachable} unreachable, {receipt.uncertain} uncertain"
                yield "receipts that admit a loss where none was possible", example
        strangers = sorted(cast.silent - facts.selected_us.keys())
        if strangers:
            yield "casts whose receipts name members that were not selected", str(strangers)
        if cast.refused_us is not None and facts.owed and not facts.missing_at(cast.refused_us):
            yield "casts refused although every owed member was notified", f"{len(facts.owed)} were"

    def relapses(self) -> Iterator[str]:
        if self.run.timeline is None:
            return
        calm_us, row = self.run.timeline.calm_us, 0
        was_clean = any(
            not wrong
            for time_us, wrong in self.run.samples
            if self.run.timeline.over_us <= time_us <= calm_us
        )
        for time_us, wrong in self.run.samples:
            row = row + 1 if wrong and time_us > calm_us and was_clean else 0
            if row == RELAPSE_CHECKS:
                yield f"{wrong[0]} at {time_us / _S:.0f} s"


def _first_end_us(cast: Cast) -> int:
    ends_us = [each.time_us for each in cast.reports if not each.open]
    ends_us += [each for each in (cast.settled_us, cast.refused_us) if each is not None]
    return min((each for each in ends_us if each >= cast.begun_us), default=NEVER_US)


def _reports(cast: Cast) -> Sequence[ReceiptReport]:
    """All receipts; of a cast whose receipts were not recorded, the one in the journal."""
    if cast.reports or cast.receipt is None or cast.settled_us is None:
        return cast.reports
    return [ReceiptReport(cast.settled_us, cast.receipt, 0)]


def _is_last_final(cast: Cast, report: ReceiptReport) -> bool:
    finals = [each for each in _reports(cast) if not each.open]
    return bool(finals) and report == finals[-1] and report.time_us == cast.settled_us


def _latest_first(one: Registration) -> tuple[int, int]:
    return one.peer, -one.version


def _span(begun_us: int, due_us: int) -> str:
    return f"begun at {begun_us / _S:.1f} s, due by {due_us / _S:.1f} s"
