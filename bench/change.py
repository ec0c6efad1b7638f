"""What a message costs where things change, for every design that survives change, beside the same
design in a kind world: processor time per message of the phase of casts, all in one go, so that
ratios count and not the machine. Of each the best of three runs: machines are noisy, and a first
run fills what later ones remember.

    python bench/change.py [DESIGN ...]

`watch` is the part of it that looking at the invariants from outside takes; `rest` is what setting
up, registering, judging and measuring a run adds for each message of it.
"""

import sys
import time
from dataclasses import replace
from typing import Any

from implicast.casting.designs import Design, designs
from implicast.world.churn import Churn
from implicast.world.fault_injector import FaultInjector
from implicast.world.faults import Faults
from implicast.world.run import Run
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate

PEERS, CASTS, RUNS = 96, 300, 3
LIMIT_US = 15.0


class Clock:
    """Processor time spent in some methods of those who know the world while it is open, and
    messages carried.
    """

    def __init__(self, *methods: tuple[type, str]) -> None:
        self.spent_s = [0.0] * len(methods)
        self.carried = [0] * len(methods)
        self._methods = [(owner, name, getattr(owner, name)) for owner, name in methods]

    def __enter__(self) -> "Clock":
        for number, (owner, name, method) in enumerate(self._methods):
            setattr(owner, name, self._timed(number, method))
        return self

    def __exit__(self, *error: object) -> None:
        for owner, name, method in self._methods:
            setattr(owner, name, method)

    def _timed(self, number: int, method: Any) -> Any:
        def timed(owner: Any, *given: Any) -> Any:
            begun, before = time.process_time(), owner.world.carried
            try:
                return method(owner, *given)
            finally:
                self.spent_s[number] += time.process_time() - begun
                self.carried[number] += owner.world.carried - before

        return timed


def kind_world(design: Design) -> Scenario:
    """Nothing lost and nobody gone; the design with its defaults, but signatures as in the other
    world.
    """
    parameters = {name: value for name, value in design.trial.items() if name != "alive"}
    return Scenario(design.name, peers=PEERS, casts=CASTS, workload="groups", parameters=parameters)


def unkind_world(design: Design) -> Scenario:
    """One message in a hundred lost; an eighth of the peers comes, as many go."""
    churn = Churn(joins=PEERS // 8, leaves=PEERS // 16, crashes=PEERS // 16, over_s=CASTS)
    return replace(
        kind_world(design), parameters=dict(design.trial), faults=Faults(loss=0.01), churn=churn
    )


def cost(scenario: Scenario) -> tuple[int, float, float, float]:
    """Of the best of some runs."""
    return min((cost_once(scenario) for _ in range(RUNS)), key=lambda costs: costs[1])


def cost_once(scenario: Scenario) -> tuple[int, float, float, float]:
    """Messages of the run; microseconds for each while casting, those of the watch among them, and
    all the rest.
    """
    with Clock((Run, "cast"), (FaultInjector, "look")) as clock:
        begun = time.process_time()
        outcome = simulate(scenario)
        whole_s = time.process_time() - begun
    messages = sum(outcome.messages.values())
    casting_s, watching_s = clock.spent_s
    busy = clock.carried[0]
    return (
        messages,
        casting_s * 1e6 / busy,
        watching_s * 1e6 / busy,
        (whole_s - casting_s) * 1e6 / messages,
    )


def main() -> None:
    chosen = [
        each
        for each in designs().values()
        if each.survives and each.name in (sys.argv[1:] or designs())
    ]
    print(f"{PEERS} peers, {CASTS} casts: us of processor time per message, best of {RUNS} runs")
    print(
        f"{'design':16} {'kind':>8} {'change':>8} {'watch':>8} {'ratio':>7} {'rest':>8} {'messages':>10}"
    )
    for design in chosen:
        _, kind_us, _, _ = cost(kind_world(design))
        messages, change_us, watch_us, rest_us = cost(unkind_world(design))
        print(
            f"{design.name:16} {kind_us:8.1f} {change_us:8.1f} {watch_us:8.1f} {change_us / kind_us:7.2f} "
            f"{rest_us:8.1f} {messages:10,}"
        )
    print(
        f"(a message is to cost less than {LIMIT_US:.0f} us where things change, 10 us where nothing does)"
    )


if __name__ == "__main__":
    main()
