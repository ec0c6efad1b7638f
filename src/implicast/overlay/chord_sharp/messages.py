"""Messages between the nodes of a Chord# ring about fingers."""

from typing import Annotated

from msgspec import Meta

from implicast.language.aggregate import DescriptionAggregate
from implicast.language.values import AnyValue
from implicast.overlay.links.refs import Ref, RingKey
from implicast.peer.contract import Message
from implicast.peer.fields import Micros, Token

FingerValue = AnyValue | DescriptionAggregate
"""What a finger entry may carry: any value that can be combined."""

LEVELS_MAX = 64
"""More levels than any ring can fill: a guard against answers that never wrap around the ring."""
Level = Annotated[int, Meta(ge=0, lt=LEVELS_MAX)]
Round = Annotated[int, Meta(ge=0, le=(1 << 62) - 1)]


class FingerEntry(Message):
    """Answer to the paper's getEnt: the answering node's finger at a level, and the combined value
    of the nodes from the answering node up to that finger.

    `end` is the key where these nodes end. `end` and `value` are None when unknown; all is None
    when there is no such level.
    """

    node: Ref | None
    end: RingKey | None
    value: FingerValue | None


class GetEntry(Message):
    """Request for the receiver's entry at a level (the remote call of updateFinger)."""

    wire = 0x0540
    token: Token
    level: Level


class EntryReply(Message):
    """Answer to the GetEntry with this token."""

    wire = 0x0541
    token: Token
    entry: FingerEntry


class FingerLeft(Message):
    """The finger `gone` has left. `replacement` is the node on its right, if known."""

    wire = 0x0542
    gone: Ref
    replacement: Ref | None


class SubscribeLevel(Message):
    """Subscription to the receiver's entry at a level: one update now (if `answer`) and one in each
    of the next rounds.
    """

    wire = 0x0543
    to: Ref
    by: Ref
    token: Token
    level: Level
    round: Round
    answer: bool


class LevelUpdate(Message):
    """The entry at the level subscribed to under this token. The subscription arrived `held_us` ago
    by the sender's clock.

    `age_us`: upper bound on the age of the oldest part of the entry. `entry` is None while the
    level is not complete in this round.
    """

    wire = 0x0544
    by: Ref
    token: Token
    round: Round
    held_us: Micros
    age_us: Micros
    entry: FingerEntry | None


class UnsubscribeLevel(Message):
    """Cancels the subscription with this token."""

    wire = 0x0545
    token: Token


KINDS: tuple[type, ...] = (
    GetEntry,
    EntryReply,
    FingerLeft,
    SubscribeLevel,
    LevelUpdate,
    UnsubscribeLevel,
)
"""Message kinds of Chord#."""
