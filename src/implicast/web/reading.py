"""Tags from what a person reads (thesis, Listing 13): the commonest words of the papers in a BibTeX
file.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from implicast.lab.corpus.bibtex import papers, text_of
from implicast.peer.errors import LocalError

__all__ = ["ReadingError", "proposal", "read", "text_of"]

PAPERS = 30
"""The papers read last: those at the end of the file."""
TAGS = 18
FILE_MAX = 16 << 20


class ReadingError(LocalError):
    """A bibliography that cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a bibliography says of its reader."""

    tags: tuple[tuple[str, int], ...]
    """With how often each was met, the commonest first."""
    papers: int
    skipped: tuple[str, ...]
    """What could not be used, with its line and why."""


def proposal(content: bytes, most_papers: int = PAPERS, most_tags: int = TAGS) -> Proposal:
    text, flaw = text_of(content)
    if flaw is not None and not text:
        raise ReadingError(f"the file cannot be read: {flaw}")
    entries = list(papers(text))
    used = [each for each in entries if each.reason is None][-most_papers:]
    if not used:
        raise ReadingError("the file holds no BibTeX entry with a title or an abstract")
    counted = Counter(word for paper in used for word in paper.words)
    skipped = tuple(
        f"line {each.line}: {each.reason}" for each in entries if each.reason is not None
    )
    return Proposal(tuple(counted.most_common(most_tags)), len(used), skipped)


def read(path: Path) -> bytes:
    """The content of a file on this machine."""
    try:
        if path.stat().st_size > FILE_MAX:
            raise ReadingError(f"{path} has more than {FILE_MAX >> 20} MiB")
        return path.read_bytes()
    except OSError as error:
        raise ReadingError(f"{path} cannot be read: {error.strerror or error}") from None
