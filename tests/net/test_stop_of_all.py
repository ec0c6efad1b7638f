"""All nodes of a network stop and start again: they found the network from their own disks.

The nodes run as processes by the command `implicast node`, as an operator runs them.
"""

import contextlib
import json
import random
import signal
import time

import pytest
from commands import started, typed

from implicast.net.commands import control

WHOLE_S = 45
"""Time after the last start within which every member has joined and registered."""


def network(folder, design, count):
    """The folders of a network that has run once."""
    with started("local", count, "--design", design, "--dir", folder):
        folders = [folder / f"n{number:02}" for number in range(1, count + 1)]
        _wait_until_whole(folders)
        _reaches(folders[0], count, "first")
    return folders


def _wait_until_whole(folders):
    deadline = time.monotonic() + WHOLE_S
    while not all(map(_is_registered, folders)):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _is_registered(folder):
    try:
        return next(control.ask(folder, {"do": "status"}))["registered"]
    except (control.ControlError, OSError):
        return False


def _reaches(folder, count, text):
    """The cast reaches all. Whether its receipt is complete is another matter: a network that was
    founded again does not know for a while whether all of its members are back.
    """
    went = typed("cast", "linux", "-m", text, "--dir", folder, "--json", check=False)
    receipt = json.loads(went.stdout)
    assert (receipt["notified"], receipt["expected"]) == (count, count), receipt


OFTEN = [("dht", signal.SIGTERM), ("spice-unloaded", signal.SIGKILL)]
SELDOM = [
    (design, ending)
    for design in ("dht", "condcast", "spice", "spice-unloaded", "bft", "broker", "centralised")
    for ending in (signal.SIGTERM, signal.SIGKILL)
    if (design, ending) not in OFTEN
]


@pytest.mark.parametrize(
    ("design", "ending"),
    [*OFTEN, *(pytest.param(*each, marks=pytest.mark.long) for each in SELDOM)],
)
def test_a_network_of_which_all_nodes_stop_starts_again(tmp_path, design, ending):
    folders = network(tmp_path / "net", design, 3)
    every = sorted(path.parent for path in (tmp_path / "net").glob("*/node.toml"))
    for seed in (1, 2):
        order = random.Random(seed).sample(every, len(every))
        with contextlib.ExitStack() as running:
            nodes = [running.enter_context(started("node", each)) for each in order]
            _wait_until_whole(folders)
            _reaches(folders[seed], 3, f"after {seed}")
            for each in nodes:
                each.send_signal(ending)
                each.wait(timeout=30)
