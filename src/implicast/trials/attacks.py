"""What a design loses to liars: one run for each strategy, measured at the honest members. Rows are
plain values for the laboratory.

    python -m implicast.trials.attacks --peers 1000 --casts 30 --k 6 --seeds 1 2 3 4 5 --least 0.999

Groups are large (a third of all peers), so that the share that arrives is meaningful. Steps are
acknowledged and repeated, as in normal operation. `expected` is the number of notices due to honest
members, over all casts.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence

from implicast.casting.designs import design
from implicast.language.parameters import Setting
from implicast.peer.errors import ImplicastError
from implicast.workload.workload import workload
from implicast.world.churn import Churn
from implicast.world.liars.liars import STRATEGIES, Liars
from implicast.world.scenario import MESSAGES, Scenario
from implicast.world.simulate import DesignCrash, simulate

Row = dict[str, float | int | str]

GROUPS = {"share": 0.3, "tags_per_peer": 8}
"""Parameters of the workload `groups`: the share of peers that a cast selects, and the tags of a
description.
"""


def scenario(
    name: str,
    liars: Liars,
    peers: int = 200,
    casts: int = 16,
    seed: int = 1,
    parameters: Mapping[str, Setting] | None = None,
    interval_ms: int = 500,
    churn: str = "",
) -> Scenario:
    """The scenario in which a design runs among these liars."""
    settings = {**design(name).trial, **(parameters or {})}
    return Scenario(
        name,
        peers=peers,
        casts=casts,
        seed=seed,
        parameters=settings,
        workload="groups",
        workload_parameters=dict(GROUPS),
        interval_ms=interval_ms,
        liars=liars,
        churn=Churn.parse(churn),
        register=MESSAGES,
    )


def wanted_most(peers: int, casts: int, seed: int) -> int:
    """The peer that is due most casts: the victim from which liars can withhold most."""
    drawn = workload("groups", seed=seed, peers=peers, casts=casts, **GROUPS)
    targets = drawn.targeted()
    due = [
        sum(target.selects(description) for target in targets) for description in drawn.described()
    ]
    return due.index(max(due))


def attack_row(
    name: str,
    strategy: str,
    fraction: float,
    peers: int = 200,
    casts: int = 16,
    seed: int = 1,
    parameters: Mapping[str, Setting] | None = None,
    fixtures: bool = False,
    churn: str = "",
) -> Row:
    """Run a design among liars of one strategy: arrival at honest members, forged notices,
    messages, and liars noticed.
    """
    liars = Liars(fraction, strategy, fixtures=fixtures)
    outcome = simulate(scenario(name, liars, peers, casts, seed, parameters, churn=churn))
    trust = outcome.trust
    assert trust is not None, "the scenario has liars"
    victim = trust.victim_arrived / trust.victim_expected if trust.victim_expected else 1.0
    return {
        "design": name,
        "strategy": strategy,
        "f": fraction,
        "peers": peers,
        "casts": casts,
        "fixtures": int(fixtures),
        **trust.described(),
        "victim_arrival": victim,
        "noticed_share": trust.noticed / trust.liars if trust.liars else 0.0,
        "messages": sum(outcome.messages.values()),
    }


def attack_rows(
    names: Sequence[str], fraction: float, peers: int, casts: int, seed: int = 1
) -> list[Row]:
    """Every design among liars of every strategy."""
    return [
        attack_row(name, each, fraction, peers, casts, seed)
        for name in names
        for each in STRATEGIES
    ]


TABLE = (
    "silent",
    "dropping",
    "delaying",
    "selective",
    "aimed",
    "hoarding",
    "replaying",
    "forging",
    "flooding",
    "preempting",
    "sybil",
)
"""The strategies of the laboratory's table."""
SHOWN = ("arrival", "victim_arrival", "forged", "noticed_share", "noticed_s")
"""The measures that the table shows for each strategy."""


def table_row(
    name: str, f: float, peers: int = 128, casts: int = 8, seed: int = 1
) -> dict[str, float]:
    """One design at one share of liars, under every strategy of the table: `arrival_silent`,
    `forged_forging`, ...

    `expected` is the same under all of them. A run that breaks down counts as no arrival. At a
    share of 0 one run serves for all strategies.
    """
    found, row = dict[str, float](), Row()
    for strategy in TABLE:
        row = row if row and not f else _survived(name, strategy, f, peers, casts, seed)
        found["expected"] = max(found.get("expected", 0.0), float(row["expected"]))
        found |= {f"{measure}_{strategy}": float(row[measure]) for measure in SHOWN}
    return found


def _survived(name: str, strategy: str, f: float, peers: int, casts: int, seed: int) -> Row:
    try:
        return attack_row(name, strategy, f, peers, casts, seed)
    except DesignCrash:
        return {"expected": 0, **dict.fromkeys(SHOWN, 0.0)}


def _line(row: Row) -> str:
    notified, victim = (
        f"{row['arrived']} of {row['expected']}",
        f"{row['victim_arrived']} of {row['victim_expected']}",
    )
    noticed = f"noticed {row['noticed_share']:.2f}"
    arrival = f"arrival {row['arrival']:.5f}, {notified}, victim {victim}"
    return f"{arrival}, forged {row['forged']}, {noticed}"


def _given() -> Namespace:
    parser = ArgumentParser(
        description="Arrival at honest members among liars of each strategy: one line a run."
    )
    parser.add_argument("--design", default="bft")
    parser.add_argument("--peers", type=int, default=200)
    parser.add_argument("--casts", type=int, default=16)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--k", type=int, default=4, help="redundancy (bft only)")
    parser.add_argument(
        "--strategies",
        nargs="+",
        default=list(TABLE),
        help="names; join several by + to combine them",
    )
    parser.add_argument("--churn", default="", help="as `implicast simulate --churn`")
    parser.add_argument(
        "--least",
        type=float,
        default=0.0,
        help="exit with 1 if arrival is lower or a notice is forged",
    )
    return parser.parse_args()


def _tried(given: Namespace) -> bool:
    """Print a line for each run; True if in all of them at least `--least` arrived and nothing was
    forged.
    """
    parameters, passed = {"k": given.k} if given.design == "bft" else {}, True
    for seed in given.seeds:
        for strategy in given.strategies:
            row = attack_row(
                given.design,
                strategy,
                given.share,
                given.peers,
                given.casts,
                seed,
                parameters,
                churn=given.churn,
            )
            passed = passed and float(row["arrival"]) >= given.least and not row["forged"]
            print(f"{strategy} seed {seed}: {_line(row)}", flush=True)
    return passed


def main() -> int:
    given = _given()
    try:
        return 0 if _tried(given) else 1
    except ImplicastError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
