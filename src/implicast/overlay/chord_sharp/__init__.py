"""Chord#: a ring in key order without hashing, fingers by node count, with aggregates."""

from implicast.overlay.chord_sharp.chord_sharp import ChordSharp
from implicast.overlay.chord_sharp.messages import KINDS, FingerEntry, FingerValue
from implicast.overlay.chord_sharp.settings import ON_DEMAND, SharpSettings
from implicast.overlay.chord_sharp.table import Table, TableState

__all__ = [
    "KINDS",
    "ON_DEMAND",
    "ChordSharp",
    "FingerEntry",
    "FingerValue",
    "SharpSettings",
    "Table",
    "TableState",
]
