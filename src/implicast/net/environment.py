"""Configuration from environment variables: `IMPLICAST_LISTEN=0.0.0.0:7070` replaces `listen` of
`node.toml`.

Precedence: an option of the command line, the environment, `node.toml`, the default.
"""

import os
import tomllib
from collections.abc import Mapping
from typing import Any

import msgspec

from implicast.net.config import ConfigError, NodeConfig

PREFIX = "IMPLICAST_"


def variable_of(key: str) -> str:
    """The environment variable of a key of `node.toml`."""
    return PREFIX + key.upper()


def with_environment(config: NodeConfig, environment: Mapping[str, str] = os.environ) -> NodeConfig:
    """The configuration with the values that the environment gives. Values are written as in
    `node.toml`; quotes around texts may be left out, and a list of texts may be given with commas.
    """
    values: dict[str, Any] = msgspec.to_builtins(config)
    given = {
        field.name: environment[variable_of(field.name)]
        for field in msgspec.structs.fields(NodeConfig)
        if variable_of(field.name) in environment
    }
    for name, text in given.items():
        values[name] = _value(text, values[name])
    try:
        return msgspec.convert(values, NodeConfig, strict=False)
    except msgspec.ValidationError as error:
        names = ", ".join(map(variable_of, given))
        raise ConfigError(f"{names}: {error}") from None


def _value(text: str, present: Any) -> Any:
    if isinstance(present, str):
        return text
    if isinstance(present, list) and not text.startswith("["):
        return [each.strip() for each in text.split(",") if each.strip()]
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
