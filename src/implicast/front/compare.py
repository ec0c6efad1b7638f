"""All designs on one workload, in one table, without Spark."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from implicast.casting.designs import design
from implicast.peer.errors import LocalError, ScenarioError
from implicast.world.scenario import Scenario
from implicast.world.simulate import SimulationOutcome, simulate

LABORATORY = {"bft": {"signatures": "stand-in"}}
"""Parameters that only make large simulations quicker: same checks, same sizes."""


@dataclass(frozen=True, slots=True)
class Row:
    """One design."""

    design: str
    contract: str
    expected: int
    missing: int
    TOUT_M: int
    TOUT_G: float
    POUT_M: int
    RTH: float
    latency_ms_mean: float
    latency_ms_max: float
    register: int
    """Messages that joining and registering took."""
    cpu_s: float

    def described(self) -> dict[str, Any]:
        return asdict(self)


FIGURES = tuple(each.name for each in fields(Row) if each.type in (int, float))
"""What may be required of a row."""
COLUMNS = (
    ("design", "design", "{}"),
    ("contract", "contract", "{}"),
    ("TOUT_M", "busiest peer", "{:,}"),
    ("POUT_M", "… one cast", "{:,}"),
    ("TOUT_G", "unevenness", "{:.2f}"),
    ("RTH", "messages", "{:.2f}"),
    ("latency_ms_mean", "mean ms", "{:.0f}"),
    ("latency_ms_max", "max ms", "{:.0f}"),
    ("register", "registering", "{:,}"),
    ("cpu_s", "CPU s", "{:.1f}"),
)


def compare(
    names: Sequence[str], scenario: Scenario, clock: Any
) -> Iterator[Row | tuple[str, str]]:
    """A row for each design, or its name and why it cannot take part. `clock` tells CPU seconds."""
    for name in names:
        known = {each.name for each in design(name).parameters}
        parameters = {**LABORATORY.get(name, {}), **scenario.parameters}
        mine = {key: value for key, value in parameters.items() if key in known}
        begun = clock()
        try:
            outcome = simulate(replace(scenario, design=name, parameters=mine))
        except LocalError as error:
            yield name, str(error)
        else:
            yield row(outcome, clock() - begun)


def refuse_repeats(names: Sequence[str]) -> None:
    """Each design has one row."""
    for number, name in enumerate(names):
        if name in names[:number]:
            raise ScenarioError(f"{name} is named twice; name each design once")


def unknown_parameters(names: Sequence[str], scenario: Scenario) -> None:
    """A parameter that no chosen design has is a mistake."""
    known = {each.name for name in names for each in design(name).parameters}
    for key in scenario.parameters:
        if key not in known:
            raise ScenarioError(
                f"none of the designs has a parameter {key!r}; there are: {', '.join(sorted(known))}"
            )


def row(outcome: SimulationOutcome, cpu_s: float) -> Row:
    measures, contract, messages = outcome.measures, outcome.contract, outcome.messages
    return Row(
        design=outcome.scenario.design,
        contract="kept" if contract.clean else "BROKEN",
        expected=contract.expected,
        missing=contract.missing,
        TOUT_M=int(measures["TOUT_M"]),
        TOUT_G=measures["TOUT_G"],
        POUT_M=int(measures["POUT_M"]),
        RTH=measures["RTH"],
        latency_ms_mean=measures["latency_ms_mean"],
        latency_ms_max=measures["latency_ms_max"],
        register=messages.get("join", 0) + messages.get("register", 0),
        cpu_s=round(cpu_s, 2),
    )


def table(rows: Sequence[Row]) -> str:
    """As text, columns aligned; the first is a name, the others are figures."""
    cells = [[title for _, title, _ in COLUMNS]]
    cells += [[form.format(getattr(each, name)) for name, _, form in COLUMNS] for each in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for line in cells:
        first, *others = zip(line, widths, strict=True)
        lines.append(
            "  ".join(
                [first[0].ljust(first[1]), *(text.rjust(width) for text, width in others)]
            ).rstrip()
        )
    return "\n".join(lines)
