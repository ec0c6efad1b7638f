"""What makes nodes a service: the unit, word to systemd, logs by the line, completion in the shell."""

import asyncio
import configparser
import logging
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from implicast.cli import main
from implicast.net.commands.local import InProcessNodes, LocalNetwork, MemberSpec
from implicast.net.observation.logs import FORM, OneLine

ROOT = Path(__file__).parents[2]


def installed(directory, scope):
    home = directory / "home"
    home.mkdir()
    environment = {**os.environ, "DESTDIR": str(directory), "SCOPE": scope, "HOME": str(home)}
    environment.pop("XDG_CONFIG_HOME", None)
    script = ["sh", str(ROOT / "tools" / "install-service.sh"), str(Path(sys.executable).parent)]
    subprocess.run(script, env=environment, check=True, capture_output=True)
    (path,) = directory.glob("**/implicast@.service")
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str
    unit.read_string(path.read_text())
    return path, unit


@pytest.mark.parametrize("scope", ["system", "user"])
def test_the_unit_says_what_a_service_must(tmp_path, scope):
    if scope == "system" and os.getuid():
        pytest.skip("only root installs for the machine")
    path, unit = installed(tmp_path, scope)
    service = unit["Service"]
    assert (service["Type"], service["Restart"], service["NoNewPrivileges"]) == (
        "notify",
        "always",
        "yes",
    )
    assert "implicast/%i" in service["StateDirectory"]
    command = service["ExecStart"].split()
    assert (
        os.access(command[0], os.X_OK) or not (Path(sys.executable).parent / "implicast").exists()
    )
    assert command[1:] == ["node", "%S/implicast/%i"]
    assert "@" not in path.read_text().replace("implicast@", "")
    assert (unit["Install"]["WantedBy"] == "multi-user.target") == (scope == "system")
    assert ("User" in service) == (scope == "system")


def test_a_node_tells_systemd_that_it_is_ready_and_logs_by_the_line(tmp_path):
    local = LocalNetwork(tmp_path / "net", "dht", [MemberSpec("ann", "jazz")], plain=True)
    local.create_folders()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind(str(tmp_path / "notify"))
        line.settimeout(60)
        words = [
            sys.executable,
            "-m",
            "implicast",
            "node",
            str(tmp_path / "net" / "ann"),
            "--log",
            "debug",
        ]
        process = subprocess.Popen(
            words,
            env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")},
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert line.recv(200).startswith(b"READY=1\nSTATUS=dht at 127.0.0.1:")
            process.terminate()
            assert line.recv(200) == b"STOPPING=1"
            assert process.wait(30) == 0
        finally:
            process.kill()
    said = process.communicate()[1].splitlines()
    assert any(row.endswith("INFO implicast stopped") for row in said)
    assert all(row[:4].isdigit() and row.split()[2] in ("DEBUG", "INFO", "WARNING") for row in said)


def test_events_are_logged_at_their_level_and_never_what_was_said(tmp_path, caplog):
    async def story():
        local = LocalNetwork(
            tmp_path / "net",
            "centralised",
            [MemberSpec("ann", "jazz"), MemberSpec("bob", "jazz")],
            plain=True,
        )
        local.create_folders()
        tasks = InProcessNodes(local)
        await tasks.start_all()
        try:
            await tasks.nodes["ann"].cast("jazz & !tango", b"hidden words")
        finally:
            await tasks.stop()

    with caplog.at_level(logging.DEBUG, "implicast"):
        asyncio.run(story())
    ours = [record for record in caplog.records if record.name == "implicast"]
    levels = {record.getMessage().split()[0]: record.levelname for record in ours}
    assert levels["notice"] == "DEBUG"
    assert levels["cast"] == levels["joined"] == levels["registered:"] == "INFO"
    assert "hidden" not in caplog.text
    assert "tango" not in caplog.text


def test_a_traceback_is_one_line():
    try:
        raise ValueError("one\ntwo")
    except ValueError:
        record = logging.LogRecord("implicast", logging.ERROR, "", 0, "broke", (), sys.exc_info())
    assert "\n" not in OneLine(FORM).format(record)
    assert "two" in OneLine(FORM).format(record)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_is_given_a_script(shell):
    went = CliRunner().invoke(main, ["completion", shell])
    assert went.exit_code == 0
    assert "_IMPLICAST_COMPLETE" in went.output


def test_commands_and_nodes_are_completed_without_loading_the_laboratory(tmp_path):
    for name in ("n01", "n02", "_server"):
        (tmp_path / "local" / name).mkdir(parents=True)
        (tmp_path / "local" / name / "node.toml").touch()
    environment = {
        **os.environ,
        "_IMPLICAST_COMPLETE": "bash_complete",
        "IMPLICAST_HOME": str(tmp_path),
    }

    def completed(words):
        code = "import sys; from implicast.cli import main\n"
        code += "try: main(prog_name='implicast')\nfinally: print('pyspark' in sys.modules)"
        told = {**environment, "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
        went = subprocess.run(
            [sys.executable, "-c", code], env=told, capture_output=True, text=True, check=False
        )
        return went.stdout.split()

    found = completed("implicast sub")
    assert {"plain,subscribe", "plain,subscriptions", "False"} <= set(found)
    assert completed("implicast cast x --node n")[:2] == ["plain,n01", "plain,n02"]
