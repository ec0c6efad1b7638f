"""Conversion between NumPy and Arrow without pandas, which Arrow's own conversion imports (a third
of a second).

Supports what journals need: numbers and booleans with nulls, strings, and lists of these.
"""

from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Values = npt.NDArray[Any]
_DTYPES: dict[pa.DataType, Any] = {
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.float64(): np.float64,
}


def column(
    values: Any, kind: pa.DataType, present: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """An Arrow array of numbers, booleans or strings; null where not `present`."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if pa.types.is_string(kind):
        return strings(values)
    nulls = None if present is None or present.all() else _bits(present)
    if pa.types.is_boolean(kind):
        return pa.Array.from_buffers(kind, len(values), [nulls, _bits(np.asarray(values, bool))])
    data = np.ascontiguousarray(values, _DTYPES[kind])
    return pa.Array.from_buffers(kind, len(data), [nulls, pa.py_buffer(data)])


def optional(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Numbers, booleans or strings with None as null; lists of these; structs by Arrow's own
    conversion.
    """
    if pa.types.is_list(kind):
        return lists(values, lambda inside: optional(inside, kind.value_type))
    if pa.types.is_string(kind):
        return strings(values)
    if pa.types.is_struct(kind):
        return pa.array(values, kind)
    present = np.fromiter((each is not None for each in values), bool, len(values))
    return column([each or 0 for each in values], kind, present)


def strings(texts: Sequence[str | None]) -> pa.Array:
    """An Arrow array of strings with None as null."""
    encoded = [(each or "").encode() for each in texts]
    offsets = np.fromiter(accumulate(map(len, encoded), initial=0), np.int32, len(encoded) + 1)
    nulls = _bits(np.array([each is not None for each in texts], bool)) if None in texts else None
    buffers = [nulls, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def named(codes: Values, names: Sequence[str]) -> pa.Array:
    """A dictionary-encoded array from codes."""
    return pa.DictionaryArray.from_arrays(column(codes, pa.int16()), strings(names))


def lists(parts: Sequence[Sequence[Any]], content: Any) -> pa.Array:
    """An array of lists; `content` converts all elements, concatenated."""
    offsets = np.fromiter(accumulate(map(len, parts), initial=0), np.int32, len(parts) + 1)
    return pa.ListArray.from_arrays(
        column(offsets, pa.int32()), content(list(chain.from_iterable(parts)))
    )


def numbers(found: Any, absent: int = 0) -> Values:
    """The values of an Arrow column, with `absent` in place of null."""
    chunks = found.chunks if isinstance(found, pa.ChunkedArray) else [found]
    made = [_numbers(chunk, absent) for chunk in chunks]
    return np.concatenate(made) if len(made) != 1 else made[0]


def runs(ordered: Values) -> tuple[Values, Values]:
    """For sorted values, the start and the length of each run of equal ones.

    NumPy's `unique` would import masked arrays, a twentieth of the time of a small run.
    """
    if not len(ordered):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return starts, np.diff(starts, append=len(ordered))


def _numbers(chunk: pa.Array, absent: int) -> Values:
    present, data = chunk.buffers()
    first, count = chunk.offset, len(chunk)
    if data is None:
        return np.zeros(0, bool if pa.types.is_boolean(chunk.type) else _DTYPES[chunk.type])
    if pa.types.is_boolean(chunk.type):
        return _unpacked(data, first, count)
    values = np.frombuffer(data, _DTYPES[chunk.type], count, first * _DTYPES[chunk.type]().itemsize)
    if present is None or not chunk.null_count:
        return values
    return np.where(_unpacked(present, first, count), values, absent)


def _bits(flags: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def _unpacked(data: pa.Buffer, first: int, count: int) -> npt.NDArray[np.bool_]:
    return np.unpackbits(np.frombuffer(data, np.uint8), count=first + count, bitorder="little")[
        first:
    ].astype(bool)
