"""From the text of a BibTeX field or a query to tags: TeX taken off, letters kept, stop words out.

The thesis's tags are `[a-z]+` (section 3.3); ours keep letters of every script. Numbers and single
letters are no tags: years, volumes and initials say nothing of what a paper is about.
"""

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from unicodedata import normalize

from implicast.language.tags import fold

LETTERS_MIN = 2
LETTERS_MAX = 40
"""A longer run of letters is a broken word or a piece of code."""

_ACCENTS = {
    "'": "\u0301",
    "`": "\u0300",
    "^": "\u0302",
    '"': "\u0308",
    "~": "\u0303",
    "=": "\u0304",
    ".": "\u0307",
    "u": "\u0306",
    "v": "\u030c",
    "H": "\u030b",
    "c": "\u0327",
    "k": "\u0328",
    "r": "\u030a",
    "d": "\u0323",
    "b": "\u0331",
}
_LETTERS = {
    "ss": "ß",
    "ae": "æ",
    "AE": "Æ",
    "oe": "œ",
    "OE": "Œ",
    "o": "ø",
    "O": "Ø",
    "l": "ł",
    "L": "Ł",
    "aa": "å",
    "AA": "Å",
    "i": "i",
    "j": "j",
}
_ACCENT = re.compile(
    r"\\(['`^\"~=.]|[uvHckrdb](?![A-Za-z]))\s*(?:\{\s*\\?([A-Za-z])\s*\}|\\?([A-Za-z]))"
)
_LETTER = re.compile(r"\\(ss|ae|AE|oe|OE|aa|AA|[oOlLij])(?![A-Za-z])\s?")
_MATHS = re.compile(r"\$[^$]{0,200}\$")
_COMMAND = re.compile(r"\\[A-Za-z]+\*?|\\.")
_POSSESSIVE = re.compile(r"['’]s\b")
_WORD = re.compile(rf"(?<![^\W_])[^\W\d_]{{{LETTERS_MIN},{LETTERS_MAX}}}(?![^\W_])")


def plain(text: str) -> str:
    """The text without TeX: accents and special letters composed, commands, maths and braces gone."""
    if "\\" in text:
        text = _ACCENT.sub(
            lambda found: normalize("NFC", (found[2] or found[3]) + _ACCENTS[found[1]]), text
        )
        text = _LETTER.sub(lambda found: _LETTERS[found[1]], text)
    if "$" in text:
        text = _MATHS.sub(" ", text)
    # Braces inside a word protect its capitals ({B}ayesian): they vanish; a command parts words.
    return _COMMAND.sub(" ", text).replace("{", "").replace("}", "").replace("~", " ")


def words(text: str) -> list[str]:
    """The tags in a text, in order, repeats kept, stop words left out."""
    stopped = stop_words()
    found = (fold(word) for word in _WORD.findall(_POSSESSIVE.sub("", plain(text))))
    return [word for word in found if word not in stopped]


def venue_words_left(text: str) -> list[str]:
    """The tags in the name of a journal or conference: without words that say where, not what
    about.
    """
    stopped = _listed("venue_words.txt")
    return [word for word in words(text) if word not in stopped]


def query_tags(text: str) -> list[str]:
    """The tags of a query, distinct and sorted: all conjunctive, so order does not matter."""
    return sorted(set(words(text)))


def stop_words() -> frozenset[str]:
    """Words that no registration and no cast is made of."""
    return _listed("stop_words.txt")


@cache
def _listed(name: str) -> frozenset[str]:
    lines: Sequence[str] = (files("implicast.lab.corpus") / name).read_text("utf-8").splitlines()
    return frozenset(
        fold(word) for line in lines if not line.startswith("#") for word in line.split()
    )
