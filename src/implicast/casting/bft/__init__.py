"""BFT: casts as key-range multicasts that reach every correct peer through k senders, whoever lies.

`multicast.py` has the paper's procedures, `gate.py` the receiver's checks, `member.py` the peer; `trials.py` the
paper's experiments; FIDELITY.md says where we differ.
"""

from collections import OrderedDict
from collections.abc import Sequence

from implicast.casting.bft.alive import PRESENT_US, LivingBft, LivingSettler
from implicast.casting.bft.gate import ALL_CHECKS, Gate
from implicast.casting.bft.keys import HOME, realms
from implicast.casting.bft.member import Bft, Manner
from implicast.casting.bft.messages import Apply, Denied, Granted, Held, Hop
from implicast.casting.bft.multicast import Halves
from implicast.casting.bft.office import Office
from implicast.casting.bft.settler import Settler
from implicast.casting.designs import Design, Plan
from implicast.language.parameters import Parameter, Parameters
from implicast.overlay.detector import DETECTOR_KINDS, DetectorSettings
from implicast.overlay.skip_graph.graph import SkipGraph
from implicast.overlay.skip_graph.living import LivingGraph
from implicast.overlay.skip_graph.messages import (
    Accuse,
    Announce,
    Ask,
    Compare,
    Compared,
    Disown,
    Farewell,
    Greet,
    Greeted,
    Heard,
    Leaving,
    Neighbours,
)
from implicast.overlay.skip_graph.objections import objections as list_objections
from implicast.overlay.skip_graph.objections import quick_objections
from implicast.overlay.skip_graph.standing import Standing
from implicast.overlay.skip_graph.upkeep import Upkeep
from implicast.peer.contract import Peer
from implicast.peer.identity import Authority, Certificate, Revocation, Trust
from implicast.peer.member import Member
from implicast.peer.signatures import Scheme, scheme
from implicast.space.digest import digest
from implicast.space.vector import Vectors

CHECKED_MAX = 2_048
"""Certificates that a member remembers to have checked; its lists name some hundreds."""
HEALTH_MAX = 1
"""Bad health makes a peer twice as patient, not more: whoever crashes is asked for all its places by all who list it,
and would make all of them doubt themselves."""
LEASE_US = 3 * PRESENT_US
"""Who has not told the authority for so long that it is there introduces nobody any more."""


class Founding:
    """What all peers of one network agree on when it is set up."""

    def __init__(self, plan: Plan, checks: frozenset[int] = ALL_CHECKS) -> None:
        parameters = plan.parameters
        self.plan, self.checks = plan, checks
        self.k = int(parameters["k"])
        self.vectors = Vectors(int(parameters["alpha"]))
        self.scheme: Scheme = scheme(str(parameters["signatures"]), digest("notary", plan.seed))
        self.authority = Authority(
            self.scheme, digest("authority", plan.seed), self.vectors, int(parameters["places_max"]),
            int(float(parameters["validity_s"]) * 1e6),
        )  # fmt: skip
        # Who signs in earnest checks in earnest; where signatures are stood in for, so is checking the same again.
        self._found: OrderedDict[bytes, Certificate] | None = OrderedDict() if self.scheme.name == "stand-in" else None
        lease_us = LEASE_US if parameters["alive"] else None
        self.office = Office(plan.peers, plan.host(plan.peers), self.authority, self.scheme, lease_us)

    def member(self, address: int, standing: Standing[Certificate] | None) -> Bft:
        plan, host = self.plan, self.plan.host(address)
        seed = digest("peer", plan.seed, address) + digest("key", plan.seed, address)
        signer = self.scheme.signer(seed[:32])
        trust = Trust(self.scheme, self.authority.public, self.vectors)
        graph = SkipGraph(address, host, self.k, self.vectors, trust, signer, standing)
        settler = Settler(address, host, graph, signer, plan.peers, self.office if standing is not None else None)
        gate = Gate(trust, self.vectors, Halves.of(self.k), self.checks)
        return Bft(address, host, graph, gate, signer, settler, self._manner())

    def living(self, address: int) -> LivingBft:
        """A member for a world that fails."""
        plan, host, parameters = self.plan, self.plan.host(address), self.plan.parameters
        seed = digest("peer", plan.seed, address) + digest("key", plan.seed, address)
        signer = self.scheme.signer(seed[:32])
        trust = Trust(self.scheme, self.authority.public, self.vectors, CHECKED_MAX, self._found)
        upkeep = Upkeep(
            int(float(parameters["watch_s"]) * 1e6),
            int(float(parameters["turn_s"]) * 1e6),
            int(float(parameters["look_s"]) * 1e6),
            int(parameters["asks"]),
            DetectorSettings(tries=int(parameters["tries"]), health_max=HEALTH_MAX),
        )
        graph = LivingGraph(address, host, self.k, self.vectors, trust, signer, upkeep)
        settler = LivingSettler(address, host, graph, signer, plan.peers)
        gate = Gate(trust, self.vectors, Halves.of(self.k), self.checks)
        graph.begin()
        settler.start()
        return LivingBft(address, host, graph, gate, signer, settler, self._manner())

    def keep_fresh(self, member: Bft) -> None:
        period_us = int(float(self.plan.parameters["refresh_s"]) * 1e6)
        if period_us:
            member.graph.keep_fresh(period_us)

    def _manner(self) -> Manner:
        parameters = self.plan.parameters
        window_us = int(float(parameters["window_s"]) * 1e6)
        return Manner(parameters["reach"] == "through", parameters["choose"] == "sparse", window_us)


