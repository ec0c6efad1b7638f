"""Real processes, really killed: what was accepted is there afterwards, once."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from implicast.net.commands import control
from implicast.net.commands.local import LocalNetwork, NodeProcesses, sample_members, wait_for

CASTS = 12


def texts(folder):
    return [json.loads(note["text"]) for note in control.ask(folder, {"do": "inbox", "keep": True})]


def cast(folder, target, number):
    payload = json.dumps(number).encode().hex()
    return next(
        control.ask(folder, {"do": "cast", "target": target, "payload": payload, "wait": 30}, 60)
    )


@pytest.mark.parametrize("design", ["centralised", "dht"])
def test_a_member_killed_without_warning_has_its_inbox_and_is_reached_again(design, tmp_path):
    local = LocalNetwork(tmp_path / "net", design, sample_members(6), {}, limits=False)
    local.create_folders()
    processes = NodeProcesses(local)
    processes.start_all()
    victim, other = local.folders()[:2]
    try:
        for number in range(CASTS):
            assert cast(other, "gpu & eu & training", number)["notified"] == 1
        processes.kill(victim.name)
        processes.start(victim)
        wait_for([victim], lambda status: bool(status["registered"]))

        assert sorted(texts(victim)) == list(range(CASTS)), "all that was confirmed is there, once"
        assert cast(other, "gpu & eu & training", CASTS)["notified"] == 1
        assert sorted(texts(victim)) == list(range(CASTS + 1))
        assert next(control.ask(victim, {"do": "status"}))["life"] >> 16 == 2
    finally:
        processes.stop()


def test_a_server_killed_without_warning_knows_everybody_when_it_is_back(tmp_path):
    local = LocalNetwork(tmp_path / "net", "centralised", sample_members(6), {}, limits=False)
    local.create_folders()
    processes = NodeProcesses(local)
    processes.start_all()
    (server,) = local.fixtures()
    try:
        processes.kill(server.name)
        processes.start(server)
        wait_for([server], lambda status: bool(status["joined"]))
        receipt = cast(local.folders()[5], "gpu & eu", 1)

        assert (receipt["expected"], receipt["notified"]) == (2, 2)
    finally:
        processes.stop()


def test_nodes_of_a_local_network_do_not_outlive_the_process_that_started_them(tmp_path):
    code = (
        "import sys, time; from pathlib import Path\n"
        "from implicast.net.commands.local import LocalNetwork, NodeProcesses, sample_members\n"
        "members = sample_members(2)\n"
        "local = LocalNetwork(Path(sys.argv[1]), 'centralised', members, {}, True, limits=False)\n"
        "local.create_folders(); processes = NodeProcesses(local); processes.start_all()\n"
        "print(*(each.pid for each in processes.running.values()), flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "net")], stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        pids = [int(each) for each in parent.stdout.readline().split()]
        assert len(pids) == 3
        parent.kill()

    deadline = time.monotonic() + 20
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < deadline, "orphans"
        time.sleep(0.2)


def alive(pid):
    """Runs this process, and is not only waiting to be buried?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
