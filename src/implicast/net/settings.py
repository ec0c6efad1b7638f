"""What a node starts with: its folder, its configuration, its design and the agreed parameters."""

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

from implicast.casting.designs import OWN_POLICY, Design, design
from implicast.language.attributes import Schema
from implicast.language.parameters import Setting
from implicast.net.config import NodeConfig
from implicast.peer.contract import NAME_BYTES
from implicast.peer.wire import Codec

NETWORK_DEFAULTS: Mapping[str, Setting] = {"signed": True, "signatures": "ed25519"}
"""Design parameters whose default on a network differs from their default in the simulator."""


class NodeSettings:
    """The settings of one node. They do not change while it runs."""

    def __init__(self, directory: Path, config: NodeConfig) -> None:
        self.directory, self.config = directory, config
        self.design: Design = design(config.design)
        self.parameters: Mapping[str, Setting] = self.design.settle(
            {
                **NETWORK_DEFAULTS,
                "casts_per_s": config.casts_per_s,
                "casts_burst": config.casts_burst,
                **config.parameters,
            }
        )
        given = str(self.parameters.get("schema") or "")
        self.schema = Schema.read(given) if given else None
        """The attributes that descriptions and targets may use; None if the network has no schema.
        """
        self.network = network_id(config.network)
        self.codec = Codec(self.design.kinds)
        agreed = {name: value for name, value in self.parameters.items() if name not in OWN_POLICY}
        self.digest = self.codec.digest(self.design.name, agreed)
        """Digest of all on which two nodes must agree."""

    @property
    def is_member(self) -> bool:
        return self.config.role == "member"

    @property
    def has_key(self) -> bool:
        """True if TLS or signing needs a key of this node."""
        return bool(
            not self.config.plain
            or "authority" in self.design.durable_types
            or self.parameters.get("signed")
        )


def network_id(name: str) -> bytes:
    """The identity of the network of this name, in hellos and signatures."""
    return blake2b(name.encode(), person=b"network", digest_size=NAME_BYTES).digest()
