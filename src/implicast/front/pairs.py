"""What is given as `--set NAME=VALUE`."""

from implicast.language.parameters import ParameterError, Setting


def pairs(words: tuple[str, ...]) -> dict[str, Setting]:
    """NAME=VALUE of `--set`, each name once."""
    found: dict[str, Setting] = {}
    for word in words:
        key, equals, value = (each.strip() for each in word.partition("="))
        if not (key and equals and value):
            raise ParameterError(f"--set {word}: expected NAME=VALUE")
        if key in found:
            raise ParameterError(f"--set {key} is given twice")
        found[key] = value
    return found
