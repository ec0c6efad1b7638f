"""The expiry of a cast, by the commands that a user types."""

import contextlib
import json
import time

import pytest
from commands import started, status, typed, wait_until_joined

LIFETIME_S = 6


def _texts(folder):
    lines = typed("inbox", "--keep", "--dir", folder, "--json").stdout.splitlines()
    return [json.loads(line)["text"] for line in lines]


def _wait_until_registered(folder):
    wait_until_joined(folder)
    deadline = time.monotonic() + 60
    while not status(folder)["registered"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize("design", ["centralised", "dht"])
def test_a_cast_past_its_expiry_is_not_sent_after_a_restart(tmp_path, design):
    """The publisher casts while the other members are down, and is killed. It starts again after one of the
    casts has expired: it resumes the other one only.
    """
    with started("local", 3, "--design", design, "--dir", tmp_path):
        folders = [tmp_path / f"n{number:02}" for number in range(1, 4)]
        for each in folders:
            _wait_until_registered(each)
    every = sorted(each.parent for each in tmp_path.glob("*/node.toml"))
    publisher, member = folders[0], folders[1]
    with contextlib.ExitStack() as running:
        processes = {each: running.enter_context(started("node", each)) for each in every}
        for each in folders:
            _wait_until_registered(each)
        for each in folders[1:]:
            processes[each].kill()
        for text, more in (("late", ("--expires", f"{LIFETIME_S}s")), ("early", ())):
            words = ("cast", "linux", "-m", text, "--wait", 0, *more, "--dir", publisher)
            typed(*words, check=False)
        processes[publisher].kill()
    time.sleep(LIFETIME_S)  # the expiry is a time of the machine's clock
    with contextlib.ExitStack() as running:
        for each in every:
            running.enter_context(started("node", each))
        for each in folders:
            _wait_until_registered(each)
        deadline = time.monotonic() + 60
        while "early" not in _texts(member):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        texts = _texts(member)
        rows = [
            json.loads(line)
            for line in typed("receipts", "--dir", publisher, "--json").stdout.splitlines()
        ]

    assert "late" not in texts
    late = rows[1]
    assert late["open"] == 0, rows
    assert late["uncertain"] > 0, "the publisher does not know all members that it selected"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("5", "write a number with its unit, like 90s, 15m, 12h or 7d"),
        ("x7d", "write a number with its unit"),
        ("31d", "at most 30d"),
        ("0s", "more than 0s"),
    ],
)
def test_a_lifetime_that_is_not_possible_is_refused_in_a_sentence(tmp_path, text, says):
    went = typed("cast", "linux", "-m", "x", "--expires", text, "--dir", tmp_path, check=False)

    assert went.returncode == 2
    assert f"--expires {text}" in went.stderr
    assert says in went.stderr


def test_a_lifetime_in_node_toml_has_the_same_bound(tmp_path):
    (tmp_path / "node.toml").write_text('network = "lab"\nttl_s = 2592001\n')
    went = typed("node", tmp_path, check=False)

    assert went.returncode == 2
    assert "ttl_s = 2.592e+06" in went.stderr
    assert "at most 2592000 seconds (30 days)" in went.stderr
