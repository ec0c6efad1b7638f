"""What a linked ring tells the overlay that stands on it, and asks of it."""

# ruff: noqa: RET501 - what an overlay does not care about is answered so

from collections.abc import Sequence

from implicast.overlay.links.refs import Place, Ref


class Above:
    """Nothing is done about it, and nothing answered, unless the overlay says otherwise."""

    __slots__ = ()

    def linked(self) -> None:
        """This node has become a member."""
        return None

    def unlinked(self) -> None:
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
