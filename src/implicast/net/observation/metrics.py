"""Prometheus metrics of a node: `implicast node DIR --metrics PORT`.

The page is computed from the node's counters when it is requested, in the node's event loop. It is
served on loopback unless a host is given. It contains names and counts, never payloads, targets or
descriptions.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)

from implicast.net.config import address_of

REQUEST_BYTES = 8 << 10
REQUEST_S = 5.0
PLAIN = {
    "delivered": ("implicast_delivered", "notices handed to the inbox"),
    "strays": ("implicast_strays", "messages of a kind that is not for this role"),
    "broken": ("implicast_broken", "messages whose handler raised an exception: a bug"),
    "dials": ("implicast_dials", "connections dialled"),
    "accepted": ("implicast_accepted", "connections accepted"),
    "limited": (
        "implicast_limited",
        "messages dropped because a connection exceeded its rate limit",
    ),
    "journal_lost": ("implicast_journal_lost", "rows of the journal that could not be written"),
}
LABELLED = {
    "implicast_messages": ("messages", "direction", {"sent": "sent", "received": "received"}),
    "implicast_bytes": (
        "bytes, frames included",
        "direction",
        {"bytes_sent": "sent", "bytes_received": "received"},
    ),
    "implicast_dropped": (
        "messages dropped by this node",
        "reason",
        {"dropped_queue": "queue", "dropped_unreachable": "gone"},
    ),
    "implicast_refused": (
        "refused frames and connections",
        "what",
        {"refused_frames": "frames", "refused_strangers": "strangers"},
    ),
}
GAUGES = {
    "connections": ("implicast_connections", "open connections"),
    "inbox": ("implicast_inbox", "notices in the inbox"),
    "inbox_open": ("implicast_inbox_open", "notices that are not done"),
    "outbox_open": ("implicast_outbox_open", "casts whose receipt is open"),
    "joined": ("implicast_joined", "1: the node has joined its overlay"),
    "registered": ("implicast_registered", "1: its description is registered"),
    "disk_full": ("implicast_disk_full", "1: the disk is full, nothing is acknowledged"),
    "up_s": ("implicast_up_seconds", "seconds since the node started"),
    "life": ("implicast_life", "incarnation number of the node"),
}


class Counted(Protocol):
    """Provides the status of a node."""

    def status(self) -> dict[str, Any]: ...


class NodeCollector:
    """Converts the status of a node to metrics."""

    def __init__(self, node: Counted) -> None:
        self._node = node

    def collect(self) -> Iterator[Metric]:
        status = self._node.status()
        counters: dict[str, int] = status["counters"]
        named = {
            each: str(status[each]) for each in ("name", "design", "role", "network", "address")
        }
        yield InfoMetricFamily("implicast_node", "identity of the node", value=named)
        for key, (name, about) in PLAIN.items():
            yield CounterMetricFamily(name, about, value=counters.get(key, 0))
        for name, (about, label, keys) in LABELLED.items():
            family = CounterMetricFamily(name, about, labels=[label])
            for key, value in keys.items():
                family.add_metric([value], counters.get(key, 0))
            yield family
        for key, (name, about) in GAUGES.items():
            yield GaugeMetricFamily(name, about, value=float(status[key]))


async def serve(node: Counted, where: str) -> asyncio.Server:
    """Serve `GET /metrics` at a port on loopback, or at HOST:PORT."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(NodeCollector(node))
    host, port = address_of(where)
    return await asyncio.start_server(
        lambda reader, writer: _answer(registry, reader, writer), host, port, limit=REQUEST_BYTES
    )


async def _answer(
    registry: CollectorRegistry, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer one request per connection. Anything but `GET /metrics` gets 404."""
    try:
        async with asyncio.timeout(REQUEST_S):
            head = await reader.readuntil(b"\r\n\r\n")
        verb, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if (verb, path) == (b"GET", b"/metrics"):
            _reply(writer, "200 OK", generate_latest(registry), CONTENT_TYPE_LATEST)
        else:
            _reply(writer, "404 Not Found", b"only GET /metrics is answered\n", "text/plain")
        await writer.drain()
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _reply(writer: asyncio.StreamWriter, status: str, body: bytes, kind: str) -> None:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode() + body)
