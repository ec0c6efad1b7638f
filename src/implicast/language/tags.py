"""One tag: its canonical form, and how it is written.

A tag is any non-empty text, case-folded and NFC, so that `Café`, `café` and `CAFÉ` are one tag
however they were typed. Letters, digits and `- _ . : / + #` are written plainly (`c++`, `naïve`,
`topic:jazz`); anything else between double quotes (`"machine learning"`). How tags make expressions
is in `parse.py`.
"""

import re
from functools import lru_cache
from unicodedata import category, normalize

from implicast.language.errors import LanguageError
from implicast.language.limits import LIMITS

PUNCTUATION = "-_.:/+#"
"""What may stand in an unquoted tag beside letters and digits."""

_ASCII_TAG = re.compile(r"[a-z0-9]+")
_PLAIN_ASCII = re.compile(r"[A-Za-z0-9\-_.:/+#]+")
_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "t": "\t"}
_CODE_POINT = re.compile(r"u\{([0-9a-fA-F]{1,6})\}")
_UNMARKED = re.compile(r'[^"\\]+')
_SURROGATE = re.compile("[\ud800-\udfff]")
_MARKED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


@lru_cache(maxsize=65_536)
def fold(text: str) -> str:
    """The canonical form of a tag. Folding twice changes nothing."""
    if _ASCII_TAG.fullmatch(text):
        return text
    # A form that does not change under one more pass is idempotent by construction. In trials over
    # all characters, and over Greek and Latin letters with two marks, one pass always sufficed; the
    # loop is there for sequences that were not tried.
    while (folded := normalize("NFC", normalize("NFD", text).casefold())) != text:
        text = folded
    return text


def tag(text: str, characters_max: int = LIMITS.tag_characters) -> str:
    """The tag of this text, checked and folded; a `LanguageError` without a column if it cannot be
    one.
    """
    objection = objection_to(text, characters_max)
    if objection:
        raise LanguageError(f"{shown(text)} cannot be a tag: {objection}")
    return fold(text)


def objection_to(text: str, characters_max: int = LIMITS.tag_characters) -> str | None:
    """Why this text, unquoted, cannot be a tag or a string value; None if it can."""
    if not text or text.isspace():
        return "it is empty"
    if len(text) > characters_max or len(fold(text)) > characters_max:
        return f"it has more than {characters_max} characters"
    if _SURROGATE.search(text):
        return "it holds half of a surrogate pair, which is no character"
    return None


def is_word_character(character: str) -> bool:
    """May stand in an unquoted tag: letters, digits, the marks that belong to letters, and
    `PUNCTUATION`.
    """
    return character in PUNCTUATION or category(character)[0] in "LNM"


def is_plain(text: str) -> bool:
    """True if the text reads back as one word without quotes."""
    if ".." in text or not any(category(character)[0] in "LN" for character in text):
        return False
    return bool(_PLAIN_ASCII.fullmatch(text)) or all(
        is_word_character(character) for character in text
    )


def written(text: str) -> str:
    """As one writes it in an expression: quoted only where needed."""
    return text if is_plain(text) else quoted(text)


def quoted(text: str) -> str:
    return (
        '"'
        + "".join(_MARKED.get(each, each if each.isprintable() else _escape(each)) for each in text)
        + '"'
    )


def unquoted(text: str) -> str:
    """What a text in quotes means: the inverse of `quoted`."""
    string, end = string_at(text, 0)
    if end != len(text):
        raise LanguageError(f"unexpected text after the closing quote at column {end + 1}", end + 1)
    return string


def string_at(text: str, start: int) -> tuple[str, int]:
    """The string whose opening quote is at `start`, and where it ends."""
    parts: list[str] = []
    at = start + 1
    while at < len(text) and text[at] != '"':
        unmarked = _UNMARKED.match(text, at)
        if unmarked:
            part, at = unmarked[0], unmarked.end()
        else:
            part, at = _escaped(text, at + 1)
        parts.append(part)
    if at >= len(text):
        raise LanguageError(
            f'the quote opened at column {start + 1} is never closed: add a closing "', start + 1
        )
    return "".join(parts), at + 1


def _escaped(text: str, at: int) -> tuple[str, int]:
    """What an escape means and where it ends; `at` is just behind the backslash."""
    letter = text[at : at + 1]
    if letter in _ESCAPES:
        return _ESCAPES[letter], at + 1
    point = _CODE_POINT.match(text, at)
    if point and int(point[1], 16) <= 0x10FFFF:
        return chr(int(point[1], 16)), point.end()
    raise LanguageError(
        f'unknown escape at column {at}: there are \\" \\\\ \\n \\t and \\u{{1f600}}', at
    )


def _escape(character: str) -> str:
    return f"\\u{{{ord(character):x}}}"


def shown(text: str, characters_max: int = 40) -> str:
    """For error messages: quoted, and cut if it is long."""
    return quoted(text) if len(text) <= characters_max else quoted(text[:characters_max]) + "..."
