"""Registry of designs: parameters with defaults and help, and how to start one node.

A design module defines `DESIGNS`, a tuple of `Design` values, whose names are in `DESIGN_MODULES`.
Nothing else in the project lists designs: the command line, the laboratory and the tests use this
module.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import Any

from implicast.language.parameters import Parameter, Parameters, Setting, settle
from implicast.peer.backoff import REPAIRS_PER_S_MAX
from implicast.peer.contract import Message, Peer
from implicast.peer.errors import ParameterError
from implicast.peer.member import Member
from implicast.peer.signing import SignedMessage
from implicast.peer.site import Site

DESIGN_MODULES = {
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
"""The module of each design; it is imported when the design is first used."""


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
"""Kinds of change that a design may survive. Peers join, leave, crash, or crash and return at their
address. Messages are lost, duplicated and reordered. Two sides of a network are partitioned for a
while. Peers are paused and resume. Servers or brokers crash and restart, or fail for good.
"""

ASSURANCE = Parameter(
    "assurance",
    "receipts",
    "receipts: hops are acknowledged and retried, entries held for others are replicated, upkeep "
    "runs; none: every message is sent once, as in the papers, in a network without failures",
    choices=("none", "receipts"),
)
"""The one parameter that every design declares itself."""

REPAIRS = Parameter(
    "repairs_per_s",
    REPAIRS_PER_S_MAX,
    "retries and upkeep requests that a peer sends in a second; further ones wait, so that a power "
    "cut or a partition causes no flood",
    10,
    1_000_000,
)
"""For designs whose requests have a budget that can be set."""

TRUST = (
    Parameter(
        "signed",
        False,
        "registrations are signed by their owners and casts by their publishers; the peers that "
        "store and the members that receive them verify; the default on a network",
    ),
    Parameter(
        "signatures",
        "stand-in",
        "signature scheme: Ed25519, or a stand-in with the same checks and sizes for large runs",
        choices=("ed25519", "stand-in"),
    ),
    Parameter(
        "protected",
        "",
        "with `signed`: attributes and tag prefixes (with a star) that need the authority's "
        "permission, like role,staff:*",
    ),
    Parameter(
        "casts_per_s",
        0.0,
        "casts per second that a front end or a member accepts of one publisher; 0: no limit",
        0,
        1e6,
    ),
    Parameter(
        "casts_burst",
        50,
        "casts of one publisher that are accepted in a burst, with `casts_per_s`",
        1,
        1_000_000,
    ),
    Parameter(
        "audience_max",
        0,
        "members that a cast may select at one front end or publisher; 0: no limit",
        0,
        1 << 20,
    ),
)
"""Parameters on trust and limits that every design has."""
OWN_POLICY = ("casts_per_s", "casts_burst", "audience_max", "repairs_per_s")
"""Parameters that nodes of one network may set differently."""


def one_front_end(peers: int, parameters: Parameters) -> int:
    """One server, or one authority, for all peers."""
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
    """Make one member, new or with durable state, that still has to join."""
    parameters: tuple[Parameter, ...] = ()
    languages: tuple[str, ...] = ("tags",)
    """Of `tags`, `attributes` (peers hold values, casts hold predicates), `subscriptions` (the
    reverse).
    """
    infrastructure: Callable[[int, Parameters], int] = lambda peers, parameters: 0
    settling_us: int = 0
    """Time after registration from which casts are guaranteed to arrive, for designs whose state
    converges by upkeep.
    """
    survives: frozenset[str] = frozenset()
    """Of `SURVIVABLE`: changes after which all guarantees hold again. Empty: only a network without
    failures.
    """
    repair_us: int = 60_000_000
    """Time after the last change within which the invariants hold again and casts reach all
    selected members.
    """
    trial: Mapping[str, Setting] = field(default_factory=dict)
    """Parameters for experiments with change, where the defaults suit other sizes or are expensive
    to simulate.
    """
    quick: Mapping[str, Setting] = field(default_factory=dict)
    """On top of `trial`: parameters with which repair takes ten seconds at most, at a higher
    upkeep.
    """
    upkeep_points: tuple[Mapping[str, Setting], ...] = ()
    """On top of `trial`: further points on the curve of upkeep against repair time, besides the
    defaults and `quick`.
    """
    few_tags: bool = False
    """Each tag of each peer is a place of its own on the overlay: experiments give its peers a few
    tags, not dozens.
    """
    fixture: Callable[[Site, str], Peer] | None = None
    """Make one infrastructure peer by role, new or with durable state."""
    roles: Callable[[int, int], Mapping[str, tuple[int, ...]]] = lambda peers, infrastructure: {}
    """By role, the addresses of the infrastructure, given the number of members and of
    infrastructure peers. Members come first.
    """
    durable_types: Mapping[str, type[Message]] = field(default_factory=dict)
    """By role (`member`, `server`, ...), the type of the durable state."""
    wary: bool = False
    """Whether honest members among malicious ones are never notified of what was not cast, nor
    twice, nor of casts that do not select them.
    """
    audience: bool = False
    """Whether its members can estimate how many members a target selects."""
    slows: bool = False
    """Whether a peer between publisher and members records complaints and throttles publishers."""
    assemble: Callable[[Any], list[Peer]] | None = None
    """Only for a user's own design: its converged network from a `Plan` (`world/plan.py`), members
    first, then infrastructure, index = address. (Built-in designs are set up and inspected by
    `world/populations`.)
    """
    objections: Callable[[Sequence[Peer]], list[str]] | None = None
    """Only for a user's own design: sentences about violated invariants of its network; none if all
    hold.
    """

    def settle(self, given: Mapping[str, Setting]) -> Parameters:
        """Defaults with the given values checked and filled in; `ParameterError` says what is
        wrong.
        """
        return settle(self.name, self.parameters, given)


@cache
def designs() -> dict[str, Design]:
    """All designs, in the order of `DESIGN_MODULES`."""
    return {name: design(name) for name in (*DESIGN_MODULES, *_OWN)}


@cache
def _module(module: str) -> dict[str, Design]:
    return {
        each.name: trusting(each) for each in import_module(f"implicast.casting.{module}").DESIGNS
    }


def trusting(plain: Design) -> Design:
    """A design with the parameters on trust, and with the message kind that carries signed
    messages.
    """
    own = {each.name for each in plain.parameters}
    more = tuple(each for each in TRUST if each.name not in own)
    return replace(
        plain,
        parameters=(*plain.parameters, *more),
        kinds=(*dict.fromkeys((*plain.kinds, SignedMessage)),),
    )


def add(own: Design) -> None:
    """Add a user's own design: it can then be simulated, compared and listed like the built-in
    ones.
    """
    _OWN[own.name] = trusting(own)
    designs.cache_clear()


_OWN: dict[str, Design] = {}


def design(name: str) -> Design:
    """The design with this name, or a `ParameterError` that lists the names."""
    if name in _OWN:
        return _OWN[name]
    if name not in DESIGN_MODULES:
        near = get_close_matches(name, DESIGN_MODULES, 1)
        names = ", ".join(DESIGN_MODULES)
        meant = f"did you mean {near[0]}?" if near else f"choose one of: {names}"
        raise ParameterError(f"there is no design {name!r}; {meant}")
    return _module(DESIGN_MODULES[name])[name]
