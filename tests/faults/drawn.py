"""Scenarios of campaigns as they were when they found something."""

from dataclasses import replace

from implicast.world.scenario import MESSAGES, Scenario


def as_found(drawn: Scenario) -> Scenario:
    """Before campaigns drew publishers that crash in the midst of a burst, and networks enrolled at once."""
    return replace(drawn, register=MESSAGES, churn=replace(drawn.churn, falls=0))
