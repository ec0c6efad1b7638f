"""Chord#: a ring in key order without hashing, fingers by count, aggregates that come with them."""

from implicast.overlay.chord_sharp.chord_sharp import ON_DEMAND, ChordSharp, SharpSettings
from implicast.overlay.chord_sharp.messages import KINDS, Ent, Freight
from implicast.overlay.chord_sharp.table import Table

__all__ = ["KINDS", "ON_DEMAND", "ChordSharp", "Ent", "Freight", "SharpSettings", "Table"]
