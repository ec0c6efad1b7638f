"""Hashes that are the same on every machine and in every process: places, streams of chance, draws
by key.

Python's own `hash` changes with PYTHONHASHSEED and is not used anywhere in the project.
"""

from hashlib import sha1
from random import Random


def digest(*parts: object) -> bytes:
    """SHA-1 of the parts' texts, length-prefixed so that ("ab", "c") and ("a", "bc") differ. 20
    bytes.
    """
    pieces: list[bytes] = []
    for part in parts:
        text = part if isinstance(part, bytes) else str(part).encode()
        pieces += (len(text).to_bytes(4, "big"), text)
    return sha1(b"".join(pieces), usedforsecurity=False).digest()


def digest_bits(bits: int, *parts: object) -> int:
    """The first `bits` bits of the digest as an integer; at most 160."""
    assert 0 <= bits <= 160, f"a SHA-1 digest has 160 bits, {bits} were asked for"
    return int.from_bytes(digest(*parts), "big") >> (160 - bits)


def stream(seed: int, *names: object) -> Random:
    """A generator of its own for one purpose of a run, so that changing one purpose does not
    reshuffle the others.
    """
    return Random(digest_bits(64, seed, *names))
