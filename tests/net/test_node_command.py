"""The command `implicast node`: its metrics server, and its answer to SIGHUP."""

import signal
import socket
import urllib.request

import pytest
from commands import started, status, typed, wait_until_line
from prometheus_client.parser import text_string_to_metric_families

from implicast.net.commands.local import free_ports

NEW = ("--network", "lab", "--design", "dht", "--plain")


def scraped(address):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
        return page.read().decode()


@pytest.mark.parametrize("form", ["{port}", "127.0.0.1:{port}"])
def test_metrics_are_served_at_the_given_port(tmp_path, form):
    (port,) = free_ports(1)
    folder = tmp_path / "ann"
    with started("node", folder, *NEW, "--metrics", form.format(port=port)) as node:
        wait_until_line(node.stderr, "is up")
        text = scraped(f"127.0.0.1:{port}")
    families = {each.name for each in text_string_to_metric_families(text)}
    assert {"implicast_connections", "implicast_joined", "implicast_delivered"} <= families

    with started("node", folder) as node:
        wait_until_line(node.stderr, "is up")
        assert "implicast_joined 1.0" in scraped(f"127.0.0.1:{port}"), "node.toml has the option"


def test_a_busy_metrics_port_is_an_error_of_one_sentence(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        went = typed("node", tmp_path / "ann", *NEW, "--metrics", port, check=False)
    assert went.returncode == 2
    last = went.stderr.splitlines()[-1]
    assert f"metrics cannot be served at {port}: Address already in use" in last
    assert "Traceback" not in went.stderr


def test_a_metrics_option_that_is_no_address_is_not_written_into_node_toml(tmp_path):
    folder = tmp_path / "ann"
    went = typed("node", folder, *NEW, "--metrics", "port", check=False)
    assert went.returncode == 2
    assert "'port' is not an address" in went.stderr
    assert not (folder / "node.toml").exists()


def test_a_node_ignores_sighup(tmp_path):
    folder = tmp_path / "ann"
    with started("node", folder, *NEW) as node:
        wait_until_line(node.stderr, "is up")
        node.send_signal(signal.SIGHUP)
        wait_until_line(node.stderr, "SIGHUP")
        assert status(folder)["joined"]
        assert node.poll() is None


def test_the_help_of_node_says_what_sighup_does():
    assert "SIGHUP" in typed("node", "--help").stdout
