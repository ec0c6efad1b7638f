"""What the room may import, and what a node costs before it does anything."""

import ast
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

ROOM = Path(__file__).parents[2] / "src" / "implicast" / "net"
BELOW = {"net", "peer", "casting", "overlay", "language", "space"}
MAY_LOAD = {
    "_cffi_backend",
    "_openssl",
    "cryptography",
    "implicast",
    "msgspec",
    "numpy",
    "pyroaring",
    "typing_extensions",
}
"""All that a node loads beyond Python's own library."""


def test_the_room_imports_neither_the_world_nor_the_laboratory():
    for path in ROOM.rglob("*.py"):
        allowed = BELOW | (
            {"front", "web", "scenario_cli"} if path.name.endswith("cli.py") else set()
        )
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("implicast."):
                room = (node.module or "").split(".")[1]
                assert room in allowed, f"{path.name} imports {node.module}"


@pytest.mark.parametrize(
    "design", ["centralised", "broker", "dht", "opchord-pubsub", "spice-unloaded"]
)
def test_a_node_starts_light(design):
    code = f"""
import json, resource, sys
import implicast.net.node
from implicast.casting.designs import design
design({design!r})
used = resource.getrusage(resource.RUSAGE_SELF)
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
memory_mb = int(status["VmHWM"].split()[0]) / 1024  # ru_maxrss would count the parent before the fork
loaded = set(name.split(".")[0] for name in sys.modules) - set(sys.stdlib_module_names)
loaded = {{name for name in loaded if "cython" not in name}}  # what compiled modules of ours share, made in memory
heavy = sorted(loaded - {MAY_LOAD!r} - set(("__main__", "__mp_main__", "_distutils_hack")))
print(json.dumps([memory_mb, used.ru_utime + used.ru_stime, heavy]))
"""
    start = partial(
        subprocess.run,
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    took = [json.loads(start().stdout) for _ in range(3)]
    memory_mb, cpu_s, heavy = min(took)

    assert heavy == []
    assert memory_mb < 60
    assert min(each[1] for each in took) < 1.0, (
        f"{cpu_s} s of CPU; half a second when nothing else runs"
    )
