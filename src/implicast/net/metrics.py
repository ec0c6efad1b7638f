"""What a node counts, in the text that Prometheus reads: `implicast node DIR --metrics PORT`.

The page is made when it is asked for, from what the node counts anyway, in the node's own loop: nothing runs beside it.
It answers on loopback unless a host is named, tells names and counts, and never what was said or to whom.
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
    "broken": ("implicast_broken", "messages over which a handler broke down: a bug"),
    "dials": ("implicast_dials", "connections begun"),
    "accepted": ("implicast_accepted", "connections accepted"),
    "limited": ("implicast_limited", "messages dropped because a connection sent more than it may"),
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
        "messages lost here",
        "reason",
        {"dropped_queue": "queue", "dropped_unreachable": "gone"},
    ),
    "implicast_refused": (
        "what was refused",
        "what",
        {"refused_frames": "frames", "refused_strangers": "strangers"},
    ),
}
GAUGES = {
    "connections": ("implicast_connections", "open connections"),
    "inbox": ("implicast_inbox", "notices kept"),
    "inbox_open": ("implicast_inbox_open", "notices that are not done"),
    "outbox_open": ("implicast_outbox_open", "casts whose receipt is open"),
    "joined": ("implicast_joined", "1: the node is part of its overlay"),
    "registered": ("implicast_registered", "1: what it said of itself is complete"),
    "disk_full": ("implicast_disk_full", "1: nothing is confirmed for want of room"),
    "up_s": ("implicast_up_seconds", "since the node started"),
    "life": ("implicast_life", "which life of the node this is"),
}


class Counted(Protocol):
    """What a node tells of itself."""

    def status(self) -> dict[str, Any]: ...


class NodeCollector:
    """Turns the status of a node into metrics."""

    def __init__(self, node: Counted) -> None:
        self._node = node

    def collect(self) -> Iterator[Metric]:
        status = self._node.status()
        counters: dict[str, int] = status["counters"]
        named = {
            each: str(status[each]) for each in ("name", "design", "role", "network", "address")
        }
        yield InfoMetricFamily("implicast_node", "which node this is", value=named)
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
    """Answer `GET /metrics` at a port, or at HOST:PORT."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(NodeCollector(node))
    host, port = address_of(where)
    return await asyncio.start_server(
        lambda reader, writer: _answer(registry, reader, writer), host, port, limit=REQUEST_BYTES
    )


async def _answer(
    registry: CollectorRegistry, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """One request for each connection; whatever is no request for the metrics is refused."""
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
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + body)
