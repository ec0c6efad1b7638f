"""Who may import whom: the plan of the house, checked on its code."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "implicast"
LAYERS = ("language", "space", "workload", "peer", "overlay", "casting", "world", "trials", "lab")
MAY = {
    "language": {"language", "space"},
    "space": {"space"},
    "workload": {"workload", "language", "space"},
    "peer": {"peer", "language", "space"},
    "overlay": {"overlay", "peer", "language", "space"},
    "casting": {"casting", "overlay", "peer", "language", "space"},
    "world": {"world", "casting", "overlay", "peer", "workload", "language", "space"},
    "trials": {"trials", "world", "casting", "overlay", "peer", "workload", "language", "space"},
    "lab": {*LAYERS, "net", "cli"},
}
FORBIDDEN = {
    "asyncio",
    "socket",
    "pyspark",
    "time",
    "random",
    "uuid",
    "secrets",
    "datetime",
    "threading",
}
"""Not in rooms below the laboratory; `Random` itself, seeded, is all they may take of `random`."""
SHARED_OVERLAYS = {"links", "detector", "probing"}
"""Rooms inside overlay/ that its siblings share."""
SHARED_CASTING = {
    "central_subscriptions",
    "complaints",
    "designs",
    "inbox",
    "replicated_lists",
    "client_registry",
    "combining",
    "coverage",
    "forwarding",
    "forwarding_once",
    "front_end_client",
    "standing",
    "notifier",
    "open_casts",
}


def modules(room: str) -> list[Path]:
    return sorted((SOURCE / room).rglob("*.py"))


def imports(path: Path) -> list[tuple[str, tuple[str, ...]]]:
    """(module, names) of every import, also those inside functions."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(alias.name, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node.module or "", tuple(alias.name for alias in node.names)))
    return found


def inner(path: Path) -> list[list[str]]:
    """The parts after `implicast.` of every import of ours."""
    return [
        module.split(".")[1:] for module, _ in imports(path) if module.split(".")[0] == "implicast"
    ]


@pytest.mark.parametrize("room", LAYERS)
def test_a_room_imports_only_from_the_rooms_below(room):
    for path in modules(room):
        for parts in inner(path):
            assert not parts or parts[0] in MAY[room], (
                f"{path.relative_to(SOURCE)} imports implicast.{'.'.join(parts)}"
            )


@pytest.mark.parametrize("room", [room for room in LAYERS if room != "lab"])
def test_no_clock_no_socket_no_spark_below_the_laboratory(room):
    for path in modules(room):
        for module, names in imports(path):
            allowed = module == "random" and names == ("Random",)
            assert module.split(".")[0] not in FORBIDDEN or allowed, (
                f"{path.relative_to(SOURCE)} imports {module}"
            )


@pytest.mark.parametrize(
    ("room", "shared"), [("overlay", SHARED_OVERLAYS), ("casting", SHARED_CASTING)]
)
def test_siblings_never_import_each_other(room, shared):
    for path in modules(room):
        own = path.relative_to(SOURCE / room).parts[0].removesuffix(".py")
        for parts in inner(path):
            if parts[:1] == [room] and len(parts) > 1:
                assert parts[1] in shared | {own}, (
                    f"{path.relative_to(SOURCE)} imports its sibling {parts[1]}"
                )


def test_nobody_hashes_or_identifies_by_address():
    """`hash()` changes from process to process and `id()` from run to run."""
    for room in LAYERS[:-1]:
        for path in modules(room):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    assert node.func.id not in ("hash", "id"), (
                        f"{path.relative_to(SOURCE)}:{node.lineno}"
                    )


def test_the_package_works_without_spark():
    code = "import sys; sys.modules['pyspark'] = None; import implicast; implicast.simulate; implicast.Scenario"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_help_and_simulation_need_neither_network_nor_page():
    """`implicast[web]` is an extra: without it everything else works, and the command says what is missing."""
    gone = ("starlette", "uvicorn", "markdown_it", "multipart", "jinja2", "bibtexparser")
    head = f"import sys; sys.modules |= dict.fromkeys({gone!r});"
    commands = "implicast.net.commands.node_cli, implicast.net.commands.local_cli"
    code = f"{head} import implicast.cli, implicast.simulate_cli, {commands}"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    code = f"{head} from implicast.cli import main; sys.argv = ['implicast', 'local', '2', '--web']; main()"
    went = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert "pip install 'implicast[web]'" in went.stderr
    assert went.returncode == 2


ARRAYS = {"numpy", "numba", "scipy", "networkx", "pyarrow"}
"""Libraries that a node's install can do without."""
WITH_ARRAYS = {"overlay/backbone/table.py"}
"""The filters of a broker's table are one NumPy array of bits."""


@pytest.mark.parametrize("room", ["language", "space", "peer", "overlay", "casting", "net"])
def test_a_room_of_nodes_imports_no_library_of_arrays_at_module_level(room: str) -> None:
    found = set()
    for path in sorted((SOURCE / room).rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if ARRAYS & {each.split(".")[0] for each in names}:
                found.add(str(path.relative_to(SOURCE)))

    assert found - WITH_ARRAYS == set()
