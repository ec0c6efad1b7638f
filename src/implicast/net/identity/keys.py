"""Keys and X.509 certificates of nodes. Each node creates its own Ed25519 key; the authority signs
a certificate for it.

A node's name is the digest of its public key. The certificate has the name as URI `implicast:NAME`
in its subject alternative name. Only the network's authority is trusted, no system roots.
`transport/tls.py` uses the certificates.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import NameOID

from implicast.net.errors import IdentityError
from implicast.net.storage.files import make_private_folder, open_private
from implicast.net.transport.tls import SCHEME
from implicast.peer.contract import Name
from implicast.peer.name import name_of_public

BEFORE = timedelta(minutes=5)
"""Certificates are valid from this long before their issue, because clocks differ."""
VALIDITY = timedelta(days=30)
AUTHORITY_VALIDITY = timedelta(days=3650)


def name_of_key(public: Ed25519PublicKey) -> Name:
    """The name of the node that holds this key."""
    return name_of_public(public.public_bytes_raw())


def new_key(path: Path) -> Ed25519PrivateKey:
    """Create a key in a new file that only its owner may read."""
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    make_private_folder(path.parent)
    with open_private(path, "xb") as file:
        file.write(pem)
    return key


def read_key(path: Path) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except OSError as error:
        raise IdentityError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise IdentityError(f"{path} is not a private key file") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise IdentityError(f"{path} holds a key of another type; expected Ed25519")
    return key


def own_key(path: Path) -> Ed25519PrivateKey:
    """Read the key in a file; create it if there is none."""
    return read_key(path) if path.exists() else new_key(path)


def root_certificate(key: Ed25519PrivateKey, network: str) -> x509.Certificate:
    """The authority's self-signed certificate."""
    subject = x509.Name(
        [x509.NameAttribute(NameOID.COMMON_NAME, f"implicast authority of {network}"[:64])]
    )
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BEFORE)
        .not_valid_after(now + AUTHORITY_VALIDITY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(key, None)
    )


def node_certificate(
    authority: Ed25519PrivateKey,
    root: x509.Certificate,
    public: Ed25519PublicKey,
    serial: int,
    validity: timedelta = VALIDITY,
    extension: Callable[[int], x509.ExtensionType] | None = None,
) -> x509.Certificate:
    """A certificate that binds a key to its name. `extension(until_us)` makes an additional
    extension.
    """
    name = name_of_key(public)
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name.hex())]))
        .issuer_name(root.subject)
        .public_key(public)
        .serial_number(serial)
        .not_valid_before(now - BEFORE)
        .not_valid_after(now + validity)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.UniformResourceIdentifier(SCHEME + name.hex())]),
            critical=False,
        )
    )
    if extension is not None:
        made = made.add_extension(
            extension(int((now + validity).timestamp() * 1e6)), critical=False
        )
    return made.sign(authority, None)


def _usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def root_key(path: Path) -> Ed25519PublicKey:
    """The authority's public key, from its certificate."""
    try:
        key = x509.load_pem_x509_certificate(path.read_bytes()).public_key()
    except (OSError, ValueError) as error:
        raise IdentityError(f"{path} is not an authority's certificate: {error}") from None
    if not isinstance(key, Ed25519PublicKey):
        raise IdentityError(f"{path} holds a key of another type; expected Ed25519")
    return key
