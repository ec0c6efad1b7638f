"""Signatures: Ed25519, and a stand-in for large simulations.

The stand-in performs every check with the same sizes (32-byte public keys, 64-byte signatures) and
costs 0.7 us, where Ed25519 costs 33 us to sign and 118 us to verify (`bench/bft.py`). It is a
notary in memory: a signature is a keyed hash under the signer's secret, and the notary, which knows
all secrets, checks it. Code that uses only the `Scheme` interface cannot forge a signature, so
simulated attacks fail for the same reason as real ones. The stand-in proves nothing outside one
process, so it is used only when it is asked for by name.
"""

from hashlib import blake2b
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from implicast.peer.errors import ParameterError

SEED_BYTES = 32
PUBLIC_BYTES = 32
SIGNATURE_BYTES = 64


class Signer(Protocol):
    """Holder of a secret key."""

    @property
    def public(self) -> bytes:
        """The public key, by which signatures are verified."""

    def sign(self, data: bytes) -> bytes:
        """64 bytes that only the holder of the secret key can make."""


class Scheme(Protocol):
    """A signature scheme."""

    name: str

    def signer(self, seed: bytes) -> Signer:
        """The signer whose key pair is derived from 32 secret bytes."""

    def verify(self, public: bytes, data: bytes, signature: bytes) -> bool:
        """Whether the holder of `public` signed exactly this. Malformed input gives False; nothing
        raises.
        """


class _Ed25519Signer:
    __slots__ = ("_key", "public")

    def __init__(self, seed: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = self._key.public_key().public_bytes_raw()

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data)


class Ed25519:
    """Ed25519 (RFC 8032), by the `cryptography` library."""

    name = "ed25519"

    def signer(self, seed: bytes) -> Signer:
        return _Ed25519Signer(seed)

    def verify(self, public: bytes, data: bytes, signature: bytes) -> bool:
        if (
            len(public) != PUBLIC_BYTES
            or len(signature) != SIGNATURE_BYTES
            or public in _SMALL_ORDER
        ):
            return False
        try:
            Ed25519PublicKey.from_public_bytes(public).verify(signature, data)
        except (InvalidSignature, ValueError):
            return False
        return True


_SMALL_ORDER = frozenset(
    bytes.fromhex(point)
    for point in (
        *(low + "00" * 30 + high for low in ("00", "01") for high in ("00", "80")),
        *(low + "ff" * 30 + high for low in ("ec", "ed", "ee") for high in ("7f", "ff")),
        *(
            "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc" + high
            for high in ("05", "85")
        ),
        *(
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03" + high
            for high in ("7a", "fa")
        ),
    )
)
"""Points of order 1 to 8 as public keys. Under such a key one signature fits nearly every text, and
the library accepts it.
"""


class _StandInSigner:
    __slots__ = ("_secret", "public")

    def __init__(self, secret: bytes, public: bytes) -> None:
        self._secret, self.public = secret, public

    def sign(self, data: bytes) -> bytes:
        return blake2b(data, key=self._secret, digest_size=SIGNATURE_BYTES).digest()


class StandIn:
    """Notary in memory: derives any signer's secret from the public key and its own secret."""

    name = "stand-in"

    def __init__(self, notary: bytes) -> None:
        self._notary = notary[:64]
        self._secrets: dict[bytes, bytes] = {}

    def signer(self, seed: bytes) -> Signer:
        public = blake2b(seed, person=b"public", digest_size=PUBLIC_BYTES).digest()
        return _StandInSigner(self._secret(public), public)

    def verify(self, public: bytes, data: bytes, signature: bytes) -> bool:
        secret = self._secrets.get(public) or self._secret(public)
        return blake2b(data, key=secret, digest_size=SIGNATURE_BYTES).digest() == signature

    def _secret(self, public: bytes) -> bytes:
        secret = blake2b(public, key=self._notary, digest_size=SEED_BYTES).digest()
        if len(self._secrets) < SECRETS_MAX:
            self._secrets[public] = secret
        return secret


SECRETS_MAX = 65_536
"""Secrets that the notary caches; others are derived at each use, in 1 us."""

SCHEMES: tuple[str, ...] = ("ed25519", "stand-in")


def scheme(name: str, notary: bytes) -> Scheme:
    """The scheme with this name. `notary` is the stand-in's secret, the same for all peers of a
    network.
    """
    if name == "ed25519":
        return Ed25519()
    if name == "stand-in":
        return StandIn(notary)
    raise ParameterError(
        f"there is no signature scheme {name!r}; choose one of: {', '.join(SCHEMES)}"
    )
