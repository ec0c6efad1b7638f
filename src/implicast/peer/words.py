"""Signed words: what a peer says of itself, and what it casts, is signed with its key and checked by those who keep it
and by those who are told.

A name is the digest of a public key (`name_of_public`), so whoever shows the key and a signature under it speaks for
the name, and nobody has to be asked. The authority's word that the name belongs to the network travels along: keys that
anybody makes at home say nothing. What is signed begins with what it is about and with the network, so that a signature
fits one text only. Whether a word is newer than another is told by lives, versions and serials that the owner has
signed too: a stranger can neither go back nor push a peer's numbers ahead. A cast says when it was made, and is refused
when it is older than those who heard it remember.

Some things a peer may say of itself only with the authority's word (`Right`): values of protected attributes, and tags
that begin with a protected prefix. Rights travel with the owner's proof.

`Words` believes everything: the kind world, at no cost. `SignedWords` signs and checks. Designs call either at the
points where they keep and deliver, and do not ask which it is.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import Meta

from implicast.language.target import Description, Scalar, Value
from implicast.peer.contract import Address, CastId, Host, Message, Name, Part, Peer, handles
from implicast.peer.fields import Micros, Text
from implicast.peer.memory import Recent
from implicast.peer.name import name_of_public
from implicast.peer.signatures import PUBLIC_BYTES, SIGNATURE_BYTES, Scheme, Signer
from implicast.peer.wire import UNREADABLE

TIME_BYTES = 8
SIGNED_BYTES = PUBLIC_BYTES + SIGNATURE_BYTES
PROOF_BYTES = SIGNED_BYTES + TIME_BYTES + SIGNATURE_BYTES
"""Of a key, a signature under it, and the authority's word on the key: until when, and signed."""
SEAL_BYTES = PROOF_BYTES + TIME_BYTES
"""What a cast is longer by on every step."""
OLDEST_US, EARLIEST_US = 600_000_000, 300_000_000
"""A cast is taken for so long after it was made, and so long before, for clocks differ: together as long as members
remember what they have heard (`HORIZON_US`), so that nothing old is heard twice."""
FOR_EVER_US = (1 << 62) - 1
RIGHTS_MAX = 64
"""Rights that one proof carries."""
CHECKED_MAX = 4_096
"""Signatures that a peer remembers to have checked: a cast comes several times, copies come again and again."""
HIDDEN = "\0"
"""Begins the names of values that carry a proof: no text that people write can name them."""
CHUNK = 240
"""Characters of a proof in one such value."""

Proof = Annotated[bytes, Meta(max_length=1 << 14)]
"""Public key, signature, admission, and rights if there are some."""

_encode = msgspec.msgpack.Encoder().encode
Kind = TypeVar("Kind", bound=type[Message])


class Right(Message):
    """The authority's word that a name may say this of itself. Attribute "": a tag."""

    attribute: Text
    value: Annotated[int, Meta(ge=-(1 << 62), le=1 << 62)] | Text
    until_us: Micros
    signature: Annotated[bytes, Meta(max_length=SIGNATURE_BYTES)]

    def text(self, name: Name) -> bytes:
        """What the authority signs."""
        return _encode(("right", name, self.attribute, self.value, self.until_us))


def admission(authority: Signer, name: Name, until_us: int) -> bytes:
    """The authority's word that a name belongs to its network until then."""
    return until_us.to_bytes(TIME_BYTES, "big") + authority.sign(
        _encode(("member", name, until_us))
    )


_rights = msgspec.msgpack.Decoder(Annotated[tuple[Right, ...], Meta(max_length=RIGHTS_MAX)]).decode


