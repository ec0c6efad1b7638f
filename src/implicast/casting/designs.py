"""Designs by name: parameters with defaults and docs, and how to start one node.

A design module defines `DESIGNS`, a tuple of `Design` values, whose names are in `HOMES`. Nothing else in the project
lists designs: the CLI, the laboratory and the tests ask here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import Any

from implicast.language.parameters import Parameter, Parameters, Setting, settle
from implicast.peer.contract import Message, Peer
from implicast.peer.errors import ParameterError
from implicast.peer.member import Member
from implicast.peer.site import Site
from implicast.peer.words import Said

HOMES = {
    "centralised": "centralised",
    "broker": "broker",
    "spice": "spice",
    "spice-unloaded": "spice",
    "condcast": "condcast",
    "dht-naive": "dht",
    "dht": "dht",
    "bft": "bft",
    "chord-pubsub": "pubsub",
    "opchord-pubsub": "pubsub",
}
"""The module of each design; it is loaded when the design is first asked for."""


SURVIVABLE = (
    "joins",
    "leaves",
    "crashes",
    "returns",
    "loss",
    "partitions",
    "freezes",
    "restarts",
    "fails",
)
"""Peers come; go by their own wish; die; die and come back at their address. Messages are lost, repeated, overtaken.
Nothing crosses between two sides for a while. Peers stand still and wake. Servers or brokers go down and come back; or
never do."""

ASSURANCE = Parameter(
    "assurance",
    "receipts",
    "receipts: steps are confirmed and repeated, what is kept for others is kept more than once, upkeep runs; "
    "none: every message is sent once, as the papers measure it, in a world where nothing fails",
    choices=("none", "receipts"),
)
"""The one parameter that every design names itself."""

TRUST = (
    Parameter(
        "signed",
        False,
        "registrations are signed by their owners and casts by their publishers, checked where they "
        "are kept and where they are delivered; the default on a network",
    ),
    Parameter(
        "signatures",
        "stand-in",
        "of signed words: real ones, or a stand-in with the same checks and sizes for large runs",
        choices=("ed25519", "stand-in"),
    ),
    Parameter(
        "protected",
        "",
        "what only the authority lets peers say of themselves, where words are signed: attributes, "
        "and prefixes of tags with a star, like role,staff:*",
    ),
    Parameter(
        "casts_per_s",
        0.0,
        "casts of one publisher that a station or a member takes in a second; 0: any number",
        0,
        1e6,
    ),
    Parameter(
        "casts_burst",
        50,
        "casts of one publisher that are taken at once, where there is a limit",
        1,
        1_000_000,
    ),
    Parameter(
        "audience_max",
        0,
        "members that one station or publisher lets a cast select; 0: any number",
        0,
        1 << 20,
    ),
)
"""What every design can be set to about trust."""
OWN_POLICY = ("casts_per_s", "casts_burst", "audience_max")
"""What nodes of one network may have set differently."""


def one_station(peers: int, parameters: Parameters) -> int:
    """A server, or an authority, for all."""
    return 1


@dataclass(frozen=True, slots=True)
class Design:
    """One way to carry casts."""

    name: str
    summary: str
    """One sentence for `implicast designs`."""
    paper: str
    """Where it is described."""
    kinds: tuple[type, ...]
    """Every kind of message its peers send, for the codec."""
    member: Callable[[Site], Member]
    """One member that has yet to join by messages, anew or again with what it had kept."""
    parameters: tuple[Parameter, ...] = ()
    languages: tuple[str, ...] = ("tags",)
    """Of `tags`, `attributes` (peers hold values, casts hold predicates), `subscriptions` (the other way round)."""
    infrastructure: Callable[[int, Parameters], int] = lambda peers, parameters: 0
    settling_us: int = 0
    """Time after registration before casts are promised to arrive, for designs whose state settles by upkeep."""
    survives: frozenset[str] = frozenset()
    """Of `SURVIVABLE`: what it bears and keeps its promises once all is quiet again. Empty: a kind world only."""
    repair_us: int = 60_000_000
    """Within this time after the last change its invariants hold again and casts reach everybody."""
    trial: Mapping[str, Setting] = field(default_factory=dict)
    """Parameters of trials of change, where the defaults are for other sizes or dear to simulate."""
    quick: Mapping[str, Setting] = field(default_factory=dict)
    """On top of `trial`: parameters with which repair takes ten seconds at most, and what upkeep that costs."""
    patience: tuple[Mapping[str, Setting], ...] = ()
    """On top of `trial`: further points of the curve of upkeep against repair time, beside the defaults and `quick`."""
    few_tags: bool = False
    """Each tag of each peer is a place of its own on the overlay: trials give its peers a few tags, not dozens."""
    fixture: Callable[[Site, str], Peer] | None = None
    """One piece of infrastructure, by role; anew or again with what it had kept."""
    roles: Callable[[int, int], Mapping[str, tuple[int, ...]]] = lambda peers, infrastructure: {}
    """By role, which numbers the infrastructure has where so many members come first."""
    kept: Mapping[str, type[Message]] = field(default_factory=dict)
    """By role (`member`, `server`, ...), the type of what outlives a crash."""
    wary: bool = False
    """Among members that lie, is nobody honest told what was not cast, nor twice, nor uninvited?"""
    audience: bool = False
    """Can its members estimate how many a target selects?"""
    slows: bool = False
    """Is there a keeper between publisher and reader, which hears complaints and slows a publisher?"""
    assemble: Callable[[Any], list[Peer]] | None = None
    """Only for a design of one's own: its converged network at once by a `Plan` (`world/plan.py`), members first, then
    infrastructure, index = address. (Those of the house are set up, and looked at, by `world/populations`.)"""
    objections: Callable[[Sequence[Peer]], list[str]] | None = None
    """Likewise: sentences about what is wrong with its network, seen from outside; none when all is well."""

    def settle(self, given: Mapping[str, Setting]) -> Parameters:
        """Defaults with the given values checked and put in; `ParameterError` says what is wrong."""
        return settle(self.name, self.parameters, given)


@cache
def designs() -> dict[str, Design]:
    """All designs, in the order of `HOMES`."""
    return {name: design(name) for name in (*HOMES, *_OWN)}


@cache
def _module(module: str) -> dict[str, Design]:
    return {
        each.name: trusting(each) for each in import_module(f"implicast.casting.{module}").DESIGNS
    }


def trusting(plain: Design) -> Design:
    """A design with what all have about trust: parameters, and the kind of message that carries signed words."""
    own = {each.name for each in plain.parameters}
    more = tuple(each for each in TRUST if each.name not in own)
    return replace(
        plain, parameters=(*plain.parameters, *more), kinds=(*dict.fromkeys((*plain.kinds, Said)),)
    )


def add(own: Design) -> None:
    """Take in a design of one's own: from now on it is simulated, compared and listed like the others."""
    _OWN[own.name] = trusting(own)
    designs.cache_clear()


_OWN: dict[str, Design] = {}


def design(name: str) -> Design:
    """The design of this name, or a `ParameterError` that lists what there is."""
    if name in _OWN:
        return _OWN[name]
    if name not in HOMES:
        near = get_close_matches(name, HOMES, 1)
        meant = f"did you mean {near[0]}?" if near else f"choose one of: {', '.join(HOMES)}"
        raise ParameterError(f"there is no design {name!r}; {meant}")
    return _module(HOMES[name])[name]
