"""Who one is, and how often one has begun: names, lives, versions.

An address says where a peer is, a name who it is. On a network a name is the digest of a public key; in the world it
is a function of the network and a number, so that the same peers have the same names in every run.

A life begins whenever a peer starts. Its number is one above the number on the peer's disk, with sixteen random bits
behind it: a peer that starts from an old copy of its disk counts from where the copy was made, and the random bits
tell its new life from the one it has forgotten. No clock is asked.
"""

from hashlib import blake2b
from random import Random

from implicast.peer.contract import LIFE_BITS, NAME_BYTES, NUMBER_BITS, Incarnation, Name, Version

CHANCE_BITS = 16
"""Random bits in a life: an old copy of a disk leads to a life lived before once in 65,536 times."""
NUMBERS = 1 << NUMBER_BITS
"""Descriptions that one life has room for: one a second for twelve days, then the member begins another life."""


def name_of(network: bytes, number: int, again: int = 0) -> Name:
    """The name of a simulated peer; `again` counts how often the peer at this number began without a disk."""
    text = b"%d.%d" % (number, again)
    return blake2b(text, key=network[:64], person=b"name", digest_size=NAME_BYTES).digest()


def name_of_public(public: bytes) -> Name:
    """Who holds this key."""
    return blake2b(public, person=b"node", digest_size=NAME_BYTES).digest()


def network_of(seed: int) -> bytes:
    """What all peers of one simulated network agree on."""
    return blake2b(b"%d" % seed, person=b"network", digest_size=NAME_BYTES).digest()


def has_next(incarnation: Incarnation) -> bool:
    """Whether a life can follow this one: sixteen million can follow each other."""
    return (incarnation >> CHANCE_BITS) + 1 < 1 << LIFE_BITS - CHANCE_BITS


def next_incarnation(previous: Incarnation, chance: Random) -> Incarnation:
    """The life after this one; 0 is before the first."""
    assert has_next(previous), "no peer starts sixteen million times"
    starts = (previous >> CHANCE_BITS) + 1
    return starts << CHANCE_BITS | chance.getrandbits(CHANCE_BITS)


def version_of(incarnation: Incarnation, number: int) -> Version:
    """The version of a description: life first, so that a later life is above all versions of an earlier one."""
    return incarnation << NUMBER_BITS | number


def incarnation_of(version: Version) -> Incarnation:
    return version >> NUMBER_BITS
