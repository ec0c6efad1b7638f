"""Message signing on a network: the node's own key, and the authority's grant in the node's
certificate.

The certificate carries an extension with the grant: the name is a member of the network, these
attributes and tags are protected, this name may use these protected ones in its description. So
renewing a certificate also renews the grant.

    authority.toml in the authority's folder:
        [protected]
        "role" = "roster"        an attribute whose values the authority allows for each name
        "staff:*" = "roster"     all tags with this prefix, likewise
"""

import tomllib
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from implicast.casting.notifier import NotifyAck
from implicast.language.parameters import Parameters
from implicast.language.target import Description
from implicast.net.errors import IdentityError
from implicast.net.identity.keys import own_key, root_key
from implicast.peer.contract import Address, Host, Message, Name
from implicast.peer.memory import Recent
from implicast.peer.signatures import Ed25519, Signer
from implicast.peer.signing import UNSIGNED, KeyedSigning, Signing
from implicast.peer.trust_policy import Right, TrustPolicy, admission
from implicast.peer.wire import UNREADABLE

GRANT_OID = x509.ObjectIdentifier("1.3.6.1.4.1.60000.17.1")
VERIFIED_MAX = 8_192
DIGEST_BYTES = 32
"""Size of the digest that stands for the signed data in the cache of `VERIFIED_MAX` verified
signatures.
"""
TEMPLATE = """\
# Attributes, and tags by prefix (with a star), that members may use in their descriptions only if
# `implicast authority allow` permits it. Certificates issued from now on contain this list.
[protected]
# "role" = "roster"
# "staff:*" = "roster"
"""


class CertificateGrant(Message):
    """The authority's statement, in a certificate, about what its holder may sign."""

    member: bytes
    """Signature of the authority: the name is a member of the network (`admission`)."""
    protected: tuple[str, ...] = ()
    rights: tuple[Right, ...] = ()


def protected_by(folder: Path) -> tuple[str, ...]:
    """The attributes and tag prefixes that an authority protects, from its `authority.toml`; none
    if there is no such file.
    """
    path = folder / "authority.toml"
    try:
        given = tomllib.loads(path.read_text()).get("protected", {})
    except FileNotFoundError:
        return ()
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise IdentityError(f"{path} cannot be read: {error}") from None
    if not isinstance(given, dict) or any(value != "roster" for value in given.values()):
        raise IdentityError(f'{path}: [protected] may contain only lines like "role" = "roster"')
    return tuple(sorted(given))


def grant_extension(
    key: Ed25519PrivateKey,
    name: Name,
    until_us: int,
    protected: tuple[str, ...],
    allowed: list[Description],
) -> x509.UnrecognizedExtension:
    """The certificate extension that admits a name to the network and allows it these protected
    descriptions.
    """
    authority = Ed25519().signer(key.private_bytes_raw())
    trust_policy = TrustPolicy.of(authority.public, protected)
    rights = []
    for attribute, value in dict.fromkeys(
        each for one in allowed for each in trust_policy.protected(one)
    ):
        bare = Right(attribute, value, until_us, b"")
        rights.append(msgspec.structs.replace(bare, signature=authority.sign(bare.text(name))))
    grant = CertificateGrant(admission(authority, name, until_us), protected, tuple(rights))
    return x509.UnrecognizedExtension(GRANT_OID, msgspec.msgpack.encode(grant))


def grant_in(certificate: x509.Certificate) -> CertificateGrant | None:
    """The grant in a certificate; None if the certificate has no such extension."""
    try:
        found = certificate.extensions.get_extension_for_oid(GRANT_OID).value
        assert isinstance(found, x509.UnrecognizedExtension), (
            "cryptography does not know this extension"
        )
        return msgspec.msgpack.decode(found.value, type=CertificateGrant)
    except (x509.ExtensionNotFound, *UNREADABLE):
        return None


class VerificationCache:
    """Ed25519 with a cache of verified signatures, shared by all nodes of one process. A signature
    that several nodes receive is verified once. Invalid signatures are not cached.
    """

    name = "ed25519"

    def __init__(self) -> None:
        self._scheme, self._lock = Ed25519(), Lock()
        self.verified_signatures: Recent[bytes, None] = Recent(VERIFIED_MAX)

    def signer(self, seed: bytes) -> Signer:
        return self._scheme.signer(seed)

    def verify(self, public: bytes, data: bytes, signature: bytes) -> bool:
        checked = blake2b(data, key=public[:64], digest_size=DIGEST_BYTES).digest() + signature
        if checked in self.verified_signatures:
            return True
        if not self._scheme.verify(public, data, signature):
            return False
        with self._lock:
            self.verified_signatures[checked] = None
        return True


SHARED_VERIFIER = VerificationCache()


class PendingSignature(Message):
    """A message that the driver signs when it sends it."""

    signing: Any
    message: Message

    def signed(self) -> Message:
        signed: Message = KeyedSigning.sign_message(self.signing, self.message)
        return signed


class DeferredSigning(KeyedSigning):
    """Signs acknowledgements when they are sent. They wait for a commit, so signing them at once
    would only delay the inputs that arrive in the meantime.
    """

    __slots__ = ()

    def sign_message(self, message: Message) -> Message:
        return (
            PendingSignature(self, message)
            if isinstance(message, NotifyAck)
            else super().sign_message(message)
        )

    def _is_by(self, public: bytes, text: bytes, signature: bytes) -> bool:
        """Accept the last signature that this node made without verifying it: a publisher may be
        among the members that its cast selects.
        """
        is_own = self._last == (text, signature) and public == self._signer.public
        return is_own or super()._is_by(public, text, signature)


def signing_of(
    folder: Path,
    parameters: Parameters,
    host: Host,
    address: Address,
    network: bytes,
    late: bool = False,
) -> Signing:
    """The signing of the node of a folder. With `late`, acknowledgements are signed when they are
    sent (`PendingSignature`).
    """
    if not parameters.get("signed"):
        return UNSIGNED
    if parameters.get("signatures") != "ed25519":
        raise IdentityError("a network needs real signatures: leave signatures=ed25519")
    signer = Ed25519().signer(own_key(folder / "node.key").private_bytes_raw())
    signing = (DeferredSigning if late else KeyedSigning)(
        host, address, network, SHARED_VERIFIER, signer
    )
    load_grant(signing, folder, parameters)
    return signing


def expel(signing: Signing, names: set[Name]) -> None:
    """Reject everything that these names sign from now on. Without signing this does nothing."""
    if isinstance(signing, KeyedSigning):
        signing.expel(names)


def load_grant(signing: Signing, folder: Path, parameters: Parameters) -> None:
    """Load the grant of the certificate in the folder. Without a certificate every name counts as a
    member.
    """
    protected = str(parameters.get("protected", "")).split(",")
    if not isinstance(signing, KeyedSigning):
        return
    if not (folder / "node.pem").exists():
        signing.entitle(TrustPolicy.of(b"", protected))
        return
    grant = grant_in(x509.load_pem_x509_certificate((folder / "node.pem").read_bytes()))
    if grant is None:
        how = "issue a new one with `implicast authority issue`, or set signed=false in all nodes"
        raise IdentityError(f"the certificate in {folder} has no grant for signing: {how}")
    authority = root_key(folder / "authority.pem").public_bytes_raw()
    signing.entitle(
        TrustPolicy.of(authority, (*protected, *grant.protected)), grant.member, grant.rights
    )
