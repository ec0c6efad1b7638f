"""What the places of a skip graph say to each other. Every claim about a place carries its certificate.

`Ask` and `Announce` are signed by the newcomer itself with a time, so nobody can enter a third party that is not
there, and a recorded claim is worthless soon after. `Farewell` likewise: nobody can say it for another.
"""

from typing import ClassVar

import msgspec

from implicast.peer.contract import Address, Message
from implicast.peer.identity import Certificate
from implicast.peer.signatures import Signer

_encode = msgspec.msgpack.Encoder().encode


class Claim(Message):
    """A place speaks for itself at a time."""

    certificate: Certificate
    sent_us: int
    signature: bytes

    def body(self, verb: bytes) -> bytes:
        return claim_body(verb, self.certificate, self.sent_us)


EVERY = -1
"""All levels."""


class Ask(Message):
    """Who is near this claimant, by your lists? `place` is the one asked; empty: any of yours."""

    place: bytes
    claim: Claim
    level: int = EVERY
    """The one level whose list is asked for."""


class Neighbours(Message):
    """The answer: the asked place's k nearest on each side of the claimant, and its lists of their common levels."""

    place: bytes
    claimant: bytes
    nodes: tuple[Certificate, ...]


class Announce(Message):
    """This claimant has taken its place; enter it where it fits."""

    claim: Claim


class Heard(Message):
    """The announcement arrived."""

    claimant: bytes


class Farewell(Message):
    """This claimant leaves its place for good."""

    claim: Claim


class Leaving(Message):
    """This claimant leaves with all the places of its key, for good."""

    claim: Claim


class Disown(Message):
    """I hold no such places, says whoever is asked for them, signed with the key of all its places."""

    places: tuple[bytes, ...]
    sent_us: int
    signature: bytes


class Accuse(Message):
    """These are silent towards me. Look for yourself."""

    addresses: tuple[Address, ...]


class Greet(Message):
    """These claimants are here; enter them where they fit among those of your places that are asked after."""

    claims: tuple[Claim, ...]
    asked: tuple[bytes, ...]


class Greeted(Message):
    """We are here too. Of places that were left their farewells come apart."""


class Span(Message):
    """A list of one place, as keys clockwise, shown to another place of the same ring."""

    place: bytes
    """To whom it is shown."""
    owner: Certificate
    level: int
    keys: tuple[bytes, ...]
    full: bool


class Compare(Message):
    """What of these is different with you?"""

    spans: tuple[Span, ...]


class Difference(Message):
    """Whom a list that was shown lacks, and whom else it names, by the list of `place`. Nothing: they agree."""

    owner: bytes
    place: bytes
    level: int
    lacking: tuple[Certificate, ...] = ()
    unknown: tuple[bytes, ...] = ()


class Compared(Message):
    """One answer for each list that was shown."""

    differences: tuple[Difference, ...]


class Greeting(Message):
    """Rings when those met lately are to be greeted."""

    upkeep: ClassVar[bool] = True


class Unheard(Message):
    """Rings when somebody has not answered what it was shown."""

    upkeep: ClassVar[bool] = True


class Agree(Message):
    """Rings when lists that changed are to be compared with those of the neighbours."""

    upkeep: ClassVar[bool] = True


class Watch(Message):
    """Rings when the nearest are to be looked for if they were silent, and the lost are to be called."""

    upkeep: ClassVar[bool] = True


class Turn(Message):
    """Rings when it is the turn of one more entry to be asked for its lists."""

    upkeep: ClassVar[bool] = True


class Accusing(Message):
    """Rings when those found silent are to be named to others."""

    upkeep: ClassVar[bool] = True


class Insist(Message):
    """Rings when farewells have not been confirmed for a while."""


class Waiting(Message):
    """Rings when questions or announcements have gone unanswered for long enough."""


def claim_body(verb: bytes, certificate: Certificate, sent_us: int) -> bytes:
    return verb + _encode((certificate.key, certificate.serial, sent_us))


def claim(signer: Signer, verb: bytes, certificate: Certificate, now_us: int) -> Claim:
    """A signed claim. The verb is part of what is signed: a question cannot be turned into a farewell."""
    return Claim(certificate, now_us, signer.sign(claim_body(verb, certificate, now_us)))


def disown_body(places: tuple[bytes, ...], sent_us: int) -> bytes:
    return b"disown" + _encode((places, sent_us))


def disown(signer: Signer, places: tuple[bytes, ...], now_us: int) -> Disown:
    return Disown(places, now_us, signer.sign(disown_body(places, now_us)))


PRESENT = b"present"
GONE = b"gone"
ALL_GONE = b"all gone"
