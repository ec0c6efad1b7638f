"""Chooses the core that runs a world: the compiled one if it was built, otherwise the Python one.
Both write the same journal.

`IMPLICAST_CORE=python` or `IMPLICAST_CORE=compiled` selects one; the latter fails if it was not
built.
"""

from os import environ
from typing import Any

from implicast.peer.errors import LocalError
from implicast.world.world import World

PYTHON, COMPILED = "python", "compiled"
HUGE_PAGES_FROM = 256
"""Number of peers from which on Python's memory uses huge pages. Runs with churn take a twentieth
less time at 256 peers and a tenth to a sixth less at a thousand, for at most 3 MB more memory.
"""


class CoreError(LocalError):
    """The selected core is not available."""


def core() -> str:
    """Name of the core that new worlds use."""
    wanted = environ.get("IMPLICAST_CORE", "")
    if wanted not in ("", PYTHON, COMPILED):
        raise CoreError(f"IMPLICAST_CORE={wanted}: it takes {PYTHON} or {COMPILED}")
    if wanted == PYTHON:
        return PYTHON
    if _compiled() is not None:
        return COMPILED
    if wanted == COMPILED:
        raise CoreError(
            "the compiled core was not built: `make setup` builds it where there is a C compiler"
        )
    return PYTHON


def new_world(*given: Any) -> World:
    """A world on the selected core; arguments as for `World`."""
    if core() == PYTHON:
        return World(*given)
    made: World = _compiled()(*given)
    return made


def ready_for(peers: int) -> None:
    """Switch Python's memory arenas to huge pages for a large run; for the rest of the process."""
    if peers < HUGE_PAGES_FROM or core() == PYTHON:
        return
    try:
        from implicast.world import _arenas  # type: ignore[attr-defined, unused-ignore]
    except ImportError:  # built separately from the core; optional
        return
    _arenas.on_huge_pages()


def _compiled() -> Any:
    try:
        from implicast.world import _core  # type: ignore[attr-defined, unused-ignore]
    except ImportError:
        return None
    return _core.World
