"""What trusting no one costs: signatures per hop, assembling, and multicasts, bare and by real
peers.
"""

import sys
from time import process_time

from implicast.peer.signatures import SCHEMES, scheme
from implicast.space.digest import stream
from implicast.trials.bft import Overlay, spread
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate


def main(peers: int = 3_200, multicasts: int = 300, k: int = 6) -> None:
    for name in SCHEMES:
        _signatures(name)
    _bare(peers, multicasts, k)
    for name in SCHEMES:
        _real(name, min(peers, 1_000), 10, k)
    _real("stand-in", peers, max(1, multicasts // 10), k)


def _signatures(name: str, turns: int = 2_000) -> None:
    signing = scheme(name, b"notary")
    signer = signing.signer(bytes(32))
    texts = [b"hop" + each.to_bytes(100, "big") for each in range(turns)]
    begun = process_time()
    signed = [signer.sign(text) for text in texts]
    sign_us = (process_time() - begun) / turns * 1e6
    begun = process_time()
    assert all(
        signing.verify(signer.public, text, signature)
        for text, signature in zip(texts, signed, strict=True)
    )
    verify_us = (process_time() - begun) / turns * 1e6
    print(
        f"{name:9}  sign {sign_us:6.1f} us, verify {verify_us:6.1f} us; a first receipt checks two, a leg signs one"
    )


def _bare(peers: int, multicasts: int, k: int) -> None:
    begun = process_time()
    overlay = Overlay(peers, k, seed=1)
    for spot in overlay.spots:
        overlay.graph.table(spot.key)
    assembled_s = process_time() - begun
    rng, messages = stream(1, "bench"), 0
    begun = process_time()
    for _ in range(multicasts):
        arc = overlay.arc(rng.randrange(peers), peers // 2)
        messages += spread(overlay, rng.choice(overlay.spots), arc, [False] * peers).messages
    seconds = process_time() - begun
    print(
        f"bare: {peers} nodes, k = {k}: assembled in {assembled_s:.1f} s; {multicasts} multicasts to half of them, "
        f"{messages:,} messages, {seconds:.1f} s, {seconds / messages * 1e6:.2f} us a message"
    )


def _real(name: str, peers: int, multicasts: int, k: int) -> None:
    parameters = {"signatures": name, "k": k, "assurance": "none"}
    halves = {"share": 0.5, "tags_per_cast": 1, "tags_per_peer": 1}
    scenario = Scenario("bft", peers, multicasts, 1, parameters, "groups", halves)
    begun = process_time()
    messages = sum(simulate(scenario).messages.values())
    seconds = process_time() - begun
    print(
        f"real peers, {name}: {peers}, k = {k}, {multicasts} casts to half of them: {messages:,} messages, "
        f"{seconds:.1f} s in all, {seconds / messages * 1e6:.1f} us a message"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
