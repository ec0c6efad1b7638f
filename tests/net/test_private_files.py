"""Folders of nodes and authorities belong to their user alone, whatever the umask."""

import stat

import pytest
from commands import started, typed, wait_until_joined, wait_until_line

from implicast.net.commands.local import free_ports

LARGE = 100_000
"""Bytes of a payload that is stored as a file."""


def wide(folder):
    """Each path below a folder, and the folder itself, whose mode is not 0700 or 0600."""
    return {
        str(path.relative_to(folder)): oct(mode)
        for path in (folder, *folder.rglob("*"))
        if (mode := stat.S_IMODE(path.lstat().st_mode)) != (0o700 if path.is_dir() else 0o600)
    }


def names(folder):
    return {path.name for path in folder.rglob("*")}


def open_to_all(folder):
    for path in folder.rglob("*"):
        path.chmod(0o777 if path.is_dir() else 0o666)
    folder.chmod(0o777)


@pytest.mark.parametrize("design", ["centralised", "bft"])
@pytest.mark.parametrize("in_process", [False, True])
def test_the_files_of_a_local_network_are_private(tmp_path, design, in_process):
    folder, large = tmp_path / "net", tmp_path / "large"
    large.write_bytes(b"x" * LARGE)
    options = ["--in-process"] * in_process
    with started(
        "local", 3, "--design", design, "--dir", folder, "--journal", "--web", *options, umask=0
    ) as network:
        wait_until_line(network.stdout, "Ctrl-C")
        typed("cast", "gpu", "--dir", folder, "--file", large, "--wait", 5, umask=0, check=False)
        typed("inbox", "--dir", folder, "--keep", umask=0)
        assert {"node.db-wal", "node.db-shm", "control.sock", "web.db", "blobs"} <= names(folder)
        assert {"node.key", "node.pem", "authority.key", "local.json", "local.pid"} <= names(folder)
        assert wide(folder) == {}
    assert any(folder.glob("*/journal/*.rows"))
    assert wide(folder) == {}


def made(tmp_path):
    """An authority and a node's folder, made by the commands under umask 000."""
    authority, folder = tmp_path / "authority", tmp_path / "nodes" / "ann"
    typed("authority", "init", authority, "--name", "lab", umask=0)
    typed("authority", "issue", "ann", "--authority", authority, "--node", folder, umask=0)
    client = ("--client", "--authority", authority, "--node", tmp_path / "bob")
    assert typed("authority", "issue", "bob", *client, umask=0).stderr == "", "nothing to tighten"
    typed("authority", "issue", "cy", "--authority", authority, "--node", tmp_path / "cy", umask=0)
    typed("authority", "revoke", "cy", "--authority", authority, umask=0)
    return authority, folder


def test_the_files_of_an_authority_and_its_nodes_are_private(tmp_path):
    authority, folder = made(tmp_path)
    assert {"authority.db", "authority.toml", "places.secret", "revoked"} <= names(authority)
    assert {"standin0", "standin1"} <= names(tmp_path / "bob")
    options = ("--network", "lab", "--design", "dht", "--record", folder / "record")
    with started("node", folder, *options, umask=0) as node:
        wait_until_line(node.stderr, "is up")
        typed("describe", "jazz", "--dir", folder)
        typed("cast", "jazz", "-m", "hello", "--dir", folder)
        assert {"node.db-wal", "node.toml", "node.lock", "record"} <= names(folder)
        for each in (authority, folder, tmp_path / "bob", tmp_path / "cy"):
            assert wide(each) == {}


def test_the_files_of_a_light_client_and_its_stand_in_are_private(tmp_path):
    _, folder = made(tmp_path)
    (port,) = free_ports(1)
    options = ("--network", "lab", "--design", "dht", "--proxy", "--listen", f"127.0.0.1:{port}")
    with started("node", folder, *options, umask=0) as node:
        wait_until_line(node.stderr, "is up")
        client = ("client", tmp_path / "bob", "--network", "lab", "--proxy", f"127.0.0.1:{port}")
        went = typed(*client, "--describe", "jazz", umask=0, check=False)
        assert "1 of 1 proxies run a stand-in" in went.stderr
        assert {"enlisted", "clients"} <= names(folder)
        assert "client.db" in names(tmp_path / "bob")
        assert wide(folder) == {}
        assert wide(tmp_path / "bob") == {}


def test_an_authority_service_keeps_its_files_private(tmp_path):
    authority, _ = made(tmp_path)
    open_to_all(authority)
    with started(
        "authority", "serve", "--authority", authority, "--listen", "127.0.0.1:0", umask=0
    ) as service:
        wait_until_line(service.stderr, "listens at")
        assert "office.key" in names(authority)
        assert wide(authority) == {}


def test_a_folder_with_wider_modes_is_tightened_with_one_log_line(tmp_path):
    _, folder = made(tmp_path)
    options = ("--network", "lab", "--design", "dht", "--journal")
    with started("node", folder, *options, umask=0) as node:
        assert not [line for line in wait_until_line(node.stderr, "is up") if "0700" in line]
    open_to_all(folder)
    with started("node", folder, umask=0) as node:
        lines = wait_until_line(node.stderr, "is up")
        assert len([line for line in lines if "0700" in line and str(folder) in line]) == 1
        assert wide(folder) == {}


def test_a_folder_below_a_node_that_is_not_its_own_keeps_its_modes(tmp_path):
    folder = tmp_path / "ann"
    (folder / "site").mkdir(parents=True, mode=0o755)
    (folder / "site").chmod(0o755)
    outside = tmp_path / "outside"
    outside.write_text("x")
    outside.chmod(0o644)
    (folder / "link").symlink_to(outside)
    with started("node", folder, "--network", "lab", "--design", "dht", "--plain"):
        wait_until_joined(folder)
    assert stat.S_IMODE((folder / "site").stat().st_mode) == 0o755
    assert stat.S_IMODE(outside.stat().st_mode) == 0o644
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
