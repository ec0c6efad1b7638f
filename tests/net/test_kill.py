"""Real processes, really killed: what was accepted is there afterwards, once."""

import json

import pytest

from implicast.net import control
from implicast.net.local import Local, Processes, everybody, wait_for

CASTS = 12


def texts(folder):
    return [json.loads(note["text"]) for note in control.ask(folder, {"do": "inbox", "keep": True})]


def cast(folder, target, number):
    payload = json.dumps(number).encode().hex()
    return next(control.ask(folder, {"do": "cast", "target": target, "payload": payload, "wait": 30}, 60))


@pytest.mark.parametrize("design", ["centralised", "dht"])
def test_a_member_killed_without_warning_has_its_inbox_and_is_reached_again(design, tmp_path):
    local = Local(tmp_path / "net", design, everybody(6), {}, limits=False)
    local.lay_out()
    processes = Processes(local)
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
    local = Local(tmp_path / "net", "centralised", everybody(6), {}, limits=False)
    local.lay_out()
    processes = Processes(local)
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
