"""What a design loses to liars: one run for each strategy, seen by the honest. Rows are plain, for the laboratory.

Groups are large (a third of all), so that a share that arrives says something; steps are confirmed and repeated, as
people run a design. `expected` is how many honest members were to be told, over all casts.
"""

from collections.abc import Mapping, Sequence

from implicast.casting.designs import design
from implicast.language.parameters import Setting
from implicast.world.liars.liars import STRATEGIES, Liars
from implicast.world.scenario import Scenario
from implicast.world.simulate import DesignCrash, simulate

Row = dict[str, float | int | str]

GROUPS = {"share": 0.3, "tags_per_peer": 8}
"""Of the workload `groups`: what share of all a cast selects, and how long a description is."""


def scenario(
    name: str, liars: Liars, peers: int = 200, casts: int = 16, seed: int = 1,
    parameters: Mapping[str, Setting] | None = None, interval_ms: int = 500,
) -> Scenario:  # fmt: skip
    """The run in which a design meets these liars."""
    settings = {**design(name).trial, **(parameters or {})}
    return Scenario(
        name, peers=peers, casts=casts, seed=seed, parameters=settings, workload="groups",
        workload_parameters=dict(GROUPS), interval_ms=interval_ms, liars=liars,
    )  # fmt: skip


def attack_row(
    name: str, strategy: str, fraction: float, peers: int = 200, casts: int = 16, seed: int = 1,
    parameters: Mapping[str, Setting] | None = None, fixtures: bool = False,
) -> Row:  # fmt: skip
    """A design among liars of one strategy: arrival at the honest, false notices, messages, and who was noticed."""
    liars = Liars(fraction, strategy, fixtures=fixtures)
    outcome = simulate(scenario(name, liars, peers, casts, seed, parameters))
    trust = outcome.trust
    assert trust is not None, "somebody was to lie"
    victim = trust.victim_arrived / trust.victim_expected if trust.victim_expected else 1.0
    return {
        "design": name, "strategy": strategy, "f": fraction, "peers": peers, "casts": casts,
        "fixtures": int(fixtures), **trust.described(), "victim_arrival": victim,
        "noticed_share": trust.noticed / trust.liars if trust.liars else 0.0,
        "messages": sum(outcome.messages.values()),
    }  # fmt: skip


def attack_rows(names: Sequence[str], fraction: float, peers: int, casts: int, seed: int = 1) -> list[Row]:
    """Every design among liars of every strategy."""
    return [attack_row(name, each, fraction, peers, casts, seed) for name in names for each in STRATEGIES]


TABLE = ("silent", "dropping", "delaying", "selective", "aimed", "hoarding", "replaying", "forging", "flooding",
         "preempting", "sybil")  # fmt: skip
"""The strategies of the laboratory's table."""
SHOWN = ("arrival", "victim_arrival", "forged", "noticed_share", "noticed_s")
"""What the table shows of each."""


def table_row(name: str, f: float, peers: int = 128, casts: int = 8, seed: int = 1) -> dict[str, float]:
    """One design at one share of liars, under every strategy of the table: `arrival_silent`, `forged_forging`, ...

    `expected` is the same under all of them. Where a run breaks down as a whole, nothing arrived.
    """
    found: dict[str, float] = {}
    for strategy in TABLE:
        try:
            row = attack_row(name, strategy, f, peers, casts, seed)
        except DesignCrash:
            row = {"expected": 0, **dict.fromkeys(SHOWN, 0.0)}
        found["expected"] = max(found.get("expected", 0.0), float(row["expected"]))
        found |= {f"{measure}_{strategy}": float(row[measure]) for measure in SHOWN}
    return found
