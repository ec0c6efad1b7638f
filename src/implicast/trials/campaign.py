"""Fault campaigns: thousands of random scenarios for a design, each checked from outside. A
scenario that fails is shrunk before it is shown.

A scenario is a function of design, seed and number alone. It draws only the faults that the design
declares to survive (`Design.survives`): joins, leaves, crashes, members that restart with their
disk, an old copy of it or none, freezes, partitions, cut and flapping links, slow peers, drifting
clocks, loss, duplication, reordering. Members change their description and withdraw, publishers
cast hundreds of times a second for a while or until they crash, and casts carry payloads. Members
register by messages or are preloaded. Casts go to tags or to ranges of values, where the design
supports both, and continue during all of this. Afterwards

- at no time may a peer have been notified twice, wrongly, with altered content, or of a cast that
  was never made;
- no publisher may have been given a false receipt, a wrong refusal, or none in the promised time;
- every registration must have been complete, and every restarted member registered again, in the
  promised time (`world/promised_times.py`);
- the design's invariants must hold within its repair time after the last change and from then on,
  and every later cast must be correct;
- a cast may on average take at most `COST` times the messages of one server: nothing loops;
- every live joining member must have joined, every leaving member have left, and every
  registration be complete.

Where members lie (`CampaignOptions.liars`), only the notices of honest members are checked, and the
share that arrives is counted.

A failing scenario is replayed by one command. `shrink` removes events, faults and peers as long as
the scenario still fails.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Protocol

from implicast.casting.designs import Design
from implicast.casting.designs import design as by_name
from implicast.peer.errors import ScenarioError
from implicast.space.digest import digest_bits, stream
from implicast.world.churn import Churn
from implicast.world.faults import Faults
from implicast.world.liars.liars import Liars
from implicast.world.liars.trust import TrustResult
from implicast.world.promised_times import FOUNDING_S
from implicast.world.scenario import ASSEMBLED, MESSAGES, Scenario
from implicast.world.scripted_events import ANY_DISK, ScriptedEvent
from implicast.world.simulate import DesignCrash, SimulationOutcome, simulate

PEERS = (16, 128)
OVER_S = (15, 45)
TAIL_S = 20
"""Casts go on for this long after the quiet period begins."""
FREEZE_S, CUT_S, SPLIT_S = (14.0, 150.0), (20.0, 150.0), (20.0, 420.0)
"""Durations of these faults in lasting scenarios."""
WORKLOADS = {"tags": "groups", "attributes": "attributes"}
"""The workload of each language."""
COST = 200.0
"""Largest average number of messages of a cast, as a multiple of those of one server (RTH). With
loss or frozen peers it is up to 60; more than this is a message storm.
"""
MAPS = ("worldwide", "laboratory")
"""Networks of half the scenarios, beside flat and national ones."""
AWAY_S = ((0.05, 0.5), (20.0, 60.0))
"""How long members are down: also shorter than any failure detection, and longer than any timeout.
"""
LOST = 0.33
"""Share of the members that do not start again after a blackout."""
PAYLOADS = (0, 16, 300)
"""Payload sizes of casts, in bytes."""
MIXED = "mixed"
"""The scenario draws one of the design's languages."""
FEW_TAGS = {"tags": 12, "tags_per_peer": 4}
"""Parameters of `zipf` for designs whose overlay has a place for each tag of each peer
(`Design.few_tags`).
"""
ALIVE = 2
"""Members that must be alive at the end of a scenario; with fewer, most rules require nothing. Only
then the scenario is drawn again.
"""
REDRAWS = 5
"""How often a scenario is drawn again at most."""
ATTEMPT_BITS = 32
SHRINK_RUNS = 120
"""Number of further runs to shrink a failing scenario."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one scenario: the reasons why it failed, or none."""

    scenario: Scenario
    reasons: tuple[str, ...]
    outcome: SimulationOutcome | None = None
    redrawn: int = 0
    """Scenarios of the same number drawn before this one and left out, because too few members were
    alive at the end.
    """


@dataclass(frozen=True, slots=True)
class CampaignOptions:
    """Options that all scenarios of a campaign share."""

    language: str = MIXED
    lasting: bool = False
    """Freezes, cuts and partitions last longer than every timeout of the designs."""
    changing: bool = False
    """Half the peers change their description, or withdraw, at some time."""
    returning: bool = False
    """At least an eighth of the peers crash and restart."""
    blackout: bool = False
    """All members stop once and start again with their disks; in half the scenarios a third of them
    does not start again.
    """
    liars: Liars | None = None
    """Members that lie. Then only the notices of honest members are checked, and those that arrive
    are counted.
    """


