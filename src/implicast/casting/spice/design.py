"""SPICE as two designs: basic (thesis chapter 7) and unloaded (chapter 8)."""

from collections.abc import Callable, Sequence
from math import pi

from implicast.casting.designs import Design, Plan
from implicast.casting.spice import messages
from implicast.casting.spice.alive import messages as alive_messages
from implicast.casting.spice.alive.objections import objections as living_objections
from implicast.casting.spice.alive.settings import LivingSettings
from implicast.casting.spice.alive.spice import LivingSpice
from implicast.casting.spice.alive.watching import Watch
from implicast.casting.spice.settings import NO_LIMIT, Settings, levels_for
from implicast.casting.spice.spice import Spice
from implicast.language.parameters import Parameter
from implicast.overlay.ice import messages as ice_messages
from implicast.overlay.ice.assemble import settle, settle_kind, tiling, uniform_points
from implicast.overlay.ice.invariants import kind_objections
from implicast.overlay.ice.landmarks import landmark_points
from implicast.overlay.ice.settings import Timers
from implicast.peer.contract import Peer
from implicast.peer.member import Member
from implicast.space.angle import cosine_of
from implicast.space.digest import stream

ROOT_BITS_MAX = 12
"""Dimensions times levels: a registry has at most 4096 copies, whatever is asked for."""


