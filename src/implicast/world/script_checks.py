"""Events that a design cannot carry out: they are refused before the run."""

from implicast.casting.designs import Design
from implicast.peer.errors import ScenarioError
from implicast.world.scripted_events import ScriptedEvent

_OF_MEMBERS = (
    "join",
    "leave",
    "crash",
    "return",
    "register",
    "describe",
    "withdraw",
    "burst",
    "fall",
)


def refuse_the_impossible(
    script: tuple[ScriptedEvent, ...], design: Design, peers: int, infrastructure: int
) -> None:
    """Raise a `ScenarioError` for an event that is impossible for an address it names."""
    fixed = range(peers, peers + infrastructure)
    for event in script:
        named = [who for who in event.who if who in fixed]
        if event.kind in ("restart", "fail") and len(named) < len(event.who):
            have = f"they are {list(fixed)}" if fixed else f"{design.name} has none"
            raise ScenarioError(
                f"churn: {event.text()}: only servers and brokers restart or fail; {have}"
            )
        if event.kind == "restart" and design.fixture is None:
            raise ScenarioError(
                f"churn: {event.text()}: {design.name} has nothing that can come back"
            )
        if event.kind == "return" and design.member is None:
            raise ScenarioError(f"churn: {event.text()}: members of {design.name} do not come back")
        if event.kind in _OF_MEMBERS and named:
            raise ScenarioError(
                f"churn: {event.text()}: {named[0]} is no peer; it takes restart or fail"
            )
        if event.kind == "join" and min(event.who) < fixed.stop:
            raise ScenarioError(
                f"churn: {event.text()}: newcomers have addresses from {fixed.stop} on"
            )
