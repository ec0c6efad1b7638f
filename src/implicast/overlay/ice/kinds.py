"""Kinds of messages of the overlay."""

from implicast.overlay.ice.backup_copy import (
    BackupDelta,
    BackupSnapshot,
    DeltaAck,
    NoBackupCopy,
    SnapshotAck,
)
from implicast.overlay.ice.death_poll import ConfirmDeath, DeathVote
from implicast.overlay.ice.handoff_receiver import (
    HandoffAbort,
    HandoffCommit,
    HandoffOffer,
    HandoffPrepared,
    HandoffProgress,
)
from implicast.overlay.ice.messages import (
    ClaimUpdate,
    FindOwner,
    FullStateRequest,
    Heartbeat,
    HeartbeatAck,
    Introduction,
    JoinRequest,
    LatencyProbe,
    LatencyReply,
)
from implicast.overlay.ice.relocation import RelocationOffer, RelocationQuery
from implicast.overlay.ice.routing import HopAck

KINDS: tuple[type, ...] = (
    Heartbeat,
    HeartbeatAck,
    FullStateRequest,
    ClaimUpdate,
    HopAck,
    JoinRequest,
    FindOwner,
    HandoffOffer,
    HandoffProgress,
    HandoffPrepared,
    HandoffCommit,
    HandoffAbort,
    BackupSnapshot,
    SnapshotAck,
    BackupDelta,
    DeltaAck,
    NoBackupCopy,
    ConfirmDeath,
    DeathVote,
    RelocationQuery,
    RelocationOffer,
    LatencyProbe,
    LatencyReply,
    Introduction,
)
"""Kinds that are sent over the network."""