@dataclass(frozen=True, slots=True)
class Charter:
    """What a network's authority protects, and the key under which it signs; no key: everybody belongs to it."""

    authority: bytes = b""
    attributes: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()

    @classmethod
    def of(cls, authority: bytes, protected: Iterable[str]) -> "Charter":
        """`protected`: names of attributes, and prefixes of tags with a star behind them (`staff:*`)."""
        words = [each.strip() for each in protected if each.strip()]
        prefixes = tuple(each[:-1] for each in words if each.endswith("*"))
        return cls(authority, frozenset(each for each in words if not each.endswith("*")), prefixes)

    def protected(self, said: Description) -> list[tuple[str, Scalar]]:
        """What of a description needs a right."""
        tags = [("", tag) for tag in said.tags if self.prefixes and tag.startswith(self.prefixes)]
        return [
            *tags,
            *(
                (each.attribute, each.value)
                for each in said.values
                if each.attribute in self.attributes
            ),
        ]


class Said(Message):
    """A message that speaks for somebody: from whom and where, as it was packed, and the proof."""

    wire = 0x0C10

    kind: Annotated[int, Meta(ge=0, le=0xFFFF)]
    address: Address
    body: Annotated[bytes, Meta(max_length=1 << 20)]
    proof: Proof


PERSONAL: dict[int, tuple[str, msgspec.msgpack.Decoder[Any]]] = {}
"""By number on the wire, the kinds of messages that speak for somebody: the field that says for whom, and how to read
them. Where words are signed they are believed only in a `Said`."""


def personal(speaker: str) -> Callable[[Kind], Kind]:
    """Mark a kind of message as one that speaks for the name in this field."""

    def mark(kind: Kind) -> Kind:
        PERSONAL[kind.wire] = (speaker, msgspec.msgpack.Decoder(kind))
        return kind

    return mark


class Words:
    """Nothing is signed, and everybody believed."""

    __slots__ = ()
    signed: ClassVar[bool] = False

    def seal(self, cast: CastId, about: object, payload: bytes) -> bytes:
        """The payload as it travels with a cast that is `about` a target or a description."""
        return payload

    def opened(self, cast: CastId, about: object, payload: bytes) -> bytes | None:
        """The payload as its publisher wrote it; None: the publisher did not cast this."""
        return payload

    def prove(self, about: tuple[object, ...], said: Description | None = None) -> bytes:
        """Proof that this peer says this; with its rights to what it says of itself."""
        return b""

    def proved(
        self, name: Name, about: tuple[object, ...], proof: bytes, said: Description | None = None
    ) -> bool:
        """Whether this name says this, and may."""
        return True

    def rights_to(self, said: Description) -> tuple[Right, ...]:
        """What the authority has allowed this peer of what it says of itself."""
        return ()

    def is_entitled(self, said: Description) -> bool:
        """Whether that is all that needs to be allowed."""
        return True

    def may(self, name: Name, said: Description, rights: Iterable[Right]) -> bool:
        """Whether the authority lets a name say this of itself, by the rights that it shows."""
        return True

    def say(self, message: Message) -> Message:
        """A message that speaks for this peer, as it is sent."""
        return message

    def evidence(self, message: Message) -> Said | None:
        """With what the one for whom a message speaks has said it; None where nothing is signed."""
        return None

    def vouches(self, message: Message) -> bool:
        """Whether the one for whom a message speaks has said it."""
        return True


