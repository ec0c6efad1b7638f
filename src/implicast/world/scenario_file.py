"""A scenario as a file: TOML with the fields of `Scenario`; faults and churn as the texts that give them.

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
"""Fields that are given as texts."""


def read_scenario(path: Path, **changes: Any) -> Scenario:
    """What a file says, with `changes` in place of some of it; a `ScenarioError` names what is wrong with it."""
    try:
        said = tomllib.loads(path.read_text())
    except OSError as error:
        raise ScenarioError(f"{path} cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: {error}") from None
    said |= {name: value for name, value in changes.items() if value is not None}
    unknown = sorted(said.keys() - set(Scenario.__dataclass_fields__))
    if unknown or "design" not in said:
        wrong = f"a scenario has no {unknown[0]!r}" if unknown else "it names no design"
        raise ScenarioError(
            f"{path}: {wrong}; a scenario has {', '.join(Scenario.__dataclass_fields__)}"
        )
    texts: dict[str, Any] = {
        name: kind.parse(str(said.pop(name, ""))) for name, kind in TEXTS.items()
    }
    try:
        return msgspec.convert({**said, **texts}, Scenario)
    except msgspec.ValidationError as error:
        raise ScenarioError(f"{path}: {error}") from None
