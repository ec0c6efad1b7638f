"""SPICE as two designs: basic (thesis chapter 7) and unloaded (chapter 8)."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from math import pi

from implicast.casting import complaints, telling
from implicast.casting.designs import ASSURANCE, Design
from implicast.casting.spice import messages
from implicast.casting.spice.settings import COLLECT_US, NO_LIMIT, Settings
from implicast.casting.spice.spice import KeptSpice, Spice
from implicast.language.parameters import Parameter, Parameters, Setting
from implicast.overlay.ice import messages as ice_messages
from implicast.overlay.ice.settings import Terms, Timers
from implicast.peer.lease import UNENDING_US
from implicast.peer.member import Member
from implicast.peer.site import Site
from implicast.space.angle import cosine_of

ROOT_BITS_MAX = 12
"""Dimensions times levels: a registry has at most 4096 copies, whatever is asked for."""
WINDOW_CASTS = 8
"""A window in which casts are counted is as long as so many casts take at the limit, unless it is given."""


def settings_of(
    given: Parameters, levels: Mapping[str, int] | None = None, resting: bool = False
) -> Settings:
    """`levels`: those computed beforehand; `resting`: as in `Site`."""
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
    return Settings(
        terms=Terms(
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
        collect_us=COLLECT_US if assured else int(float(given.get("collect_ms", 0)) * 1000),
        lease_us=UNENDING_US if resting else int(float(given["lease_s"]) * 1e6),
    )


def landmark_digits(landmarks: int, dimensions: int) -> int:
    """The digits of an extent's address when there are so many equal ones, or the largest number below that."""
    return max(0, landmarks.bit_length() - 1) // dimensions


@lru_cache(8)
def _settings(parameters: tuple[tuple[str, Setting], ...], resting: bool) -> Settings:
    return settings_of(dict(parameters), None, resting)


def member(site: Site) -> Member:
    if site.credentials is not None:  # in the laboratory alone
        return Spice(site, settings_of(site.parameters, site.credentials, site.resting))
    return Spice(site, _settings(tuple(sorted(site.parameters.items())), site.resting))


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
        "landmarks",
        64,
        "landmarks that map an assembled surface to the network; 0 places peers at random",
        0,
        4096,
    ),
    Parameter(
        "sounding",
        False,
        "newcomers look for those near them on the network, among as many landmarks",
    ),
    Parameter(
        "merge",
        True,
        "clusters with the same next hop share one message; the thesis sends one each",
    ),
)
LIFE = (
    ASSURANCE,
    Parameter(
        "hello_s",
        12.0,
        "how often neighbours greet each other; repair takes about twice as long",
        0.5,
        600,
        unit="s",
    ),
    Parameter(
        "lease_s",
        600.0,
        "a registration that is not renewed for so long is forgotten",
        10,
        1e6,
        unit="s",
    ),
)
KINDS = (
    *messages.KINDS,
    telling.Notify,
    telling.Got,
    telling.NotifyAgain,
    telling.GotAgain,
    complaints.Complain,
    *ice_messages.KINDS,
)
RELIEF = (
    Parameter(
        "storage_limit", 32, "registrations a peer keeps of one registry before it spreads", 1, 1e9
    ),
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
        "live",
        "levels raised and lowered as roots measure them, or computed from the casts to "
        "come, as in the thesis's experiments",
        choices=("beforehand", "live"),
    ),
    Parameter(
        "deepest_level",
        3,
        "the deepest level of replication; 2^(d level) copies, at most 4096",
        1,
        6,
    ),
    Parameter(
        "choose", "first", "the tag whose registry serves a term", choices=("first", "rarest")
    ),
    Parameter(
        "collect_ms",
        1000.0,
        "without receipts, records that go on are collected for so long; with them 20 ms",
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
    summary="Registries at rendezvous peers on a torus; each serves the casts of its tags alone.",
    paper="Implicit group messaging, chapter 7",
    member=member,
    audience=True,
    slows=True,
    kept={"member": KeptSpice},
    kinds=KINDS,
    parameters=SURFACE + LIFE,
    survives=frozenset({"joins", "leaves", "crashes", "returns", "loss", "partitions", "freezes"}),
    quick={"hello_s": 1.2},
    patience=({"hello_s": 30.0}, {"hello_s": 6.0}, {"hello_s": 3.0}),
)
UNLOADED = replace(
    SPICE,
    name="spice-unloaded",
    summary="SPICE with large registries spread over many peers and busy ones replicated.",
    paper="Implicit group messaging, chapter 8",
    parameters=SURFACE + LIFE + RELIEF,
)
DESIGNS = (SPICE, UNLOADED)
