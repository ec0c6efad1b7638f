"""The page on running a network, followed word by word."""

import subprocess
import sys
from pathlib import Path

import how_to
import pytest
from test_fault_schedules import NAMESPACES, works

HERE = Path(__file__).parent


@pytest.mark.long
@pytest.mark.skipif(works.returncode, reason="no namespaces on this machine")
def test_the_page_on_running_a_network_can_be_followed_word_by_word():
    command = [*NAMESPACES, sys.executable, "how_to.py"]
    went = subprocess.run(
        command, cwd=HERE, capture_output=True, text=True, timeout=600, check=False
    )

    assert went.returncode == 0, went.stdout[-3000:] + went.stderr[-3000:]
    assert went.stdout.count("$ implicast") >= 16


def test_every_block_of_the_page_is_commands_or_the_authoritys_file():
    blocks = list(how_to.typed(how_to.PAGE.read_text()))

    assert [block for block in blocks if isinstance(block, str)] == [
        '[protected]\n"role" = "roster"\n"staff:*" = "roster"\n'
    ]
    assert sum(len(block) for block in blocks if isinstance(block, list)) >= 14
