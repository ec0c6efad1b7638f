"""Durable state of a ring member."""

from implicast.casting.replicated_lists.entries import DurableEntry
from implicast.overlay.links import Ref
from implicast.peer.contract import Incarnation, Message
from implicast.peer.member import DurableMember


class DurableRing(Message):
    """Durable state of a ring member: also its own entries, so that a restarted member can renew or
    remove them, and the neighbours it had.
    """

    member: DurableMember
    entries: tuple[DurableEntry, ...] = ()
    neighbours: tuple[Ref, ...] = ()

    @property
    def incarnation(self) -> Incarnation:
        return self.member.incarnation
