"""BFT: casts as key-range multicasts that reach every correct peer through k senders, in spite of
lying peers.

`multicast.py` has the paper's procedures, `validator.py` the receiver's checks, `multicasts.py` and
`step_delivery.py` the multicasts under way, `placement.py` the places of a member, `member.py` the
peer, `authority_peer.py` the authority. `trials/bft.py` repeats the paper's experiments.
FIDELITY.md lists the differences from the paper.
"""

from collections.abc import Mapping

from implicast.casting.bft.authority_peer import AuthorityPeer, DurableAuthority
from implicast.casting.bft.coverage import CastHopAck
from implicast.casting.bft.digest_exchange import CastDigests, RequestCast, RequestedCast
from implicast.casting.bft.member import Bft, DurableBft
from implicast.casting.bft.placement import Apply, Denied, Granted
from implicast.casting.bft.revocation_lists import AskList, ListNumber, NewerList
from implicast.casting.bft.validator import CastHop
from implicast.casting.designs import ASSURANCE, REPAIRS, Design, one_front_end
from implicast.language.parameters import Parameter
from implicast.overlay.skip_graph.kinds import GRAPH_KINDS
from implicast.peer.contract import Peer
from implicast.peer.detector import DETECTOR_KINDS
from implicast.peer.identity import Revocation
from implicast.peer.site import Site

BFT_KINDS = (
    Revocation,
    CastHop,
    CastHopAck,
    Apply,
    Granted,
    Denied,
    NewerList,
    ListNumber,
    AskList,
    CastDigests,
    RequestCast,
    RequestedCast,
)


def fixture(site: Site, role: str) -> Peer:
    assert role == "authority", f"there is no {role} in this design"
    return AuthorityPeer(site)


def roles(peers: int, infrastructure: int) -> Mapping[str, tuple[int, ...]]:
    return {"authority": (peers,)}


DESIGNS = (
    Design(
        name="bft",
        summary="A place per tag on a skip graph; casts reach a tag's range through k senders.",
        paper="Byzantine-tolerant key-range multicast over a key-order preserving overlay",
        kinds=(*GRAPH_KINDS, *DETECTOR_KINDS, *BFT_KINDS),
        parameters=(
            ASSURANCE,
            REPAIRS,
            Parameter(
                "k",
                4,
                "redundancy: senders per receiver; a peer misses a cast only if all of them fail",
                2,
                16,
            ),
            Parameter("alpha", 2, "base of the membership vectors' digits", 2, 16),
            Parameter(
                "reach",
                "through",
                "reading of the paper's rule for nodes at the ends of a range (FIDELITY.md, 14)",
                choices=("through", "literal"),
            ),
            Parameter(
                "choose",
                "first",
                "the tag that stands for a term: the first, or the one with the fewest known peers",
                choices=("first", "sparse"),
            ),
            Parameter(
                "signatures",
                "ed25519",
                "real signatures, or a stand-in with the same checks and sizes for large runs",
                choices=("ed25519", "stand-in"),
            ),
            Parameter(
                "placing",
                "assembled",
                "places of initial registrations: assembled at once, or joined by messages",
                choices=("assembled", "joined"),
            ),
            Parameter(
                "places_max", 128, "places that the authority grants one applicant", 1, 65_536
            ),
            Parameter(
                "validity_s",
                7_200.0,
                "validity of certificates; members renew them in time. What the authority and the "
                "revocation lists hold of a departed member is given up after it",
                60,
                3.2e9,
                unit="s",
            ),
            Parameter(
                "watch_s",
                8.5,
                "interval at which a peer checks its neighbours",
                0.1,
                3600,
                unit="s",
            ),
            Parameter(
                "turn_s",
                12.0,
                "interval at which a peer asks one entry for its lists",
                0.1,
                3600,
                unit="s",
            ),
            Parameter(
                "look_s",
                5.0,
                "interval at which changed lists are compared with those of neighbours",
                0.1,
                3600,
                unit="s",
            ),
            Parameter("tries", 5, "unanswered probes before a peer is lost", 2, 20),
            Parameter("asks", 6, "unanswered requests, 1 s apart, before a peer is lost", 2, 20),
            Parameter(
                "window_s",
                60.0,
                "maximum age of a message at arrival",
                1,
                86_400,
                unit="s",
            ),
        ),
        languages=("tags", "attributes"),
        infrastructure=one_front_end,
        member=Bft,
        fixture=fixture,
        roles=roles,
        durable_types={"member": DurableBft, "authority": DurableAuthority},
        audience=True,
        wary=True,
        survives=frozenset(
            {"joins", "leaves", "crashes", "returns", "loss", "partitions", "freezes", "restarts"}
        ),
        trial={"signatures": "stand-in"},
        few_tags=True,
        quick={"watch_s": 1.0, "tries": 2, "look_s": 0.5, "asks": 3},
        upkeep_points=(
            {"watch_s": 15.0, "turn_s": 30.0},
            {"watch_s": 4.0, "look_s": 2.0},
            {"watch_s": 2.0, "tries": 3, "look_s": 1.0, "asks": 4},
        ),
    ),
)
