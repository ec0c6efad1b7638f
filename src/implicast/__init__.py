"""Address a message to a description, not to a list.

    from implicast import Scenario, simulate

    outcome = simulate(Scenario(design="broker", peers=512, casts=64))
    outcome.contract.clean, outcome.measures["TOUT_G"]

Peers register what they are; a publisher casts to an expression; whoever it describes receives the message, once. The
designs run as simulated peers here; the laboratory (`implicast.lab`) compares them on Spark. Start reading at
`peer/contract.py`.
"""

from implicast.language.parse import parse
from implicast.world.scenario import Scenario
from implicast.world.simulate import Outcome, simulate

__all__ = ["Outcome", "Scenario", "parse", "simulate"]
