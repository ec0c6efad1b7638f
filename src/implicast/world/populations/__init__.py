"""The networks of all designs as the laboratory sets them up, converged at once, and what can be wrong with them.

Overlays and designs know nothing of this room: here everybody's state is seen together, as no node ever sees it.
"""

from dataclasses import replace
from importlib import import_module

from implicast.casting.designs import HOMES, Design
from implicast.world.populations.population import Population, no_objections

STREETS = {"dht": "ring", "pubsub": "ring"}
"""Where the population of a design is, by the module of the design, if it is not called as that."""


def population(design: Design) -> Population:
    """How the network of a design is set up at once and looked at; a design of one's own brings that along."""
    if design.assemble is not None:
        return Population(design.assemble, design.objections or no_objections)
    home = HOMES[design.name]
    known: Population = import_module(f"{__name__}.{STREETS.get(home, home)}").population(design)
    return (
        known
        if design.objections is None
        else replace(known, objections=design.objections, watcher=None)
    )
