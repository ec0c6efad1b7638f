"""Membership vectors: strings of digits in 0..alpha-1, packed into one integer of at most 63 bits.

Two peers that share the first i digits belong to one ring of level i (Aspnes and Shah, Skip
Graphs). Digits lie in fields of equal width, the first digit highest, so that the common prefix is
one exclusive-or and one bit length: 0.3 us, where comparing digit by digit takes 3 us at 40 digits.
63 bits are what a field of a message can bound; they hold 63 binary or 31 quaternary digits, and
rings become small long before that (40 binary digits are ample).
"""

from dataclasses import dataclass, field
from hashlib import blake2b

VECTOR_BITS = 63
ALPHA_MAX = 16


@dataclass(frozen=True, slots=True)
class Vectors:
    """All vectors over one base. `length` digits of `width` bits each."""

    alpha: int = 2
    width: int = field(init=False)
    length: int = field(init=False)
    limits: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """Two vectors share the first i digits if their exclusive-or is less than limits[i]."""

    def __post_init__(self) -> None:
        assert 2 <= self.alpha <= ALPHA_MAX, (
            f"digits have a base of 2 to {ALPHA_MAX}, not {self.alpha}"
        )
        object.__setattr__(self, "width", (self.alpha - 1).bit_length())
        object.__setattr__(self, "length", VECTOR_BITS // self.width)
        limits = [1 << (self.length - digits) * self.width for digits in range(self.length + 1)]
        object.__setattr__(self, "limits", (*limits, 0, 0))

    def draw(self, secret: bytes, *names: bytes) -> int:
        """The vector that belongs to these names: the same for ever, unforeseeable without the
        secret.
        """
        state = blake2b(key=secret[:64], digest_size=64)
        for name in names:
            state.update(len(name).to_bytes(4, "big") + name)
        return self.pack_number(int.from_bytes(state.digest(), "big"))

    def pack_number(self, number: int) -> int:
        """The low digits of a number in base alpha, as a vector; of a uniform number, uniform
        digits.
        """
        if self.alpha == 2:  # the usual case, much cheaper
            return int(f"{number & (1 << self.length) - 1:0{self.length}b}"[::-1], 2)
        vector = 0
        for _ in range(self.length):
            number, digit = divmod(number, self.alpha)
            vector = vector << self.width | digit
        return vector

    def pack(self, digits: str) -> int:
        """The vector with these first digits (hexadecimal letters beyond 9), then zeros."""
        vector = 0
        for digit in digits:
            value = int(digit, ALPHA_MAX)
            assert value < self.alpha, f"{digit} is not a digit in base {self.alpha}"
            vector = vector << self.width | value
        return vector << (self.length - len(digits)) * self.width

    def common(self, one: int, other: int) -> int:
        """cpl: how many first digits the two share."""
        return (self.length * self.width - (one ^ other).bit_length()) // self.width

    def prefix(self, vector: int, digits: int) -> int:
        """The first digits alone: equal for the members of one ring of that level."""
        return vector >> (self.length - digits) * self.width

    def digit(self, vector: int, position: int) -> int:
        """The digit at a position, counted from 0."""
        return vector >> (self.length - 1 - position) * self.width & (1 << self.width) - 1

    def valid(self, vector: int) -> bool:
        """Whether every field holds a digit below alpha and nothing lies beyond the last."""
        if not 0 <= vector < 1 << self.length * self.width:
            return False
        if self.alpha == 1 << self.width:  # every field holds a digit
            return True
        return all(self.digit(vector, position) < self.alpha for position in range(self.length))

    def text(self, vector: int, digits: int) -> str:
        return "".join(f"{self.digit(vector, position):x}" for position in range(digits))
