"""Thousands of random scenarios for a design, each judged from outside; what fails is made small before it is shown.

A scenario of a campaign is a function of design, seed and number alone. It draws what the design says it survives
(`Design.survives`) and nothing else: newcomers, leavers, crashes, members that come back with their disk, an old copy
of it or none, freezes, partitions, cut and flapping links, slow peers, drifting clocks, loss, repeats, reordering.
Members describe themselves anew and withdraw, publishers cast hundreds a second for a while, or until they crash, and
payloads travel; all register by messages or are enrolled at once; casts are to tags or to ranges of values, where the
design speaks both. Casts go on all the time. Afterwards

- nobody may have been notified twice, wrongly, of something else than was cast or of what nobody cast, at any time;
- no publisher may have been told in the end what is not so;
- whoever came back must have been registered again within `RETURN_S`;
- within the design's repair time after the last change its invariants must hold, and every later cast be clean;
- a cast may not have taken more than `COST` times the messages of one server, on average: nothing goes in a circle;
- every newcomer that lives must have joined, every leaver have left, every registration be complete.

Where members lie (`Bent.liars`), what the honest were told is judged instead, and what arrived at them is counted.

A failing scenario is replayed by one command. `shrink` leaves out deeds, faults and peers as long as it still fails.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Protocol

from implicast.casting.designs import Design
from implicast.casting.designs import design as by_name
from implicast.peer.errors import ScenarioError
from implicast.space.digest import digest_bits, stream
from implicast.world.churn import ANY_DISK, Churn
from implicast.world.deeds import Deed
from implicast.world.faults import Faults
from implicast.world.liars.liars import Liars
from implicast.world.liars.trust import Trust
from implicast.world.scenario import ASSEMBLED, MESSAGES, Scenario
from implicast.world.simulate import DesignCrash, Outcome, simulate

PEERS = (16, 128)
OVER_S = (15, 45)
TAIL_S = 20
"""Casts go on for so long after all must be quiet."""
FREEZE_S, CUT_S, SPLIT_S = (14.0, 150.0), (20.0, 150.0), (20.0, 420.0)
"""How long these last in lasting scenarios."""
WORKLOADS = {"tags": "groups", "attributes": "attributes"}
"""What is cast, in each language."""
RETURN_S = 40.0
"""Within this time after it came back a member is registered again.