def settings_of(plan: Plan) -> Settings:
    given = plan.parameters
    dimensions = int(given["dimensions"])
    limit = float(given.get("frequency_limit", 0.0))
    live = given.get("replication") == "live"
    levels = {} if live else levels_for(plan.targets, plan.interval_us, limit, dimensions)
    deepest = min(int(given.get("deepest_level", 0)), ROOT_BITS_MAX // dimensions)
    levels = {tag: min(level, deepest) for tag, level in levels.items()}
    return Settings(
        dimensions=dimensions,
        cosine=cosine_of(float(given["branch_factor"])),
        merge=bool(given["merge"]),
        storage_limit=int(given.get("storage_limit", NO_LIMIT)),
        collect_us=int(float(given.get("collect_ms", 0)) * 1000),
        rarest=given.get("choose") == "rarest",
        levels=levels,
        deepest=deepest if live and limit else max(levels.values(), default=0),
        frequency_limit=limit if live else 0.0,
    )


WINDOW_CASTS = 16
"""A window in which casts are counted is as long as so many casts take at the limit, unless it is given."""


def living_settings_of(plan: Plan) -> LivingSettings:
    given = plan.parameters
    dimensions = int(given["dimensions"])
    limit = float(given.get("frequency_limit", 0.0))
    rate_s = float(given.get("rate_s", 0.0)) or WINDOW_CASTS / (limit or 1.0)
    return LivingSettings(
        dimensions=dimensions,
        cosine=cosine_of(float(given["branch_factor"])),
        merge=bool(given["merge"]),
        storage_limit=int(given.get("storage_limit", NO_LIMIT)),
        deepest=min(int(given["deepest_level"]), ROOT_BITS_MAX // dimensions) if limit else 0,
        frequency_limit=limit,
        rate_us=int(rate_s * 1e6),
        lease_us=int(float(given["lease_s"]) * 1e6),
        life=Timers.of(float(given["hello_s"])),
    )


def assemble(plan: Plan) -> list[Peer]:
    """All peers on a converged surface, placed at random or by landmarks."""
    settings = settings_of(plan)
    rng = stream(plan.seed, "surface")
    landmarks, dimensions = int(plan.parameters["landmarks"]), settings.dimensions
    if landmarks:
        points = landmark_points(plan.peers, landmarks, dimensions, plan.latency_us, rng.getrandbits)
    else:
        points = uniform_points(plan.peers, rng.getrandbits)
    if plan.parameters["alive"]:
        living = living_settings_of(plan)
        members = [LivingSpice(address, plan.host(address), living) for address in range(plan.peers)]
        settle(tiling(points, dimensions), [each.surface for each in members], plan.latency_us)
        return list(members)
    peers = [Spice(address, plan.host(address), settings) for address in range(plan.peers)]
    settle_kind(tiling(points, dimensions), [each.surface for each in peers], plan.latency_us)
    return list(peers)


def newcomer(plan: Plan, address: int) -> Member:
    if plan.parameters["alive"]:
        return LivingSpice(address, plan.host(address), living_settings_of(plan))
    return Spice(address, plan.host(address), settings_of(plan))


def objections(population: Sequence[Peer]) -> list[str]:
    if _is_living(population):
        return living_objections(population)
    return kind_objections([each.surface for each in population if isinstance(each, Spice)])


def watcher() -> Callable[[Sequence[Peer]], list[str]]:
    watch = Watch()
    return lambda population: watch(population) if _is_living(population) else objections(population)


def _is_living(population: Sequence[Peer]) -> bool:
    return any(isinstance(each, LivingSpice) for each in population)


SURFACE = (
    Parameter("dimensions", 3, "dimensions of the surface", 2, 6),
    Parameter(
        "branch_factor",
        pi / 3,
        "largest angle within one branch of a route; 0 sends every extent alone",
        0,
        pi,
        unit="rad",
    ),
    Parameter(
        "landmarks", 64, "landmarks that map an assembled surface to the network; 0 places peers at random", 0, 4096
    ),
    Parameter("merge", True, "clusters with the same next hop share one message; the thesis sends one each"),
)
LIFE = (
    Parameter("alive", False, "bear joins, leaves, crashes, loss and partitions: heirs, leases, confirmations"),
    Parameter("hello_s", 12.0, "how often neighbours greet each other; repair takes about twice as long", 0.5,
              600, unit="s", only="alive"),
    Parameter("lease_s", 600.0, "a registration that is not renewed for so long is forgotten", 10, 1e6,
              unit="s", only="alive"),
)  # fmt: skip
SURVIVES = frozenset({"joins", "leaves", "crashes", "loss", "partitions", "freezes"})
KINDS = (*messages.KINDS, *ice_messages.KINDS, *alive_messages.KINDS, *ice_messages.KIND_KINDS)
QUICK = {"hello_s": 1.2}
PATIENCE = ({"hello_s": 30.0}, {"hello_s": 6.0}, {"hello_s": 3.0})
RELIEF = (
    Parameter("storage_limit", 32, "registrations a peer keeps of one registry before it spreads", 1, 1e9),
    Parameter(
        "frequency_limit",
        0.0125,
        "casts a peer serves before a registry is replicated; 0 never does",
        0,
        1e9,
        unit="1/s",
    ),
    Parameter(
        "replication",
        "beforehand",
        "levels from the casts to come, as in the thesis's experiments, or raised as roots measure them, as those who "
        "are alive always do",
        choices=("beforehand", "live"),
    ),
    Parameter("deepest_level", 3, "the deepest level of replication; 2^(d level) copies, at most 4096", 1, 6),
    Parameter("choose", "first", "the tag whose registry serves a term", choices=("first", "rarest"),
              only="kind"),
    Parameter("collect_ms", 1000.0, "records that go on are collected for so long", 0, 60_000, unit="ms", only="kind"),
    Parameter("rate_s", 0.0, "window in which casts are counted; 0: 16 casts at the limit", 0, 1e6, unit="s",
              only="alive"),
)  # fmt: skip

DESIGNS = (
    Design(
        name="spice",
        summary="Registries at rendezvous peers on a torus; each serves the casts of its tags alone.",
        paper="Implicit group messaging, chapter 7",
        assemble=assemble,
        newcomer=newcomer,
        kinds=KINDS,
        parameters=SURFACE + LIFE,
        objections=objections,
        watcher=watcher,
        survives=SURVIVES,
        alive={"alive": True},
        quick=QUICK,
        patience=PATIENCE,
    ),
    Design(
        name="spice-unloaded",
        summary="SPICE with large registries spread over many peers and busy ones replicated.",
        paper="Implicit group messaging, chapter 8",
        assemble=assemble,
        newcomer=newcomer,
        kinds=KINDS,
        parameters=SURFACE + LIFE + RELIEF,
        objections=objections,
        watcher=watcher,
        survives=SURVIVES,
        alive={"alive": True},
        quick=QUICK,
        patience=PATIENCE,
    ),
)
