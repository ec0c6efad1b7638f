"""State of a death poll: the request, the votes so far, and which peers vote.

Pure data; `takeover.py` sends the messages and acts on the result.
"""

from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

from msgspec import Meta

from implicast.overlay.ice.backup_copy import BackupCopy
from implicast.overlay.ice.members import Members
from implicast.overlay.ice.messages import (
    BACKUPS_MAX,
    Claims,
    Items,
    OptionalNumber,
    OwnershipClaim,
)
from implicast.peer.contract import Address, Message
from implicast.space.tract import Tract

VOTERS_MAX = 64
"""Peers asked about one suspect."""


class ConfirmDeath(Message):
    """Asks other peers whether they have heard the suspect lately. A backup sends it before it
    takes over the suspect's extents, and a handoff receiver when the sender is silent.
    """

    wire = 0x0912
    suspect: Address
    extents: Claims
    rank: Annotated[int, Meta(ge=0, le=BACKUPS_MAX + 1)]
    incoming: Claims
    """Extents on their way from the suspect to the requester, which keeps them if it is dead."""
    serial: OptionalNumber
    """Serial of the suspect's last write in the requester's copy: a voter with a later one sends
    its items; -2: the requester has no complete copy.
    """
    certain: bool = False
    """True if a later incarnation runs at the suspect's address: the suspect is certainly dead."""


class DeathVote(Message):
    """Answer to `ConfirmDeath`: what the voter knows of the suspect."""

    wire = 0x0913
    suspect: Address
    ago_us: OptionalNumber
    """Time since the voter last heard the suspect; -1: unknown."""
    claims: Claims
    items: Items
    whole: bool
    """True if the items are complete for the requested extents, and newer than the requester's."""
    in_transit: Claims
    """Claims to extents that the voter is handing off to the suspect (as they will be after an
    abort) or receiving from it (as they will be if the suspect is dead). They are not valid yet, so
    the requester does not record them; it only leaves these extents alone.
    """


class DeadOwner(NamedTuple):
    """A peer that is certainly dead, because a later incarnation runs at its address."""

    copy: BackupCopy
    rank: int
    due_us: int
    """When this peer may take over."""


@dataclass(slots=True)
class DeathPoll:
    """One poll about a suspect."""

    takes_over: bool
    """False: the poll only decides whether a handoff sender is dead."""
    awaited: dict[Address, None]
    message: ConfirmDeath
    copy: BackupCopy | None = None
    """This peer's copy of the suspect's items."""
    round: int = 0
    votes: list[DeathVote] = field(default_factory=list)

    @property
    def claims(self) -> list[OwnershipClaim]:
        """Claims, known to the voters, that beat the suspect's."""
        return [claim for each in self.votes for claim in each.claims]


@dataclass(slots=True)
class PendingTakeover:
    """Extents that are taken over and not yet committed."""

    tract: Tract
    lacking: Tract
    """Where this peer had no copy: the dead owner may have received extents after its last message
    to its backups.
    """
    awaits: int = 2
    """Steps until the commit: replication of the items, and the time for rivals."""

    def step(self) -> bool:
        """One of the two steps is done; true if it was the last."""
        self.awaits -= 1
        return not self.awaits


def voters(
    suspect: Address,
    own: Address,
    neighbours: list[Address],
    members: Members,
    copy: BackupCopy | None,
) -> list[Address]:
    """Peers to ask about a suspect: its backups and neighbours, this peer's neighbours, and the
    backups of those among them that are suspect.
    """
    found = dict.fromkeys(members.backups_of(suspect))
    near = [(peer, members.backups_of(peer)) for peer in neighbours]
    if copy is not None:
        found.update(dict.fromkeys(copy.backups))
        near = [*((claim.owner, backups) for claim, backups in copy.around), *near]
    for peer, backups in near:
        found.update(dict.fromkeys((peer, *backups) if members.is_suspect(peer) else (peer,)))
    found.pop(own, None)
    found.pop(suspect, None)
    return list(found)[:VOTERS_MAX]
