"""BibTeX as it is met in the wild: entries out, what is broken counted and named, never fatal.

`bibtexparser` splits a file into blocks and finds its feet again after a broken one; its clean-up
layers are left out, since only words matter here. Repeated fields and repeated keys are kept as
what they are: entries with a flaw. Volumes (`@proceedings`) and repeats of a title are not papers.
"""

import logging
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bibtexparser.entrypoint import parse_string
from bibtexparser.model import (
    DuplicateBlockKeyBlock,
    DuplicateFieldKeyBlock,
    Entry,
    ParsingFailedBlock,
)

from implicast.lab.corpus.words import venue_words_left, words

FIELDS = (
    "title",
    "subtitle",
    "abstract",
    "journal",
    "booktitle",
    "annotate",
    "note",
    "topics",
    "keywords",
    "maintitle",
    "titleaddon",
    "journaltitle",
    "eventtitle",
    "annotation",
)
"""Thesis, Listing 13; `subtitle` is title text that some collections keep apart; biblatex has the
last five.
"""
VENUES = frozenset({"journal", "booktitle", "journaltitle", "eventtitle"})
"""Fields that name where a paper appeared; of these, words that say nothing else are left out."""
VOLUMES = frozenset({"proceedings", "collection", "mvproceedings", "mvcollection"})
SHOWN = 120
"""Characters shown of a skipped entry."""


@dataclass(frozen=True, slots=True)
class Paper:
    """One entry of a file. `reason` says why it is not used; None when it is."""

    number: int
    line: int
    key: str
    kind: str
    words: tuple[str, ...]
    reason: str | None
    text: str


def text_of(content: bytes) -> tuple[str, str | None]:
    """The text of a file, unpacked when it is gzip, and what is wrong with the file as a whole, if
    anything is.

    Each line is UTF-8 or else Latin-1 as Windows has it: files are put together from others of
    either kind.
    """
    flaw = None
    if content[:2] == b"\x1f\x8b":
        content, flaw = _unpacked(content)
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16", errors="replace"), flaw
    if b"\x00" in content[:4096]:
        return "", "not a text: it holds zero bytes"
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return "\n".join(_line(each) for each in lines), flaw


def _unpacked(content: bytes) -> tuple[bytes, str | None]:
    """What can be unpacked, to the place where the file is cut off or damaged."""
    unpacking, pieces = zlib.decompressobj(zlib.MAX_WBITS | 16), []
    try:
        for start in range(0, len(content), _PIECE):
            pieces.append(unpacking.decompress(content[start : start + _PIECE]))
    except zlib.error as broken:
        return b"".join(pieces), f"damaged gzip after {sum(map(len, pieces))} bytes: {broken}"
    return b"".join(
        pieces
    ), None if unpacking.eof else f"gzip cut off after {sum(map(len, pieces))} bytes"


_PIECE = 1 << 16


def _line(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")


def papers(text: str) -> Iterator[Paper]:
    """Every entry of a file, numbered from 0 in order."""
    yield from BibliographyReader().papers(text)


class BibliographyReader:
    """Reads a file that comes in pieces of whole entries. A name of `@string` holds from the piece
    on that defines it.
    """

    def __init__(self) -> None:
        self.number = 0
        """Entries so far."""
        self._lines = 0
        self._seen: dict[tuple[str, ...], int] = {}
        self._strings: dict[str, str] = {}

    def papers(self, text: str) -> Iterator[Paper]:
        """Every entry of the next piece."""
        logging.getLogger("bibtexparser").setLevel(logging.CRITICAL)
        before, self._lines = self._lines, self._lines + text.count("\n")
        library = parse_string(text, parse_stack=[])
        self._strings |= {each.key.strip().lower(): str(each.value) for each in library.strings}
        kept = (Entry, DuplicateBlockKeyBlock, DuplicateFieldKeyBlock, ParsingFailedBlock)
        blocks = [block for block in library.blocks if isinstance(block, kept)]
        for block in sorted(blocks, key=lambda block: block.start_line or 0):
            yield _paper(self.number, before, block, self._seen, self._strings)
            self.number += 1


def _paper(
    number: int,
    before: int,
    block: object,
    seen: dict[tuple[str, ...], int],
    strings: Mapping[str, str],
) -> Paper:
    line = before + (getattr(block, "start_line", 0) or 0) + 1
    shown = " ".join((getattr(block, "raw", "") or "").split())[:SHOWN]
    entry = block if isinstance(block, Entry) else getattr(block, "ignore_error_block", None)
    if not isinstance(entry, Entry):
        error = getattr(block, "error", None)
        why = getattr(error, "abort_reason", None) or str(error or "") or "broken"
        return Paper(number, line, "", "", (), f"cannot be read: {why}", shown)
    fields = {name: spelled_out(value, strings) for name, value in _fields(entry).items()}
    found = tuple(word for name in FIELDS for word in _words(name, fields.get(name, "")))
    kind = entry.entry_type.strip().lower()
    reason = _objection(kind, found, tuple(words(fields.get("title", ""))), seen, number)
    return Paper(
        number, line, str(entry.key).strip(), kind, found, reason, "" if reason is None else shown
    )


def _words(field: str, text: str) -> list[str]:
    return venue_words_left(text) if field in VENUES else words(text)


_PARTS = re.compile(r'\s*("(?:[^"{}]|\{[^}]*\})*"|\{.*\}|[^#"{}]+)\s*(?:#|$)', re.DOTALL)


def spelled_out(value: str, strings: Mapping[str, str]) -> str:
    """A field's value with the names of `@string` replaced: `jair # " supplement"`; once, for they
    seldom nest.
    """
    text = value.strip()
    if text[:1] in "{" or (text[:1] == '"' and "#" not in text):
        return text
    return (
        " ".join(strings.get(part.strip().lower(), part) for part in _PARTS.findall(text)) or text
    )


def _fields(entry: Entry) -> dict[str, str]:
    """Field -> text, names in lower case, the first of repeated ones."""
    found: dict[str, str] = {}
    for field in entry.fields:
        found.setdefault(field.key.strip().lower(), str(field.value))
    return found


def _objection(
    kind: str,
    found: tuple[str, ...],
    title: tuple[str, ...],
    seen: dict[tuple[str, ...], int],
    number: int,
) -> str | None:
    if kind in VOLUMES:
        return "a volume, not a paper"
    if not found:
        return "no words in any descriptive field"
    if title and title in seen:
        return f"repeats the title of entry {seen[title]}"
    seen[title] = number
    return None
