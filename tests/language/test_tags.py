"""One tag: folding is idempotent over all of Unicode, and whatever is written reads back."""

import sys

import pytest

from implicast.language.errors import LanguageError
from implicast.language.parse import parse
from implicast.language.tags import fold, is_plain, quoted, tag, unquoted, written

CHARACTERS = [chr(point) for point in range(sys.maxunicode + 1) if not 0xD800 <= point <= 0xDFFF]


def test_folding_twice_changes_nothing_for_any_character() -> None:
    changed = [hex(ord(each)) for each in CHARACTERS if fold(fold(each)) != fold(each)]

    assert changed == []


def test_folding_does_not_see_case_for_any_character() -> None:
    changed = [
        hex(ord(each)) for each in CHARACTERS[:0x20000] if fold(each.casefold()) != fold(each)
    ]

    assert changed == []


def test_every_character_in_a_tag_reads_back() -> None:
    sample = [each for each in CHARACTERS[:0x3000] + CHARACTERS[0x3000::61] if not each.isspace()]

    for each in sample:
        folded = fold(f"a{each}b")
        assert [term.has for term in parse(written(folded)).terms] == [(folded,)], hex(ord(each))


@pytest.mark.parametrize("text", ["a\\b", 'a"b', "\n\t", "\x00", "\u2028", "plain", "\u202e"])
def test_quoting_is_undone_by_unquoting(text: str) -> None:
    assert unquoted(quoted(text)) == text
    assert quoted(text).isprintable()


def test_what_is_plain_needs_a_letter_or_digit() -> None:
    assert is_plain("c++")
    assert not is_plain("++")
    assert not is_plain("a..b")
    assert not is_plain("a b")


@pytest.mark.parametrize("text", ["", "  ", "x" * 257, "ﬃ" * 100, "\udc80"])
def test_what_cannot_be_a_tag_is_refused(text: str) -> None:
    with pytest.raises(LanguageError, match="cannot be a tag"):
        tag(text)
