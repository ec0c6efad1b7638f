"""One colour and one mark for each design, throughout: the same on paper, on a light screen and on a dark one.

The colours are of middle lightness, so that each stands out from white and from near-black alike (contrast of at
least 3 to 1 against both), and are told apart by the mark as well for those who do not see colours.
"""

from collections.abc import Sequence

COLOURS = {
    "centralised": "#d1495b",
    "broker": "#b8860b",
    "dht-naive": "#8a7ab5",
    "dht": "#6f5fd0",
    "spice": "#2a9d8f",
    "spice-unloaded": "#1f8a4c",
    "chord-pubsub": "#4a86c5",
    "opchord-pubsub": "#2f74d0",
    "condcast": "#d26a1f",
    "bft": "#c2559d",
}
MARKS = {
    "centralised": "s", "broker": "D", "dht-naive": "v", "dht": "^", "spice": "p", "spice-unloaded": "o",
    "chord-pubsub": "<", "opchord-pubsub": ">", "condcast": "h", "bft": "X",
}  # fmt: skip
OTHERS = ("#7a8288", "#a0684a", "#5d8aa8", "#8f9a3b")
DASHES = ("solid", "dashed", "dotted", "dashdot")

INK, GRID = "#1b1f23", "#c9ced3"
"""Drawn in these; in the page they become the page's own colours."""


def colour(design: str) -> str:
    """The colour of a design; designs that came later share a few greys and browns."""
    return COLOURS.get(design) or OTHERS[sum(design.encode()) % len(OTHERS)]


def mark(design: str) -> str:
    return MARKS.get(design, "P")


def rank(series: str, design: str) -> tuple[int, str]:
    """Where a series stands: designs in the order of their colours, later ones at the end."""
    order = list(COLOURS)
    return order.index(design) if design in order else len(order), series


def dash(series: str, design: str, all_series: Sequence[str]) -> str:
    """Series of one design, such as two networks, differ in their lines."""
    kin = [each for each in all_series if each == design or each.startswith(f"{design} ")]
    return DASHES[kin.index(series) % len(DASHES)] if series in kin else DASHES[0]
