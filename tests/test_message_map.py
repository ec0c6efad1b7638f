"""The map of messages in ARCHITECTURE.md is what the code says."""

import importlib.util
from pathlib import Path

from implicast.casting.designs import designs

TOOL = Path(__file__).parents[1] / "tools" / "message_map.py"


def loaded():
    spec = importlib.util.spec_from_file_location("message_map", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tool = loaded()


def test_the_map_is_what_the_code_says():
    assert tool.page() == tool.PAGE.read_text("utf-8"), "run: python tools/message_map.py"


def test_every_kind_of_every_design_is_on_the_map_once_with_its_number():
    rows = [line for line in tool.table().splitlines() if line.startswith("| 0x")]
    kinds = {kind for design in designs().values() for kind in design.kinds}

    assert len(rows) == len(kinds)
    for kind in kinds:
        assert sum(f"| {kind.wire:#06x} | `{kind.__name__}` |" in row for row in rows) == 1


def test_the_map_names_the_part_that_handles_a_kind():
    (row,) = [line for line in tool.table().splitlines() if "| `NotifyAck` |" in line]

    assert "`Notifier`" in row
