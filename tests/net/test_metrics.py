"""`node --metrics`: the text is one that Prometheus's own parser reads, and the counts are the node's."""

import asyncio
import socket
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from implicast.net.commands.local import (
    InProcessNodes,
    LocalNetwork,
    MemberSpec,
    StartError,
    free_ports,
    serve_node,
)
from implicast.net.commands.node_cli import notify
from implicast.net.config import read_config, write_config


def scraped(text):
    return {
        (each.name, *each.labels.values()): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }


def laid_out(directory, port):
    local = LocalNetwork(
        directory / "net",
        "centralised",
        [MemberSpec("ann", "jazz"), MemberSpec("bob", "jazz")],
        plain=True,
    )
    local.create_folders()
    config = read_config(directory / "net" / "ann")
    config.metrics = str(port)
    write_config(directory / "net" / "ann", config)
    return local


async def asked(port, request):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    with_end = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return with_end


def test_prometheus_reads_what_the_node_counted(tmp_path):
    (port,) = free_ports(1)

    async def story():
        tasks = InProcessNodes(laid_out(tmp_path, port))
        await tasks.start_all()
        try:
            for _ in range(3):
                await tasks.nodes["bob"].cast("jazz", b"secret words")
            loop = asyncio.get_running_loop()
            page = await loop.run_in_executor(
                None, urllib.request.urlopen, f"http://127.0.0.1:{port}/metrics"
            )
            text = page.read().decode()
            other = await asked(port, b"GET /inbox HTTP/1.1\r\n\r\n")
            junk = await asked(port, b"\0" * 20_000)
            ann = tasks.nodes["ann"]
            return text, other, junk, ann.status(), await tasks.nodes["bob"].cast("jazz")
        finally:
            await tasks.stop()

    text, other, junk, status, after = asyncio.run(story())
    found = scraped(text)
    assert found["implicast_delivered_total",] == 3
    assert found["implicast_inbox_open",] == 3
    assert found["implicast_messages_total", "sent"] <= status["counters"]["sent"]
    assert found["implicast_messages_total", "received"] > 3
    assert found["implicast_joined",] == found["implicast_registered",] == 1
    assert status["name"] in text
    assert "secret" not in text
    assert b"404" in other
    assert junk == b""
    assert after.notified == 2


def test_a_port_that_is_taken_is_said_in_a_sentence(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        laid_out(tmp_path, taken.getsockname()[1])
        with pytest.raises(StartError, match="metrics cannot be served"):
            asyncio.run(serve_node(tmp_path / "net" / "ann"))


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_told_where_it_asked(tmp_path, monkeypatch, abstract):
    name = f"@implicast-{tmp_path.name}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind("\0" + name[1:] if abstract else name)
        line.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        notify("READY=1")
        assert line.recv(100) == b"READY=1"
    notify("READY=1")  # nobody listens any more: no matter
    monkeypatch.delenv("NOTIFY_SOCKET")
    notify("READY=1")
