# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=False
"""The geometry of `kernels.py`, compiled when the package is built: the functions there are the law, name by name.

Distances are whole numbers, and roots and products are plain IEEE operations in the same order, so the answers are the
same to the last bit (`tests/laws/test_kernels_law.py`). Tables come as sheets, which any object with a two-dimensional
buffer can be, so that no array library is needed.
"""

from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.math cimport sqrt
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from implicast.space.digest import digest_bits as _digest_bits
from implicast.space.morton import BITS as _BITS

cdef int BITS = _BITS
cdef int64_t FAR = <int64_t>1 << 62
cdef enum:
    DIMENSIONS_MAX = 64
    SCRATCH = 1024  # numbers on the stack: enough for most tables and destinations

ctypedef fused Corner:
    int32_t
    int64_t


cdef inline void _locate(int64_t code, int shift, int dimensions, int64_t *row) noexcept nogil:
    cdef int dimension, position
    for dimension in range(dimensions):
        row[dimension] = 0
    dimension = 0
    for position in range(BITS - 1, -1, -1):
        row[dimension] = (row[dimension] << 1) | ((code >> position) & 1)
        dimension += 1
        if dimension == dimensions:
            dimension = 0
    for dimension in range(dimensions):
        row[dimensions + dimension] = row[dimension] + (<int64_t>1 << (shift // dimensions))


cdef inline int64_t _rank(const Corner *one, const int64_t *other, int dimensions, int *touches) noexcept nogil:
    cdef int64_t mask = (<int64_t>1 << (BITS // dimensions)) - 1
    cdef int64_t squared = 0, gap, back
    cdef int low, touching = 0
    for low in range(dimensions):
        if one[low] >= other[low + dimensions] or other[low] >= one[low + dimensions]:
            gap = (other[low] - one[low + dimensions]) & mask
            back = (one[low] - other[low + dimensions]) & mask
            if back < gap:
                gap = back
            squared += gap * gap
            if gap == 0:
                touching += 1
    touches[0] = touching
    return squared


cdef int64_t _nearest(const int64_t *boxes, int64_t count, const int64_t *targets, int64_t aims, int64_t first,
                      const int64_t *chosen, int dimensions, int *touches) noexcept nogil:
    cdef int64_t best = FAR, squared, target, each
    cdef int touching = 0, best_touching = 0, width = 2 * dimensions
    for target in range(aims):
        if chosen[target] != first:
            continue
        for each in range(count):
            squared = _rank[int64_t](boxes + each * width, targets + target * width, dimensions, &touching)
            if squared < best or (squared == best and touching < best_touching):
                best, best_touching = squared, touching
    touches[0] = best_touching
    return best


cdef int64_t _best_hop(const int64_t *own, int64_t owns, const int64_t *rows, int64_t count, const double *latencies,
                       const int64_t *targets, int64_t aims, int64_t cluster, const int64_t *chosen,
                       int dimensions) noexcept nogil:
    cdef int own_touching = 0, touching = 0, best_touching = 0
    cdef int64_t own_squared, squared, row, hop = -1
    cdef double here, progress, best = -1.0
    own_squared = _nearest(own, owns, targets, aims, cluster, chosen, dimensions, &own_touching)
    here = sqrt(<double>own_squared)
    for row in range(count):
        squared = _nearest(
            rows + row * 2 * dimensions, 1, targets, aims, cluster, chosen, dimensions, &touching
        )
        if squared > own_squared or (squared == own_squared and touching >= own_touching):
            continue
        progress = (here - sqrt(<double>squared)) / latencies[row]
        if progress < best:
            continue
        if progress == best and (
            touching > best_touching or (touching == best_touching and latencies[row] >= latencies[hop])
        ):
            continue
        hop, best, best_touching = row, progress, touching
    return hop


cdef int64_t _hop_by_sheet(const int32_t *sheet, int64_t count, int width, int64_t owns, int64_t code) noexcept nogil:
    cdef int dimensions = (width - 4) // 2
    cdef int64_t target[2 * DIMENSIONS_MAX]
    cdef int64_t own_squared = FAR, squared, row, name = -1
    cdef int own_touching = 0, touching = 0, best_touching = 0
    cdef double here, latency, progress, best = -1.0, best_latency = 0.0
    _locate(code, 0, dimensions, target)
    for row in range(owns):
        squared = _rank[int32_t](sheet + row * width, target, dimensions, &touching)
        if not row or squared < own_squared or (squared == own_squared and touching < own_touching):
            own_squared, own_touching = squared, touching
    here = sqrt(<double>own_squared)
    for row in range(owns, count):
        squared = _rank[int32_t](sheet + row * width, target, dimensions, &touching)
        if squared > own_squared or (squared == own_squared and touching >= own_touching):
            continue
        latency = (<const double *>(sheet + row * width))[dimensions + 1]
        progress = (here - sqrt(<double>squared)) / latency
        if progress < best:
            continue
        if progress == best and (touching > best_touching or (touching == best_touching and latency >= best_latency)):
            continue
        name, best, best_touching, best_latency = sheet[row * width + 2 * dimensions], progress, touching, latency
    return name


def hop_by_sheet(const int32_t[:, ::1] sheet, int64_t owns, int64_t code):
    """The name of the neighbour that `hop_to_code` finds, or -1; the first `owns` rows are our own."""
    if not sheet.shape[0]:
        return -1
    return _hop_by_sheet(&sheet[0, 0], sheet.shape[0], sheet.shape[1], owns, code)


def hops_of_codes(const int32_t[:, ::1] sheet, int64_t owns, list codes):
    """`hop_by_sheet` for many codes."""
    return [_hop_by_sheet(&sheet[0, 0], sheet.shape[0], sheet.shape[1], owns, code) for code in codes]


cdef int64_t _cut(const int64_t *tract, int64_t ends, int dimensions, int64_t *found, int64_t width) noexcept nogil:
    """How many extents there are; written, first code and bits of length, into rows of a width if there are any."""
    cdef int64_t index, low, high, length, count = 0
    cdef int shift
    for index in range(0, ends, 2):
        low, high = tract[index], tract[index + 1]
        while low < high:
            shift = 0
            while shift + dimensions <= BITS:
                length = <int64_t>1 << (shift + dimensions)
                if low & (length - 1) != 0 or low + length > high:
                    break
                shift += dimensions
            if found != NULL:
                found[count * width] = low
                found[count * width + 1] = shift
            count += 1
            low += <int64_t>1 << shift
    return count


cdef void _directions(const int64_t *centre, const int64_t *boxes, int64_t count, int dimensions,
                      double *found) noexcept nogil:
    cdef int64_t turn = <int64_t>2 << (BITS // dimensions), each, away
    cdef int dimension
    cdef double total
    for each in range(count):
        total = 0.0
        for dimension in range(dimensions):
            away = (
                boxes[each * 2 * dimensions + dimension] + boxes[each * 2 * dimensions + dimensions + dimension]
                - centre[dimension]
            ) & (turn - 1)
            if away > turn // 2:
                away -= turn
            found[each * dimensions + dimension] = away
            total += <double>away * <double>away
        if total > 0.0:
            for dimension in range(dimensions):
                found[each * dimensions + dimension] /= sqrt(total)


cdef inline double _product(const double *vectors, int width, int64_t one, int64_t other) noexcept nogil:
    cdef double total = 0.0
    cdef int dimension
    for dimension in range(width):
        total += vectors[one * width + dimension] * vectors[other * width + dimension]
    return total


cdef double _widest_pair(const double *vectors, int64_t count, int width, const int64_t *cluster, int64_t current,
                         int64_t *one, int64_t *other) noexcept nogil:
    cdef double widest = 2.0, cosine
    cdef int64_t a, b
    one[0] = other[0] = -1
    for a in range(count):
        if cluster[a] != current:
            continue
        for b in range(a + 1, count):
            if cluster[b] == current:
                cosine = _product(vectors, width, a, b)
                if cosine < widest:
                    widest, one[0], other[0] = cosine, a, b
    return widest


cdef void _divide(const double *vectors, int64_t count, int width, double cosine, int64_t *cluster) noexcept nogil:
    cdef int64_t clusters = 1, current = 0, each, one = -1, other = -1
    cdef double widest
    for each in range(count):
        cluster[each] = each if cosine > 1.0 else 0
    if cosine > 1.0:
        return
    while cosine >= -1.0 and current < clusters:
        widest = _widest_pair(vectors, count, width, cluster, current, &one, &other)
        if one < 0 or widest >= cosine:
            current += 1
            continue
        for each in range(count):
            if cluster[each] != current or each == one:
                continue
            if each == other or (
                _product(vectors, width, each, other) > _product(vectors, width, each, one)
            ):
                cluster[each] = clusters
        clusters += 1


def sheet_around(const int64_t[:, ::1] boxes, int64_t row, const int32_t[::1] around, list latencies):
    """`sheet_of` one row of many, and of those around it, which are named by their rows."""
    cdef int width = boxes.shape[1], corner
    cdef Py_ssize_t each, count = around.shape[0] + 1
    cdef int64_t at = row
    cdef bytes found = bytes(count * (width + 4) * 4)
    cdef int32_t *sheet = <int32_t *><char *>found
    for each in range(count):
        if each:
            at = around[each - 1]
            sheet[width] = at
            (<double *>sheet)[width // 2 + 1] = latencies[each - 1]
        for corner in range(width):
            sheet[corner] = boxes[at, corner]
        sheet += width + 4
    return memoryview(found).cast("i", (count, width + 4))


cdef tuple _part(const int64_t *pieces, const int64_t *keys, int64_t count, int64_t key, int64_t *ends):
    """The pieces of one key as a tract."""
    cdef int64_t each, filled = 0, low, high
    cdef object end
    for each in range(count):
        if keys[each] != key:
            continue
        low = pieces[4 * each]
        high = low + (<int64_t>1 << pieces[4 * each + 1])
        if filled and ends[filled - 1] == low:
            ends[filled - 1] = high
        else:
            ends[filled], ends[filled + 1] = low, high
            filled += 2
    cdef tuple found = PyTuple_New(filled)
    for each in range(filled):
        end = ends[each]
        Py_INCREF(end)
        PyTuple_SET_ITEM(found, each, end)
    return found


def branches(const int32_t[:, ::1] sheet, tuple tract, double cosine, bint merge):
    """`SurfaceTable.branches` by a sheet whose first row is our only piece: pairs of a name, -1 for none, and a part."""
    return branches_at(&sheet[0, 0], sheet.shape[0], sheet.shape[1], tract, cosine, merge)


cdef int64_t hop_at(const int32_t *sheet, int64_t rows, int width, int64_t code) noexcept nogil:
    """`hop_by_sheet` by the same."""
    return _hop_by_sheet(sheet, rows, width, 1, code)


cdef list branches_at(const int32_t *sheet, int64_t rows, int width, tuple tract, double cosine, bint merge):
    cdef int corners = width - 4, dimensions = corners // 2, corner
    cdef int64_t few[SCRATCH]
    cdef int64_t *scratch = few
    cdef int64_t *numbers
    cdef int64_t ends = len(tract), each, row, count, key, fixed = ends + (rows + 1) * (corners + 1), size
    if fixed > SCRATCH:
        scratch = <int64_t *>malloc(fixed * sizeof(int64_t))
        if scratch == NULL:
            raise MemoryError()
    for each in range(ends):
        scratch[each] = tract[each]
    count = _cut(scratch, ends, dimensions, NULL, 4)
    size = fixed + count * (corners + 9 + dimensions)
    if size > SCRATCH:
        numbers = <int64_t *>malloc(size * sizeof(int64_t))
        if numbers != NULL:
            memcpy(numbers, scratch, ends * sizeof(int64_t))
        if scratch != few:
            free(scratch)
        if numbers == NULL:
            raise MemoryError()
        scratch = numbers
    # One piece of memory: ends, our box and the neighbours', paces, centre; then of the extents boxes, pieces, clusters,
    # hops, keys, joined ends and vectors.
    cdef int64_t *table = scratch + ends
    cdef double *paces = <double *>(table + rows * corners)
    cdef int64_t *centre = table + rows * corners + rows
    cdef int64_t *boxes = scratch + fixed
    cdef int64_t *pieces = boxes + count * corners
    cdef int64_t *cluster = pieces + 4 * count
    cdef int64_t *hops = cluster + count
    cdef int64_t *keys = hops + count
    cdef int64_t *joined = keys + count
    cdef double *vectors = <double *>(joined + 2 * count)
    for row in range(rows):
        for corner in range(corners):
            table[row * corners + corner] = sheet[row * width + corner]
        if row:
            paces[row - 1] = (<const double *>(sheet + row * width))[dimensions + 1]
    for corner in range(dimensions):
        centre[corner] = table[corner] + table[dimensions + corner]
    _cut(scratch, ends, dimensions, pieces, 4)
    for each in range(count):
        _locate(pieces[4 * each], pieces[4 * each + 1], dimensions, boxes + each * corners)
        hops[each] = -2
    _directions(centre, boxes, count, dimensions, vectors)
    _divide(vectors, count, dimensions, cosine, cluster)
    for each in range(count):
        if hops[cluster[each]] == -2:
            hops[cluster[each]] = _best_hop(
                table, 1, table + corners, rows - 1, paces, boxes, count, cluster[each], cluster, dimensions
            )
        keys[each] = hops[cluster[each]] if merge else cluster[each]
    cdef list found = []
    for each in range(count):
        key = keys[each]
        for row in range(each):
            if keys[row] == key:
                break
        else:
            row = hops[cluster[each]]
            name = sheet[(row + 1) * width + corners] if row >= 0 else -1
            found.append((name, _part(pieces, keys, count, key, joined)))
    if scratch != few:
        free(scratch)
    return found


cdef enum:
    BLOCK = 64
    TEXT_MAX = 55


cdef inline uint32_t _turned(uint32_t word, int by) noexcept nogil:
    return word << by | word >> (32 - by)


cdef uint64_t _sha1_head(const unsigned char *block) noexcept nogil:
    """The first 64 bits of the digest of a text that fills one block with its padding (FIPS 180-4, section 6.1)."""
    cdef uint32_t w[80]
    cdef uint32_t a = 0x67452301, b = 0xEFCDAB89, c = 0x98BADCFE, d = 0x10325476, e = 0xC3D2E1F0, step
    cdef int each
    for each in range(16):
        w[each] = (
            <uint32_t>block[4 * each] << 24 | <uint32_t>block[4 * each + 1] << 16
            | <uint32_t>block[4 * each + 2] << 8 | block[4 * each + 3]
        )
    for each in range(16, 80):
        w[each] = _turned(w[each - 3] ^ w[each - 8] ^ w[each - 14] ^ w[each - 16], 1)
    for each in range(80):
        if each < 20:
            step = ((b & c) | (~b & d)) + <uint32_t>0x5A827999
        elif each < 40:
            step = (b ^ c ^ d) + <uint32_t>0x6ED9EBA1
        elif each < 60:
            step = ((b & c) | (b & d) | (c & d)) + <uint32_t>0x8F1BBCDC
        else:
            step = (b ^ c ^ d) + <uint32_t>0xCA62C1D6
        step += _turned(a, 5) + e + w[each]
        e, d, c, b, a = d, c, _turned(b, 30), a, step
    return <uint64_t>(a + <uint32_t>0x67452301) << 32 | <uint32_t>(b + <uint32_t>0xEFCDAB89)


def digests_into(const unsigned char[:, ::1] names, const int32_t[::1] chosen, bytes word, int64_t[::1] codes):
    """Write `digest_bits(BITS, name, word)` of the chosen names into `codes`."""
    cdef unsigned char block[BLOCK]
    cdef int width = names.shape[1], length = len(word), each, bits
    cdef const unsigned char *letters = word
    cdef Py_ssize_t index
    if width + length + 8 > TEXT_MAX:  # more than a block
        for index in range(chosen.shape[0]):
            codes[index] = _digest_bits(BITS, bytes(names[chosen[index]]), word)
        return
    for each in range(BLOCK):
        block[each] = 0
    block[3], block[7 + width] = width, length
    for each in range(length):
        block[8 + width + each] = letters[each]
    block[8 + width + length] = 0x80
    bits = 8 * (8 + width + length)
    block[62], block[63] = bits >> 8, bits & 255
    for index in range(chosen.shape[0]):
        for each in range(width):
            block[4 + each] = names[chosen[index], each]
        codes[index] = <int64_t>(_sha1_head(block) >> (64 - BITS))
