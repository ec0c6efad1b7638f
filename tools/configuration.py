"""Writes `docs/reference/configuration.md` from the docstrings of `NodeConfig`.

python tools/configuration.py
"""

import ast
import inspect
from pathlib import Path

import msgspec

from implicast.net.config import NodeConfig
from implicast.net.environment import variable_of
from implicast.net.node import RELOADABLE

FILE = Path(__file__).parents[1] / "docs" / "reference" / "configuration.md"
HEAD = """# Configuration of a node

Generated from the code by `python tools/configuration.py`.

`node.toml` in the folder of a node has the keys below. An environment variable replaces the value of the file, and an option of
`implicast node` replaces both and is written into the file: option, environment, `node.toml`, default. In a variable, texts may
be written without quotes and lists with commas (`IMPLICAST_JOIN=192.0.2.7:7070,192.0.2.8:7070`); tables are written as in TOML
(`IMPLICAST_PARAMETERS={signed = false}`). Only `implicast node` reads these variables.

A running node takes new values of the keys marked *reload* when it receives SIGHUP (`systemctl reload`); other keys take a
restart, and the log names them.

| key | variable | default | reload | meaning |
|---|---|---|---|---|
"""
TAIL = """
`IMPLICAST_HOME` is the folder of local networks and light clients, `~/.implicast` by default.
"""


def meanings() -> dict[str, str]:
    """The docstring of each key."""
    (owner,) = ast.parse(inspect.getsource(NodeConfig)).body
    assert isinstance(owner, ast.ClassDef)
    found, name = {}, ""
    for node in owner.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and name:
            found[name] = " ".join(str(node.value.value).split())
    return found


def page() -> str:
    told = meanings()
    rows = []
    for field in msgspec.structs.fields(NodeConfig):
        reload = "reload" if field.name in RELOADABLE else ""
        variable = variable_of(field.name)
        about = told[field.name].replace("|", "\\|")
        rows.append(f"| `{field.name}` | `{variable}` | {_default(field)} | {reload} | {about} |")
    return HEAD + "\n".join(rows) + "\n" + TAIL


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default
    if value is msgspec.NODEFAULT:
        value = field.default_factory()
    if isinstance(value, bool):
        return str(value).lower()
    return f"`{value}`" if value or value == 0 else "empty"


if __name__ == "__main__":
    FILE.write_text(page(), "utf-8")