def assemble(plan: Plan, checks: frozenset[int] = ALL_CHECKS) -> list[Peer]:
    """The members, standing at home unless they are yet to join, and the authority's office."""
    founding = Founding(plan, checks)
    if plan.parameters["alive"]:
        return _assemble_living(founding)
    if plan.start == "joined":
        return [*(founding.member(address, None) for address in range(plan.peers)), founding.office]
    standing: Standing[Certificate] = Standing(founding.k, founding.vectors)
    members = [founding.member(address, standing) for address in range(plan.peers)]
    for member in members:
        (home,) = founding.office.grant(member.address, [HOME], member.public)
        member.graph.take(home, (), _nothing)
        member.settler.assembled(HOME, home)
    if plan.parameters["placing"] == "joined":
        for member in members:
            member.graph.detach()
            member.settler.detach()
            founding.keep_fresh(member)
    return [*members, founding.office]


def _assemble_living(founding: Founding) -> list[Peer]:
    """Members at their places, as if they had joined and described themselves long ago; from now on by messages."""
    plan = founding.plan
    members = [founding.living(address) for address in range(plan.peers)]
    if plan.start == "joined":
        return [*members, founding.office]
    granted: list[list[Certificate]] = []
    for member in members:
        said = plan.descriptions[member.address] if plan.parameters["placing"] == "assembled" else None  # type: ignore[index]
        wanted = realms(said)
        granted.append(founding.office.grant(member.address, wanted, member.public))
        for realm, certificate in zip(wanted, granted[-1], strict=True):
            member.settler.assembled(realm, certificate)
    standing = Standing(founding.k, founding.vectors, [each for some in granted for each in some])
    for member, certificates in zip(members, granted, strict=True):
        for certificate in certificates:
            member.graph.stand(certificate, standing.surroundings(certificate.key))
    return [*members, founding.office]


def _nothing() -> None:
    """Nobody waits for an assembled place."""


def newcomer(plan: Plan, address: int) -> Member:
    founding = Founding(plan)
    if plan.parameters["alive"]:
        return founding.living(address)
    member = founding.member(address, None)
    founding.keep_fresh(member)
    return member


def one_office(peers: int, parameters: Parameters) -> int:
    return 1


