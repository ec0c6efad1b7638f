"""The way of one cast as a drawing: a column for each step, a line for each message, members
filled.
"""

from html import escape

from implicast.front.explain import Explanation

STEP_PX, ROW_PX, RADIUS_PX = 170, 34, 6
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1b1f24}line{stroke:#8c95a0;stroke-width:1.2}"
    "circle{stroke:#1f5fa8;stroke-width:1.5;fill:#fff}circle.member{fill:#1f5fa8}"
    "@media(prefers-color-scheme:dark){text{fill:#e6e8eb}line{stroke:#6b7480}"
    "circle{stroke:#7fb2f0;fill:#16191d}circle.member{fill:#7fb2f0}}"
)


def drawn(explanation: Explanation) -> str:
    """An SVG of the way; confirmations, which go back, are left out."""
    forward = _tree(explanation)
    places = _places(explanation, forward)
    width = STEP_PX * (1 + max((column for column, _ in places.values()), default=0)) + 140
    height = ROW_PX * (1 + max((row for _, row in places.values()), default=0)) + 60
    lines = [_line(places[by], places[to]) for to, by in forward.items()]
    dots = [
        _dot(name, *place, member=name in explanation.reached) for name, place in places.items()
    ]
    title = f"cast to {escape(explanation.expression)}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{title}"><style>{STYLE}</style><text x="16" y="24">{title}: '
        f"{len(explanation.reached)} reached, {explanation.messages:g} messages</text>"
        f"{''.join(lines)}{''.join(dots)}</svg>\n"
    )


def _tree(explanation: Explanation) -> dict[str, str]:
    """From whom each heard first."""
    parent: dict[str, str] = {}
    begun = explanation.way[0].by if explanation.way else ""
    for each in explanation.way:
        if each.to != begun and each.to not in parent and each.by != each.to:
            parent[each.to] = each.by
    return parent


def _places(explanation: Explanation, parent: dict[str, str]) -> dict[str, tuple[int, int]]:
    """Column and row of every peer: as deep as its way from the publisher is long, in the order of
    hearing.
    """
    names = [explanation.way[0].by] if explanation.way else list(explanation.reached)
    rows: dict[int, int] = {}
    places: dict[str, tuple[int, int]] = {}
    for name in [*names, *parent]:
        if name not in places:
            column = places[parent[name]][0] + 1 if name in parent and parent[name] in places else 0
            places[name] = (column, rows.get(column, 0))
            rows[column] = rows.get(column, 0) + 1
    return places


def _at(place: tuple[int, int]) -> tuple[int, int]:
    return 24 + place[0] * STEP_PX, 56 + place[1] * ROW_PX


def _line(one: tuple[int, int], other: tuple[int, int]) -> str:
    (x1, y1), (x2, y2) = _at(one), _at(other)
    return f'<line x1="{x1 + RADIUS_PX}" y1="{y1}" x2="{x2 - RADIUS_PX}" y2="{y2}"/>'


def _dot(name: str, column: int, row: int, member: bool) -> str:
    x, y = _at((column, row))
    kind = ' class="member"' if member else ""
    return f'<circle cx="{x}" cy="{y}" r="{RADIUS_PX}"{kind}/><text x="{x + 12}" y="{y + 4}">{escape(name)}</text>'
