"""Keys of designs that have an authority of their own on the overlay (bft), as files in the folders of nodes.

The authority's folder has `places.secret`; a copy of it is in the folder of the node that plays the authority, and
nowhere else. A member's folder has `enrolment`: the authority's public key and its word on the member's own key.
"""

from os import O_CREAT, O_EXCL, O_WRONLY, fdopen
from os import open as os_open
from pathlib import Path
from secrets import token_bytes
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from implicast.language.parameters import Parameters
from implicast.net.identity import IdentityError, name_of_key, own_key
from implicast.net.speech import SHARED
from implicast.peer.authority import Authority
from implicast.peer.identity import Enrolment
from implicast.peer.signatures import Ed25519
from implicast.space.vector import Vectors

SECRET, ENROLMENT = "places.secret", "enrolment"


def secret_of(folder: Path) -> bytes:
    """The secret of an authority's folder, made when there is none."""
    path = folder / SECRET
    if not path.exists():
        with fdopen(os_open(path, O_WRONLY | O_CREAT | O_EXCL, 0o600), "wb") as file:
            file.write(token_bytes(32))
    return path.read_bytes()


def enrol(authority: Path, node: Path, role: str) -> None:
    """Give the node of a folder what it needs: the secret to one that plays the authority, its word to all others."""
    secret = secret_of(authority)
    if role == "authority":
        if not (node / SECRET).exists():
            with fdopen(os_open(node / SECRET, O_WRONLY | O_CREAT | O_EXCL, 0o600), "wb") as file:
                file.write(secret)
        return
    office = Authority(Ed25519(), secret, Vectors(2))
    public = own_key(node / "node.key").public_key()
    word = office.enrol(name_of_key(public), public.public_bytes_raw())
    (node / ENROLMENT).write_bytes(msgspec.msgpack.encode((office.public, word)))


def credentials_of(folder: Path, role: str, parameters: Parameters) -> Any:
    """The credentials of a node, from its folder."""
    from implicast.casting.bft.settings import AuthorityKeys, MemberKeys

    if parameters.get("signatures") != "ed25519":
        raise IdentityError("on a network signatures are real: leave signatures=ed25519")
    try:
        if role == "authority":
            return AuthorityKeys(SHARED, (folder / SECRET).read_bytes())
        public, word = msgspec.msgpack.decode(
            (folder / ENROLMENT).read_bytes(), type=tuple[bytes, Enrolment]
        )
    except (OSError, msgspec.MsgspecError):
        how = "the authority does that with `implicast authority issue`"
        raise IdentityError(f"{folder} is not enrolled: {how}") from None
    key: Ed25519PrivateKey = own_key(folder / "node.key")
    return MemberKeys(SHARED, SHARED.signer(key.private_bytes_raw()), public, word)
