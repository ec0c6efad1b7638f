"""What is given as `--set NAME=VALUE`."""

from implicast.language.parameters import ParameterError, Setting


def pairs(words: tuple[str, ...], option: str = "--set") -> dict[str, Setting]:
    """The values by name, each name once."""
    found: dict[str, Setting] = {}
    for word in words:
        key, equals, value = (each.strip() for each in word.partition("="))
        if not (key and equals and value):
            raise ParameterError(f"{option} {word}: expected NAME=VALUE")
        if key in found:
            raise ParameterError(f"{option} {word}: {key} is given already as {found[key]}")
        found[key] = value
    return found
