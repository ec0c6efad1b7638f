"""A demonstration that needs no reading: twenty invented researchers, their tags, a few
conversations under way.

python -m implicast.web.demo [--dir DIR] [--port PORT] [--no-browser]
"""

import re
import tomllib
from importlib.resources import files
from typing import Any

from implicast.net.commands.local import MemberSpec
from implicast.web.reading import proposal

TAGS = 6
"""Of each researcher: the commonest words of what it reads."""
_READER = re.compile(r"reader\s*=\s*\{([^}]*)\}")


def shipped(name: str) -> str:
    return (files("implicast.web.demo") / name).read_text("utf-8")


def bibliographies() -> dict[str, str]:
    """By researcher, the bibliography of what it reads."""
    found: dict[str, list[str]] = {}
    for entry in shipped("researchers.bib").split("\n@")[1:]:
        reader = _READER.search(entry)
        if reader is not None:
            found.setdefault(reader[1], []).append("@" + entry)
    return {reader: "\n".join(entries) for reader, entries in found.items()}


def researchers() -> list[MemberSpec]:
    """Each with the tags that its reading gives, as the page would."""
    return [
        MemberSpec(
            folder_of(reader),
            ", ".join(tag for tag, _ in proposal(text.encode(), most_tags=TAGS).tags),
        )
        for reader, text in bibliographies().items()
    ]


def folder_of(reader: str) -> str:
    return reader.lower().replace(" ", "-")


def conversations() -> dict[str, Any]:
    return tomllib.loads(shipped("conversations.toml"))
