"""BFT: casts as key-range multicasts that reach every correct peer through k senders, whoever lies.

`multicast.py` has the paper's procedures, `gate.py` the receiver's checks, `member.py` the peer; `trials.py` the
paper's experiments; FIDELITY.md says where we differ.
"""

from collections.abc import Sequence

from implicast.casting.bft.gate import ALL_CHECKS, Gate
from implicast.casting.bft.keys import HOME
from implicast.casting.bft.member import Bft, Manner
from implicast.casting.bft.messages import Apply, Denied, Granted, Hop
from implicast.casting.bft.multicast import Halves
from implicast.casting.bft.office import Office
from implicast.casting.bft.settler import Settler
from implicast.casting.designs import Design, Plan
from implicast.language.parameters import Parameter, Parameters
from implicast.overlay.skip_graph.graph import SkipGraph
from implicast.overlay.skip_graph.messages import Announce, Ask, Farewell, Heard, Neighbours
from implicast.overlay.skip_graph.objections import objections as list_objections
from implicast.overlay.skip_graph.standing import Standing
from implicast.peer.contract import Peer
from implicast.peer.identity import Authority, Certificate, Revocation, Trust
from implicast.peer.member import Member
from implicast.peer.signatures import Scheme, scheme
from implicast.space.digest import digest
from implicast.space.vector import Vectors


class Founding:
    """What all peers of one network agree on when it is set up."""

    def __init__(self, plan: Plan, checks: frozenset[int] = ALL_CHECKS) -> None:
        parameters = plan.parameters
        self.plan, self.checks = plan, checks
        self.k = int(parameters["k"])
        self.vectors = Vectors(int(parameters["alpha"]))
        self.scheme: Scheme = scheme(str(parameters["signatures"]), digest("notary", plan.seed))
        self.authority = Authority(
            self.scheme, digest("authority", plan.seed), self.vectors, int(parameters["places_max"])
        )
        self.office = Office(plan.peers, plan.host(plan.peers), self.authority, self.scheme)

    def member(self, address: int, standing: Standing[Certificate] | None) -> Bft:
        plan, host = self.plan, self.plan.host(address)
        seed = digest("peer", plan.seed, address) + digest("key", plan.seed, address)
        signer = self.scheme.signer(seed[:32])
        trust = Trust(self.scheme, self.authority.public, self.vectors)
        graph = SkipGraph(address, host, self.k, self.vectors, trust, signer, standing)
        settler = Settler(address, host, graph, signer, plan.peers, self.office if standing is not None else None)
        gate = Gate(trust, self.vectors, Halves.of(self.k), self.checks)
        return Bft(address, host, graph, gate, signer, settler, self._manner())

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
    if plan.start == "joined":
        return [*(founding.member(address, None) for address in range(plan.peers)), founding.office]
    standing: Standing[Certificate] = Standing(founding.k, founding.vectors)
    members = [founding.member(address, standing) for address in range(plan.peers)]
    for member in members:
        (home,) = founding.office.grant(member.address, [HOME], member.public)
        member.graph.take(home, (), _nothing)
        member.settler.assembled(home)
    if plan.parameters["placing"] == "joined":
        for member in members:
            member.graph.detach()
            member.settler.detach()
            founding.keep_fresh(member)
    return [*members, founding.office]


def _nothing() -> None:
    """Nobody waits for an assembled place."""


def newcomer(plan: Plan, address: int) -> Member:
    founding = Founding(plan)
    member = founding.member(address, None)
    founding.keep_fresh(member)
    return member


def one_office(peers: int, parameters: Parameters) -> int:
    return 1


def objections(population: Sequence[Peer]) -> list[str]:
    """Every list of every place against the rule over all places."""
    members = [peer for peer in population if isinstance(peer, Bft)]
    places = [(member, key) for member in members for key in sorted(member.graph.places)]
    if not places:
        return []
    graph = members[0].graph
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
        kinds=(Apply, Granted, Denied, Ask, Neighbours, Announce, Heard, Farewell, Hop, Revocation),
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
            Parameter("refresh_s", 0.0, "period in which a place that joined by messages asks one of its entries if "
                      "it is there; 0: never", 0, 86_400, unit="s"),
            Parameter("window_s", 60.0, "how long after it was cast a message may still arrive", 1, 86_400, unit="s"),
        ),
        languages=("tags", "attributes"),
        infrastructure=one_office,
        objections=objections,
    ),
)  # fmt: skip
