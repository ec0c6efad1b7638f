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
    """Of the whole text: reading is linear in it."""
    tag_characters: int = 256
    """Of one tag or string: it is stored and sent by every peer that holds it."""
    nesting: int = 64
    """Of parentheses and negations: they are read by recursion."""
    terms: int = 1_024
    """Of the normal form: a design may send one message for each."""
    tags_per_term: int = 64
    """Wanted, unwanted and predicates together."""
    steps: int = 131_072
    """AntiEntropy of terms on the way to the normal form, a term made counting for eight: bounds
    time and memory.
    """
    tags_per_description: int = 1_024
    """Of one registration."""

    def __post_init__(self) -> None:
        if not 1 <= self.nesting <= NESTING_MAX:
            raise LanguageError(
                f"a nesting of {self.nesting} is out of range: 1..{NESTING_MAX} can be read by "
                "recursion"
            )


NESTING_MAX = 150
"""Four calls for each level stay well below Python's own bound of 1,000."""

LIMITS = Limits()
