"""The status of a node as printable values."""

import time
from typing import TYPE_CHECKING, Any

from implicast.net.config import text_of

if TYPE_CHECKING:
    from implicast.net.node import Node


def status_of(node: "Node") -> dict[str, Any]:
    """The status that `implicast status` prints."""
    return {
        "name": node.name.hex(),
        "address": text_of(node.address),
        "design": node.design.name,
        "role": node.config.role,
        "network": node.config.network,
        "life": node.incarnation,
        "joined": node.joined.is_set() or node.config.role != "member",
        "registered": node.registered.is_set(),
        "description": str(node.description) if node.description is not None else None,
        "connections": len(node.pool.connected_nodes()),
        "disk_full": node.store.full,
        "certificate_until": node.credentials.until.isoformat()
        if node.credentials is not None
        else None,
        "fetching": [
            f"{done} of {of} chunks" for done, of in node.payloads.transfers.progress.values()
        ],
        "clients": node.proxy.clients if node.proxy is not None else 0,
        "revocations": node.revocations.number,
        "revoked": node.name in node.revocations.names,
        "clock_offset_s": round(node.clock.offset_s, 3),
        "clock_jumped_s": round(node.clock.jumped_s, 3),
        **node.store.counts(),
        "counters": {
            **node.counters.shown(),
            "strays": node.peer.strays if node.peer is not None else 0,
        },
        "up_s": round(time.monotonic() - node.started, 1),
    }
