"""Messages and alarms of the skip graph. Every claim about a place carries the certificate of the
place.

A claim is signed by the claimant with the time and a verb. No peer can announce a place for an
absent third party, or leave for another; a recorded claim is worthless after 30 s.
"""

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from implicast.peer.contract import Address, Message, StandingAlarm
from implicast.peer.fields import Flag, Micros
from implicast.peer.identity import Certificate, Key, Signature
from implicast.peer.signatures import Signer

_encode = msgspec.msgpack.Encoder().encode

NAMED_MAX = 1_024
"""Places in one answer or list. Honest peers send 50 to 200; the bound limits the verification work
that a liar can cause.
"""
SPANS_MAX = 64
"""Lists in one comparison; further ones wait for the next round."""
PROBED_MAX = 256
"""Claims, and keys probed, in one probe."""
DENIED_MAX = 256
"""Places in one denial."""
REPORTED_MAX = 256
"""Addresses in one suspicion report."""
SILENT_MAX = 64
"""Silent nodes in one answer."""

PRESENT, GONE, ALL_GONE = b"present", b"gone", b"all gone"
"""Verbs of claims: the place is held; the place is left; all places of the key are left."""

Named = Annotated[tuple[Certificate, ...], Meta(max_length=NAMED_MAX)]
Keys = Annotated[tuple[Key, ...], Meta(max_length=NAMED_MAX)]


class Claim(Message):
    """A statement of a place about itself at a time, signed. The verb is signed but not sent: it
    follows from the message.
    """

    certificate: Certificate
    sent_us: Micros
    signature: Signature


class AskNeighbours(Message):
    """Asks a place for the nodes near the claimant by its lists. An empty `place` asks any place of
    the receiver.
    """

    wire = 0x0B01
    place: Key
    claim: Claim


class SilentNode(Message):
    """A node that may be a member although it does not answer, and for how long it has not."""

    certificate: Certificate
    age_us: Micros


class Neighbours(Message):
    """Answer to `AskNeighbours`: the k nearest nodes on each side of the claimant, and the lists of
    all levels that the asked place shares with it. The claimant does not list silent nodes; its
    receipts are uncertain where they are.
    """

    wire = 0x0B02
    place: Key
    claimant: Key
    nodes: Named
    silent: Annotated[tuple[SilentNode, ...], Meta(max_length=SILENT_MAX)] = ()


class AnnouncePlace(Message):
    """Announces a place that was taken or renewed; the receiver inserts it into its lists where it
    fits.
    """

    wire = 0x0B03
    claim: Claim


class ClaimAck(Message):
    """Acknowledges an announcement or a leave message."""

    wire = 0x0B04
    claimant: Key


class LeavePlace(Message):
    """The claimant leaves this place for good."""

    wire = 0x0B05
    verb: ClassVar[bytes] = GONE
    claim: Claim


class LeaveGraph(Message):
    """The claimant leaves with all places of its public key, for good."""

    wire = 0x0B06
    verb: ClassVar[bytes] = ALL_GONE
    claim: Claim


class DenyPlaces(Message):
    """The sender does not hold these places. The claim is for a place that it does hold, or last
    held, at the same address.
    """

    wire = 0x0B07
    places: Annotated[tuple[Key, ...], Meta(max_length=DENIED_MAX)]
    claim: Claim


class SuspicionReport(Message):
    """The sender lost these addresses; the receiver probes them itself. An address of the receiver
    says that the sender had lost it.
    """

    wire = 0x0B08
    addresses: Annotated[tuple[Address, ...], Meta(max_length=REPORTED_MAX)]


class ProbePlaces(Message):
    """Asks for a sign of life and for leave messages of the `asked` places. The receiver inserts
    the claimants into the lists of these places where they fit.
    """

    wire = 0x0B09
    claims: Annotated[tuple[Claim, ...], Meta(max_length=PROBED_MAX)]
    asked: Annotated[tuple[Key, ...], Meta(max_length=PROBED_MAX)]


class ProbeAck(Message):
    """Answer to `ProbePlaces`: the sender is alive. Leave messages of places it has left are sent
    apart.
    """

    wire = 0x0B0A


class ListSpan(Message):
    """A list of one place, as keys clockwise, sent to another place of the same ring."""

    place: Key
    """The key of the place that the list is sent to."""
    owner: Certificate
    level: Flag
    keys: Keys
    full: bool


class CompareLists(Message):
    """Asks neighbours to compare these lists with theirs."""

    wire = 0x0B0B
    spans: Annotated[tuple[ListSpan, ...], Meta(max_length=SPANS_MAX)]


class ListDifference(Message):
    """How a list sent by `owner` differs from that of `place`: nodes that it lacks, and keys that
    are unknown to `place`. Both empty: the lists agree.
    """

    owner: Key
    place: Key
    level: Flag
    lacking: Named = ()
    unknown: Keys = ()


class ListDifferences(Message):
    """Answer to `CompareLists`, one entry for each list compared."""

    wire = 0x0B0C
    differences: Annotated[tuple[ListDifference, ...], Meta(max_length=SPANS_MAX)]


GRAPH_KINDS: tuple[type[Message], ...] = (
    AskNeighbours,
    Neighbours,
    AnnouncePlace,
    ClaimAck,
    LeavePlace,
    LeaveGraph,
    DenyPlaces,
    SuspicionReport,
    ProbePlaces,
    ProbeAck,
    CompareLists,
    ListDifferences,
)
"""Message kinds of the graph, for the codec of a design."""


class GraphRequestDue(Message):
    """Fires when a request of the graph may be due for a retry."""


class PlacesProbeDue(StandingAlarm):
    """Fires when the planned probes of places are to be sent."""


class CompareDue(StandingAlarm):
    """Fires when an anti-entropy round is due."""


class GraphWatchDue(StandingAlarm):
    """Fires when neighbours of the home place are to be checked and lost peers probed."""


class RefreshEntryDue(StandingAlarm):
    """Fires when one more entry is to be asked for its lists."""


class SuspicionReportDue(StandingAlarm):
    """Fires when newly lost peers are to be reported to the contacts."""


def denial_verb(places: tuple[bytes, ...]) -> bytes:
    """The verb of a claim that denies these places."""
    return b"disown" + _encode(places)


def claim_body(verb: bytes, certificate: Certificate, sent_us: int) -> bytes:
    return verb + _encode((certificate.key, certificate.serial, sent_us))


def claim(signer: Signer, verb: bytes, certificate: Certificate, now_us: int) -> Claim:
    """A signed claim. The signature covers the verb, so that a request cannot be turned into a
    leave message.
    """
    return Claim(certificate, now_us, signer.sign(claim_body(verb, certificate, now_us)))
