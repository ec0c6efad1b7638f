"""BFT: casts as key-range multicasts that reach every correct peer through k senders, whoever lies.

`multicast.py` has the paper's procedures, `gate.py` the receiver's checks, `member.py` the peer, `office.py` the
authority; `trials.py` the paper's experiments; FIDELITY.md says where we differ.
"""

from collections.abc import Mapping

from implicast.casting.bft.member import Bft, KeptBft
from implicast.casting.bft.messages import BFT_KINDS
from implicast.casting.bft.office import KeptOffice, Office
from implicast.casting.designs import ASSURANCE, Design, one_station
from implicast.language.parameters import Parameter
from implicast.overlay.skip_graph.messages import GRAPH_KINDS
from implicast.peer.contract import Peer
from implicast.peer.liveness import DETECTOR_KINDS
from implicast.peer.site import Site


def fixture(site: Site, role: str) -> Peer:
    assert role == "authority", f"there is no {role} in this design"
    return Office(site)


def roles(peers: int, infrastructure: int) -> Mapping[str, tuple[int, ...]]:
    return {"authority": (peers,)}


DESIGNS = (
    Design(
        name="bft",
        summary="A place per tag on a skip graph; casts reach a tag's range through k senders, with certificates.",
        paper="Byzantine-tolerant key-range multicast over a key-order preserving overlay",
        kinds=(*GRAPH_KINDS, *DETECTOR_KINDS, *BFT_KINDS),
        parameters=(
            ASSURANCE,
            Parameter(
                "k",
                4,
                "redundancy: senders per receiver; a peer is lost only if all of them fail",
                2,
                16,
            ),
            Parameter("alpha", 2, "base of the membership vectors' digits", 2, 16),
            Parameter(
                "reach",
                "through",
                "how far the ends of a range are served",
                choices=("through", "literal"),
            ),
            Parameter(
                "choose",
                "first",
                "the tag that stands for a term: the first, or one with few peers in sight",
                choices=("first", "sparse"),
            ),
            Parameter(
                "signatures",
                "ed25519",
                "real ones, or a stand-in with the same checks and sizes for large runs",
                choices=("ed25519", "stand-in"),
            ),
            Parameter(
                "placing",
                "assembled",
                "places of registrations: put in at once, or joined by messages",
                choices=("assembled", "joined"),
            ),
            Parameter(
                "places_max", 128, "places that the authority gives one applicant", 1, 65_536
            ),
            Parameter(
                "validity_s",
                21_600.0,
                "how long certificates are valid; renewed in time",
                60,
                3.2e9,
                unit="s",
            ),
            Parameter(
                "watch_s", 8.5, "how often a peer looks for silent neighbours", 0.1, 3600, unit="s"
            ),
            Parameter(
                "turn_s", 12.0, "how often a peer asks one entry for its lists", 0.1, 3600, unit="s"
            ),
            Parameter(
                "look_s",
                5.0,
                "how often lists that changed are compared with those of neighbours",
                0.1,
                3600,
                unit="s",
            ),
            Parameter("tries", 5, "probes in vain before somebody is taken for silent", 2, 20),
            Parameter(
                "asks", 6, "questions in vain, a second apart, before somebody is silent", 2, 20
            ),
            Parameter(
                "window_s",
                60.0,
                "how long after it was cast a message may still arrive",
                1,
                86_400,
                unit="s",
            ),
        ),
        languages=("tags", "attributes"),
        infrastructure=one_station,
        member=Bft,
        fixture=fixture,
        roles=roles,
        kept={"member": KeptBft, "authority": KeptOffice},
        audience=True,
        wary=True,
        survives=frozenset(
            {"joins", "leaves", "crashes", "returns", "loss", "partitions", "freezes", "restarts"}
        ),
        trial={"signatures": "stand-in"},
        few_tags=True,
        quick={"watch_s": 1.0, "tries": 2, "look_s": 0.5, "asks": 3},
        patience=(
            {"watch_s": 15.0, "turn_s": 30.0},
            {"watch_s": 4.0, "look_s": 2.0},
            {"watch_s": 2.0, "tries": 3, "look_s": 1.0, "asks": 4},
        ),
    ),
)
