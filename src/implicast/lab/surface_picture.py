"""A picture of ICE and SPICE from a real run: tiles by owner, a cast's way over them, a registry
through its notches.

    parameters = {"dimensions": 2, "storage_limit": 4, "frequency_limit": 0}
    scenario = Scenario("spice-unloaded", peers=256, casts=8, workload="extreme", parameters=parameters)
    draw(scenario, Path("ice.svg"))

Thesis Figs. 7.3 (tiles), 7.5 (a route) and 8.1 (a registry that scales). Only surfaces of two
dimensions can be drawn. Everything shown is read from the peers and the journal of the run; nothing
is drawn by rule. The file's ending (svg, png, pdf) is the format. Matplotlib is imported when a
picture is made.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from implicast.casting.spice.homes import address_of
from implicast.casting.spice.spice import Spice
from implicast.casting.spice.traversal_messages import CastRequest
from implicast.peer.errors import ScenarioError
from implicast.space.morton import Box, box, side
from implicast.space.surface import Surface
from implicast.space.tract import container
from implicast.world import journal as journals
from implicast.world.run import Run
from implicast.world.scenario import Scenario

HUE_STEP = 0.6180339887
"""The golden section: successive owners get colours far apart."""
POINT = 0.01
"""A container with shorter edges is marked by a cross."""
WAYS = {CastRequest.__name__: ("#1f4e79", "to the registry and through it")}
"""Colour and label of the messages drawn as arrows, by kind."""
NOTCHES_MAX = 4
"""Panels in the lower row."""
Point = tuple[float, float]
Rectangle = tuple[float, float, float, float]
"""Left, top, width, height; the vertical coordinate is the first dimension and runs down, as in
Fig. 7.3.
"""


@dataclass(frozen=True, slots=True)
class Tile:
    """One peer's place, and what it keeps of the registry that is shown."""

    owner: int
    area: Rectangle
    shares: dict[int, tuple[int, bool]]
    """By notch: records kept, and whether this share is closed."""


Hop = tuple[int, int, str]
"""Sender, receiver and kind of a message."""


@dataclass(frozen=True, slots=True)
class Scene:
    """All that the picture shows."""

    tag: str
    publisher: int
    tiles: list[Tile]
    hops: list[Hop]
    """Every message of one cast."""
    containers: dict[int, Rectangle]


def draw(scenario: Scenario, out: Path, cast: int = 0) -> Path:
    """Run the scenario and draw its surface with one of its casts."""
    return paint(observe(scenario, cast), out)


def observe(scenario: Scenario, cast: int = 0) -> Scene:
    """Run the scenario; the surface, the registry that one cast walked through, and that cast's
    messages.
    """
    design, parameters = scenario.settled()
    if parameters.get("dimensions") != 2 or scenario.casts <= cast:
        raise ScenarioError(
            "the picture needs a surface of two dimensions (--set dimensions=2) and the cast it shows"
        )
    with TemporaryDirectory(prefix="implicast-") as directory:
        run = Run(scenario, design, parameters, Path(directory) / "journal")
        run.go(lambda phase, done, of: None)
        peers = [each for each in run.population if isinstance(each, Spice)]
        target, publisher = (
            run.application.casts[cast].target,
            run.application.casts[cast].publisher,
        )
        hops = list(_hops(Path(directory) / "journal", cast))
    tag = target.terms[0].has[0]
    root = _root_used(peers, tag, hops)
    kept = (key for peer in peers for key in peer.registries.by_key if key[:2] == (tag, root))
    notches = sorted({key[2] for key in kept})
    containers = {notch: _area(_container_box(root, notch)) for notch in notches}
    return Scene(tag, publisher, [_tile(peer, tag, root) for peer in peers], hops, containers)


def _hops(directory: Path, cast: int) -> Iterable[Hop]:
    for batch in journals.batches(directory, "sends", ["sender", "receiver", "kind", "cast"]):
        rows = zip(
            *(batch[name].to_pylist() for name in ("sender", "receiver", "kind", "cast")),
            strict=True,
        )
        yield from (
            (sender, receiver, kind) for sender, receiver, kind, number in rows if number == cast
        )


def _root_used(peers: Sequence[Spice], tag: str, hops: Iterable[Hop]) -> int:
    """The root at which the cast found a registry of the tag: that of the first peer on its way at
    which one begins.
    """
    met = (
        peers[peer].registries.local_roots.get(tag, ())
        for sender, receiver, _ in hops
        for peer in (sender, receiver)
    )
    return next((copies[0] for copies in met if copies), address_of(tag))


def _tile(peer: Spice, tag: str, root: int) -> Tile:
    kept = {key[2]: each for key, each in peer.registries.by_key.items() if key[:2] == (tag, root)}
    shares = {notch: (len(each.records), bool(each.closed)) for notch, each in kept.items()}
    piece = max(peer.surface.extents, key=lambda title: -title.bits)
    return Tile(int(str(peer.address)), _area(box(piece.low, piece.bits, 2)), shares)


