"""BROKER's backbone on a physical network: the number of brokers and the links between them (thesis
section 6.1, Figure 6.2).

    backbone_trial(peers=8192, network="national", seed=1)

The number of brokers is the design's for that number of peers, and the tree is that of an assembled
run. No messages are simulated.
"""

from itertools import combinations
from statistics import fmean

from implicast.casting.designs import design
from implicast.language.parameters import settle
from implicast.overlay.backbone.tree import spanning_tree
from implicast.trials.ice import Row
from implicast.world.network import build


def backbone_trial(
    peers: int, network: str = "national", share: float = 0.01, seed: int = 1
) -> Row:
    """Brokers, links, links beyond a tree, the largest degree of a broker, and the round-trip times
    between neighbours.
    """
    broker = design("broker")
    count = broker.infrastructure(
        peers, settle("broker", broker.parameters, {"broker_share": share})
    )
    built = build(network, hosts=peers, infrastructure=count, seed=seed)
    brokers = range(peers, peers + count)

    def round_trip_us(a: int, b: int) -> int:
        return built.latency_us(a, b) + built.latency_us(b, a)

    tree = spanning_tree(brokers, round_trip_us)
    links = [(one, other) for one, beside in tree.items() for other in beside if one < other]
    near, all_pairs = (
        fmean(round_trip_us(*pair) for pair in pairs) for pairs in (links, combinations(brokers, 2))
    )
    return {
        "brokers": count,
        "links": len(links),
        "cycles": len(links) - len(_reached(tree, brokers[0])) + 1,
        "neighbours_max": max(map(len, tree.values())),
        "round_trip_ms_mean": near / 1000,
        "round_trip_share": near / all_pairs,
        "round_trips_ms": sum(round_trip_us(*pair) for pair in links) / 1000,
    }


def _reached(tree: dict[int, tuple[int, ...]], first: int) -> set[int]:
    found, new = {first}, [first]
    for one in new:
        beyond = [each for each in tree[one] if each not in found]
        found.update(beyond)
        new += beyond
    return found
