"""Chord: hashed identifiers on a ring, fingers by distance, look-ups in half of log2 N hops."""

from implicast.overlay.chord.assemble import assemble_chord, chord_objections
from implicast.overlay.chord.chord import CHORD_KINDS, Chord, Tenant
from implicast.overlay.chord.living import LIVING_CHORD_KINDS, LivingChord

__all__ = [
    "CHORD_KINDS", "LIVING_CHORD_KINDS", "Chord", "LivingChord", "Tenant", "assemble_chord", "chord_objections",
]  # fmt: skip
