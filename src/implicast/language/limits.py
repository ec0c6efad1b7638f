"""Size limits of expressions: every limit by name, with its reason. All can be raised for texts
from a trusted source.

A cast may come from an unknown peer, and normal forms explode: `(a|b)&(c|d)&...` doubles its terms
with every pair. Therefore every product is sized before it is built, and an expression that exceeds
a limit is refused with the limit's name.
"""

from dataclasses import dataclass

from implicast.language.errors import LanguageError


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one text. The defaults are far above what people write and refuse a hostile text in
    milliseconds.
    """

    characters: int = 16_384
    """Characters of the whole text. Parsing time is linear in it."""
    tag_characters: int = 256
    """Characters of one tag or string. Every peer that holds it stores and sends it."""
    nesting: int = 64
    """Depth of parentheses and negations, which the parser reads by recursion."""
    terms: int = 1_024
    """Terms of the normal form. A design may send one message for each."""
    tags_per_term: int = 64
    """Tags, negated tags and predicates of one term together."""
    steps: int = 131_072
    """Comparisons of terms during normalisation; creating a term counts as eight. Bounds time and
    memory.
    """
    tags_per_description: int = 1_024
    """Tags of one registration."""

    def __post_init__(self) -> None:
        if not 1 <= self.nesting <= NESTING_MAX:
            raise LanguageError(
                f"a nesting of {self.nesting} is out of range: 1..{NESTING_MAX} can be read by "
                "recursion"
            )


NESTING_MAX = 150
"""Largest `nesting`: four calls for each level stay well below Python's recursion limit of 1,000."""

LIMITS = Limits()
