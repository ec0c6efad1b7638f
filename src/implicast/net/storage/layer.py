"""The storage of one node: its database, the durable state in it, and its large payloads."""

import shutil
from pathlib import Path
from typing import Any

from implicast.casting.designs import Design
from implicast.net.storage.blobs import Blobs
from implicast.net.storage.durable_state import DurableStateStore
from implicast.net.storage.files import make_private_folder, tighten
from implicast.net.storage.store import Store


class StorageLayer:
    """Opens the files of a node's folder."""

    def __init__(self, directory: Path, design: Design, role: str) -> None:
        make_private_folder(directory)
        tighten(directory)
        self.store = Store(directory / "node.db")
        self._directory = directory
        self.states = DurableStateStore(self.store, design, role)
        self.blobs = Blobs(directory)

    def status(self) -> dict[str, Any]:
        losses = [each.what for each in self.store.losses]
        return {
            "disk_full": self.store.full,
            "disk_free_bytes": shutil.disk_usage(self._directory).free,
            "losses": losses,
            **self.store.counts(),
        }
