"""Whose fault is it? Three families, and only two of them are exceptions.

    ImplicastError
    ├── LocalError          ours: the caller asked for nonsense; nothing was done
    │   ├── LanguageError       an expression, tag or attribute that cannot be understood (language/errors.py)
    │   ├── ParameterError      an unknown parameter or a value out of range (language/parameters.py)
    │   ├── MapError            a network map that cannot be read or does not hang together
    │   └── ScenarioError       a run that cannot be carried out as described
    └── RemoteError         theirs: a peer sent nonsense; drop it and count it

The third family, the world's, is silence: no exception, handled by an alarm.
A broken invariant of our own is an `assert` with a sentence.
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
    """A network map that cannot be read or does not hang together."""


class ScenarioError(LocalError):
    """A run that cannot be carried out as described."""


class RemoteError(ImplicastError):
    """A peer sent nonsense: drop the message and count it."""
