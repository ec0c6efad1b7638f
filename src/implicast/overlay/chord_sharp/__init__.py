"""Chord#: a ring in key order without hashing, fingers by count, aggregates that come with them."""

from implicast.overlay.chord_sharp.assemble import assemble, objections, stale
from implicast.overlay.chord_sharp.messages import KINDS, Ent, Freight
from implicast.overlay.chord_sharp.rows import Rows, carried_on
from implicast.overlay.chord_sharp.table import Mark, Table, combine, settled_tables
from implicast.overlay.chord_sharp.upkeep import ChordSharp, Passenger, SharpSettings

__all__ = [
    "KINDS",
    "ChordSharp",
    "Ent",
    "Freight",
    "Mark",
    "Passenger",
    "Rows",
    "SharpSettings",
    "Table",
    "assemble",
    "carried_on",
    "combine",
    "objections",
    "settled_tables",
    "stale",
]
