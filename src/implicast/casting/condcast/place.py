"""Where on the ring a peer stands: at random, or by its tags.

By tags: the population agrees on the commonest tags of a sample, the *landmarks*; a key says which of them a peer has,
commonest first, read as a Gray code, so that neighbours on the ring differ in few of them. Then common tags fill whole
stretches of the ring and are absent from others, and aggregates prove more: a third of the messages less
(`FIDELITY.md`; likeness alone, without knowing what is common, saves a tenth). The tail of the key is the peer's own.
"""

from collections.abc import Sequence

from implicast.language.target import Description
from implicast.peer.contract import Name
from implicast.space.digest import digest_bits

KEY_BITS = 63
"""The longest integers that a field of a message can bound."""
LANDMARKS = 40


def key_of(
    network: bytes, name: Name, description: Description | None, common: Sequence[str]
) -> int:
    """At random; or, where the network has landmarks and the peer says what it is: one bit per landmark, commonest
    first, then 23 bits of the peer's own."""
    if description is None or not common:
        return digest_bits(KEY_BITS, network, "place on the ring", name)
    held = 0
    for tag in common:
        held = held << 1 | (tag in description.tags)
    own = digest_bits(KEY_BITS - LANDMARKS, network, "place on the ring", name)
    return rank(held << (LANDMARKS - len(common))) << (KEY_BITS - LANDMARKS) | own


def rank(code: int) -> int:
    """The place of a code word in the reflected Gray code: the exclusive or of the word and all it is shifted by."""
    shift = 1
    while code >> shift:
        code ^= code >> shift
        shift *= 2
    return code