def scenario_of(
    design: Design, seed: int, number: int, options: CampaignOptions | None = None, **more: Any
) -> Scenario:
    """The scenario of this number. Other options change only what they name."""
    options = replace(options or CampaignOptions(), **more)
    language = language_of(design, seed, number, options.language)
    chance = stream(seed, "campaign", design.name, number)
    peers = int(PEERS[0] * (PEERS[1] / PEERS[0]) ** chance.random())
    churn = _churn(chance, design.survives, peers)
    wider = stream(seed, "wider campaign", design.name, number)
    churn = _add_restarts_and_bursts(churn, wider, design.survives, peers, options.returning)
    newer = stream(seed, "newer campaign", design.name, number)
    churn = replace(churn, falls=newer.choice((0, 0, 1, 2)) if "crashes" in design.survives else 0)
    widest = stream(seed, "widest campaign", design.name, number)
    away_s, group = (
        widest.choice((churn.away_s, churn.away_s, *AWAY_S)),
        widest.choice((churn.group, churn.group, 3)),
    )
    churn, network = replace(churn, away_s=away_s, group=group), chance.choice(("flat", "national"))
    if options.blackout and "returns" in design.survives:
        lost = stream(seed, "blackout", design.name, number).choice((0.0, LOST))
        churn = replace(churn, blackouts=1, lost=lost, disk="kept")
    if options.lasting:
        churn = _prolong(churn, stream(seed, "lasting", design.name, number))
    few = design.few_tags and language == "tags"
    longest_s = max(
        each[1] for each in (churn.freeze_s, churn.split_s, churn.cut_s, churn.down_s, churn.away_s)
    )
    founding_s = FOUNDING_S if churn.blackouts else 0.0
    return Scenario(
        design.name,
        peers=peers,
        casts=int(churn.over_s + longest_s + design.repair_us / 1e6 + founding_s + TAIL_S),
        seed=digest_bits(31, seed, "campaign", number),
        parameters=dict(design.trial),
        workload="zipf" if few else WORKLOADS[language],
        workload_parameters=dict(FEW_TAGS) if few else {},
        register=newer.choice((MESSAGES, MESSAGES, ASSEMBLED)),
        changes=peers // 2 if options.changing else 0,
        network=widest.choice((network, network, *MAPS)),
        faults=_faults(chance) if "loss" in design.survives else Faults(),
        churn=churn,
        strict=chance.random() < 0.25,
        payload_bytes=wider.choice(PAYLOADS),
        liars=options.liars,
    )


def language_of(design: Design, seed: int, number: int, wanted: str) -> str:
    """The language of the scenario of this number."""
    if not design.survives:
        raise ScenarioError(
            f"{design.name} declares no faults that it survives: campaigns need at least one"
        )
    spoken = [each for each in WORKLOADS if each in design.languages]
    if wanted == MIXED:
        return stream(seed, "language", design.name, number).choice(spoken)
    if wanted not in spoken:
        raise ScenarioError(f"{design.name} supports {', '.join(spoken)}, not casts to {wanted}")
    return wanted


