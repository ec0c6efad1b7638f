"""Signatures on registrations and casts: made by the peer they speak for, verified by the peers
that store them and by the members that receive them.

A name is the digest of a public key (`name_of_public`), so a key and a signature under it prove the
name without a lookup. The proof also carries the authority's admission of the name to the network,
because anyone can make a key. Each signed text begins with its purpose and the network's identity,
so that a signature fits one text only. Incarnations, versions and serials are part of the signed
text: another peer can neither replay an older statement as the newest nor advance a peer's numbers.
The signature of a cast covers its expiry (`expiry.py`): no other peer can prolong or shorten it.

Some statements need a right from the authority (`Right`): values of protected attributes, and tags
with a protected prefix. Rights travel with the signer's proof.

`Signing` signs nothing and accepts everything, at no cost. `KeyedSigning` signs and verifies.
Designs call either at the points where they store and deliver, without asking which it is.
"""

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import Meta

from implicast.language.target import Description
from implicast.peer.contract import Address, CastId, Host, Message, Name, Part, Peer, handles
from implicast.peer.expiry import EXPIRY_BYTES, expiry_of, is_current, with_expiry
from implicast.peer.memory import Recent
from implicast.peer.name import name_of_public
from implicast.peer.signatures import PUBLIC_BYTES, SIGNATURE_BYTES, Scheme, Signer
from implicast.peer.trust_policy import TIME_BYTES, Right, TrustPolicy, decode_rights, encode_signed
from implicast.peer.wire import UNREADABLE

SIGNED_BYTES = PUBLIC_BYTES + SIGNATURE_BYTES
PROOF_BYTES = SIGNED_BYTES + TIME_BYTES + SIGNATURE_BYTES
"""Length of a proof without rights: public key, signature, then the authority's admission of the
key (expiry time and signature).
"""
SIGNED_PAYLOAD_BYTES = EXPIRY_BYTES + PROOF_BYTES
"""Bytes in front of the payload of a signed cast: its expiry, and the proof."""
FOR_EVER_US = (1 << 62) - 1
CHECKED_MAX = 4_096
"""Verified signatures that a peer remembers, because casts and copies arrive several times."""

Proof = Annotated[bytes, Meta(max_length=1 << 14)]
"""Public key, signature, admission, and rights if there are any."""

Kind = TypeVar("Kind", bound=type[Message])


class SignedMessage(Message):
    """Envelope of a message that speaks for its signer: kind, the signer's address, the encoded
    message, and the proof.
    """

    wire = 0x0C10

    kind: Annotated[int, Meta(ge=0, le=0xFFFF)]
    address: Address
    body: Annotated[bytes, Meta(max_length=1 << 20)]
    proof: Proof


SIGNED_KINDS: dict[int, tuple[str, msgspec.msgpack.Decoder[Any]]] = {}
"""By wire number, the kinds of messages that speak for a peer: the field with that peer's name, and
the decoder. Where signing is on, they are accepted only inside a `SignedMessage`.
"""


def signed_by(signer_field: str) -> Callable[[Kind], Kind]:
    """Mark a kind of message as speaking for the peer whose name is in this field."""

    def mark(kind: Kind) -> Kind:
        SIGNED_KINDS[kind.wire] = (signer_field, msgspec.msgpack.Decoder(kind))
        return kind

    return mark


class Signing:
    """No signatures: every statement is accepted."""

    __slots__ = ()
    signed: ClassVar[bool] = False

    def sign_payload(self, cast: CastId, about: object, payload: bytes, expiry_us: int) -> bytes:
        """The payload as it is sent with a cast: the expiry, then the payload. `about` is the
        target or the description that is signed with it.
        """
        return with_expiry(expiry_us, payload)

    def verified_payload(
        self, cast: CastId, about: object, carried: bytes, now_us: int
    ) -> bytes | None:
        """The payload as its publisher wrote it; None if the publisher did not make this cast, or
        it has expired.
        """
        return carried[EXPIRY_BYTES:] if is_current(expiry_of(carried), now_us) else None

    def prove(self, about: tuple[object, ...], description: Description | None = None) -> bytes:
        """Proof that this peer makes this statement, with the rights that its description needs."""
        return b""

    def verify_proof(
        self,
        name: Name,
        about: tuple[object, ...],
        proof: bytes,
        description: Description | None = None,
    ) -> bool:
        """Whether this name made this statement and has the rights for it."""
        return True

    def rights_to(self, description: Description) -> tuple[Right, ...]:
        """This peer's rights to protected parts of a description."""
        return ()

    def is_entitled(self, description: Description) -> bool:
        """Whether this peer has all rights that a description needs."""
        return True

    def may(self, name: Name, description: Description, rights: Iterable[Right]) -> bool:
        """Whether the rights shown allow a name to describe itself so."""
        return True

    def sign_message(self, message: Message) -> Message:
        """A message that speaks for this peer, as it is sent."""
        return message

    def evidence(self, message: Message) -> SignedMessage | None:
        """The signed form of a message that was just verified; None where nothing is signed."""
        return None

    def verifies(self, message: Message) -> bool:
        """Whether a message was made by the peer it speaks for. With signatures, only for the
        message that is being handled.
        """
        return True


