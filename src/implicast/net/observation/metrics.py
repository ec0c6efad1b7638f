"""Prometheus metrics and health of a node: `implicast node DIR --metrics PORT`.

| path | answer |
|---|---|
| `/metrics` | the metrics |
| `/healthz` | 200 while the node works and its disk takes writes, else 503 |
| `/readyz` | 200 while the node is in the network and its description is registered, else 503 |

The page is computed from the node's counters when it is requested, in the node's event loop. It is
served on loopback unless a host is given. It contains names and counts, never payloads, targets or
descriptions.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from implicast.net.config import address_of

REQUEST_BYTES = 8 << 10
REQUEST_S = 5.0
REASONS = ("version", "network", "design", "revoked", "address", "name", "limit")
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
    "implicast_refused_connections": (
        "refused connections",
        "reason",
        {f"refused_{reason}": reason for reason in REASONS},
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
    "disk_free_bytes": ("implicast_disk_free_bytes", "free bytes of the disk of the node's folder"),
    "clock_offset_s": (
        "implicast_clock_offset_seconds",
        "seconds by which the neighbours' clocks are ahead of this node's",
    ),
    "clock_jumped_s": (
        "implicast_clock_jumped_seconds",
        "seconds by which the machine's clock has jumped since the start",
    ),
    "clients": ("implicast_clients", "light clients that this node serves"),
    "revoked": ("implicast_revoked", "1: this node was revoked"),
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
        lost = len(status["losses"])
        yield GaugeMetricFamily(
            "implicast_losses", "losses of the disk that are not acknowledged", value=lost
        )
        if status["certificate_until"] is not None:
            yield GaugeMetricFamily(
                "implicast_certificate_days_left",
                "days until the certificate expires",
                value=days_until(status["certificate_until"]),
            )
        yield from _cast_metrics(status["casts"])


def days_until(when: str) -> float:
    return (datetime.fromisoformat(when) - datetime.now(UTC)).total_seconds() / 86_400


def _cast_metrics(casts: dict[str, Any]) -> Iterator[Metric]:
    yield CounterMetricFamily("implicast_casts", "casts made by this node", value=casts["made"])
    outcomes = CounterMetricFamily(
        "implicast_receipts", "final receipts of casts of this node", labels=["outcome"]
    )
    for outcome, count in casts["outcomes"].items():
        outcomes.add_metric([outcome], count)
    yield outcomes
    latency = casts["latency_s"]
    bounds = [*map(str, latency["bounds"]), "+Inf"]
    yield HistogramMetricFamily(
        "implicast_receipt_seconds",
        "seconds from a cast of this node to its final receipt",
        buckets=list(zip(bounds, latency["up_to"], strict=True)),
        sum_value=latency["sum"],
    )


async def serve(node: Counted, where: str) -> asyncio.Server:
    """Serve `GET /metrics` at a port on loopback, or at HOST:PORT."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(NodeCollector(node))
    host, port = address_of(where)
    return await asyncio.start_server(
        lambda reader, writer: _answer(node, registry, reader, writer),
        host,
        port,
        limit=REQUEST_BYTES,
    )


async def _answer(
    node: Counted,
    registry: CollectorRegistry,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Answer one request per connection. Any other path gets 404."""
    try:
        async with asyncio.timeout(REQUEST_S):
            head = await reader.readuntil(b"\r\n\r\n")
        verb, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if (verb, path) == (b"GET", b"/metrics"):
            _reply(writer, "200 OK", generate_latest(registry), CONTENT_TYPE_LATEST)
        elif (verb, path) in ((b"GET", b"/healthz"), (b"GET", b"/readyz")):
            why = (unhealthy if path == b"/healthz" else unready)(node.status())
            code = "503 Service Unavailable" if why else "200 OK"
            _reply(writer, code, f"{why or 'ok'}\n".encode(), "text/plain")
        else:
            text = b"GET /metrics, /healthz and /readyz are answered\n"
            _reply(writer, "404 Not Found", text, "text/plain")
        await writer.drain()
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def unhealthy(status: dict[str, Any]) -> str:
    """Why the node does not work; empty if it does."""
    if status["disk_full"]:
        return "the disk is full: nothing is acknowledged"
    return "this node was revoked" if status["revoked"] else ""


def unready(status: dict[str, Any]) -> str:
    """Why no cast reaches the node; empty if casts do."""
    if not status["joined"]:
        return "the node is not in the network"
    if status["description"] is not None and not status["registered"]:
        return "the description is not registered"
    return unhealthy(status)


def _reply(writer: asyncio.StreamWriter, status: str, body: bytes, kind: str) -> None:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode() + body)
