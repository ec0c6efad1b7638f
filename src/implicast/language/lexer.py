"""Texts of the language cut into words, quoted strings and signs, each with its column.

Leaves out all meaning: what a sequence of tokens says is `parse.py`'s concern.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from implicast.language.errors import LanguageError
from implicast.language.limits import Limits
from implicast.language.tags import PUNCTUATION, is_word_character, objection_to, string_at

WORD, QUOTED, SIGN, STEP, END = "word", "quoted", "sign", "step", "end"

_SPACE = re.compile(r"\s+")
_SIGN = re.compile(r"!=|<=|>=|\.\.|[&|!()=<>,]")
_STEP = re.compile(r"@(-?[0-9]{1,30})")
_WORD = re.compile(r"(?:[\w:/+#\-]|\.(?!\.))+")
"""Nearly a word: `\\w` leaves out combining marks, which `_word` adds."""
_UNRAVELLED = {"‘": "'", "’": "'", "“": '"', "”": '"', "«": '"', "»": '"'}


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    column: int
    """Where it begins, counted from 1."""

    def shown(self) -> str:
        return "end of the text" if self.kind == END else repr(self.text)


def tokens(text: str, limits: Limits) -> list[Token]:
    """All tokens, the last of kind END; `LanguageError` for what cannot stand in an expression."""
    if len(text) > limits.characters:
        raise LanguageError(
            f"the text has {len(text)} characters; at most {limits.characters} are read (limit: "
            "characters)",
            limits.characters + 1,
        )
    return list(_tokens(text, limits))


def _tokens(text: str, limits: Limits) -> Iterator[Token]:
    at = 0
    while at < len(text):
        space = _SPACE.match(text, at)
        if space:
            at = space.end()
            continue
        token, end = _token(text, at)
        if token.kind in (WORD, QUOTED):
            _check(token, limits)
        yield token
        at = end
    yield Token(END, "", len(text) + 1)


def _token(text: str, at: int) -> tuple[Token, int]:
    column = at + 1
    if text[at] == '"':
        return _string(text, at)
    sign = _SIGN.match(text, at)
    if sign:
        return Token(SIGN, sign[0], column), sign.end()
    step = _STEP.match(text, at)
    if step:
        return Token(STEP, step[1], column), step.end()
    end = _word_end(text, at)
    if end == at:
        raise _unknown(text[at], column)
    return Token(WORD, text[at:end], column), end


def _word_end(text: str, at: int) -> int:
    while at < len(text):
        match = _WORD.match(text, at)
        if match:
            at = match.end()
        elif text[at] not in PUNCTUATION and is_word_character(text[at]):
            at += 1
        else:
            break
    return at


def _unknown(character: str, column: int) -> LanguageError:
    if character in _UNRAVELLED:
        hint = f"write {_UNRAVELLED[character]} where {character} stands"
    elif character == "'":
        hint = 'quote with "..."'
    elif character == "@":
        hint = "a grid step is written @ and a whole number"
    else:
        plain = f"letters, digits and {' '.join(PUNCTUATION)}"
        hint = f'quote a tag that holds more than {plain}, like "machine learning"'
    return LanguageError(f"unknown character {character!r} at column {column}: {hint}", column)


def _check(token: Token, limits: Limits) -> None:
    objection = objection_to(token.text, limits.tag_characters)
    if (
        objection is None
        and token.kind == WORD
        and not any(character.isalnum() for character in token.text)
    ):
        objection = "a tag without letters and digits must be quoted"
    if objection:
        what = "tag" if token.kind == WORD else "string"
        raise LanguageError(f"unusable {what} at column {token.column}: {objection}", token.column)


def _string(text: str, start: int) -> tuple[Token, int]:
    """The quoted string that opens at `start`, and where it ends."""
    string, end = string_at(text, start)
    return Token(QUOTED, string, start + 1), end
