"""What a ring or an overlay tells whatever stands on it, and asks of it."""

# ruff: noqa: RET501 - what one does not care about is answered so

from collections.abc import Sequence
from typing import Any

from implicast.overlay.links.refs import Place, Ref


class Above:
    """Nothing is done about it, and nothing answered, unless what stands there says otherwise."""

    __slots__ = ()

    def entered(self) -> None:
        """This node has become a member."""
        return None

    def departed(self) -> None:
        """This node is a member no more, by its own wish."""
        return None

    def moved(self) -> None:
        """The left or the right neighbour has changed."""
        return None

    def mended(self) -> None:
        """This node has closed a gap on its left; its neighbours there had fallen."""
        return None

    def overlooked(self) -> None:
        """Others had passed this node over, and it is linked again: what they said of its place leaves it out."""
        return None

    def surrounded(self) -> None:
        """Those beyond the left neighbour have changed."""
        return None

    def lost(self, ref: Ref) -> None:
        """This node has left: it is no shortcut any more."""
        return None

    def silent(self, ref: Ref) -> None:
        """This node is suspected: take another way while `detector.is_suspect(ref)`, for it may only be slow."""
        return None

    def acquaintances(self) -> Sequence[Ref]:
        """Further nodes that are known, in any order: those through whom a ring that fell apart finds itself again."""
        return ()

    def nearest_before(self, place: Place) -> Ref | None:
        """The known node nearest before a place on the clockwise way to it; None: the right neighbour will do."""
        return None

    def value(self) -> Any:
        """What this node adds to the aggregates of an overlay that has some; None: unknown."""
        return None

    def refreshed(self) -> None:
        """The overlay has asked for its whole table, and has it."""
        return None
