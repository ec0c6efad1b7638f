"""What an operator sees: metrics, health, alerts, dashboard, logs, configuration, reload."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from commands import started, typed, wait_until_joined, wait_until_line
from prometheus_client.parser import text_string_to_metric_families

from implicast.net.commands.local import free_ports

ROOT = Path(__file__).parents[2]
RULES = ROOT / "packaging" / "prometheus" / "implicast.rules.yml"
BOARD = ROOT / "packaging" / "grafana" / "implicast.json"
sys.path.append(str(ROOT / "tools"))


def page(port, path="/metrics"):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@contextlib.contextmanager
def watched_node(folder, *words):
    """One node of a new network, with metrics."""
    (port,) = free_ports(1)
    options = ("--network", "lab", "--design", "dht", "--plain", "--set", "signed=false")
    with started("node", folder, *options, "--metrics", port, *words) as process:
        wait_until_joined(folder)
        yield process, port


def names_of(text):
    return {
        sample.name for family in text_string_to_metric_families(text) for sample in family.samples
    }


def expressions():
    rules = [
        line.partition("expr:")[2].strip()
        for line in RULES.read_text().splitlines()
        if "expr:" in line
    ]
    board = json.loads(BOARD.read_text())
    return rules + [each["expr"] for panel in board["panels"] for each in panel["targets"]]


def test_metrics_health_alerts_and_dashboard_agree(tmp_path):
    with watched_node(tmp_path / "ann", "--describe", "jazz") as (_, port):
        deadline = time.monotonic() + 30
        while page(port, "/readyz")[0] != 200:
            assert time.monotonic() < deadline, page(port, "/readyz")
            time.sleep(0.1)
        for _ in range(3):
            typed("cast", "jazz", "-m", "x", "--dir", tmp_path / "ann")
        text = page(port)[1]
        found = {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
        assert page(port, "/healthz") == (200, "ok\n")
        assert page(port, "/inbox")[0] == 404
    assert found["implicast_casts_total",] == 3
    assert found["implicast_receipts_total", "complete"] == 3
    assert found["implicast_receipt_seconds_bucket", "+Inf"] == 3
    assert found["implicast_receipt_seconds_count",] == 3
    assert found["implicast_inbox_open",] == 3
    assert found["implicast_losses",] == 0
    assert found["implicast_disk_free_bytes",] > 0
    named = names_of(text) | {"implicast_certificate_days_left"}
    wanted = {each for line in expressions() for each in re.findall(r"\bimplicast_\w+", line)}
    assert wanted <= named, wanted - named


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_accepts_the_rules():
    subprocess.run(["promtool", "check", "rules", str(RULES)], check=True, capture_output=True)


def test_a_node_that_is_not_in_is_not_ready(tmp_path):
    (port, nobody) = free_ports(2)
    folder = tmp_path / "ann"
    options = ("--network", "lab", "--design", "dht", "--plain", "--set", "signed=false")
    join = ("--join", f"127.0.0.1:{nobody}", "--metrics", port)
    with started("node", folder, *options, *join) as process:
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError):
                code, text = page(port, "/readyz")
                break
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert process.poll() is None
        assert (code, text) == (503, "the node is not in the network\n")
        assert page(port, "/healthz")[0] == 200


def test_logs_can_be_json_and_the_level_is_reloaded(tmp_path):
    folder = tmp_path / "ann"
    with watched_node(folder, "--log-format", "json") as (process, _):
        lines = wait_until_line(process.stderr, "is up")
        assert all(json.loads(each)["level"] in ("info", "warning") for each in lines)
        config = (folder / "node.toml").read_text()
        config = config.replace("payload_max = 16777216", "payload_max = 50000")
        (folder / "node.toml").write_text(config.replace('listen = "', 'listen = "127.0.0.1:1"#'))
        process.send_signal(signal.SIGHUP)
        text = "".join(wait_until_line(process.stderr, "a restart is needed"))
        assert "reloaded: payload_max" in text
        assert "a restart is needed for: listen" in text
        (tmp_path / "large").write_bytes(bytes(60_000))
        went = typed("cast", "jazz", "--file", tmp_path / "large", "--dir", folder, check=False)
        assert went.returncode == 2
        assert "50,000" in went.stderr
        (folder / "node.toml").write_text("network = 7 7")
        process.send_signal(signal.SIGHUP)
        assert "nothing was reloaded" in wait_until_line(process.stderr, "reloaded")[-1]


def test_the_environment_replaces_the_file_and_options_replace_both(tmp_path):
    folder, (one, two) = tmp_path / "ann", free_ports(2)
    options = ("--network", "lab", "--design", "dht", "--plain", "--set", "signed=false")
    with started("node", folder, *options):
        wait_until_joined(folder)
    os.environ["IMPLICAST_LISTEN"] = f"127.0.0.1:{one}"
    os.environ["IMPLICAST_PARAMETERS"] = "{signed = false}"
    try:
        with started("node", folder):
            wait_until_joined(folder)
            assert address(folder) == f"127.0.0.1:{one}"
        with started("node", folder, "--listen", f"127.0.0.1:{two}"):
            wait_until_joined(folder)
            assert address(folder) == f"127.0.0.1:{two}"
        os.environ["IMPLICAST_CASTS_PER_S"] = "many"
        went = typed("node", folder, check=False)
        assert went.returncode == 2
        assert "IMPLICAST_CASTS_PER_S" in went.stderr
    finally:
        for each in ("LISTEN", "PARAMETERS", "CASTS_PER_S"):
            os.environ.pop(f"IMPLICAST_{each}", None)


def address(folder):
    return json.loads(typed("status", "--dir", folder, "--json").stdout)["address"]


def test_the_reference_of_the_configuration_and_the_dashboard_are_those_of_the_code():
    import configuration
    import dashboard

    assert configuration.FILE.read_text("utf-8") == configuration.page()
    assert json.loads(BOARD.read_text("utf-8")) == dashboard.dashboard()
