# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=False
"""Forwarding of condcast casts without receipts on a ring that does not change. `casting/condcast/forwarder.py` and
`split.py` are the specification, and handle all other cases.

Forwarding needs one fact about the aggregates of a node: the lowest level whose aggregate lets the target pass. That is
one byte per node and target (`populations/lazy_sharp.py`) instead of filters of half a kilobyte.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from implicast.casting.condcast.messages import ForwardCast
from implicast.casting.spice._records import take
from implicast.space.ring import Arc

cdef object _Carry = ForwardCast
cdef object _Arc = Arc
cdef object _take = take

cdef enum:
    LEVELS_MAX = 64
    TOGETHER = 64  # bits handled at once

cdef uint64_t ROUND = ~<uint64_t>0  # distance of a full turn, back to the node itself
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
    """Raise `levels`, by node, to the lowest level whose aggregate from that node on has all bits.

    `marks`: by node, which of the bits it has; `firsts`: by bit, the first node that has it. An aggregate of level i
    has a bit if the next node with the bit is less than 2^i places ahead.
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
    """Forwards casts for all members of one ring."""

    cdef public object furnish
    cdef object _levels_for, _query, _column
    cdef const int32_t[::1] _rank, _address
    cdef const int64_t[::1] _keys
    cdef const uint8_t *_passing
    cdef int64_t _count
    cdef int _levels

    def __init__(self, rank, address, keys, levels_for, furnish):
        """`rank`: by address, the rank on the ring; `address`, `keys`: by rank; `levels_for(query)`: by rank, the lowest
        level whose aggregate lets the query pass, or None if the query is not supported; `furnish` makes the parts of
        a lazy member."""
        self._rank, self._address, self._keys = rank, address, keys
        self._levels_for, self.furnish = levels_for, furnish
        self._query = self._column = None
        self._count = len(keys)
        self._levels = BIT_LENGTH(self._count - 1)

    cdef bint _set_query(self, query) except -1:
        """Switch to another query; False if it is not supported."""
        cdef const uint8_t[::1] column
        self._column = self._levels_for(query)
        self._query = None
        if self._column is None:
            return False
        column = self._column
        self._passing, self._query = &column[0], query
        return True

    cdef inline uint64_t _ahead(self, int64_t at, uint64_t me, int level) noexcept:
        """Distance from the node to its finger of a level."""
        if level >= self._levels:
            return ROUND
        at += <int64_t>1 << level
        return <uint64_t>self._keys[at if at < self._count else at - self._count] - me

    cdef inline bint _passes(self, int64_t at, int level) noexcept:
        """Whether the aggregate of a level lets the query pass."""
        at += <int64_t>1 << level
        return self._passing[at if at < self._count else at - self._count] <= level

    cpdef bint forward(self, member, carry) except -1:
        """Forward a cast from a member. False, without effect, if the member's own forwarder has to do it."""
        cdef uint64_t lows[LEVELS_MAX]
        cdef uint64_t highs[LEVELS_MAX]
        cdef int levels[LEVELS_MAX]
        cdef uint64_t me, start, end, low, high
        cdef int64_t at, to
        cdef int level, count = 0, each
        if carry.token or carry.incarnation:
            return False
        query, arcs = carry.query, <tuple>carry.arcs
        if query is not self._query and not self._set_query(query):
            return False
        if len(arcs) != 1:
            return False
        arc = arcs[0]
        begin, stop = arc.start, arc.end
        if type(begin) is not int or type(stop) is not int:
            return False
        low, high = <uint64_t><int64_t>begin, <uint64_t><int64_t>stop
        if (low | high) >> 63:
            return False  # no key has this bit
        at = self._rank[<int64_t>member.address]
        me = <uint64_t>self._keys[at]
        start, end = low - me, high - me
        if not end:
            end = ROUND
        if start >= end:
            return False  # the arc passes the node itself
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
        if not start and not self._passing[at]:  # otherwise the node's own filter excludes it
            if not _take(member.inbox, member.host, member.description, cast, query.target, payload):
                member.notify(cast, query, payload)
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
        cdef int top = self._levels - 1, each, count_left = 0
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
                levels[count_left], lows[count_left], highs[count_left] = levels[each], lows[each], highs[each]
                count_left += 1
        return count_left