class SignedWords(Words):
    """One peer's key, and what it knows to check others by."""

    __slots__ = (
        "_address",
        "_charter",
        "_checked",
        "_expelled",
        "_host",
        "_last",
        "_member",
        "_network",
        "_opened",
        "_rights",
        "_said",
        "_scheme",
        "_signer",
        "name",
        "refused",
    )
    signed: ClassVar[bool] = True

    def __init__(
        self,
        host: Host,
        address: Address,
        network: bytes,
        scheme: Scheme,
        signer: Signer,
        charter: Charter | None = None,
        member: bytes = b"",
        rights: tuple[Right, ...] = (),
    ) -> None:
        """`member`: the authority's word on the key of `signer` (`admission`)."""
        self._host, self._address, self._network = host, address, network
        self._scheme, self._signer = scheme, signer
        self._expelled: set[Name] = set()
        self.entitle(charter or Charter(), member, rights)
        self.name = name_of_public(signer.public)
        self._checked: Recent[bytes, bytes] = Recent(CHECKED_MAX)
        self._last = (b"", b"")
        self._opened: Message | None = None
        self._said: Said | None = None
        self.refused = 0
        """Words that were not those of whom they claimed to be."""

    def entitle(
        self, charter: Charter, member: bytes = b"", rights: tuple[Right, ...] = ()
    ) -> None:
        """From now on speak with this word of the authority, and check others by this charter."""
        self._charter, self._rights = charter, rights
        self._member = member or bytes(TIME_BYTES + SIGNATURE_BYTES)

    def expel(self, names: Iterable[Name]) -> None:
        """These names belong to the network no more, whatever they show."""
        self._expelled |= set(names)

    # --- casts

    def seal(self, cast: CastId, about: object, payload: bytes) -> bytes:
        made = self._host.now_us.to_bytes(TIME_BYTES, "big")
        return self._sign(("cast", self._network, cast, about, made, payload)) + made + payload

    def opened(self, cast: CastId, about: object, payload: bytes) -> bytes | None:
        made, inner = payload[PROOF_BYTES:SEAL_BYTES], payload[SEAL_BYTES:]
        age_us = self._host.now_us - int.from_bytes(made, "big")
        if not -EARLIEST_US <= age_us <= OLDEST_US:
            self.refused += 1
            return None
        is_sound = self._is_signed(
            cast.publisher, ("cast", self._network, cast, about, made, inner), payload
        )
        return inner if is_sound else None

    # --- what a peer says of itself

    def prove(self, about: tuple[object, ...], said: Description | None = None) -> bytes:
        proof = self._sign(("word", self._network, *about))
        rights = self.rights_to(said) if said is not None else ()
        return proof + _encode(rights) if rights else proof

    def proved(
        self, name: Name, about: tuple[object, ...], proof: bytes, said: Description | None = None
    ) -> bool:
        if not self._is_signed(name, ("word", self._network, *about), proof):
            return False
        if said is None or not self._charter.protected(said):
            return True
        try:
            return self.may(name, said, _rights(proof[PROOF_BYTES:]))
        except UNREADABLE:
            return self.may(name, said, ())

    def rights_to(self, said: Description) -> tuple[Right, ...]:
        wanted = self._charter.protected(said)
        return tuple([each for each in self._rights if (each.attribute, each.value) in wanted])

    def is_entitled(self, said: Description) -> bool:
        now_us = self._host.now_us
        given = {
            (each.attribute, each.value) for each in self.rights_to(said) if now_us < each.until_us
        }
        return given.issuperset(self._charter.protected(said))

    def may(self, name: Name, said: Description, rights: Iterable[Right]) -> bool:
        wanted = self._charter.protected(said)
        given = {
            (each.attribute, each.value) for each in rights if wanted and self._holds(name, each)
        }
        self.refused += not given.issuperset(wanted)
        return given.issuperset(wanted)

    def _holds(self, name: Name, right: Right) -> bool:
        text = right.text(name)
        return self._host.now_us < right.until_us and self._is_by(
            self._charter.authority, text, right.signature
        )

    # --- messages that speak for somebody

    def say(self, message: Message) -> Message:
        body = _encode(message)
        about = ("said", self._address, type(message).wire, body)
        return Said(
            type(message).wire,
            self._address,
            body,
            self.prove(about, getattr(message, "description", None)),
        )

    def read(self, sender: Address, said: Said) -> Message | None:
        """What is in it, if the one for whom it speaks has said it, and from where it came; or this peer itself once
        did: then it is shown its own word."""
        speaker, decoder = PERSONAL.get(said.kind, ("", None))
        try:
            message: Any = decoder.decode(said.body) if decoder is not None else None
        except UNREADABLE:
            message = None
        if message is None or (said.address != sender and getattr(message, speaker) != self.name):
            self.refused += 1
            return None
        about = ("said", said.address, said.kind, said.body)
        described = getattr(message, "description", None)
        if not self.proved(getattr(message, speaker), about, said.proof, described):
            return None
        self._opened, self._said = message, said
        found: Message = message
        return found

    def vouches(self, message: Message) -> bool:
        return message is self._opened

    def evidence(self, message: Message) -> Said | None:
        return self._said if message is self._opened else None

    # --- signatures

    def _sign(self, about: tuple[object, ...]) -> bytes:
        text = _encode(about)
        if text != self._last[0]:  # a description is said under each of its tags
            self._last = text, self._signer.sign(text)
        return self._signer.public + self._last[1] + self._member

    def _is_signed(self, name: Name, about: tuple[object, ...], proof: bytes) -> bool:
        public = proof[:PUBLIC_BYTES]
        is_sound = (
            len(proof) >= PROOF_BYTES
            and name_of_public(public) == name
            and name not in self._expelled
            and self._belongs(name, proof)
            and self._is_by(public, _encode(about), proof[PUBLIC_BYTES:SIGNED_BYTES])
        )
        self.refused += not is_sound
        return is_sound

    def _belongs(self, name: Name, proof: bytes) -> bool:
        """Whether the authority admits this name."""
        authority = self._charter.authority
        if not authority:
            return True
        until_us = int.from_bytes(proof[SIGNED_BYTES : SIGNED_BYTES + TIME_BYTES], "big")
        text = _encode(("member", name, until_us))
        is_by = self._is_by(authority, text, proof[SIGNED_BYTES + TIME_BYTES : PROOF_BYTES])
        return is_by and self._host.now_us < until_us

    def _is_by(self, public: bytes, text: bytes, signature: bytes) -> bool:
        """Whether the holder of this key signed this. What was found sound once is not worked out again."""
        digest = blake2b(text, key=public[:64], digest_size=16).digest()
        if self._checked.get(signature) == digest:
            return True
        if not self._scheme.verify(public, text, signature):
            return False
        self._checked[signature] = digest
        return True