def objections(population: Sequence[Peer]) -> list[str]:
    """Every list of every place against the rule over all places."""
    members = [peer for peer in population if isinstance(peer, Bft)]
    graph = members[0].graph if members else None
    if isinstance(graph, LivingGraph):
        own = [place for member in members for _, place in sorted(member.graph.places.items())]
        return quick_objections(
            tuple([place.certificate for place in own]),
            lambda index: own[index].table,
            graph.k,
            graph.vectors,
            lambda index: f"peer {own[index].certificate.address}, place {own[index].key!r}",
        )
    places = [(member, key) for member in members for key in sorted(member.graph.places)]
    if graph is None or not places:
        return []
    tables = [member.graph.table(key) for member, key in places]
    names = [f"peer {member.address}, place {key!r}" for member, key in places]
    return list_objections(tables, graph.k, graph.vectors, names)


DESIGNS = (
    Design(
        name="bft",
        summary="A place per tag on a skip graph; casts reach a tag's range through k senders, with certificates.",
        paper="Byzantine-tolerant key-range multicast over a key-order preserving overlay",
        assemble=assemble,
        newcomer=newcomer,
        kinds=(
            Apply, Granted, Denied, Ask, Neighbours, Announce, Heard, Farewell, Hop, Revocation, Held, Leaving, Accuse,
            Compare, Compared, Greet, Greeted, *DETECTOR_KINDS, Disown,
        ),
        parameters=(
            Parameter("k", 4, "redundancy: senders per receiver; a peer is lost only if all of them fail", 2, 16),
            Parameter("alpha", 2, "base of the membership vectors' digits", 2, 16),
            Parameter("reach", "through", "how far the ends of a range are served", choices=("through", "literal")),
            Parameter("choose", "first", "the tag that stands for a term: the first, or one with few peers in sight",
                      choices=("first", "sparse")),
            Parameter("signatures", "ed25519", "real ones, or a stand-in with the same checks and sizes for large runs",
                      choices=("ed25519", "stand-in")),
            Parameter("placing", "assembled", "places of registrations: put in at once, or joined by messages",
                      choices=("assembled", "joined")),
            Parameter("places_max", 64, "places that the authority gives one applicant", 1, 65_536),
            Parameter("validity_s", 31_536_000.0, "how long certificates are valid; renewed in time when alive", 60,
                      3.2e9, unit="s"),
            Parameter("refresh_s", 0.0, "period in which a place that joined by messages asks one of its entries if "
                      "it is there; 0: never", 0, 86_400, unit="s", only="kind"),
            Parameter("alive", False, "lists watched and mended, steps confirmed and repeated, places joined by "
                      "messages; for networks and machines that fail"),
            Parameter("watch_s", 7.0, "how often a peer looks for silent neighbours", 0.1, 3600, unit="s",
                      only="alive"),
            Parameter("turn_s", 12.0, "how often a peer asks one entry for its lists", 0.1, 3600, unit="s",
                      only="alive"),
            Parameter("look_s", 5.0, "how often lists that changed are compared with those of neighbours",
                      0.1, 3600, unit="s", only="alive"),
            Parameter("tries", 5, "probes in vain before somebody is taken for silent", 2, 20, only="alive"),
            Parameter("asks", 6, "questions in vain, a second apart, before somebody is silent", 2, 20, only="alive"),
            Parameter("window_s", 60.0, "how long after it was cast a message may still arrive", 1, 86_400, unit="s"),
        ),
        languages=("tags", "attributes"),
        infrastructure=one_office,
        objections=objections,
        survives=frozenset({"joins", "leaves", "crashes", "loss", "partitions", "freezes"}),
        alive={"alive": True, "signatures": "stand-in"},
        few_tags=True,
        quick={"watch_s": 1.0, "tries": 2, "look_s": 0.5, "asks": 3},
        patience=(
            {"watch_s": 15.0, "turn_s": 30.0},
            {"watch_s": 4.0, "look_s": 2.0},
            {"watch_s": 2.0, "tries": 3, "look_s": 1.0, "asks": 4},
        ),
    ),
)  # fmt: skip
