"""The journals of golden runs are equal, column by column, to those in `tests/golden`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from golden_journals import GoldenRun, differences, recorded, runs
from implicast.casting.designs import designs
from implicast.casting.notifier import Notifier

PROGRAM = Path(__file__).parent / "golden_journals.py"


def _checked(run: GoldenRun) -> None:
    lines = differences(run)
    assert not lines, (
        "\n".join(lines) + "\nif the change means to alter these, say so in the commit and run"
        " python tests/golden_journals.py --rewrite"
    )


@pytest.mark.parametrize("run", runs(seeds=[1]), ids=str)
def test_golden_journal(run):
    _checked(run)


@pytest.mark.long
@pytest.mark.parametrize("run", runs(seeds=[2]), ids=str)
def test_golden_journal_of_a_grown_network(run):
    _checked(run)


def test_the_python_form_writes_the_same_journals():
    """One run of each design without compiled modules, in a process of its own: a module chooses
    its form when it is imported. `bft` has more messages, so that its quiet run stands for it.
    """
    chosen = [
        str(GoldenRun(name, "receipts", "quiet" if name == "bft" else "hostile", 1))
        for name in designs()
    ]
    went = subprocess.run(
        [sys.executable, PROGRAM, *[part for run in chosen for part in ("--run", run)]],
        capture_output=True,
        text=True,
        env={**os.environ, "IMPLICAST_CORE": "python"},
    )
    assert went.stdout == "all golden journals are equal\n", went.stdout + went.stderr


def test_every_design_has_golden_journals():
    for name in designs():
        assert set(recorded(name)) == {str(run) for run in runs([name])}


def test_a_changed_message_order_is_seen(monkeypatch):
    """The server notifies the same members in reverse order: only the order of messages changes."""
    tell = Notifier.notify_members
    monkeypatch.setattr(
        Notifier,
        "notify_members",
        lambda self, word, members, *rest: tell(self, word, members[::-1], *rest),
    )

    lines = differences(GoldenRun("centralised", "none", "quiet", 1))

    assert "centralised none quiet 1: sends.receiver differs" in lines


def test_the_command_compares_and_names_an_unknown_design():
    went = subprocess.run(
        [sys.executable, PROGRAM, "centralised", "--seed", "1"], capture_output=True, text=True
    )
    assert (went.returncode, went.stdout) == (0, "all golden journals are equal\n")
    went = subprocess.run([sys.executable, PROGRAM, "chord"], capture_output=True, text=True)
    assert went.returncode == 2
    assert "no design chord; choose from centralised" in went.stderr
