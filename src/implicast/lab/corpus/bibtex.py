"""BibTeX as it is met in the wild: entries out, what is broken counted and named, never fatal.

`bibtexparser` splits a file into blocks and finds its feet again after a broken one; its clean-up layers are left out,
since only words matter here. Repeated fields and repeated keys are kept as what they are:
entries with a flaw. Volumes (`@proceedings`) and repeats of a title are not papers.
"""

import gzip
import logging
from collections.abc import Iterator
from dataclasses import dataclass

from bibtexparser.entrypoint import parse_string
from bibtexparser.model import DuplicateBlockKeyBlock, DuplicateFieldKeyBlock, Entry, ParsingFailedBlock

from implicast.lab.corpus.words import words

FIELDS = (
    "title", "subtitle", "abstract", "journal", "booktitle", "annotate", "note", "topics", "keywords",
)  # fmt: skip
"""Thesis, Listing 13; `subtitle` is title text that some collections keep apart."""
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


def text_of(content: bytes) -> str:
    """The text of a file: unpacked when it is gzip, UTF-8 or else Latin-1."""
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")


def papers(text: str) -> Iterator[Paper]:
    """Every entry of a file, numbered from 0 in order."""
    logging.getLogger("bibtexparser").setLevel(logging.CRITICAL)
    library = parse_string(text, parse_stack=[])
    seen: dict[tuple[str, ...], int] = {}
    kept = (Entry, DuplicateBlockKeyBlock, DuplicateFieldKeyBlock, ParsingFailedBlock)
    blocks = [block for block in library.blocks if isinstance(block, kept)]
    for number, block in enumerate(sorted(blocks, key=lambda block: block.start_line or 0)):
        yield _paper(number, block, seen)


def _paper(number: int, block: object, seen: dict[tuple[str, ...], int]) -> Paper:
    line = (getattr(block, "start_line", 0) or 0) + 1
    shown = " ".join((getattr(block, "raw", "") or "").split())[:SHOWN]
    entry = block if isinstance(block, Entry) else getattr(block, "ignore_error_block", None)
    if not isinstance(entry, Entry):
        error = getattr(block, "error", None)
        why = getattr(error, "abort_reason", None) or str(error or "") or "broken"
        return Paper(number, line, "", "", (), f"cannot be read: {why}", shown)
    fields = _fields(entry)
    found = tuple(word for name in FIELDS for word in words(fields.get(name, "")))
    kind = entry.entry_type.strip().lower()
    reason = _objection(kind, found, tuple(words(fields.get("title", ""))), seen, number)
    return Paper(number, line, str(entry.key).strip(), kind, found, reason, "" if reason is None else shown)


def _fields(entry: Entry) -> dict[str, str]:
    """Field -> text, names in lower case, the first of repeated ones."""
    found: dict[str, str] = {}
    for field in entry.fields:
        found.setdefault(field.key.strip().lower(), str(field.value))
    return found


def _objection(
    kind: str, found: tuple[str, ...], title: tuple[str, ...], seen: dict[tuple[str, ...], int], number: int
) -> str | None:
    if kind in VOLUMES:
        return "a volume, not a paper"
    if not found:
        return "no words in any descriptive field"
    if title and title in seen:
        return f"repeats the title of entry {seen[title]}"
    seen[title] = number
    return None
