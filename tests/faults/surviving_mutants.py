"""Mutants that no check catches, each with the reason. `tools/mutants.py` prints the reasons and leaves
equivalent mutants out of the share; `tools/mistakes.py` lists them on the page of mistakes."""

from dataclasses import dataclass

EQUIVALENT, COST, OPEN = "equivalent", "cost only", "open"


@dataclass(frozen=True)
class Survivor:
    """One mutant: `key` as `tools/mutants.py` prints it."""

    key: str
    path: str
    """Below src/implicast."""
    before: str
    after: str
    sort: str
    """`EQUIVALENT`: no run differs. `COST`: only the cost of a run, or a bound on it, differs.
    `OPEN`: a fault that no check of the gauge sees.
    """
    reason: str

    @property
    def is_equivalent(self) -> bool:
        return self.sort == EQUIVALENT


SURVIVORS: tuple[Survivor, ...] = (
    Survivor(
        "ee2003f1",
        "casting/spice/settings.py",
        "HOLD_WINDOWS = 8",
        "HOLD_WINDOWS = 0",
        COST,
        "the level of a tag is proposed to be lowered more often: more messages, the same members",
    ),
    Survivor(
        "67cd11c3",
        "overlay/chord_sharp/table.py",
        "del self.nodes[level:], self.ends[level:], self.values[level:], self._sums[level + 1 :]",
        "del self.nodes[level:], self.ends[level:], self.values[level:], self._sums[level + 2 :]",
        OPEN,
        "a derived sum may outlive the level that it includes; no run reads it so far",
    ),
    Survivor(
        "7aeba23e",
        "casting/pubsub/member.py",
        "return not number or self.mapping.layout.node(number) == hashed(",
        "return ((self.mapping.layout.node(number) == hashed(",
        OPEN,
        "signed networks of the publish/subscribe designs are in no check of the gauge",
    ),
)
