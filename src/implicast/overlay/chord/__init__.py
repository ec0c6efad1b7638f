"""Chord: hashed identifiers on a ring, fingers by distance, look-ups in half of log2 N hops."""

from implicast.overlay.chord.assemble import assemble_chord, chord_objections
from implicast.overlay.chord.chord import CHORD_KINDS, Chord, Tenant

__all__ = ["CHORD_KINDS", "Chord", "Tenant", "assemble_chord", "chord_objections"]
