"""What a cast would do, before it is made: normal form, whom it selects, over which way, at what
cost.
"""

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from implicast.front.network import Network, Receipt
from implicast.front.people import People
from implicast.front.words import in_words
from implicast.language.attributes import Schema
from implicast.language.parameters import Setting
from implicast.language.parse import parse
from implicast.language.render import render
from implicast.language.target import Description, Target
from implicast.world.run import Run, silent
from implicast.world.scenario import Scenario
from implicast.world.tally import tally

NAMED_MAX = 20
"""So many members are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class DeliveryPath:
    """One message: who said what to whom, at which step."""

    step: int
    by: str
    to: str
    kind: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that can be said of a target."""

    expression: str
    normal_form: str
    words: str
    warnings: list[str] = field(default_factory=list)
    population: int | None = None
    """Peers that were asked; None: no peer was named."""
    expected: int | None = None
    members: list[str] = field(default_factory=list)
    design: str | None = None
    reached: list[str] = field(default_factory=list)
    rendezvous: list[str] = field(default_factory=list)
    """Those that found the members and told them."""
    messages: float | None = None
    hops: float | None = None
    latency_ms: float | None = None
    way: list[DeliveryPath] = field(default_factory=list)

    def described(self) -> dict[str, Any]:
        return asdict(self)


def understood(expression: str, schema: Schema | None = None) -> tuple[Target, Explanation]:
    """What the expression means, without peers to apply it to."""
    target = parse(expression, schema)
    return target, Explanation(expression, render(target, schema), in_words(target, schema))


def among(
    explanation: Explanation, target: Target, described: Sequence[tuple[str, Description]]
) -> Explanation:
    """Whom it selects among these, by trying each."""
    members = [name for name, said in described if target.selects(said)]
    return replace(
        explanation,
        population=len(described),
        expected=len(members),
        members=members[:NAMED_MAX],
        warnings=_warnings(target, described, len(members)),
    )


def _warnings(
    target: Target, described: Sequence[tuple[str, Description]], selected: int
) -> list[str]:
    found = []
    if not selected:
        found.append(f"selects none of {len(described)}")
    elif selected == len(described) > 1:
        found.append(f"selects every peer, all {selected}")
    known = Counter(tag for _, said in described for tag in said.tags)
    unknown = sorted({tag for term in target.terms for tag in term.has} - known.keys())
    return found + [f"no peer registers {tag!r}; {_instead(tag, known)}" for tag in unknown]


def _instead(tag: str, known: Counter[str]) -> str:
    """What may have been meant, or what there is."""
    near = get_close_matches(tag, known, 1)
    return (
        f"did you mean {near[0]!r}?"
        if near
        else f"common here: {', '.join(tag for tag, _ in known.most_common(3))}"
    )


def network_of(people: People, name: str, parameters: dict[str, Setting], seed: int = 1) -> Network:
    """A network of these people, each joined and registered."""
    network = Network(name, seed=seed, schema=people.schema, parameters=parameters)
    for person in people.persons:
        network.peer(person.text, person.name)
    return network


def followed(explanation: Explanation, network: Network, receipt: Receipt) -> Explanation:
    """With the way that a cast took through a network."""
    steps = network.steps()
    members = {network.peers[name].address for name in receipt.reached if name in network.peers}
    tellers = dict.fromkeys(network.name(step.sender) for step in steps if step.receiver in members)
    return replace(
        explanation,
        design=network.design.name,
        reached=list(receipt.reached),
        rendezvous=list(tellers),
        messages=receipt.messages,
        hops=receipt.hops,
        latency_ms=receipt.latency_ms,
        way=[
            DeliveryPath(
                each.depth, network.name(each.sender), network.name(each.receiver), each.kind
            )
            for each in steps
        ],
    )


def measured(explanation: Explanation, target: Target, scenario: Scenario) -> Explanation:
    """With the cost of one cast to the target among the peers of a workload, in an assembled world."""
    design, parameters = scenario.settled()
    with tempfile.TemporaryDirectory(prefix="implicast-") as directory:
        run = Run(replace(scenario, casts=1), design, parameters, Path(directory) / "journal")
        run.targets = [target]
        run.plan = replace(run.plan, targets=run.targets)
        run.go(silent)
        measures = tally(Path(directory) / "journal")
    group = explanation.expected or 0
    return replace(
        explanation,
        design=scenario.design,
        messages=round(measures["RTH"] * (1 + group)),
        hops=2 * measures["RAH"],
        latency_ms=measures["latency_ms_max"],
    )
