"""What the two ways to maintain a table need of the node."""

from typing import Protocol

from implicast.overlay.chord_sharp.messages import FingerValue
from implicast.overlay.links import Ref


class FingerOwner(Protocol):
    """The node whose table is maintained."""

    def value(self) -> FingerValue | None:
        """The own value; None if it is unknown."""

    def is_lost(self, ref: Ref) -> bool:
        """Whether a node has left or is suspected."""

    def note_possible_loss(self) -> None:
        """A finger may be lost."""

    def suspect(self, ref: Ref) -> None:
        """A node did not answer: suspect it."""

    def replacement_for(self, gone: Ref) -> Ref | None:
        """The node at the place of an incarnation that is gone, if known."""

    def on_table_refreshed(self) -> None:
        """The whole table was requested and has arrived."""