BELIEVED = Words()
"""One for all: it keeps nothing."""


class Envelopes(Part):
    """Opens what was said under a signature, and lets the peer decide on what is in it."""

    __slots__ = ("_peer", "_words")

    def __init__(self, peer: Peer, words: SignedWords) -> None:
        super().__init__(peer.address, peer.host)
        self._peer, self._words = peer, words

    @handles(Said)
    def on_said(self, sender: Address, said: Said) -> None:
        message = self._words.read(sender, said)
        if message is None:
            return
        if getattr(message, PERSONAL[said.kind][0]) == self._words.name and sender != self.address:
            self._peer.shown(message)
        else:
            self._peer.receive(sender, message)


def opener(peer: Peer, words: Words) -> Envelopes | None:
    """For a peer whose network signs; None where it does not."""
    return Envelopes(peer, words) if isinstance(words, SignedWords) else None


# --- proofs inside descriptions


def hide(said: Description | None, proof: bytes) -> Description | None:
    """A description with a proof beside its values; without a proof it stays what it is."""
    if not proof:
        return said
    text, bare = b64encode(proof).decode(), said or Description()
    chunks = [text[at : at + CHUNK] for at in range(0, len(text), CHUNK)]
    hidden = [Value(f"{HIDDEN}{number:03d}", chunk) for number, chunk in enumerate(chunks)]
    return Description(bare.tags, (*hidden, *bare.values))


def reveal(said: Description | None) -> tuple[Description | None, bytes]:
    """The description without the proof beside it, None if nothing else is there; and the proof, if there is one."""
    hidden = (
        [] if said is None else [each for each in said.values if each.attribute.startswith(HIDDEN)]
    )
    if said is None or not hidden:
        return said, b""
    values = tuple(each for each in said.values if not each.attribute.startswith(HIDDEN))
    bare = Description(said.tags, values) if said.tags or values else None
    try:
        return bare, b64decode("".join(str(each.value) for each in hidden), validate=True)
    except ValueError:  # no base64, or no ASCII
        return bare, b""