class KeyedSigning(Signing):
    """One peer's key, and the policy and memory by which it verifies others."""

    __slots__ = (
        "_address",
        "_checked",
        "_expelled",
        "_host",
        "_last",
        "_last_signed",
        "_last_verified",
        "_member",
        "_network",
        "_rights",
        "_scheme",
        "_signer",
        "_trust_policy",
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
        trust_policy: TrustPolicy | None = None,
        member: bytes = b"",
        rights: tuple[Right, ...] = (),
    ) -> None:
        """`member`: the authority's admission of the key of `signer` (`admission`)."""
        self._host, self._address, self._network = host, address, network
        self._scheme, self._signer = scheme, signer
        self._expelled: set[Name] = set()
        self.entitle(trust_policy or TrustPolicy(), member, rights)
        self.name = name_of_public(signer.public)
        self._checked: Recent[bytes, bytes] = Recent(CHECKED_MAX)
        self._last = (b"", b"")
        self._last_verified: Message | None = None
        self._last_signed: SignedMessage | None = None
        self.refused = 0
        """Statements refused because their proof was not valid."""

    def entitle(
        self, trust_policy: TrustPolicy, member: bytes = b"", rights: tuple[Right, ...] = ()
    ) -> None:
        """Use this admission and these rights for own statements, and this policy to verify those
        of others.
        """
        self._trust_policy, self._rights = trust_policy, rights
        self._member = member or bytes(TIME_BYTES + SIGNATURE_BYTES)

    def expel(self, names: Iterable[Name]) -> None:
        """Refuse all further statements of these names."""
        self._expelled |= set(names)

    # --- casts

    def sign_payload(self, cast: CastId, about: object, payload: bytes, expiry_us: int) -> bytes:
        proof = self._sign(("cast", self._network, cast, about, expiry_us, payload))
        return with_expiry(expiry_us, proof + payload)

    def verified_payload(
        self, cast: CastId, about: object, carried: bytes, now_us: int
    ) -> bytes | None:
        expiry_us, inner = expiry_of(carried), carried[SIGNED_PAYLOAD_BYTES:]
        if not is_current(expiry_us, now_us):
            self.refused += 1
            return None
        text = ("cast", self._network, cast, about, expiry_us, inner)
        proof = carried[EXPIRY_BYTES:SIGNED_PAYLOAD_BYTES]
        return inner if self._is_signed(cast.publisher, text, proof) else None

    # --- statements of a peer about itself

    def prove(self, about: tuple[object, ...], description: Description | None = None) -> bytes:
        proof = self._sign(("word", self._network, *about))
        rights = self.rights_to(description) if description is not None else ()
        return proof + encode_signed(rights) if rights else proof

    def verify_proof(
        self,
        name: Name,
        about: tuple[object, ...],
        proof: bytes,
        description: Description | None = None,
    ) -> bool:
        if not self._is_signed(name, ("word", self._network, *about), proof):
            return False
        if description is None or not self._trust_policy.protected(description):
            return True
        try:
            return self.may(name, description, decode_rights(proof[PROOF_BYTES:]))
        except UNREADABLE:
            return self.may(name, description, ())

    def rights_to(self, description: Description) -> tuple[Right, ...]:
        wanted = self._trust_policy.protected(description)
        return tuple([each for each in self._rights if (each.attribute, each.value) in wanted])

    def is_entitled(self, description: Description) -> bool:
        now_us = self._host.now_us
        given = {
            (each.attribute, each.value)
            for each in self.rights_to(description)
            if now_us < each.until_us
        }
        return given.issuperset(self._trust_policy.protected(description))

    def may(self, name: Name, description: Description, rights: Iterable[Right]) -> bool:
        wanted = self._trust_policy.protected(description)
        given = {
            (each.attribute, each.value) for each in rights if wanted and self._holds(name, each)
        }
        self.refused += not given.issuperset(wanted)
        return given.issuperset(wanted)

    def _holds(self, name: Name, right: Right) -> bool:
        text = right.text(name)
        return self._host.now_us < right.until_us and self._is_by(
            self._trust_policy.authority, text, right.signature
        )

    # --- messages that speak for a peer

    def sign_message(self, message: Message) -> Message:
        body = encode_signed(message)
        about = ("said", self._address, type(message).wire, body)
        return SignedMessage(
            type(message).wire,
            self._address,
            body,
            self.prove(about, getattr(message, "description", None)),
        )

    def read(self, sender: Address, signed: SignedMessage) -> Message | None:
        """The message inside, if its signer made it and sent it from its own address; else None. A
        message signed by this peer itself is accepted from any address: another peer shows this
        peer one of its own statements.
        """
        signer_field, decoder = SIGNED_KINDS.get(signed.kind, ("", None))
        try:
            message: Any = decoder.decode(signed.body) if decoder is not None else None
        except UNREADABLE:
            message = None
        if message is None or (
            signed.address != sender and getattr(message, signer_field) != self.name
        ):
            self.refused += 1
            return None
        about = ("said", signed.address, signed.kind, signed.body)
        described = getattr(message, "description", None)
        if not self.verify_proof(getattr(message, signer_field), about, signed.proof, described):
            return None
        self._last_verified, self._last_signed = message, signed
        found: Message = message
        return found

    def verifies(self, message: Message) -> bool:
        return message is self._last_verified

    def evidence(self, message: Message) -> SignedMessage | None:
        return self._last_signed if message is self._last_verified else None

    # --- signatures

    def _sign(self, about: tuple[object, ...]) -> bytes:
        text = encode_signed(about)
        # a description is registered under each of its tags: one signature serves all
        if text != self._last[0]:
            self._last = text, self._signer.sign(text)
        return self._signer.public + self._last[1] + self._member

    def _is_signed(self, name: Name, about: tuple[object, ...], proof: bytes) -> bool:
        public = proof[:PUBLIC_BYTES]
        is_sound = (
            len(proof) >= PROOF_BYTES
            and name_of_public(public) == name
            and name not in self._expelled
            and self._belongs(name, proof)
            and self._is_by(public, encode_signed(about), proof[PUBLIC_BYTES:SIGNED_BYTES])
        )
        self.refused += not is_sound
        return is_sound

    def _belongs(self, name: Name, proof: bytes) -> bool:
        """Whether the proof has a valid admission by the authority. True without an authority."""
        authority = self._trust_policy.authority
        if not authority:
            return True
        until_us = int.from_bytes(proof[SIGNED_BYTES : SIGNED_BYTES + TIME_BYTES], "big")
        text = encode_signed(("member", name, until_us))
        is_by = self._is_by(authority, text, proof[SIGNED_BYTES + TIME_BYTES : PROOF_BYTES])
        return is_by and self._host.now_us < until_us

    def _is_by(self, public: bytes, text: bytes, signature: bytes) -> bool:
        """Whether the holder of this key signed this text. Valid signatures are remembered and not
        verified again.
        """
        digest = blake2b(text, key=public[:64], digest_size=16).digest()
        if self._checked.get(signature) == digest:
            return True
        if not self._scheme.verify(public, text, signature):
            return False
        self._checked[signature] = digest
        return True


UNSIGNED = Signing()
"""Shared by all peers of a network without signatures; it has no state."""


class Envelopes(Part):
    """Verifies signed messages and passes the message inside to its handler."""

    __slots__ = ("_peer", "_signing")

    def __init__(self, peer: Peer, signing: KeyedSigning) -> None:
        super().__init__(peer.address, peer.host)
        self._peer, self._signing = peer, signing

    @handles(SignedMessage)
    def on_signed_message(self, sender: Address, signed: SignedMessage) -> None:
        message = self._signing.read(sender, signed)
        if message is None:
            return
        if (
            getattr(message, SIGNED_KINDS[signed.kind][0]) == self._signing.name
            and sender != self.address
        ):
            self._peer.on_own_statement(message)
        else:
            self._peer.receive(sender, message)


def envelopes_for(peer: Peer, signing: Signing) -> Envelopes | None:
    """The part that opens signed messages; None in a network without signatures."""
    return Envelopes(peer, signing) if isinstance(signing, KeyedSigning) else None
