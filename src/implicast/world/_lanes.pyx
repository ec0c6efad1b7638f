# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=False
"""Casts of condcast without receipts, led through a ring in which nothing changes: `casting/condcast/carrier.py` and
`split.py` are the law for it, and do what is not plain.

Of everybody's aggregates one thing is needed at a time: from which level on they let a target pass. That is one byte
for each node and target (`populations/sharp_sleepers.py`), and makes filters of half a kilobyte unnecessary.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from implicast.casting.condcast.messages import Carry
from implicast.casting.spice._records import take
from implicast.peer.memory import HORIZON_US, place_of
from implicast.space.ring import Arc

cdef object _Carry = Carry
cdef object _Arc = Arc
cdef object _take = take
cdef object _place_of = place_of
cdef object _HORIZON_US = HORIZON_US

cdef enum:
    LEVELS_MAX = 64
    TOGETHER = 64  # bits that are looked for at once

cdef uint64_t ROUND = ~<uint64_t>0  # as far as the node itself, a full turn on
cdef uint8_t NEVER = 255

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define LAST_BIT(word) __builtin_ctzll(word)
    #define BIT_LENGTH(word) ((word) ? 64 - __builtin_clzll(word) : 0)
    #else
    static int LAST_BIT(unsigned long long word) { int at = 0; while (!(word >> at & 1)) at++; return at; }
    static int BIT_LENGTH(unsigned long long word) { int at = 0; while (word >> at) { if (++at == 64) break; } return at; }
    #endif
    """
    int LAST_BIT(uint64_t word) noexcept nogil
    int BIT_LENGTH(uint64_t word) noexcept nogil


def widen(const uint64_t[::1] marks, const int64_t[::1] firsts, uint8_t[::1] levels):
    """By node, the least level whose aggregate has all bits if it begins there, unless `levels` says a higher one.

    `marks`: by node, which of the bits it has; `firsts`: by bit, the first node that has it. An aggregate of level i
    has a bit if the next node that has it is less than 2^i places ahead.
    """
    cdef int64_t nexts[TOGETHER]
    cdef int64_t count = len(marks), at, farthest = 0
    cdef int bits = len(firsts), each
    cdef uint8_t level
    cdef uint64_t found
    for each in range(bits):
        nexts[each] = count + firsts[each]
        farthest = max(farthest, nexts[each])
    for at in range(count - 1, -1, -1):
        found = marks[at]
        if found:
            while found:
                nexts[LAST_BIT(found)] = at
                found &= found - 1
            farthest = 0
            for each in range(bits):
                farthest = max(farthest, nexts[each])
        level = BIT_LENGTH(farthest - at) if bits else 0
        if level > levels[at]:
            levels[at] = level


cdef class Lane:
    """Leads casts through all members of one ring."""

    cdef public object furnish
    cdef object _levels_for, _query, _column
    cdef const int32_t[::1] _rank, _address
    cdef const int64_t[::1] _keys
    cdef const uint8_t *_passing
    cdef int64_t _count
    cdef int _levels

    def __init__(self, rank, address, keys, levels_for, furnish):
        """By address the rank on the ring; by rank address and key; `levels_for`: by rank, from which level on
        aggregates that begin there let a query pass, or None if that cannot be said of it."""
        self._rank, self._address, self._keys = rank, address, keys
        self._levels_for, self.furnish = levels_for, furnish
        self._query = self._column = None
        self._count = len(keys)
        self._levels = BIT_LENGTH(self._count - 1)

    cdef bint _look_for(self, query) except -1:
        """Another query: is it plain?"""
        cdef const uint8_t[::1] column
        self._column = self._levels_for(query)
        self._query = None
        if self._column is None:
            return False
        column = self._column
        self._passing, self._query = &column[0], query
        return True

    cdef inline uint64_t _ahead(self, int64_t at, uint64_t me, int level) noexcept:
        """How far the finger of a level is from the node."""
        if level >= self._levels:
            return ROUND
        at += <int64_t>1 << level
        return <uint64_t>self._keys[at if at < self._count else at - self._count] - me

    cdef inline bint _passes(self, int64_t at, int level) noexcept:
        """Whether the aggregate of a level lets the query pass."""
        at += <int64_t>1 << level
        return self._passing[at if at < self._count else at - self._count] <= level

    cpdef bint lead(self, member, carry) except -1:
        """Take a cast on from a member; False, and nothing is done: it is for its carrier."""
        cdef uint64_t lows[LEVELS_MAX]
        cdef uint64_t highs[LEVELS_MAX]
        cdef int levels[LEVELS_MAX]
        cdef uint64_t me, start, end, low, high
        cdef int64_t at, to
        cdef int level, count = 0, each
        if carry.token or carry.incarnation:
            return False
        query, arcs = carry.query, <tuple>carry.arcs
        if query is not self._query and not self._look_for(query):
            return False
        if len(arcs) != 1:
            return False
        arc = arcs[0]
        begin, stop = arc.start, arc.end
        if type(begin) is not int or type(stop) is not int:
            return False
        low, high = <uint64_t><int64_t>begin, <uint64_t><int64_t>stop
        if (low | high) >> 63:
            return False  # there are no such keys
        at = self._rank[<int64_t>member.address]
        me = <uint64_t>self._keys[at]
        start, end = low - me, high - me
        if not end:
            end = ROUND
        if start >= end:
            return False  # it goes past the node itself
        level = 0
        low = self._ahead(at, me, 0)
        while low < end and level < self._levels:
            high = self._ahead(at, me, level + 1)
            if high > start and self._passes(at, level):
                levels[count] = level
                lows[count] = low if low > start else start
                highs[count] = high if high < end else end
                count += 1
            low = high
            level += 1
        if count and levels[0] < self._levels - 1:
            count = self._above_floor(at, me, levels, lows, highs, count)
        cast, payload = carry.cast, carry.payload
        if not start and not self._passing[at]:  # else the node's own filter says that it is not meant
            if not _take(member.inbox, member, cast, query.target, payload, _place_of, _HORIZON_US):
                member.tell(cast, query, payload)
        if not count:
            return True
        send = member.host.send
        for each in range(count):
            to = at + (<int64_t>1 << levels[each])
            begin = <int64_t>(me + lows[each])
            stop = <int64_t>(me + highs[each] if highs[each] != ROUND else me)
            send(self._address[to if to < self._count else to - self._count],
                 _Carry(cast, 0, (_Arc(begin, stop),), query, payload))
        return True

    cdef int _above_floor(self, int64_t at, uint64_t me, int *levels, uint64_t *lows, uint64_t *highs,
                          int count) noexcept:
        """`split._above_floor`: the top level may run on past the node itself."""
        cdef int top = self._levels - 1, each, kept = 0
        cdef int64_t past = (<int64_t>2 << top) - self._count
        cdef uint64_t floor
        if not past or self._passes(at, top):
            return count
        past += at
        floor = <uint64_t>self._keys[past if past < self._count else past - self._count] - me
        for each in range(count):
            if levels[each] != top and lows[each] < floor:
                lows[each] = floor
            if levels[each] == top or lows[each] < highs[each]:
                levels[kept], lows[kept], highs[kept] = levels[each], lows[each], highs[each]
                kept += 1
        return kept
