"""Address a message to a description, not to a list.

    from implicast import Network

    net = Network("dht")
    ann, bob = net.peer("samba, football"), net.peer("jazz, football")
    net.cast("(samba | jazz) & football", b"hi", by=ann).reached

Peers register what they are; a publisher casts to an expression; every member it describes receives the
message, once. A `Network` runs peers of a design in one process; `simulate` measures whole
populations; the laboratory (`implicast.lab`) compares designs on Spark. Start reading at
`peer/contract.py`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from implicast.front.network import Network
    from implicast.language.parse import parse
    from implicast.world.scenario import Scenario
    from implicast.world.simulate import SimulationOutcome as Outcome
    from implicast.world.simulate import simulate

__version__: str
__all__ = ["Network", "Outcome", "Scenario", "parse", "simulate"]

_HOMES = {
    "Network": "implicast.front.network",
    "Outcome": "implicast.world.simulate",
    "Scenario": "implicast.world.scenario",
    "parse": "implicast.language.parse",
    "simulate": "implicast.world.simulate",
}
"""Loaded when they are first asked for: who only parses an expression does not wait for the
simulator.
"""

_CLASS_NAMES = {"Outcome": "SimulationOutcome"}
"""Exported names whose class has a longer name inside the package."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("implicast")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), _CLASS_NAMES.get(name, name))


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
