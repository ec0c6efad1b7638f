"""The Morton curve for many codes at once, as arrays."""

from typing import Any

import numpy as np
import numpy.typing as npt

from implicast.space.morton import BITS

Codes = npt.NDArray[np.int64]


def places(codes: Codes, dimensions: int) -> Codes:
    """`place` for many codes at once: one row each."""
    at = np.zeros((len(codes), dimensions), np.int64)
    for position in range(BITS):
        dimension = position % dimensions
        at[:, dimension] = at[:, dimension] << 1 | codes >> (BITS - 1 - position) & 1
    return at


def codes(at: Codes) -> Codes:
    """`code` for many places at once."""
    dimensions = at.shape[1]
    found: Any = np.zeros(len(at), np.int64)
    for level in range(BITS // dimensions - 1, -1, -1):
        for dimension in range(dimensions):
            found = found << 1 | at[:, dimension] >> level & 1
    return found  # type: ignore[no-any-return]
