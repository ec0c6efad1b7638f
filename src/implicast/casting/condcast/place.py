"""The ring key of a peer: random, or computed from its tags.

By tags: the population agrees on the most frequent tags of a sample, the *landmarks*. A key states
which of them a peer has, most frequent first, read as a Gray code, so that neighbours on the ring
differ in few of them. Frequent tags then fill whole sections of the ring and are absent from
others, and aggregates prune more: a third fewer messages (`FIDELITY.md`; similarity alone, without
knowing which tags are frequent, saves a tenth). The low 23 bits of the key are a digest of the
peer's name.
"""

from collections.abc import Sequence

from implicast.language.target import Description
from implicast.peer.contract import Name
from implicast.space.digest import digest_bits

KEY_BITS = 63
"""Width of the largest integer that a message field can bound."""
LANDMARKS = 40


def key_of(
    network: bytes, name: Name, description: Description | None, common: Sequence[str]
) -> int:
    """Return a random key; or, if the network has landmarks and the peer a description: one bit per
    landmark, most frequent first, then 23 bits of the peer's own.
    """
    if description is None or not common:
        return digest_bits(KEY_BITS, network, "place on the ring", name)
    held = 0
    for tag in common:
        held = held << 1 | (tag in description.tags)
    own = digest_bits(KEY_BITS - LANDMARKS, network, "place on the ring", name)
    return rank(held << (LANDMARKS - len(common))) << (KEY_BITS - LANDMARKS) | own


def rank(code: int) -> int:
    """Return the rank of a code word in the reflected Gray code: the exclusive or of the word and
    all its right shifts.
    """
    shift = 1
    while code >> shift:
        code ^= code >> shift
        shift *= 2
    return code
