"""condcast: conditional multicast over Chord# with aggregated finger tables and update flows."""

from implicast.casting.condcast.design import DESIGNS

__all__ = ["DESIGNS"]
