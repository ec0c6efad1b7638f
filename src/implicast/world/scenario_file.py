"""A scenario as a TOML file with the fields of `Scenario`. Faults, churn and liars are texts.

design = "dht"
peers = 24
casts = 40
start = "joined"
[workload_parameters]
tags = 12
"""

import tomllib
from pathlib import Path
from typing import Any

import msgspec

from implicast.peer.errors import ScenarioError
from implicast.world.churn import Churn
from implicast.world.faults import Faults
from implicast.world.liars.liars import Liars
from implicast.world.scenario import Scenario

TEXTS: dict[str, Any] = {"faults": Faults, "churn": Churn, "liars": Liars}
"""Fields that are given as texts, and their types."""


def read_scenario(path: Path, **changes: Any) -> Scenario:
    """Read a scenario file; `changes` replace some of its fields. A `ScenarioError` names what is
    wrong.
    """
    try:
        given = tomllib.loads(path.read_text())
    except OSError as error:
        raise ScenarioError(f"{path} cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: {error}") from None
    given |= {name: value for name, value in changes.items() if value is not None}
    unknown = sorted(given.keys() - set(Scenario.__dataclass_fields__))
    if unknown or "design" not in given:
        wrong = f"a scenario has no {unknown[0]!r}" if unknown else "it names no design"
        raise ScenarioError(
            f"{path}: {wrong}; a scenario has {', '.join(Scenario.__dataclass_fields__)}"
        )
    texts: dict[str, Any] = {
        name: kind.parse(str(given.pop(name, ""))) for name, kind in TEXTS.items()
    }
    try:
        return msgspec.convert({**given, **texts}, Scenario)
    except msgspec.ValidationError as error:
        raise ScenarioError(f"{path}: {error}") from None
