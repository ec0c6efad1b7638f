"""Chord: hashed identifiers on a ring, fingers by distance, lookups in half of log2 N hops."""

from implicast.overlay.chord.chord import Chord
from implicast.overlay.chord.messages import CHORD_KINDS

__all__ = ["CHORD_KINDS", "Chord"]
