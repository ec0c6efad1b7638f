"""What signed words cost: microseconds to sign and to check, bytes per cast and per registration of
each design.

python bench/signing.py
"""

import timeit
from time import process_time

from implicast.casting.designs import designs
from implicast.language.parse import description, parse
from implicast.peer.contract import CastId
from implicast.peer.expiry import LIFETIME_US
from implicast.peer.ledger import Ledger
from implicast.peer.signing import PROOF_BYTES, SIGNED_PAYLOAD_BYTES, KeyedSigning
from implicast.world.key_ring import KeyRing
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate

TIMES = 400


def micros(what) -> float:
    return min(timeit.repeat(what, timer=process_time, number=TIMES, repeat=3)) / TIMES * 1e6


def fresh(signing: KeyedSigning) -> KeyedSigning:
    signing._checked.clear()
    signing._last = (b"", b"")
    return signing


def costs(signatures: str) -> dict[str, float]:
    signing = KeyRing(1, b"network", signatures, "").signing(Ledger(), 1, 0, None)
    cast, target, said = (
        CastId(signing.name, 1, 1),
        parse("(samba | jazz) & football"),
        description("samba, football"),
    )
    sealed = signing.sign_payload(cast, target, bytes(100), LIFETIME_US)
    about = ("entry", signing.name, 1, said)
    proof = signing.prove(about, said)
    return {
        "seal a cast": micros(
            lambda: fresh(signing).sign_payload(cast, target, bytes(100), LIFETIME_US)
        ),
        "open a cast, publisher new": micros(
            lambda: fresh(signing).verified_payload(cast, target, sealed, 0)
        ),
        "open a cast again": micros(lambda: signing.verified_payload(cast, target, sealed, 0)),
        "prove a registration": micros(lambda: fresh(signing).prove(about, said)),
        "check a registration": micros(
            lambda: fresh(signing).verify_proof(signing.name, about, proof, said)
        ),
    }


def size(name: str, signed: bool) -> tuple[float, float]:
    """Bytes per cast and per registration, all messages of it together."""
    scenario = Scenario(
        name,
        peers=48,
        casts=30,
        parameters={"signed": signed, "signatures": "stand-in"},
        workload_parameters={"tags": 40, "tags_per_peer": 6},
        register="messages",
    )
    sent = simulate(scenario).bytes
    return sent.get("cast", 0) / 30, sent.get("register", 0) / 48


def main() -> None:
    print(f"a seal is {SIGNED_PAYLOAD_BYTES} bytes, a proof {PROOF_BYTES}")
    for signatures in ("ed25519", "stand-in"):
        for what, us in costs(signatures).items():
            print(f"{signatures:9} {what:28} {us:7.1f} us")
    print("design: bytes per cast, bytes per registration; bare -> signed")
    for name in designs():
        (cast, register), (cast_signed, register_signed) = size(name, False), size(name, True)
        print(
            f"{name:15} {cast:8.0f} -> {cast_signed:8.0f}   {register:8.0f} -> {register_signed:8.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
