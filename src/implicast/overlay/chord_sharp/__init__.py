"""Chord#: a ring in key order without hashing, fingers by node count, with aggregates."""

from implicast.overlay.chord_sharp.chord_sharp import ON_DEMAND, ChordSharp, SharpSettings
from implicast.overlay.chord_sharp.messages import KINDS, FingerEntry, FingerValue
from implicast.overlay.chord_sharp.table import Table

__all__ = [
    "KINDS",
    "ON_DEMAND",
    "ChordSharp",
    "FingerEntry",
    "FingerValue",
    "SharpSettings",
    "Table",
]
