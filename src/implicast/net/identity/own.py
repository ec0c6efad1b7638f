"""The name and the incarnation of a node."""

import secrets
from pathlib import Path
from random import Random

from implicast.net.identity.keys import name_of_key, own_key
from implicast.net.storage.store import Store
from implicast.peer.contract import NAME_BYTES, Incarnation, Name
from implicast.peer.name import next_incarnation

INCARNATION_KEY = "life"
"""Key of the incarnation in the node's database. Existing files use it: do not change it."""


class OwnIdentity:
    """The name of one node, and the incarnation that it starts with this object."""

    def __init__(self, directory: Path, store: Store, has_key: bool) -> None:
        """The name is the digest of the node's public key. With `has_key` false, neither TLS nor
        signing needs a key: the name is random and stored in the database.
        """
        self._store = store
        self.name: Name = (
            name_of_key(own_key(directory / "node.key").public_key())
            if has_key
            else _stored_name(store)
        )
        last = int.from_bytes(store.get(INCARNATION_KEY) or b"", "big")
        self.incarnation: Incarnation = next_incarnation(last, Random(secrets.randbits(64)))
        self.advance(self.incarnation)

    def advance(self, incarnation: Incarnation) -> None:
        """Continue as this incarnation. The number is committed before this returns."""
        self.incarnation = incarnation
        self._store.put_now(INCARNATION_KEY, incarnation.to_bytes(8, "big"))


def _stored_name(store: Store) -> Name:
    name = store.get("name")
    if name is None:
        name = secrets.token_bytes(NAME_BYTES)
        store.put_now("name", name)
    return name
