"""Workloads by name: `workload("zipf", seed=1, peers=4096, casts=1024, skew=1.5)`, or the path of a
directory.

To add one: a frozen dataclass under `Workload` with `knob` fields, named once in `KINDS`.
"""

from pathlib import Path
from typing import Any

from implicast.language.parameters import Parameter, Setting
from implicast.workload.attributes import Attributes
from implicast.workload.base import DescriptionColumns, TargetColumns, Workload
from implicast.workload.extreme import Extreme
from implicast.workload.groups import Groups
from implicast.workload.knobs import WorkloadError, knobs_of, settings_of
from implicast.workload.stated import read_stated
from implicast.workload.zipf import Zipf

__all__ = [
    "KINDS",
    "DescriptionColumns",
    "TargetColumns",
    "Workload",
    "WorkloadError",
    "parameters",
    "schema",
    "workload",
]

KINDS: dict[str, type[Workload]] = {kind.name: kind for kind in (Zipf, Extreme, Groups, Attributes)}

PEERS = 4_096
CASTS = 1_024
"""The thesis's defaults."""


def workload(
    name: str,
    seed: int = 0,
    peers: int | None = None,
    casts: int | None = None,
    **settings: Setting,
) -> Workload:
    """The workload of this name, or the one stated in the directory of this name.

    A directory says itself how many peers and casts there are; numbers that are given take the
    first so many.
    """
    kind = KINDS.get(name)
    if kind is None:
        return _stated(name, seed, peers, casts, settings)
    knobs: dict[str, Any] = settings_of(name, kind, settings)
    return kind(
        seed=seed,
        peers=PEERS if peers is None else peers,
        casts=CASTS if casts is None else casts,
        **knobs,
    )


def parameters(name: str) -> tuple[Parameter, ...]:
    """What can be set of a workload; nothing of a directory."""
    return knobs_of(KINDS[name]) if name in KINDS else ()


def schema(name: str, **settings: Setting) -> str:
    """What the values of this workload's peers are; empty where they have none, or a directory
    holds them.
    """
    return workload(name, seed=0, peers=1, casts=0, **settings).schema() if name in KINDS else ""


def _stated(
    name: str, seed: int, peers: int | None, casts: int | None, settings: dict[str, Setting]
) -> Workload:
    if not name or not Path(name).is_dir():
        raise WorkloadError(
            f"there is no workload {name!r}: choose one of {', '.join(KINDS)}, or give a directory"
        )
    if settings:
        raise WorkloadError(
            f"a workload read from {name} has no parameters; {', '.join(sorted(settings))} cannot "
            "be set"
        )
    return read_stated(Path(name), seed, peers, casts)
