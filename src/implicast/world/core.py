"""Which core runs a world: the compiled one where it was built, else the readable one. Both write the same journal.

`IMPLICAST_CORE=python` or `IMPLICAST_CORE=compiled` chooses; the second fails in a sentence where it was not built.
"""

from os import environ
from typing import Any

from implicast.peer.errors import LocalError
from implicast.world.world import World

PYTHON, COMPILED = "python", "compiled"
HUGE_PAGES_FROM = 256
"""Peers. Under change a run of so many takes a twentieth less, one of a thousand a tenth to a sixth less, a smaller one
the same; for 3 MB more at most."""


class CoreError(LocalError):
    """The core that was asked for is not there."""


def core() -> str:
    """The name of the core that new worlds get."""
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
    """A world on the core that was chosen; arguments as of `World`."""
    if core() == PYTHON:
        return World(*given)
    made: World = _compiled()(*given)
    return made


def ready_for(peers: int) -> None:
    """Python's memory made quick to reach where there will be much of it; for the rest of the process."""
    if peers < HUGE_PAGES_FROM or core() == PYTHON:
        return
    try:
        from implicast.world import _arenas  # type: ignore[attr-defined, unused-ignore]
    except ImportError:  # built apart from the core, where the compiler could
        return
    _arenas.on_huge_pages()


def _compiled() -> Any:
    try:
        from implicast.world import _core  # type: ignore[attr-defined, unused-ignore]
    except ImportError:
        return None
    return _core.World
