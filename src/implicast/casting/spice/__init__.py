"""SPICE on ICE: implicit groups resolved by the peers themselves (thesis chapters 7 and 8)."""

from implicast.casting.spice.design import DESIGNS

__all__ = ["DESIGNS"]
