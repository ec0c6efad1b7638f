"""BFT: casts as key-range multicasts that reach every correct peer through k senders, whoever lies.

`multicast.py` has the paper's procedures, `gate.py` the receiver's checks, `member.py` the peer, `office.py` the
authority; `trials.py` the paper's experiments; FIDELITY.md says where we differ.
"""

from collections import OrderedDict
from collections.abc import Sequence

from implicast.casting.bft.gate import ALL_CHECKS, Gate
from implicast.casting.bft.keys import realms
from implicast.casting.bft.member import Bft
from implicast.casting.bft.messages import Apply, Denied, Granted, Held, Hop
from implicast.casting.bft.multicast import Halves
from implicast.casting.bft.multicasts import Manner
from implicast.casting.bft.office import Office
from implicast.casting.bft.settler import PRESENT_US
from implicast.casting.designs import Design, Plan
from implicast.language.parameters import Parameter, Parameters
from implicast.overlay.detector import DETECTOR_KINDS, DetectorSettings
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
        self.office = Office(plan.peers, plan.host(plan.peers), self.authority, self.scheme, LEASE_US)

    def member(self, address: int) -> Bft:
        plan, host, parameters = self.plan, self.plan.host(address), self.plan.parameters
        seed = digest("peer", plan.seed, address) + digest("key", plan.seed, address)
        trust = Trust(self.scheme, self.authority.public, self.vectors, CHECKED_MAX, self._found)
        gate = Gate(trust, self.vectors, Halves.of(self.k), self.checks)
        upkeep = Upkeep(
            int(float(parameters["watch_s"]) * 1e6),
            int(float(parameters["turn_s"]) * 1e6),
            int(float(parameters["look_s"]) * 1e6),
            int(parameters["asks"]),
            DetectorSettings(tries=int(parameters["tries"]), health_max=HEALTH_MAX),
        )
        window_us = int(float(parameters["window_s"]) * 1e6)
        manner = Manner(parameters["reach"] == "through", parameters["choose"] == "sparse", window_us)
        signer = self.scheme.signer(seed[:32])
        member = Bft(address, host, gate, self.k, trust, signer, upkeep, plan.peers, manner)
        member.graph.begin()
        member.settler.start()
        return member


def assemble(plan: Plan, checks: frozenset[int] = ALL_CHECKS) -> list[Peer]:
    """Members at their places, as if they had joined and described themselves long ago, and the authority's office;
    from now on by messages."""
    founding = Founding(plan, checks)
    members = [founding.member(address) for address in range(plan.peers)]
    if plan.start == "joined":
        return [*members, founding.office]
    granted: list[list[Certificate]] = []
    for member in members:
        said = plan.descriptions[member.address] if plan.parameters["placing"] == "assembled" else None  # type: ignore[index]
        wanted = realms(said)
        granted.append(founding.office.grant(member.address, wanted, member.public))
        for realm, certificate in zip(wanted, granted[-1], strict=True):
            member.settler.stand(realm, certificate)
    standing = Standing(founding.k, founding.vectors, [each for some in granted for each in some])
    for member, certificates in zip(members, granted, strict=True):
        for certificate in certificates:
            member.graph.stand(certificate, standing)
    return [*members, founding.office]


def newcomer(plan: Plan, address: int) -> Member:
    return Founding(plan).member(address)


def one_office(peers: int, parameters: Parameters) -> int:
    return 1


def objections(population: Sequence[Peer]) -> list[str]:
    """Every list of every place against the rule over all places."""
    members = [peer for peer in population if isinstance(peer, Bft)]
    own = [place for member in members for _, place in sorted(member.graph.places.held.items())]
    if not own:
        return []
    return quick_objections(
        tuple([place.certificate for place in own]),
        lambda index: own[index].table,
        own[0].k,
        own[0].vectors,
        lambda index: f"peer {own[index].certificate.address}, place {own[index].key!r}",
    )


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
            Parameter("watch_s", 7.0, "how often a peer looks for silent neighbours", 0.1, 3600, unit="s"),
            Parameter("turn_s", 12.0, "how often a peer asks one entry for its lists", 0.1, 3600, unit="s"),
            Parameter("look_s", 5.0, "how often lists that changed are compared with those of neighbours",
                      0.1, 3600, unit="s"),
            Parameter("tries", 5, "probes in vain before somebody is taken for silent", 2, 20),
            Parameter("asks", 6, "questions in vain, a second apart, before somebody is silent", 2, 20),
            Parameter("window_s", 60.0, "how long after it was cast a message may still arrive", 1, 86_400, unit="s"),
        ),
        languages=("tags", "attributes"),
        infrastructure=one_office,
        objections=objections,
        survives=frozenset({"joins", "leaves", "crashes", "loss", "partitions", "freezes"}),
        alive={"signatures": "stand-in"},
        few_tags=True,
        quick={"watch_s": 1.0, "tries": 2, "look_s": 0.5, "asks": 3},
        patience=(
            {"watch_s": 15.0, "turn_s": 30.0},
            {"watch_s": 4.0, "look_s": 2.0},
            {"watch_s": 2.0, "tries": 3, "look_s": 1.0, "asks": 4},
        ),
    ),
)  # fmt: skip
