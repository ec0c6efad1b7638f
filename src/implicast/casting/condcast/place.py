"""Where on the ring a peer stands.

At random, or by its tags, so that peers who share tags stand together and aggregates over them hold fewer tags. A tag
has a fixed number by hash; the peer's key is made of its least numbers, least first (as in min-wise hashing: two peers
begin with the same tag with the probability that a tag of either is a tag of both). The tail of the key is the
peer's own.
"""

from implicast.language.target import Description
from implicast.space.digest import digest_bits

KEY_BITS = 64
"""The longest integers that travel as such."""
OWN_BITS = 24
TAG_BITS = 20


def at_random(seed: int, address: int) -> int:
    return digest_bits(KEY_BITS, seed, "place on the ring", address)


def by_tags(seed: int, address: int, description: Description) -> int:
    """Two least tags of 20 bits, then 24 bits of the peer's own."""
    numbers = sorted(digest_bits(TAG_BITS, "tag on the ring", tag) for tag in description.tags)
    first, second = [*numbers, 0, 0][:2]
    own = digest_bits(OWN_BITS, seed, "place on the ring", address)
    return (first << (TAG_BITS + OWN_BITS)) | (second << OWN_BITS) | own
