"""SPICE as two designs: basic (thesis chapter 7) and unloaded (chapter 8)."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from math import pi

from implicast.casting import complaints, notifier
from implicast.casting.designs import ASSURANCE, Design
from implicast.casting.spice.calls import CallAck
from implicast.casting.spice.complaints import ComplaintRelay, SlowingRelay
from implicast.casting.spice.loads import LoadReport
from implicast.casting.spice.settings import NO_LIMIT, SpiceSettings
from implicast.casting.spice.spice import ARRIVALS, DurableSpice, Spice
from implicast.casting.spice.store_requests import StoreAck
from implicast.casting.spice.stores import NewerEntry
from implicast.casting.spice.traversal_messages import (
    CastRequest,
    CopyRequest,
    CoverageReport,
    GatherRequest,
    InProgress,
    RepeatCoverageReport,
    RepeatedCastRequest,
    ReregisterRequest,
)
from implicast.language.parameters import Parameter, Parameters, Setting
from implicast.overlay.ice.kinds import KINDS as ICE_KINDS
from implicast.overlay.ice.settings import SurfaceSettings, Timers
from implicast.peer.lease import UNENDING_US
from implicast.peer.member import Member
from implicast.peer.site import Site
from implicast.space.angle import cosine_of

ROOT_BITS_MAX = 12
"""Upper bound of dimensions x level: a registry has at most 2^12 = 4096 copies."""
WINDOW_CASTS = 8
"""Default length of the window in which casts are counted, in casts: the time that this many casts
take at the frequency limit.
"""


def settings_of(
    given: Parameters, levels: Mapping[str, int] | None = None, resting: bool = False
) -> SpiceSettings:
    """Settings computed from the design's parameters. `levels`: replication level of each tag,
    computed before the run; `resting`: as in `Site`.
    """
    dimensions = int(given["dimensions"])
    assured = given["assurance"] != "none"
    limit = float(given.get("frequency_limit", 0.0))
    deepest = min(int(given.get("deepest_level", 0)), ROOT_BITS_MAX // dimensions) if limit else 0
    live = given.get("replication") == "live"
    if not live:
        levels = {tag: min(level, deepest) for tag, level in (levels or {}).items()}
        deepest = max(levels.values(), default=0)
    rate_s = float(given.get("rate_s", 0.0)) or WINDOW_CASTS / (limit or 1.0)
    timers = Timers.of(float(given["hello_s"]))
    return SpiceSettings(
        terms=SurfaceSettings(
            dimensions,
            cosine_of(float(given["branch_factor"])),
            bool(given["merge"]),
            timers,
            assured,
            landmark_digits(int(given["landmarks"]), dimensions) if given["sounding"] else 0,
            resting,
        ),
        storage_limit=int(given.get("storage_limit", NO_LIMIT)),
        deepest=deepest,
        frequency_limit=limit,
        rate_us=int(rate_s * 1e6),
        levels=None if live else levels,
        rarest=given.get("choose") == "rarest",
        collect_us=int(float(given.get("collect_ms", 0)) * 1000),
        lease_us=UNENDING_US if resting else int(float(given["lease_s"]) * 1e6),
    )


def landmark_digits(landmarks: int, dimensions: int) -> int:
    """Number of digits in an extent's address when the surface is divided into `landmarks` equal
    extents. Rounded down to a whole number of digits.
    """
    return max(0, landmarks.bit_length() - 1) // dimensions


@lru_cache(8)
def _settings(parameters: tuple[tuple[str, Setting], ...], resting: bool) -> SpiceSettings:
    return settings_of(dict(parameters), None, resting)


def member(site: Site) -> Member:
    if site.credentials is not None:  # only in a simulation
        return Spice(site, settings_of(site.parameters, site.credentials, site.resting))
    return Spice(site, _settings(tuple(sorted(site.parameters.items())), site.resting))


SURFACE = (
    Parameter("dimensions", 3, "dimensions of the surface", 2, 6),
    Parameter(
        "branch_factor",
        pi / 3,
        "largest angle within one branch of a route; 0 routes every extent separately",
        0,
        pi,
        unit="rad",
    ),
    Parameter(
        "landmarks",
        64,
        "landmarks that map an assembled surface to the network; 0 places peers at random",
        0,
        4096,
    ),
    Parameter(
        "sounding",
        False,
        "joining peers measure latencies and join in the nearest of `landmarks` extents",
    ),
    Parameter(
        "merge",
        True,
        "clusters with the same next hop share one message; the thesis sends one for each",
    ),
)
UPKEEP = (
    ASSURANCE,
    Parameter(
        "hello_s",
        12.0,
        "interval between heartbeats of neighbours; repair takes about twice as long",
        0.5,
        600,
        unit="s",
    ),
    Parameter(
        "lease_s",
        600.0,
        "a registration that is not renewed for this time expires",
        10,
        1e6,
        unit="s",
    ),
)
KINDS = (
    *ARRIVALS,
    StoreAck,
    CastRequest,
    RepeatedCastRequest,
    GatherRequest,
    CopyRequest,
    ReregisterRequest,
    CoverageReport,
    RepeatCoverageReport,
    InProgress,
    CallAck,
    LoadReport,
    NewerEntry,
    SlowingRelay,
    ComplaintRelay,
    notifier.Notify,
    notifier.NotifyAck,
    notifier.NotifyAgain,
    notifier.NotifyAgainAck,
    complaints.Complain,
    *ICE_KINDS,
)
RELIEF = (
    Parameter(
        "storage_limit", 32, "registrations of one registry at a peer before it closes", 1, 1e9
    ),
    Parameter(
        "frequency_limit",
        0.0125,
        "casts at one root before a registry is replicated; 0: no replication",
        0,
        1e9,
        unit="1/s",
    ),
    Parameter(
        "replication",
        "live",
        "levels follow the load that roots measure, or are computed from the cast list before "
        "the run, as in the experiments of the thesis",
        choices=("beforehand", "live"),
    ),
    Parameter(
        "deepest_level",
        3,
        "largest replication level; a level has 2^(d level) copies, at most 4096",
        1,
        6,
    ),
    Parameter(
        "choose", "first", "the tag whose registry serves a term", choices=("first", "rarest")
    ),
    Parameter(
        "collect_ms",
        1000.0,
        "how long forwarded records are collected without receipts; 20 ms with receipts",
        0,
        60_000,
        unit="ms",
    ),
    Parameter(
        "rate_s",
        0.0,
        "window in which casts are counted; 0: 8 casts at the limit",
        0,
        1e6,
        unit="s",
    ),
)

SPICE = Design(
    name="spice",
    summary="Registries at rendezvous peers on a torus; one peer serves all casts of a tag.",
    paper="Implicit group messaging, chapter 7",
    member=member,
    audience=True,
    slows=True,
    durable_types={"member": DurableSpice},
    kinds=KINDS,
    parameters=SURFACE + UPKEEP,
    survives=frozenset({"joins", "leaves", "crashes", "returns", "loss", "partitions", "freezes"}),
    quick={"hello_s": 1.2},
    upkeep_points=({"hello_s": 30.0}, {"hello_s": 6.0}, {"hello_s": 3.0}),
)
UNLOADED = replace(
    SPICE,
    name="spice-unloaded",
    summary="SPICE with large registries spread over many peers and busy ones replicated.",
    paper="Implicit group messaging, chapter 8",
    parameters=SURFACE + UPKEEP + RELIEF,
)
DESIGNS = (SPICE, UNLOADED)