Where another falls meanwhile, or the network is parted, or somebody stands still, it may begin anew when that is over:
a promise that all know of a member is not given while some cannot be told.
"""
DISTURBING = ("crash", "fall", "return", "fail", "restart", "split", "cut", "flap", "freeze")
"""Deeds after which it may."""
COST = 200.0
"""So many times the messages of one server (RTH) a cast may take on average. Where messages get lost, or some peers
stand still, it is up to 60; more than this is a storm."""
MAPS = ("worldwide", "laboratory")
"""Networks of half the scenarios, beside flat and national ones."""
AWAY_S = ((0.05, 0.5), (20.0, 60.0))
"""How long members are away: also shorter than anybody notices, and longer than anybody waits."""
PAYLOADS = (0, 16, 300)
"""Bytes that casts carry."""
MIXED = "mixed"
"""In whichever of its languages the scenario draws."""
FEW_TAGS = {"tags": 12, "tags_per_peer": 4}
"""Parameters of `zipf` for designs whose overlay has a place for each tag of each peer (`Design.few_tags`)."""
SHRINK_RUNS = 120
"""A failing scenario is made smaller by at most so many further runs."""


@dataclass(frozen=True, slots=True)
class Finding:
    """How one scenario ended: reasons why it failed, or none."""

    scenario: Scenario
    reasons: tuple[str, ...]
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Bent:
    """What all scenarios of a campaign have in common."""

    language: str = MIXED
    lasting: bool = False
    """Freezes, cuts and partitions outlast every patience that designs have."""
    changing: bool = False
    """Half the peers describe themselves anew, or withdraw, at some time."""
    returning: bool = False
    """An eighth of the peers at least crash and come back."""
    liars: Liars | None = None
    """Members that lie meanwhile; then only what the honest were told is judged, and what arrived is counted."""


def scenario_of(
    design: Design, seed: int, number: int, bent: Bent | None = None, **more: Any
) -> Scenario:
    """The scenario of this number. In another language, or bent otherwise, it is the same but for that."""
    bent = replace(bent or Bent(), **more)
    language = _language(design, seed, number, bent.language)
    chance = stream(seed, "campaign", design.name, number)
    peers = int(PEERS[0] * (PEERS[1] / PEERS[0]) ** chance.random())
    churn = _churn(chance, design.survives, peers)
    wider = stream(seed, "wider campaign", design.name, number)
    churn = _wider(churn, wider, design.survives, peers, bent.returning)
    newer = stream(seed, "newer campaign", design.name, number)
    churn = replace(churn, falls=newer.choice((0, 0, 1, 2)) if "crashes" in design.survives else 0)
    widest = stream(seed, "widest campaign", design.name, number)
    away_s, group = (
        widest.choice((churn.away_s, churn.away_s, *AWAY_S)),
        widest.choice((churn.group, churn.group, 3)),
    )
    churn, network = replace(churn, away_s=away_s, group=group), chance.choice(("flat", "national"))
    if bent.lasting:
        churn = _lasting(churn, stream(seed, "lasting", design.name, number))
    few = design.few_tags and language == "tags"
    longest_s = max(
        each[1] for each in (churn.freeze_s, churn.split_s, churn.cut_s, churn.down_s, churn.away_s)
    )
    return Scenario(
        design.name,
        peers=peers,
        casts=int(churn.over_s + longest_s + design.repair_us / 1e6 + TAIL_S),
        seed=digest_bits(31, seed, "campaign", number),
        parameters=dict(design.trial),
        workload="zipf" if few else WORKLOADS[language],
        workload_parameters=dict(FEW_TAGS) if few else {},
        register=newer.choice((MESSAGES, MESSAGES, ASSEMBLED)),
        changes=peers // 2 if bent.changing else 0,
        network=widest.choice((network, network, *MAPS)),
        faults=_faults(chance) if "loss" in design.survives else Faults(),
        churn=churn,
        strict=chance.random() < 0.25,
        payload_bytes=wider.choice(PAYLOADS),
        liars=bent.liars,
    )


def _language(design: Design, seed: int, number: int, wanted: str) -> str:
    if not design.survives:
        raise ScenarioError(
            f"{design.name} does not say that it survives anything: it is meant for a kind world"
        )
    spoken = [each for each in WORKLOADS if each in design.languages]
    if wanted == MIXED:
        return stream(seed, "language", design.name, number).choice(spoken)
    if wanted not in spoken:
        raise ScenarioError(
            f"{design.name} speaks {', '.join(spoken)}; casts to {wanted} mean nothing to it"
        )
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


def _wider(
    churn: Churn, chance: Random, survives: frozenset[str], peers: int, returning: bool
) -> Churn:
    """With returns, bursts of casts and words about oneself: drawn apart, so that all else is as it would be."""
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


def _lasting(churn: Churn, chance: Random) -> Churn:
    """With one partition at least, and all that is for a while for longer: each as likely short as long of its kind."""

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


def check(scenario: Scenario) -> Finding:
    """Run a scenario, and say what was wrong with it."""
    try:
        outcome = simulate(scenario)
    except DesignCrash as crash:
        return Finding(scenario, (f"broke down: {crash.__cause__!r}",))
    return Finding(scenario, tuple(_reasons(outcome)), outcome)


def _reasons(outcome: Outcome) -> Iterator[str]:
    if outcome.trust is not None:
        yield from _deceptions(outcome.trust, outcome.scenario.promised())
        return
    change = outcome.change
    assert change is not None, "a scenario of a campaign changes something"
    whole = outcome.contract
    for wrong in ("repeated", "uninvited", "invented", "altered", "misreported"):
        if getattr(whole, wrong):
            yield f"{wrong} {getattr(whole, wrong)}"
    if change.after.missing:
        yield f"missing {change.after.missing} of {change.after.expected} after all was quiet"
    if change.unrepaired:
        yield f"invariants broken until the end after {change.unrepaired} deeds"
    elif change.calm_s > change.allowed_s:
        yield f"invariants held only {change.calm_s:.0f} s after the last deed; {change.allowed_s:.0f} s are allowed"
    if outcome.measures["RTH"] > COST:
        yield f"a cast took {outcome.measures['RTH']:.0f} times the messages of one server; {COST:.0f} are allowed"
    allowed_s = return_s(outcome.scenario)
    if change.return_s_max > allowed_s:
        yield f"back, and registered only after {change.return_s_max:.0f} s; {allowed_s:.0f} s are allowed"
    yield from change.complaints
    yield from outcome.objections


def return_s(scenario: Scenario) -> float:
    """Within this time everybody who comes back is registered again."""
    found = by_name(scenario.design)
    infrastructure = found.infrastructure(scenario.peers, found.settle(scenario.parameters))
    script = scenario.churn.script(scenario.seed, scenario.peers, infrastructure)
    falls = [(deed.from_s, deed.to_s) for deed in script if deed.kind in DISTURBING]
    waits_s = [_over_s(deed.to_s, falls) - deed.to_s for deed in script if deed.kind == "return"]
    return RETURN_S + max(waits_s, default=0.0)


def _over_s(back_s: float, falls: list[tuple[float, float]]) -> float:
    """When a member that is back then can begin for the last time: after all that befell others meanwhile."""
    return max(
        [back_s, *(to_s for from_s, to_s in falls if from_s <= back_s + RETURN_S and to_s > back_s)]
    )


def _deceptions(trust: Trust, is_promised: bool) -> Iterator[str]:
    """What nobody honest may be told, where a design promises anything against liars."""
    for wrong in ("forged", "repeated", "uninvited", "breakdowns") if is_promised else ():
        if getattr(trust, wrong):
            yield f"{wrong} {getattr(trust, wrong)} at honest members"


class Mapper(Protocol):
    """Puts a function to many values and gives the results in their order: `map`, or several processes."""

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
    bent: Bent | None = None,
) -> list[Finding]:
    """Run so many scenarios from the first on; those that failed. `seen` is told of each, in the order of numbers."""
    failed: list[Finding] = []
    scenario_of(design, seed, first, bent)  # what is wrong with the call is said at once
    numbered = Numbered(design.name, seed, bent or Bent())
    for finding in mapped(numbered, range(first, first + scenarios)):
        seen(finding)
        failed += [finding] if finding.reasons else []
    return failed


@dataclass(frozen=True, slots=True)
class Numbered:
    """Checks the scenario of a number; plain values, so that it can be sent to another process."""

    design: str
    seed: int
    bent: Bent

    def __call__(self, number: int) -> Finding:
        return check(scenario_of(by_name(self.design), self.seed, number, self.bent))


def shrink(
    failed: Finding, infrastructure: Callable[[int], int], runs: int = SHRINK_RUNS
) -> Finding:
    """A smaller scenario that fails too: fewer deeds, a kinder network, fewer peers.

    `infrastructure` says how much of it there is for a number of peers.
    """
    return _Shrinking(failed, infrastructure, runs).smallest()


_KINDER: tuple[Callable[[Faults], Faults], ...] = (
    lambda faults: replace(faults, loss=0.0),
    lambda faults: replace(faults, duplicate=0.0),
    lambda faults: replace(faults, reorder=0.0),
)


class _Shrinking:
    """Tries smaller scenarios as long as runs are left, and keeps the smallest that fails."""

    def __init__(self, failed: Finding, infrastructure: Callable[[int], int], runs: int) -> None:
        self.best, self.infrastructure, self.left = failed, infrastructure, runs

    def smallest(self) -> Finding:
        scenario = self.best.scenario
        fixed = self.infrastructure(scenario.peers)
        if not self._fails(
            replace(scenario, churn=scenario.churn.spelled(scenario.seed, scenario.peers, fixed))
        ):
            return self.best
        self._fewer_deeds()
        self._kinder()
        while self._fewer_peers():
            pass
        self._fewer_deeds()
        return self.best

    def _fails(self, scenario: Scenario) -> bool:
        if self.left <= 0 or not scenario.churn:
            return False
        self.left -= 1
        finding = check(scenario)
        if finding.reasons:
            self.best = finding
        return bool(finding.reasons)

    def _deeds(self) -> tuple[Deed, ...]:
        return self.best.scenario.churn.deeds

    def _with_deeds(self, deeds: tuple[Deed, ...]) -> Scenario:
        return replace(self.best.scenario, churn=replace(self.best.scenario.churn, deeds=deeds))

    def _fewer_deeds(self) -> None:
        """Leave out halves, then quarters, then single deeds."""
        size = len(self._deeds())
        while size > 1:
            size = -(-size // 2)
            at = 0
            while at < len(self._deeds()):
                deeds = self._deeds()
                at += 0 if self._fails(self._with_deeds(deeds[:at] + deeds[at + size :])) else size

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
        moved = [self._moved(deed, scenario.peers, peers) for deed in scenario.churn.deeds]
        deeds = tuple(deed for deed in moved if deed is not None)
        return self._fails(
            replace(scenario, peers=peers, churn=replace(scenario.churn, deeds=deeds))
        )

    def _moved(self, deed: Deed, before: int, now: int) -> Deed | None:
        """The same deed among fewer peers; None when it concerns those that are left out."""
        old, new = self.infrastructure(before), self.infrastructure(now)
        who = []
        for address in deed.who:
            if address < now:
                who.append(address)
            elif before <= address < before + min(old, new):
                who.append(address - before + now)
            elif address >= before + old:
                who.append(address - before - old + now + new)
        paired = len(deed.who) if deed.kind in ("cut", "flap") else 1
        return replace(deed, who=tuple(who)) if len(who) >= paired else None
