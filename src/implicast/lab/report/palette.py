"""One colour and one mark for each design, throughout: the same on paper, on a light screen and on
a dark one.

The colours are of middle lightness, so that each stands out from white and from near-black alike
(contrast of at least 3 to 1 against both). Any two differ by 20 or more in CIELAB, also as those
see them who lack the red or the green receptor; marks and lines tell them apart as well.
"""

from collections.abc import Iterable
from dataclasses import dataclass

COLOURS = {
    "centralised": "#be310f",
    "broker": "#f56609",
    "dht-naive": "#2f99cc",
    "dht": "#0e67b9",
    "spice": "#00a3a6",
    "spice-unloaded": "#297161",
    "chord-pubsub": "#7075ff",
    "opchord-pubsub": "#6e3bff",
    "condcast": "#d7795a",
    "bft": "#ff0082",
}
MARKS = {
    "centralised": "s",
    "broker": "D",
    "dht-naive": "v",
    "dht": "^",
    "spice": "p",
    "spice-unloaded": "o",
    "chord-pubsub": "<",
    "opchord-pubsub": ">",
    "condcast": "h",
    "bft": "X",
}
OTHER_COLOUR, OTHER_MARK = "#7a8288", "P"
"""Of designs that came later."""
DASHES = ("solid", "dashed", "dotted", "dashdot")

INK, GRID = "#1b1f23", "#c9ced3"
"""Drawn in these; in the page they become the page's own colours."""


@dataclass(frozen=True, slots=True)
class Look:
    """How a series is drawn. `hollow`: its marks are rings."""

    colour: str
    mark: str
    dash: str
    hollow: bool = False


def looks(series: Iterable[tuple[str, str]]) -> dict[str, Look]:
    """By series, given as name and design.

    Series of several designs have the colours and marks of their designs, and those of one design
    differ in their lines; series of one design alone, and those of a trial that knows no designs,
    have colours and marks of their own.
    """
    pairs = sorted(dict.fromkeys(series), key=lambda pair: rank(*pair))
    kin: dict[str, list[str]] = {}
    for name, design in pairs:
        kin.setdefault(design, []).append(name)
    if len(pairs) > 1 and (len(kin) == 1 or not COLOURS.keys() & kin.keys()):
        return {name: _alone(place) for place, (name, _) in enumerate(pairs)}
    return {name: _of(design, kin[design].index(name)) for name, design in pairs}


def _alone(place: int) -> Look:
    colours, marks = list(COLOURS.values()), list(MARKS.values())
    step = 3 * place + place // len(
        colours
    )  # neighbours in the list of designs are kin, and look alike
    return Look(
        colours[step % len(colours)], marks[place % len(marks)], DASHES[place % len(DASHES)]
    )


def _of(design: str, place: int) -> Look:
    colour, mark = COLOURS.get(design, OTHER_COLOUR), MARKS.get(design, OTHER_MARK)
    return Look(colour, mark, DASHES[place % len(DASHES)], hollow=place > 0)


def rank(series: str, design: str) -> tuple[int, str]:
    """Where a series stands: designs in the order of their colours, later ones at the end."""
    order = list(COLOURS)
    return order.index(design) if design in order else len(order), series