def _churn(chance: Random, survives: frozenset[str], peers: int) -> Churn:
    def some(kind: str, most: int) -> int:
        return chance.randint(0, max(1, most)) if kind in survives else 0

    return Churn(
        joins=some("joins", peers // 4),
        leaves=some("leaves", peers // 8),
        crashes=some("crashes", peers // 8),
        group=chance.choice((1, 1, 2)),
        freezes=some("freezes", 3),
        restarts=some("restarts", 2),
        fails=some("fails", 2),
        splits=some("partitions", 1),
        cuts=some("partitions", 2),
        flaps=some("partitions", 2),
        slow=some("loss", 2),
        drift=chance.choice((0.0, 0.001, 0.01)),
        over_s=float(chance.randint(*OVER_S)),
    )


def _add_restarts_and_bursts(
    churn: Churn, chance: Random, survives: frozenset[str], peers: int, returning: bool
) -> Churn:
    """Add restarts, bursts of casts and changed descriptions. They use a random stream of their
    own, so that the rest of the scenario stays the same.
    """
    most = max(1, peers // 8)
    drawn, bursts, anew = chance.randint(0, most), chance.choice((0, 0, 1)), chance.randint(0, 4)
    returns = most if returning else drawn
    return replace(
        churn,
        returns=returns if "returns" in survives else 0,
        disk=ANY_DISK,
        bursts=bursts,
        anew=anew,
    )


def _prolong(churn: Churn, chance: Random) -> Churn:
    """Add a partition, if any link fault was drawn, and draw longer durations. Durations are
    log-uniform between the bounds of their kind.
    """

    def span(low_s: float, high_s: float) -> tuple[float, float]:
        longest_s = low_s * (high_s / low_s) ** chance.random()
        return round(longest_s * 0.7, 1), round(longest_s, 1)

    splits = max(1, churn.splits) if churn.splits or churn.cuts or churn.flaps else 0
    return replace(
        churn, splits=splits, freeze_s=span(*FREEZE_S), cut_s=span(*CUT_S), split_s=span(*SPLIT_S)
    )


def _faults(chance: Random) -> Faults:
    return Faults(
        loss=chance.choice((0.0, 0.01, 0.05)),
        duplicate=chance.choice((0.0, 0.02, 0.05)),
        reorder=chance.choice((0.0, 0.2)),
    )


def check(scenario: Scenario, journal: Path | None = None) -> Finding:
    """Run a scenario and list what was wrong with it. The journal is kept if a directory is given."""
    try:
        outcome = simulate(scenario, journal)
    except DesignCrash as crash:
        return Finding(scenario, (f"broke down: {crash.__cause__!r}",))
    return Finding(scenario, tuple(_reasons(outcome)), outcome)


def _reasons(outcome: SimulationOutcome) -> Iterator[str]:
    if outcome.trust is not None:
        yield from _deceptions(outcome.trust, outcome.scenario.promised())
        return
    change = outcome.change
    assert change is not None, "a campaign scenario has churn"
    whole = outcome.contract
    for wrong in ("repeated", "uninvited", "invented", "altered", "misreported"):
        if getattr(whole, wrong):
            yield f"{wrong} {getattr(whole, wrong)}"
    if change.after.missing:
        missing, expected = change.after.missing, change.after.expected
        yield f"missing {missing} of {expected} notices in the quiet period"
    if change.unrepaired:
        yield f"invariants broken until the end after {change.unrepaired} events"
    elif change.calm_s > change.allowed_s:
        yield (
            f"invariants held only {change.calm_s:.0f} s after the last event; "
            f"{change.allowed_s:.0f} s are allowed"
        )
    if outcome.measures["RTH"] > COST:
        yield (
            f"a cast took {outcome.measures['RTH']:.0f} times the messages of one server; "
            f"{COST:.0f} are allowed"
        )
    yield from outcome.unkept
    yield from change.complaints
    yield from outcome.objections


def _deceptions(trust: TrustResult, is_promised: bool) -> Iterator[str]:
    """What no honest member may be notified of, where a design claims to resist liars."""
    for wrong in ("forged", "repeated", "uninvited", "breakdowns") if is_promised else ():
        if getattr(trust, wrong):
            yield f"{wrong} {getattr(trust, wrong)} at honest members"


class Mapper(Protocol):
    """Applies a function to many values and yields the results in order: `map`, or a pool of
    processes.
    """

    def __call__(
        self, function: Callable[[int], Finding], values: Iterable[int], /
    ) -> Iterator[Finding]: ...


def campaign(
    design: Design,
    scenarios: int,
    seed: int = 1,
    first: int = 0,
    seen: Callable[[Finding], None] = lambda one: None,
    mapped: Mapper = map,
    options: CampaignOptions | None = None,
) -> list[Finding]:
    """Run `scenarios` scenarios from number `first` on, and return those that failed. `seen` is
    called with each finding, in order of number.
    """
    failed: list[Finding] = []
    scenario_of(design, seed, first, options)  # reports invalid arguments at once
    numbered = ScenarioCheck(design.name, seed, options or CampaignOptions())
    for finding in mapped(numbered, range(first, first + scenarios)):
        seen(finding)
        failed += [finding] if finding.reasons else []
    return failed


@dataclass(frozen=True, slots=True)
class ScenarioCheck:
    """Checks the scenario of a number. Holds plain values, so that it can be sent to another
    process.
    """

    design: str
    seed: int
    options: CampaignOptions

    def __call__(self, number: int) -> Finding:
        """A scenario in which too few members were alive at the end is drawn again, by the number
        with the attempt above `ATTEMPT_BITS`.
        """
        for attempt in range(REDRAWS + 1):
            drawn = number + (attempt << ATTEMPT_BITS)
            finding = check(scenario_of(by_name(self.design), self.seed, drawn, self.options))
            if finding.reasons or finding.outcome is None or finding.outcome.alive >= ALIVE:
                break
        return replace(finding, redrawn=attempt)


def shrink(
    failed: Finding, infrastructure: Callable[[int], int], runs: int = SHRINK_RUNS
) -> Finding:
    """A smaller scenario that fails too: fewer events, fewer network faults, fewer peers.

    `infrastructure` gives the number of infrastructure peers for a number of peers.
    """
    return _Shrinking(failed, infrastructure, runs).smallest()


_KINDER: tuple[Callable[[Faults], Faults], ...] = (
    lambda faults: replace(faults, loss=0.0),
    lambda faults: replace(faults, duplicate=0.0),
    lambda faults: replace(faults, reorder=0.0),
    lambda faults: replace(faults, delay=0.0),
    lambda faults: replace(faults, jitter=0.0),
)


class _Shrinking:
    """Tries smaller scenarios until `runs` are used up, and keeps the smallest that fails."""

    def __init__(self, failed: Finding, infrastructure: Callable[[int], int], runs: int) -> None:
        self.best, self.infrastructure, self.left = failed, infrastructure, runs

    def smallest(self) -> Finding:
        scenario = self.best.scenario
        fixed = self.infrastructure(scenario.peers)
        if not self._fails(
            replace(scenario, churn=scenario.churn.spelled(scenario.seed, scenario.peers, fixed))
        ):
            return self.best
        self._fewer_events()
        self._kinder()
        while self._fewer_peers():
            pass
        self._fewer_events()
        return self.best

    def _fails(self, scenario: Scenario) -> bool:
        if self.left <= 0 or not scenario.churn:
            return False
        self.left -= 1
        finding = check(scenario)
        if finding.reasons:
            self.best = finding
        return bool(finding.reasons)

    def _events(self) -> tuple[ScriptedEvent, ...]:
        return self.best.scenario.churn.events

    def _with_events(self, events: tuple[ScriptedEvent, ...]) -> Scenario:
        return replace(self.best.scenario, churn=replace(self.best.scenario.churn, events=events))

    def _fewer_events(self) -> None:
        """Leave out halves, then quarters, then single events."""
        size = len(self._events())
        while size > 1:
            size = -(-size // 2)
            at = 0
            while at < len(self._events()):
                events = self._events()
                at += (
                    0 if self._fails(self._with_events(events[:at] + events[at + size :])) else size
                )

    def _kinder(self) -> None:
        for kinder in _KINDER:
            faults = kinder(self.best.scenario.faults)
            if faults != self.best.scenario.faults:
                self._fails(replace(self.best.scenario, faults=faults))
        if self.best.scenario.payload_bytes:
            self._fails(replace(self.best.scenario, payload_bytes=0))
        if self.best.scenario.changes:
            self._fails(replace(self.best.scenario, changes=0))
        if self.best.scenario.churn.drift:
            self._fails(
                replace(self.best.scenario, churn=replace(self.best.scenario.churn, drift=0.0))
            )

    def _fewer_peers(self) -> bool:
        scenario = self.best.scenario
        peers = scenario.peers // 2
        victim = None if scenario.liars is None else scenario.liars.victim
        if peers < 2 or (victim is not None and victim >= peers):
            return False
        moved = [self._moved(event, scenario.peers, peers) for event in scenario.churn.events]
        events = tuple(event for event in moved if event is not None)
        return self._fails(
            replace(scenario, peers=peers, churn=replace(scenario.churn, events=events))
        )

    def _moved(self, event: ScriptedEvent, before: int, now: int) -> ScriptedEvent | None:
        """The same event among fewer peers; None if it concerns peers that are left out."""
        old, new = self.infrastructure(before), self.infrastructure(now)
        who = []
        for address in event.who:
            if address < now:
                who.append(address)
            elif before <= address < before + min(old, new):
                who.append(address - before + now)
            elif address >= before + old:
                who.append(address - before - old + now + new)
        paired = len(event.who) if event.kind in ("cut", "flap") else 1
        return replace(event, who=tuple(who)) if len(who) >= paired else None
