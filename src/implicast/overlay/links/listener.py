"""Callbacks from a ring, or from an overlay on a ring, to the layer above it."""

# ruff: noqa: RET501 - an explicit `return None` marks a default answer

from collections.abc import Sequence
from typing import Any

from implicast.overlay.links.refs import Place, Ref


class RingListener:
    """Default callbacks: they do nothing and return nothing. A layer overrides those it needs."""

    __slots__ = ()

    def on_joined(self) -> None:
        """This node has become a member of the ring."""
        return None

    def on_departed(self) -> None:
        """This node has left the ring at its own request."""
        return None

    def on_neighbours_changed(self) -> None:
        """The left or the right neighbour has changed."""
        return None

    def on_repaired(self) -> None:
        """This node has closed a gap on its left, where its neighbours had failed."""
        return None

    def on_bypassed(self) -> None:
        """Other nodes had bypassed this node, and it is linked again. Their statements about this
        part of the ring do not include it.
        """
        return None

    def on_right_bypassed(self, old: Ref, new: Ref, others: Sequence[Ref]) -> None:
        """The ring is repaired past the right neighbour `old`, which is silent: the next one is
        `new`. `others`: silent nodes between the two, as far as `new` knows them.
        """
        return None

    def on_left_list_changed(self) -> None:
        """The nodes beyond the left neighbour have changed."""
        return None

    def on_node_left(self, ref: Ref) -> None:
        """A node has left the ring: it must not be used as a shortcut."""
        return None

    def on_node_suspected(self, ref: Ref) -> None:
        """A node is suspected. Route around it while `detector.is_suspect(ref)`: it may only be
        slow.
        """
        return None

    def known_nodes(self) -> Sequence[Ref]:
        """Further known nodes in any order. A node looks its place up through them to merge rings
        that have separated.
        """
        return ()

    def closest_preceding(self, place: Place) -> Ref | None:
        """The known node that most closely precedes a place clockwise, or None to use the right
        neighbour.
        """
        return None

    def value(self) -> Any:
        """This node's contribution to the aggregates of an overlay that keeps some, or None if
        unknown.
        """
        return None

    def on_table_refreshed(self) -> None:
        """The overlay has requested its whole finger table and received it."""
        return None


class LayerAbove:
    """The layer above, which the parts of a node report to. It is set once that layer exists."""

    __slots__ = ("listener",)

    def __init__(self) -> None:
        self.listener = RingListener()

    def set_listener(self, listener: RingListener) -> None:
        self.listener = listener