def _container_box(root: int, notch: int) -> Box:
    return Surface(2).boxes(container(root, notch, 2))[0]


def _area(of: Box) -> Rectangle:
    (top, left), (bottom, right) = of
    whole = side(2)
    return left / whole, top / whole, (right - left) / whole, (bottom - top) / whole


def paint(scene: Scene, out: Path) -> Path:
    """Draw a scene into a file."""
    from matplotlib.figure import Figure  # no pyplot: nothing global, no window

    notches = _shown(scene)
    figure = Figure(figsize=(3.2 * max(2, len(notches)), 10.4), layout="constrained")
    upper, lower = figure.subfigures(2, 1, height_ratios=(2.2, 1), squeeze=False)[:, 0]
    _paint_route(
        _square(upper.subplots(), f"a cast to “{scene.tag}” from peer {scene.publisher}"), scene
    )
    panels = lower.subplots(1, max(1, len(notches)), squeeze=False)[0]
    for panel, notch in zip(panels, notches, strict=False):
        _paint_notch(_square(panel, f"notch {notch}"), scene, notch)
    figure.suptitle(f"ICE with {len(scene.tiles)} peers, and the registry of “{scene.tag}”")
    figure.savefig(out)
    return out


def _shown(scene: Scene) -> list[int]:
    """The last few notches at which anything is kept or closed, the entry always among them."""
    notches = sorted({notch for tile in scene.tiles for notch in tile.shares})
    return notches if len(notches) <= NOTCHES_MAX else [notches[0], *notches[-NOTCHES_MAX + 1 :]]


def _square(axes: Any, title: str) -> Any:
    axes.set(xlim=(0, 1), ylim=(1, 0), aspect="equal", xticks=(), yticks=())
    axes.set_title(title)
    return axes


def _paint_route(axes: Any, scene: Scene) -> None:
    from matplotlib.colors import hsv_to_rgb

    for tile in scene.tiles:
        _rectangle(
            axes,
            tile.area,
            facecolor=hsv_to_rgb((tile.owner * HUE_STEP % 1, 0.22, 0.97)),
            edgecolor="#888888",
        )
    centres = {
        tile.owner: (tile.area[0] + tile.area[2] / 2, tile.area[1] + tile.area[3] / 2)
        for tile in scene.tiles
    }
    for way, (colour, label) in WAYS.items():
        for sender, receiver in dict.fromkeys(
            (hop[0], hop[1]) for hop in scene.hops if hop[2] == way
        ):
            _arrow(axes, centres[sender], centres[receiver], colour)
        axes.plot([], [], color=colour, label=label)
    told = [centres[receiver] for _, receiver, kind in scene.hops if kind == "Notify"]
    axes.scatter(
        *zip(*told, strict=True), s=16, color="#b2182b", zorder=4, label="notified"
    ) if told else None
    axes.scatter(
        *centres[scene.publisher], s=90, marker="*", color="black", zorder=5, label="publisher"
    )
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0), ncols=4, frameon=False)


def _arrow(axes: Any, start: Point, end: Point, colour: str) -> None:
    """The short way round: a hop over the edge leaves on one side and comes in on the other."""
    step = tuple((there - here + 0.5) % 1 - 0.5 for here, there in zip(start, end, strict=True))
    for at in dict.fromkeys((start, (end[0] - step[0], end[1] - step[1]))):
        to = (at[0] + step[0], at[1] + step[1])
        # Clipped at the edge, and shown on both sides of it; the arrow's own patch does not count
        # for the layout.
        arrow = axes.annotate(
            "", to, at, arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.3, "clip_on": True}
        )
        arrow.set_in_layout(False)
        arrow.arrow_patch.set_clip_path(axes.patch)


def _paint_notch(axes: Any, scene: Scene, notch: int) -> None:
    most = max((count for tile in scene.tiles for count, _ in tile.shares.values()), default=1) or 1
    for tile in scene.tiles:
        count, closed = tile.shares.get(notch, (0, False))
        shade = 1 - 0.75 * count / most
        hatch = "////" if closed else None
        _rectangle(axes, tile.area, facecolor=(shade, shade, 1.0), edgecolor="#aaaaaa", hatch=hatch)
    _rectangle(axes, scene.containers[notch], facecolor="none", edgecolor="#b2182b", linewidth=2)
    left, top, width, height = scene.containers[notch]
    if max(width, height) < POINT:  # too small to be seen as a frame
        axes.scatter(left, top, s=40, marker="x", color="#b2182b", zorder=4)
    kept = sum(tile.shares.get(notch, (0, False))[0] for tile in scene.tiles)
    shut = sum(tile.shares.get(notch, (0, False))[1] for tile in scene.tiles)
    axes.set_xlabel(f"records kept: {kept}; shares closed (hatched): {shut}")


def _rectangle(axes: Any, area: Rectangle, **style: Any) -> None:
    from matplotlib.patches import Rectangle as Patch

    left, top, width, height = area
    axes.add_patch(Patch((left, top), width, height, **{"linewidth": 0.4, **style}))
