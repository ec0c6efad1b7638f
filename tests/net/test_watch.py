"""`implicast watch`, by Textual's own pilot: over a real network, and over sights made up for what is rare."""

import asyncio

import pytest
from textual.widgets import DataTable

from implicast.net.commands.live_check import run_in_thread
from implicast.net.commands.local import InProcessNodes, LocalNetwork, MemberSpec
from implicast.net.commands.locations import LocationError
from implicast.net.commands.snapshot import NetworkSnapshot, folders, take_snapshot
from implicast.net.commands.watch import WatchApp, cast_cells, node_cells

PEOPLE = [MemberSpec("ann", "samba"), MemberSpec("bob", "jazz"), MemberSpec("cy", "jazz, chess")]
COUNTED = {"sent": 5, "dropped_queue": 1, "dropped_unreachable": 2}
NODE = {
    "node": "ann",
    "up": True,
    "at": 0.0,
    "role": "member",
    "joined": True,
    "registered": True,
    "disk_full": False,
    "connections": 3,
    "inbox_open": 1,
    "outbox_open": 0,
    "sent_per_s": 2.5,
    "queued": 0,
    "counters": COUNTED,
}
CAST = {"node": "ann", "life": 1, "serial": 1, "target": "jazz", "made_us": 1_700_000_000_000_000}


def text(cells):
    return " ".join(str(each) for each in cells)


def table(app, name):
    found = app.query_one(f"#{name}", DataTable)
    return [text(found.get_row_at(row)) for row in range(found.row_count)]


async def until(pilot, is_so):
    for _ in range(200):
        await pilot.pause(0.05)
        if is_so():
            return
    raise AssertionError("it never came to that")


def test_a_network_its_casts_and_a_node_that_goes_down(tmp_path):
    async def story():
        local = LocalNetwork(tmp_path / "net", "centralised", PEOPLE, plain=True, limits=False)
        local.create_folders()
        tasks = InProcessNodes(local)
        await tasks.start_all()
        where = folders(tmp_path / "net")
        try:
            before = await run_in_thread(take_snapshot, where)
            await tasks.nodes["ann"].cast("jazz", b"secret")
            snapshot = await run_in_thread(take_snapshot, where, before)
            await tasks.nodes["bob"].stop()
            tasks.tasks.pop("bob").cancel()
            await asyncio.sleep(0.1)
            return snapshot, await run_in_thread(take_snapshot, where, snapshot)
        finally:
            await tasks.stop()

    snapshot, after = asyncio.run(story())

    async def seen():
        app = WatchApp(lambda before: snapshot if before is None else after, every_s=0.2)
        async with app.run_test(size=(140, 40)) as pilot:
            await until(pilot, lambda: app.snapshot is after)
            await pilot.press("p", "down", "down")
            await pilot.pause()
            shown = {name: table(app, name) for name in ("nodes", "casts", "peers")}
            await pilot.press("q")
            return shown, app.export_screenshot()

    shown, picture = asyncio.run(seen())
    states = dict(row.split()[:2] for row in shown["nodes"])
    assert states == {"_server": "server", "ann": "in", "bob": "down", "cy": "in"}
    assert any("jazz" in row and "2 of 2" in row for row in shown["casts"]), shown["casts"]
    assert "secret" not in picture
    assert "<svg" in picture


def test_what_is_rare_is_told():
    assert "down" in text(node_cells({"node": "ann", "up": False}))
    assert "disk full" in text(node_cells({**NODE, "disk_full": True}))
    assert "joining" in text(node_cells({**NODE, "joined": False}))
    assert "registering" in text(node_cells({**NODE, "registered": False}))
    assert text(node_cells({**NODE, "queued": 12_345})).endswith("12,345 B 3")
    assert "running" in text(cast_cells(CAST))
    receipts = {
        **CAST,
        "expected": 4,
        "notified": 2,
        "declined": 1,
        "unreachable": 1,
        "uncertain": 0,
        "open": 0,
    }
    assert "████████░░ 2 of 4" in text(cast_cells(receipts))
    assert "1 declined, 1 unreachable" in text(cast_cells(receipts))
    nobody = {
        **receipts,
        "expected": 0,
        "notified": 0,
        "declined": 0,
        "unreachable": 0,
        "uncertain": 0,
    }
    assert "no member matched" in text(cast_cells(nobody))


def test_the_cursor_stays_and_chooses_whose_connections_are_shown():
    peers = {"ann": [], "bob": [{"name": "ff" * 16, "address": "127.0.0.1:7", "queued": 9}]}
    snapshot = NetworkSnapshot([NODE, {**NODE, "node": "bob"}], [CAST], peers)

    async def story():
        app = WatchApp(lambda before: snapshot, every_s=0.1)
        async with app.run_test(size=(120, 30)) as pilot:
            await until(pilot, lambda: app.snapshot is not None)
            await pilot.press("down")
            await pilot.pause(0.5)
            return table(app, "peers"), app.query_one("#nodes", DataTable).cursor_row

    shown, cursor = asyncio.run(story())
    assert cursor == 1
    assert shown == ["ffffffffffff 127.0.0.1:7 9 B"]


def test_where_there_is_no_network_a_sentence_says_so(tmp_path):
    with pytest.raises(LocationError, match="no network"):
        folders(tmp_path)
