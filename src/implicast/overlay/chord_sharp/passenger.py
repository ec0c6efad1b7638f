"""What stands on a Chord# ring: it has a value, and is told what happens."""

# ruff: noqa: RET501 - what a passenger does not care about is answered so

from implicast.overlay.chord_sharp.messages import Freight
from implicast.overlay.links import Ref


class Passenger:
    """What stands on the overlay: it has a value, and is told what happens. Plain Chord# carries nobody."""

    __slots__ = ()

    def value(self) -> Freight | None:
        """What this node adds to aggregates now; None: unknown."""
        return None

    def entered(self) -> None:
        """This node is on the ring and has asked for all its fingers."""
        return None

    def departed(self) -> None:
        """This node is off the ring, by its own wish."""
        return None

    def refreshed(self) -> None:
        """A refresh of the whole table is complete."""
        return None

    def silent(self, ref: Ref) -> None:
        """A node is suspected."""
        return None

    def moved(self) -> None:
        """A neighbour on the ring has changed."""
        return None

    def returned(self) -> None:
        """This node had been passed over and is on the ring again."""
        return None
