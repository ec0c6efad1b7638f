"""Signed words on a network: a node's own key, and the authority's word on it, which lies in the node's certificate.

The certificate carries an extension: that the name belongs to the network, what the network protects, and what this
name may say of itself. So whatever renews a certificate renews these too.

    authority.toml in the authority's folder:
        [protected]
        "role" = "roster"        an attribute whose values the authority allows, name by name
        "staff:*" = "roster"     tags that begin so, likewise
"""

import tomllib
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from implicast.casting.telling import Got
from implicast.language.parameters import Parameters
from implicast.language.target import Description
from implicast.net.identity import IdentityError, own_key, root_key
from implicast.peer.contract import Address, Host, Message, Name
from implicast.peer.memory import Recent
from implicast.peer.signatures import Ed25519, Signer
from implicast.peer.wire import UNREADABLE
from implicast.peer.words import BELIEVED, Charter, Right, SignedWords, Words, admission

COMMISSION = x509.ObjectIdentifier("1.3.6.1.4.1.60000.17.1")
SOUND_MAX = 8_192
DIGEST_BYTES = 32
"""Signatures that the nodes of a process remember to have checked, and the bytes that stand for what was signed."""
TEMPLATE = """\
# What members may say of themselves only with this authority's word, given by `implicast authority allow`:
# names of attributes, and prefixes of tags with a star behind them. Certificates issued from now on say so.
[protected]
# "role" = "roster"
# "staff:*" = "roster"
"""


class Commission(Message):
    """What the authority says in a certificate about the words of its holder."""

    member: bytes
    """That its name belongs to the network (`admission`)."""
    protected: tuple[str, ...] = ()
    rights: tuple[Right, ...] = ()


def protected_by(folder: Path) -> tuple[str, ...]:
    """What an authority protects, as its `authority.toml` says; nothing without one."""
    path = folder / "authority.toml"
    try:
        given = tomllib.loads(path.read_text()).get("protected", {})
    except FileNotFoundError:
        return ()
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise IdentityError(f"{path} cannot be read: {error}") from None
    if not isinstance(given, dict) or any(value != "roster" for value in given.values()):
        raise IdentityError(f'{path}: [protected] has lines like "role" = "roster", and no others')
    return tuple(sorted(given))


def commission(
    key: Ed25519PrivateKey,
    name: Name,
    until_us: int,
    protected: tuple[str, ...],
    said: list[Description],
) -> x509.UnrecognizedExtension:
    """The extension of a certificate: the name belongs to the network, and may say these things of itself."""
    authority = Ed25519().signer(key.private_bytes_raw())
    charter = Charter.of(authority.public, protected)
    rights = []
    for attribute, value in dict.fromkeys(each for one in said for each in charter.protected(one)):
        bare = Right(attribute, value, until_us, b"")
        rights.append(msgspec.structs.replace(bare, signature=authority.sign(bare.text(name))))
    word = Commission(admission(authority, name, until_us), protected, tuple(rights))
    return x509.UnrecognizedExtension(COMMISSION, msgspec.msgpack.encode(word))


def commission_in(certificate: x509.Certificate) -> Commission | None:
    """What a certificate says about its holder's words; None: it was issued before words were signed."""
    try:
        found = certificate.extensions.get_extension_for_oid(COMMISSION).value
        assert isinstance(found, x509.UnrecognizedExtension), "nobody recognizes it but this module"
        return msgspec.msgpack.decode(found.value, type=Commission)
    except (x509.ExtensionNotFound, *UNREADABLE):
        return None


class SharedChecks:
    """Ed25519 for all nodes of one process: a signature that one of them found sound is not worked out again by the
    others. A cast to many who live here is checked once; what is not sound is never remembered."""

    name = "ed25519"

    def __init__(self) -> None:
        self._scheme, self._lock = Ed25519(), Lock()
        self._sound: Recent[bytes, None] = Recent(SOUND_MAX)

    def signer(self, seed: bytes) -> Signer:
        return self._scheme.signer(seed)

    def verify(self, public: bytes, data: bytes, signature: bytes) -> bool:
        checked = blake2b(data, key=public[:64], digest_size=DIGEST_BYTES).digest() + signature
        if checked in self._sound:
            return True
        if not self._scheme.verify(public, data, signature):
            return False
        with self._lock:
            self._sound[checked] = None
        return True


SHARED = SharedChecks()


class Unsigned(Message):
    """A message that this node signs when it leaves."""

    words: Any
    message: Message

    def said(self) -> Message:
        said: Message = SignedWords.say(self.words, self.message)
        return said


class LateWords(SignedWords):
    """Signs confirmations when they leave: they wait for the disk, and what has come in the meantime need not wait for
    their signatures."""

    __slots__ = ()

    def say(self, message: Message) -> Message:
        return Unsigned(self, message) if isinstance(message, Got) else super().say(message)

    def _is_by(self, public: bytes, text: bytes, signature: bytes) -> bool:
        """What this node signed last need not be checked: a publisher may be among those whom its cast selects."""
        is_own = self._last == (text, signature) and public == self._signer.public
        return is_own or super()._is_by(public, text, signature)


def words_of(
    folder: Path,
    parameters: Parameters,
    host: Host,
    address: Address,
    network: bytes,
    late: bool = False,
) -> Words:
    """How the node of a folder speaks; `late`: whoever sends what it says has it signed then (`Unsigned`)."""
    if not parameters.get("signed"):
        return BELIEVED
    if parameters.get("signatures") != "ed25519":
        raise IdentityError("on a network signatures are real: leave signatures=ed25519")
    signer = Ed25519().signer(own_key(folder / "node.key").private_bytes_raw())
    words = (LateWords if late else SignedWords)(host, address, network, SHARED, signer)
    renew(words, folder, parameters)
    return words


def expel(words: Words, names: set[Name]) -> None:
    """Where words are signed, those of these names are believed no more."""
    if isinstance(words, SignedWords):
        words.expel(names)


def renew(words: Words, folder: Path, parameters: Parameters) -> None:
    """Speak with the certificate that is in the folder now; without one everybody belongs to the network."""
    protected = str(parameters.get("protected", "")).split(",")
    if not isinstance(words, SignedWords):
        return
    if not (folder / "node.pem").exists():
        words.entitle(Charter.of(b"", protected))
        return
    word = commission_in(x509.load_pem_x509_certificate((folder / "node.pem").read_bytes()))
    if word is None:
        how = "the authority issues a new one with `implicast authority issue`, or set signed=false in all nodes"
        raise IdentityError(f"the certificate in {folder} is too old for signed words: {how}")
    authority = root_key(folder / "authority.pem").public_bytes_raw()
    words.entitle(Charter.of(authority, (*protected, *word.protected)), word.member, word.rights)
