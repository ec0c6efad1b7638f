"""The converged networks of all designs, as the laboratory assembles them, and the checks of their
invariants.

Overlays and designs do not import this package: it sees the state of all peers at once, which no
node does.
"""

from dataclasses import replace
from importlib import import_module

from implicast.casting.designs import DESIGN_MODULES, Design
from implicast.world.populations.population import Population, no_objections

STREETS = {"dht": "ring", "pubsub": "ring"}
"""By module of a design, the module of its population, if the names differ."""


def population(design: Design) -> Population:
    """The population of a design. A user-defined design brings its own functions along."""
    if design.assemble is not None:
        return Population(design.assemble, design.objections or no_objections)
    home = DESIGN_MODULES[design.name]
    known: Population = import_module(f"{__name__}.{STREETS.get(home, home)}").population(design)
    return (
        known
        if design.objections is None
        else replace(known, objections=design.objections, watcher=None)
    )
