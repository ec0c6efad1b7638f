"""Errors in three families by cause; two of them are exceptions.

    ImplicastError
    ├── LocalError          the caller's fault: an invalid request; nothing was done
    │   ├── LanguageError       an expression, tag or attribute is invalid (language/errors.py)
    │   ├── ParameterError      a parameter is unknown or out of range (language/parameters.py)
    │   ├── MapError            a network map cannot be read or is not connected
    │   └── ScenarioError       a run cannot be carried out as described
    └── RemoteError         a peer's fault: an invalid message; drop it and count it

The third family, failures of the network, appears as silence: no exception, handled by alarms. A
broken invariant of this code is an `assert` with a sentence.
"""

from implicast.language.errors import ImplicastError, LanguageError, LocalError
from implicast.language.parameters import ParameterError

__all__ = [
    "ImplicastError",
    "LanguageError",
    "LocalError",
    "MapError",
    "ParameterError",
    "RemoteError",
    "ScenarioError",
]


class MapError(LocalError):
    """A network map cannot be read or is not connected."""


class ScenarioError(LocalError):
    """A run cannot be carried out as described."""


class RemoteError(ImplicastError):
    """A peer sent an invalid message: drop the message and count it."""
