"""What the places of a skip graph say to each other. Every claim about a place carries its certificate.

`AskNeighbours` and `AnnouncePlace` are signed by the newcomer itself with a time, so nobody can enter a third party
that is not there, and a recorded claim is worthless soon after. `Farewell` likewise: nobody can say it for another.
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
"""Places named in one answer, or in one list; honest ones name 50 to 200. A liar must not keep us checking."""
SPANS_MAX = 64
"""Lists in one comparison; more wait for the next round."""
GREETED_MAX = 256
"""Claims, and places asked after, in one greeting."""
DISOWNED_MAX = 256
"""Places in one word that they are none of the sender's."""
ACCUSED_MAX = 256
"""Addresses in one accusation."""

PRESENT, GONE, ALL_GONE = b"present", b"gone", b"all gone"
"""Verbs of claims."""

Named = Annotated[tuple[Certificate, ...], Meta(max_length=NAMED_MAX)]
Keys = Annotated[tuple[Key, ...], Meta(max_length=NAMED_MAX)]


class Claim(Message):
    """A place speaks for itself at a time."""

    certificate: Certificate
    sent_us: Micros
    signature: Signature


class AskNeighbours(Message):
    """Who is near this claimant, by your lists? `place` is the one asked; empty: any of yours."""

    wire = 0x0B01
    place: Key
    claim: Claim


class Neighbours(Message):
    """The answer: the asked place's k nearest on each side of the claimant, and its lists of their common levels."""

    wire = 0x0B02
    place: Key
    claimant: Key
    nodes: Named


class AnnouncePlace(Message):
    """This claimant has taken its place; enter it where it fits."""

    wire = 0x0B03
    claim: Claim


class NewsHeard(Message):
    """The announcement, or the farewell, arrived."""

    wire = 0x0B04
    claimant: Key


class Farewell(Message):
    """This claimant leaves its place for good."""

    wire = 0x0B05
    verb: ClassVar[bytes] = GONE
    claim: Claim


class Leaving(Message):
    """This claimant leaves with all the places of its key, for good."""

    wire = 0x0B06
    verb: ClassVar[bytes] = ALL_GONE
    claim: Claim


class Disown(Message):
    """These places are none of mine, says who is asked for them, by a claim of its own place at the same address."""

    wire = 0x0B07
    places: Annotated[tuple[Key, ...], Meta(max_length=DISOWNED_MAX)]
    claim: Claim


class Accuse(Message):
    """These are silent towards me. Look for yourself."""

    wire = 0x0B08
    addresses: Annotated[tuple[Address, ...], Meta(max_length=ACCUSED_MAX)]


class Greet(Message):
    """These claimants are here; enter them where they fit among those of your places that are asked after."""

    wire = 0x0B09
    claims: Annotated[tuple[Claim, ...], Meta(max_length=GREETED_MAX)]
    asked: Annotated[tuple[Key, ...], Meta(max_length=GREETED_MAX)]


class Greeted(Message):
    """We are here too. Of places that were left their farewells come apart."""

    wire = 0x0B0A


class ListSpan(Message):
    """A list of one place, as keys clockwise, shown to another place of the same ring."""

    place: Key
    """To whom it is shown."""
    owner: Certificate
    level: Flag
    keys: Keys
    full: bool


class CompareLists(Message):
    """What of these is different with you?"""

    wire = 0x0B0B
    spans: Annotated[tuple[ListSpan, ...], Meta(max_length=SPANS_MAX)]


class Difference(Message):
    """Whom a list that was shown lacks, and whom else it names, by the list of `place`. Nothing: they agree."""

    owner: Key
    place: Key
    level: Flag
    lacking: Named = ()
    unknown: Keys = ()


class Compared(Message):
    """One answer for each list that was shown."""

    wire = 0x0B0C
    differences: Annotated[tuple[Difference, ...], Meta(max_length=SPANS_MAX)]


GRAPH_KINDS: tuple[type[Message], ...] = (
    AskNeighbours,
    Neighbours,
    AnnouncePlace,
    NewsHeard,
    Farewell,
    Leaving,
    Disown,
    Accuse,
    Greet,
    Greeted,
    CompareLists,
    Compared,
)
"""What travels, for the codec of a design."""


class GraphLate(Message):
    """Rings when some question of the graph may have waited long enough."""


class Greeting(StandingAlarm):
    """Rings when those met lately are to be greeted."""


class Agree(StandingAlarm):
    """Rings when lists that changed are to be compared with those of the neighbours."""


class GraphWatch(StandingAlarm):
    """Rings when the nearest are to be looked for if they were silent, and the lost are to be called."""


class Turn(StandingAlarm):
    """Rings when it is the turn of one more entry to be asked for its lists."""


class Accusing(StandingAlarm):
    """Rings when those found silent are to be named to others."""


def disowning(places: tuple[bytes, ...]) -> bytes:
    """The verb of whoever disowns these places."""
    return b"disown" + _encode(places)


def claim_body(verb: bytes, certificate: Certificate, sent_us: int) -> bytes:
    return verb + _encode((certificate.key, certificate.serial, sent_us))


def claim(signer: Signer, verb: bytes, certificate: Certificate, now_us: int) -> Claim:
    """A signed claim. The verb is part of what is signed: a question cannot be turned into a farewell."""
    return Claim(certificate, now_us, signer.sign(claim_body(verb, certificate, now_us)))
