"""Identity of a peer over time: names, incarnations, versions.

An address says where a peer is, a name which peer it is. On a network a name is the digest of a
public key. In the simulator it is a function of the network and a number, so that the same peers
have the same names in every run.

A new incarnation begins whenever a peer starts. It consists of a counter, one above the counter on
the peer's disk, and sixteen random bits. A peer that starts from an old copy of its disk reuses
counters; the random bits distinguish its new incarnation from the forgotten one. No clock is read.
"""

from hashlib import blake2b
from random import Random

from implicast.peer.contract import (
    INCARNATION_BITS,
    NAME_BYTES,
    NUMBER_BITS,
    Incarnation,
    Name,
    Version,
)

CHANCE_BITS = 16
"""Random bits of an incarnation: a peer restored from an old copy of its disk repeats a forgotten
incarnation with probability 1 / 65,536.
"""
NUMBERS = 1 << NUMBER_BITS
"""Versions within one incarnation: one a second for twelve days. After that the member takes
another incarnation.
"""


def name_of(network: bytes, number: int, again: int = 0) -> Name:
    """Name of a simulated peer. `again` counts how often the peer at this number started without a
    disk.
    """
    text = b"%d.%d" % (number, again)
    return blake2b(text, key=network[:64], person=b"name", digest_size=NAME_BYTES).digest()


def name_of_public(public: bytes) -> Name:
    """Name of the holder of this public key."""
    return blake2b(public, person=b"node", digest_size=NAME_BYTES).digest()


def network_of(seed: int) -> bytes:
    """Identity of a simulated network, shared by all its peers."""
    return blake2b(b"%d" % seed, person=b"network", digest_size=NAME_BYTES).digest()


def has_next(incarnation: Incarnation) -> bool:
    """Whether a further incarnation is possible; the counter ends at about sixteen million."""
    return (incarnation >> CHANCE_BITS) + 1 < 1 << INCARNATION_BITS - CHANCE_BITS


def next_incarnation(previous: Incarnation, chance: Random) -> Incarnation:
    """The incarnation after this one; 0 stands for none."""
    assert has_next(previous), "no peer starts sixteen million times"
    starts = (previous >> CHANCE_BITS) + 1
    return starts << CHANCE_BITS | chance.getrandbits(CHANCE_BITS)


def version_of(incarnation: Incarnation, number: int) -> Version:
    """Version of a description. The incarnation is in the high bits, so that a later incarnation is
    above all versions of an earlier one.
    """
    return incarnation << NUMBER_BITS | number


def incarnation_of(version: Version) -> Incarnation:
    return version >> NUMBER_BITS
