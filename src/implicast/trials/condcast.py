"""condcast's experiments on fixed tables, as plain rows for the laboratory: traffic by width, ages,
calls.

Experiments in which time passes (update flows, measured ages) are in `trials/condcast_flows.py`.
"""

from collections.abc import Sequence
from typing import Any

from implicast.language.queries import Within
from implicast.language.values import AnyValue, Bitmap, Interval
from implicast.overlay.chord_sharp import Table
from implicast.overlay.links import Ref
from implicast.peer.contract import Address
from implicast.space.digest import stream
from implicast.space.ring import Arc
from implicast.trials.condcast_formulas import Steady
from implicast.trials.condcast_spread import spread
from implicast.world.populations.chord_sharp import settled_tables
from implicast.world.populations.condcast import flows_needed

Row = dict[str, Any]

VALUES = 100
"""Values are whole numbers from 0 to 99."""
WIDTHS = tuple(range(10, 101, 10))
REFERENCE_PER_NODE = {
    ("interval", 10, False): 0.363,
    ("bitmap", 10, False): 0.229,
    ("interval", 50, False): 0.697,
    ("bitmap", 50, False): 0.672,
    ("interval", 100, False): 0.99,
    ("bitmap", 100, False): 0.99,
    ("interval", 10, True): 0.145,
    ("bitmap", 10, True): 0.126,
}
"""Messages per node of an independent trial, by kind, width in percent, and whether values are
sorted by key. The plots themselves are not available.
"""


def traffic_by_width(
    nodes: int = 100,
    casts: int = 200,
    seed: int = 1,
    widths: Sequence[int] = WIDTHS,
    kinds: Sequence[str] = ("interval", "bitmap"),
    by_key: bool = False,
) -> list[Row]:
    """Messages of casts to values within a range of the given width (in percent of all values),
    over the whole ring.

    Values are independent and uniform; `by_key`: sorted along the ring. One row per kind of value
    and width: messages per cast, and per node.
    """
    rng = stream(seed, "traffic by width", nodes, by_key)
    numbers = [rng.randrange(VALUES) for _ in range(nodes)]
    numbers = sorted(numbers) if by_key else numbers
    rows = []
    for width in widths:
        lows = [rng.randrange(VALUES - width + 1) for _ in range(casts)]
        sources = [rng.randrange(nodes) for _ in range(casts)]
        for kind in kinds:
            tables: dict[Address, Table] = dict(enumerate(_ring(kind, numbers)))
            sent = sum(
                len(spread(tables, source, (Arc(0, 0),), Within(low, low + width - 1).match).sent)
                for low, source in zip(lows, sources, strict=True)
            )
            rows.append(_traffic_row(kind, width, by_key, nodes, seed, sent / casts))
    return rows


def _ring(kind: str, numbers: Sequence[int]) -> list[Table]:
    values: list[AnyValue] = [
        Interval(c, c) if kind == "interval" else Bitmap.of(c) for c in numbers
    ]
    return settled_tables([Ref(index, index) for index in range(len(numbers))], values)


def _traffic_row(
    kind: str, width: int, by_key: bool, nodes: int, seed: int, messages: float
) -> Row:
    return {
        "kind": kind,
        "width_percent": width,
        "by_key": by_key,
        "nodes": nodes,
        "seed": seed,
        "messages": messages,
        "messages_per_node": messages / nodes,
        "reference_per_node": REFERENCE_PER_NODE.get((kind, width, by_key)),
    }


def ages_and_calls(
    nodes: Sequence[int],
    period_s: float,
    hold_s: float = 2.0,
    alpha: float = 0.2,
    latency_s: float = 0.0,
) -> list[Row]:
    """By formula, for F = F_min: rho, delta, E and getEnt calls until a change is everywhere. One
    row per n.
    """
    rows = []
    for count in nodes:
        steady = Steady(
            count, flows_needed(count, period_s, hold_s), period_s, hold_s, alpha, latency_s
        )
        rows.append(
            {
                "nodes": count,
                "period_s": period_s,
                "flows": steady.flows,
                "rho_s": steady.rho,
                "delta_s": steady.delta,
                "doublings": steady.doublings,
                "age_s": steady.age,
                **{f"calls_{name}": calls for name, calls in steady.calls.items()},
            }
        )
    return rows
