"""Key files for designs whose overlay has its own authority peer (bft).

The authority's folder holds `places.secret`. The node that runs the authority peer has a copy; no
other node does. A member's folder holds `enrolment`: the authority's public key and its signature
on the member's key.
"""

from pathlib import Path
from secrets import token_bytes
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from implicast.language.parameters import Parameters
from implicast.net.errors import IdentityError
from implicast.net.identity.keys import name_of_key, own_key
from implicast.net.identity.signing import SHARED_VERIFIER
from implicast.net.storage.files import open_private, write_private
from implicast.peer.authority import Authority
from implicast.peer.identity import Enrolment
from implicast.peer.signatures import Ed25519
from implicast.space.vector import Vectors

SECRET, ENROLMENT = "places.secret", "enrolment"


def secret_of(folder: Path) -> bytes:
    """The secret of an authority's folder, created if it does not exist."""
    path = folder / SECRET
    if not path.exists():
        with open_private(path, "xb") as file:
            file.write(token_bytes(32))
    return path.read_bytes()


def enrol(authority: Path, node: Path, role: str) -> None:
    """Write the key files of a node: the secret for the node that runs the authority peer, a signed
    enrolment for all others.
    """
    secret = secret_of(authority)
    if role == "authority":
        if not (node / SECRET).exists():
            with open_private(node / SECRET, "xb") as file:
                file.write(secret)
        return
    issuer = Authority(Ed25519(), secret, Vectors(2))
    public = own_key(node / "node.key").public_key()
    enrolment = issuer.enrol(name_of_key(public), public.public_bytes_raw())
    write_private(node / ENROLMENT, msgspec.msgpack.encode((issuer.public, enrolment)))


def credentials_of(folder: Path, role: str, parameters: Parameters) -> Any:
    """The overlay keys of a node, read from its folder."""
    from implicast.casting.bft.settings import AuthorityKeys, MemberKeys

    if parameters.get("signatures") != "ed25519":
        raise IdentityError("a network needs real signatures: leave signatures=ed25519")
    try:
        if role == "authority":
            return AuthorityKeys(SHARED_VERIFIER, (folder / SECRET).read_bytes())
        public, enrolment = msgspec.msgpack.decode(
            (folder / ENROLMENT).read_bytes(), type=tuple[bytes, Enrolment]
        )
    except (OSError, msgspec.MsgspecError):
        how = "the authority enrols it with `implicast authority issue`"
        raise IdentityError(f"{folder} is not enrolled: {how}") from None
    key: Ed25519PrivateKey = own_key(folder / "node.key")
    return MemberKeys(
        SHARED_VERIFIER, SHARED_VERIFIER.signer(key.private_bytes_raw()), public, enrolment
    )
