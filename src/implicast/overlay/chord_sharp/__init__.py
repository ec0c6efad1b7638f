"""Chord#: a ring in key order without hashing, fingers by count, aggregates that come with them."""

from implicast.overlay.chord_sharp.assemble import assemble, objections, stale
from implicast.overlay.chord_sharp.living import LivingSharp
from implicast.overlay.chord_sharp.living_messages import LIVING_KINDS
from implicast.overlay.chord_sharp.living_table import LivingTable
from implicast.overlay.chord_sharp.messages import KINDS, Ent, Freight
from implicast.overlay.chord_sharp.rows import Rows, carried_on
from implicast.overlay.chord_sharp.settings import RoundSettings
from implicast.overlay.chord_sharp.soundness import assemble_living, living_objections, too_small
from implicast.overlay.chord_sharp.table import Mark, Table, combine, settled_tables
from implicast.overlay.chord_sharp.upkeep import ChordSharp, Passenger, SharpSettings

__all__ = [
    "KINDS",
    "LIVING_KINDS",
    "ChordSharp",
    "Ent",
    "Freight",
    "LivingSharp",
    "LivingTable",
    "Mark",
    "Passenger",
    "RoundSettings",
    "Rows",
    "SharpSettings",
    "Table",
    "assemble",
    "assemble_living",
    "carried_on",
    "combine",
    "living_objections",
    "objections",
    "settled_tables",
    "stale",
    "too_small",
]
