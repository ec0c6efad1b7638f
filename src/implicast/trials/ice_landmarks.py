"""ICE on a physical network: what landmarks save on every route (thesis section 7.2.3, Fig. 7.7).

    landmarks_trial(landmarks=64, network="national", peers=2000, seed=1)

The surface and the routes are those of `trials/ice.py`; the network gives the latency of a hop and
the number of links it crosses. No messages are simulated.
"""

from implicast.trials.ice import Row, landmark_packets
from implicast.world.network import build


def landmarks_trial(
    landmarks: int,
    network: str = "national",
    peers: int = 2000,
    dimensions: int = 3,
    routes: int = 1000,
    seed: int = 1,
) -> Row:
    """Packets, hops and microseconds per route between random places."""
    built = build(network, hosts=peers, infrastructure=0, seed=seed)

    def packets(a: int, b: int) -> int:
        """Router links between two hosts, plus their two access links."""
        return 2 + len(built.path(built.router[a], built.router[b]))

    return landmark_packets(landmarks, built.latency_us, packets, peers, dimensions, routes, seed)
