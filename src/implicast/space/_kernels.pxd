"""What other compiled modules call of the geometry, without a Python call between."""

from libc.stdint cimport int32_t, int64_t

cdef list branches_at(const int32_t *sheet, int64_t rows, int width, tuple tract, double cosine, bint merge)
cdef int64_t hop_at(const int32_t *sheet, int64_t rows, int width, int64_t code) noexcept nogil
