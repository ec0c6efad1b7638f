"""Writes `packaging/grafana/implicast.json`, the Grafana dashboard of Implicast nodes.

python tools/dashboard.py
"""

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "packaging" / "grafana" / "implicast.json"
PANELS = (
    (
        "Nodes in the network",
        "short",
        {"joined": "sum(implicast_joined)", "scraped": "count(implicast_joined)"},
    ),
    ("Casts made per second", "ops", {"{{instance}}": "rate(implicast_casts_total[5m])"}),
    ("Deliveries per second", "ops", {"{{instance}}": "rate(implicast_delivered_total[5m])"}),
    (
        "Final receipts by outcome",
        "ops",
        {"{{outcome}}": "sum by (outcome) (rate(implicast_receipts_total[5m]))"},
    ),
    (
        "Time to the final receipt",
        "s",
        {
            "median": "histogram_quantile(0.5, sum by (le) (rate(implicast_receipt_seconds_bucket[5m])))",
            "p99": "histogram_quantile(0.99, sum by (le) (rate(implicast_receipt_seconds_bucket[5m])))",
        },
    ),
    (
        "Messages per second",
        "ops",
        {"{{direction}}": "sum by (direction) (rate(implicast_messages_total[5m]))"},
    ),
    (
        "Bytes per second",
        "Bps",
        {"{{direction}}": "sum by (direction) (rate(implicast_bytes_total[5m]))"},
    ),
    (
        "Messages dropped per second",
        "ops",
        {"{{reason}}": "sum by (reason) (rate(implicast_dropped_total[5m]))"},
    ),
    (
        "Refused connections per second",
        "ops",
        {"{{reason}}": "sum by (reason) (rate(implicast_refused_connections_total[5m]))"},
    ),
    ("Open messages in inboxes", "short", {"{{instance}}": "implicast_inbox_open"}),
    ("Casts with an open receipt", "short", {"{{instance}}": "implicast_outbox_open"}),
    ("Free disk", "bytes", {"{{instance}}": "implicast_disk_free_bytes"}),
    ("Certificate", "d", {"{{instance}}": "implicast_certificate_days_left"}),
    ("Clock offset", "s", {"{{instance}}": "implicast_clock_offset_seconds"}),
    ("Losses of disks", "short", {"{{instance}}": "implicast_losses"}),
)
"""Title, unit, and expression by legend."""
WIDTH, HEIGHT = 8, 7


def dashboard() -> dict[str, Any]:
    return {
        "title": "Implicast",
        "uid": "implicast",
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": [{"name": "source", "type": "datasource", "query": "prometheus"}]},
        "panels": [_panel(number, *each) for number, each in enumerate(PANELS)],
    }


def _panel(number: int, title: str, unit: str, expressions: dict[str, str]) -> dict[str, Any]:
    column, row = number % 3, number // 3
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": title,
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "expr": expression, "legendFormat": legend}
            for at, (legend, expression) in enumerate(expressions.items())
        ],
    }


if __name__ == "__main__":
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps(dashboard(), indent=1) + "\n", "utf-8")
