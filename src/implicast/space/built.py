"""What was compiled when the package was built, where there was a C compiler; readable functions
are the law for it.
"""

from importlib import import_module
from os import environ
from typing import Any


def built(name: str) -> Any:
    """A module that was built; None where it was not, or where the readable core is asked for."""
    if environ.get("IMPLICAST_CORE") == "python":
        return None
    try:
        return import_module(f"implicast.{name}")
    except ImportError:
        return None
