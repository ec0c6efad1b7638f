"""Damage of a node's files is noticed, said, and repaired from other nodes as far as they can."""

import contextlib
import json
import os
import signal
import sqlite3
import time

import pytest
from commands import started, status, typed
from damage import CAMPAIGNS, campaign, made, outcome

from implicast.net.commands import control
from implicast.net.storage.store import Store, StoreError

READY_S = 60


@pytest.mark.parametrize("name", CAMPAIGNS)
@pytest.mark.parametrize("count", [12, pytest.param(1_000, marks=pytest.mark.long)])
def test_no_damage_of_a_database_is_silent(name, count):
    hurt, file, share, keep_log = CAMPAIGNS[name]
    counts = campaign(max(4, int(count * share)), hurt, file, keep_log=keep_log)

    assert set(counts) <= {"noticed", "refused", "same"}, counts
    assert name != "flips in the log" or counts["same"] == 0


@pytest.mark.parametrize("file", ["node.db", "node.db-wal", "node.head"])
def test_a_file_that_is_missing_is_noticed(tmp_path, file):
    folder = made(tmp_path / "node")
    (folder / file).unlink()
    if file == "node.db":
        (folder / "node.db-wal").unlink()

    assert outcome(folder, None) == "noticed"


def test_a_database_without_its_log_is_noticed(tmp_path):
    """Only `node.db` comes back from a copy that left the log out."""
    folder = made(tmp_path / "node")
    (folder / "node.db-wal").unlink()
    (folder / "node.db-shm").unlink(missing_ok=True)

    assert outcome(folder, None) == "noticed"


def test_a_damaged_database_is_refused_with_what_to_do_and_salvaged(tmp_path):
    folder = made(tmp_path / "node", keep_log=False)
    path = folder / "node.db"
    data = bytearray(path.read_bytes())
    data[5 * 4096 : 6 * 4096] = bytes(4096)
    path.write_bytes(bytes(data))
    (folder / "node.toml").write_text('network = "lab"\ndesign = "dht"\nplain = true\n')

    with pytest.raises(StoreError, match=r"damaged .*implicast doctor .* --salvage"):
        Store(path)
    went = typed("node", folder, "--plain", check=False)
    assert went.returncode == 2
    assert "Traceback" not in went.stderr
    assert "--salvage" in went.stderr
    assert typed("doctor", folder, check=False).returncode == 2
    typed("doctor", folder, "--salvage", check=False)
    store = Store(path)
    kept = len(store.inbox(open_only=False))
    losses = [each.what for each in store.losses]
    store.close()
    assert 100 < kept <= 240
    assert len(losses) == 1


@contextlib.contextmanager
def network(folder, count):
    with started("local", count, "--design", "dht", "--dir", folder):
        folders = [folder / f"n{number:02}" for number in range(1, count + 1)]
        until_registered(folders)
        yield folders


def until_registered(folders):
    until(lambda: all(map(is_registered, folders)))


def until(true):
    deadline = time.monotonic() + READY_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def is_registered(folder):
    try:
        return next(control.ask(folder, {"do": "status"}))["registered"]
    except (control.ControlError, OSError):
        return False


def texts(folder):
    return [each["text"] for each in control.ask(folder, {"do": "inbox", "keep": True})]


@pytest.mark.long
def test_lost_messages_are_noticed_said_and_delivered_again(tmp_path):
    """A killed node comes back with a flipped bit in its log."""
    with network(tmp_path / "net", 3) as folders:
        pass
    with contextlib.ExitStack() as running:
        nodes = [running.enter_context(started("node", each)) for each in folders]
        until_registered(folders)
        for number in range(12):
            typed("cast", "linux", "-m", f"m{number}", "--dir", folders[0], check=False)
        sent = sorted(f"m{number}" for number in range(12))
        until(lambda: sorted(texts(folders[2])) == sent)
        nodes[2].send_signal(signal.SIGKILL)
        nodes[2].wait(timeout=30)
        log = folders[2] / "node.db-wal"
        data = bytearray(log.read_bytes())
        data[len(data) // 2] ^= 1
        log.write_bytes(bytes(data))

        found = typed("doctor", folders[2], check=False)
        assert found.returncode == 2
        assert "commits are missing" in found.stdout
        again = running.enter_context(started("node", folders[2]))
        until_registered(folders)
        assert "has lost its last" in status(folders[2])["losses"][0]
        until(lambda: sorted(texts(folders[2])) == sent)
        assert sorted(texts(folders[1])) == sent, "no other member receives one twice"

        assert "has lost its last" in typed("doctor", folders[2], check=False).stdout
        went = typed("doctor", folders[2], "--acknowledge", check=False)
        assert went.returncode == 0, went.stdout
        assert "1 losses acknowledged" in went.stderr
        again.send_signal(signal.SIGTERM)
        assert "WARNING implicast the database has lost its last" in again.communicate()[1]


def test_a_backup_of_a_running_node_misses_nothing_that_was_acknowledged(tmp_path):
    with network(tmp_path / "net", 3) as folders:
        backup = tmp_path / "n02.backup"
        for number in range(5):
            typed("cast", "linux", "-m", f"before {number}", "--dir", folders[0], check=False)
        until(lambda: len(texts(folders[1])) == 5)
        about = json.loads(typed("backup", folders[1], backup, "--json").stdout)
        assert about["notices"] == 5
        assert os.stat(backup).st_mode & 0o777 == 0o600
        typed("cast", "linux", "-m", "after", "--dir", folders[0], check=False)

    restored = tmp_path / "restored"
    typed("restore", backup, restored)
    went = typed("restore", backup, restored, check=False)
    assert went.returncode == 2
    assert "--replace" in went.stderr
    typed("restore", backup, restored, "--replace")
    assert (restored / "node.db.old1").exists()
    store = Store(restored / "node.db")
    there = sorted(bytes(row[3]).decode() for row in store.inbox())
    losses = [each.what for each in store.losses]
    store.close()
    assert there == [f"before {number}" for number in range(5)]
    assert len(losses) == 1
    assert losses[0].startswith("restored from a backup of")
    assert (restored / "node.key").read_bytes() == (folders[1] / "node.key").read_bytes()


def test_what_is_no_backup_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "x").write_bytes(b"no archive")
    assert typed("restore", tmp_path / "x", tmp_path / "y", check=False).returncode == 2
    assert typed("backup", tmp_path / "nowhere", tmp_path / "z", check=False).returncode == 2
    assert not (tmp_path / "z").exists()


def test_each_row_carries_a_digest(tmp_path):
    folder = made(tmp_path / "node", keep_log=False)
    db = sqlite3.connect(folder / "node.db")
    counts = [
        db.execute(f"select count(*) from {table} where length(digest) = 8").fetchone()[0]
        for table in ("notices", "outbox", "receipts")
    ]
    db.close()
    assert counts == [240, 60, 60]
