# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=False
"""Compiled matching of a term against the records of a registry, and forwarding of casts without receipts.

`Registry.selected` and `Traversals` are the reference implementations.

A cast scans some records at each of thousands of peers, and about one in ten matches. The cost is dominated by memory
accesses. A registry therefore has a row of 16 bytes for each record: its home, and a Bloom filter of 64 bits with two
bits for each tag. A record is read only if its row has all bits of the term's tags.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_Next
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_Check, PyUnicode_CheckExact
from libc.stdint cimport int32_t, int64_t, uint64_t

from implicast.space._kernels cimport branches_at, hop_at

from bisect import bisect_right

from msgspec.structs import replace

from implicast.peer.events import Notice
from implicast.peer.expiry import CLOCK_BOUND_US as _CLOCK_BOUND_US
from implicast.peer.expiry import LIFETIME_MAX_US as _LIFETIME_MAX_US
from implicast.peer.expiry import LIFETIME_US as _LIFETIME_US
from implicast.peer.memory import PERIOD_US as _PERIOD_US
from implicast.peer.memory import place_of
from implicast.space.morton import BITS as _BITS

cdef object _Notice = Notice
cdef object _replace = replace
cdef object _place_of = place_of
cdef int64_t CLOCK_BOUND_US = _CLOCK_BOUND_US
cdef int64_t LIFETIME_US = _LIFETIME_US
cdef int64_t LIFETIME_MAX_US = _LIFETIME_MAX_US
cdef int64_t PERIOD_US = _PERIOD_US

cdef int BITS = _BITS

cdef extern from "Python.h":
    bint PyUnicode_CHECK_INTERNED(object word)
    void *PyUnicode_DATA(PyObject *word)
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject *word)
    int PyUnicode_KIND(PyObject *word)

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define SOON(at) __builtin_prefetch(at)
    #else
    #define SOON(at) ((void)(at))
    #endif
    """
    void SOON(const void *at) noexcept nogil

cdef struct Row:
    int64_t home
    uint64_t marks

cdef enum:
    SOME_MAX = 16  # members that are prefetched together
    ENDS_MAX = 60  # interval ends of a tract that is handled here; longer tracts are left to `Traversals`

cdef object _CastRequest = None, _Way = None, _Notify = None, _address_of = None
"""Set by the first `FastTraversal`, because the modules that define them may import this one."""
cdef uint64_t ALL = ~<uint64_t>0
cdef uint64_t BASIS = <uint64_t>0xCBF29CE4 << 32 | <uint64_t>0x84222325
cdef uint64_t PRIME = <uint64_t>0x100 << 32 | <uint64_t>0x1B3


cdef uint64_t _marks(tuple tags) noexcept:
    """Two bits for each tag, chosen by its FNV-1a hash."""
    cdef uint64_t found = 0, drawn
    cdef const unsigned char *letters
    cdef Py_ssize_t index, letter
    cdef PyObject *tag
    for index in range(PyTuple_GET_SIZE(tags)):
        tag = PyTuple_GET_ITEM(tags, index)
        if not PyUnicode_Check(<object>tag):
            continue  # sets no bits, neither in a record nor in a term
        letters = <const unsigned char *>PyUnicode_DATA(tag)
        drawn = BASIS
        for letter in range(PyUnicode_GET_LENGTH(tag) * PyUnicode_KIND(tag)):
            drawn = (drawn ^ letters[letter]) * PRIME
        found |= <uint64_t>1 << (drawn >> 58) | <uint64_t>1 << (drawn >> 52 & 63)
    return found


def rows_of(dict records):
    """One row for each record, in order. A record with two descriptions or none gets all bits."""
    cdef bytes made = PyBytes_FromStringAndSize(NULL, len(records) * sizeof(Row))
    cdef Row *row = <Row *>PyBytes_AS_STRING(made)
    for held in records.values():
        entry = held.entry
        row.home = held.home
        row.marks = ALL if entry.before is not None or entry.description is None else _marks(entry.description.tags)
        row += 1
    return made


cdef bint _holds(tuple tags, object tag) except -1:
    """`tag in tags`. Two interned strings are equal only if they are the same object."""
    cdef Py_ssize_t index, count = PyTuple_GET_SIZE(tags)
    for index in range(count):
        if PyTuple_GET_ITEM(tags, index) == <PyObject *>tag:
            return True
    if not PyUnicode_CheckExact(tag) or not PyUnicode_CHECK_INTERNED(tag):
        return tag in tags
    for index in range(count):
        word = <object>PyTuple_GET_ITEM(tags, index)
        if not PyUnicode_CheckExact(word) or not PyUnicode_CHECK_INTERNED(word):
            return tag in tags
    return False


cdef bint _selects(tuple has, tuple lacks, tuple tags) except -1:
    cdef Py_ssize_t index
    for index in range(PyTuple_GET_SIZE(has) - 1, -1, -1):  # the first tag last: the registry is that tag's
        if not _holds(tags, <object>PyTuple_GET_ITEM(has, index)):
            return False
    for index in range(PyTuple_GET_SIZE(lacks)):
        if _holds(tags, <object>PyTuple_GET_ITEM(lacks, index)):
            return False
    return True


cdef bint _tells(object held, tuple has, tuple lacks, object now_us) except -1:
    """Whether the current description, or for a while the previous one, matches."""
    entry = held.entry
    description, before = entry.description, entry.before
    if description is not None and _selects(has, lacks, description.tags):
        return True
    return before is not None and now_us < held.before_us and _selects(has, lacks, before.tags)


def selected(dict records, bytes rows, term, tuple part, bint everywhere, now_us):
    """Members whose records have their home in the part and match a term of tags.

    `everywhere`: all records have their home in the part. `rows`: the result of `rows_of` for these records.
    """
    cdef list found = []
    cdef tuple has = term.has, lacks = term.lacks
    cdef Row *row = <Row *>PyBytes_AS_STRING(rows) - 1
    cdef uint64_t wanted = _marks(has)
    cdef bint single = len(part) == 2
    cdef int64_t low = part[0] if single else 0, high = part[1] if single else 0
    cdef Py_ssize_t position = 0
    cdef PyObject *held
    assert len(rows) == len(records) * sizeof(Row), "rows of other records"
    while PyDict_Next(records, &position, NULL, &held):
        row += 1
        if row.marks & wanted != wanted:
            continue
        if everywhere or (low <= row.home < high if single else bisect_right(part, row.home) & 1):
            if _tells(<object>held, has, lacks, now_us):
                found.append((<object>held).entry.member)
    return found


def marks_of(descriptions):
    """The bits of each description's tags, as `rows_of` writes them."""
    cdef bytes made = PyBytes_FromStringAndSize(NULL, len(descriptions) * sizeof(uint64_t))
    cdef uint64_t *marks = <uint64_t *>PyBytes_AS_STRING(made)
    for description in descriptions:
        marks[0] = _marks(description.tags)
        marks += 1
    return made


@cython.no_gc  # it is part of no reference cycle
cdef class RecordSlice:
    """The records [`first`, `past`) of a column. `entries` creates them as objects."""

    cdef public RecordColumn column
    cdef public int64_t first, past
    cdef object _entries

    def __init__(self, RecordColumn column, int64_t first, int64_t past, entries):
        self.column, self.first, self.past, self._entries = column, first, past, entries

    def entries(self):
        return self._entries(self)

    cpdef list selected(self, term, tuple part, bint everywhere):
        """The same result as `Registry.selected`."""
        return self.column.selected(self.first, self.past, term, part, everywhere)


cdef class RecordColumn:
    """The records of all registries of an assembled network: for each a row of 16 bytes, as in `rows_of`, and its
    member's number. Scanning creates no objects."""

    cdef const int64_t[:, ::1] _rows
    cdef const int32_t[::1] _members
    cdef list _tags, _contacts

    def __init__(self, rows, members, list descriptions, list contacts):
        self._rows, self._members = rows, members
        self._tags, self._contacts = [each.tags for each in descriptions], contacts

    cdef list selected(self, Py_ssize_t first, Py_ssize_t past, object term, tuple part, bint everywhere):
        """`selected` of the records [`first`, `past`)."""
        cdef list found = []
        cdef tuple has = term.has, lacks = term.lacks
        cdef uint64_t wanted = _marks(has)
        cdef bint single = len(part) == 2
        cdef int64_t low = part[0] if single else 0, high = part[1] if single else 0
        cdef const Row *row
        cdef Py_ssize_t each
        cdef int32_t some[SOME_MAX]
        cdef int count = 0
        if first >= past:
            return found
        row = <const Row *>&self._rows[first, 0] - 1
        for each in range(first, past):
            row += 1
            if row.marks & wanted != wanted:
                continue
            if everywhere or (low <= row.home < high if single else bisect_right(part, row.home) & 1):
                some[count] = self._members[each]
                SOON(<PyObject *>self._tags[some[count]])
                SOON(<PyObject *>self._contacts[some[count]])
                count += 1
                if count == SOME_MAX:
                    self._choose(some, count, has, lacks, found)
                    count = 0
        self._choose(some, count, has, lacks, found)
        return found

    cdef _choose(self, const int32_t *some, int count, tuple has, tuple lacks, list found):
        """Append the members that a term selects; their descriptions have been prefetched."""
        cdef int each
        for each in range(count):
            if _selects(has, lacks, <tuple>self._tags[some[each]]):
                found.append(self._contacts[some[each]])


cdef int _ends_of(tuple tract, int64_t *ends) except -2:
    """Copy the interval ends of a tract. Returns their number, or -1 if there are too many."""
    cdef int each, count = PyTuple_GET_SIZE(tract)
    if count > ENDS_MAX:
        return -1
    for each in range(count):
        ends[each] = <object>PyTuple_GET_ITEM(tract, each)
    return count


cdef tuple _tract_of(const int64_t *ends, int count):
    cdef tuple tract = PyTuple_New(count)
    cdef object end
    cdef int each
    for each in range(count):
        end = ends[each]
        Py_INCREF(end)
        PyTuple_SET_ITEM(tract, each, end)
    return tract


cdef int _clip(const int64_t *tract, int count, int64_t low, int64_t high, int64_t *found) noexcept nogil:
    """`intersect` with one interval."""
    cdef int each, filled = 0
    cdef int64_t start, end
    for each in range(0, count, 2):
        start = tract[each] if tract[each] > low else low
        end = tract[each + 1] if tract[each + 1] < high else high
        if start < end:
            found[filled], found[filled + 1] = start, end
            filled += 2
    return filled


cdef int _without(const int64_t *tract, int count, int64_t low, int64_t high, int64_t *found) noexcept nogil:
    """`subtract` one interval. `found` has room for two more ends."""
    cdef int each, filled = 0
    for each in range(0, count, 2):
        if tract[each] < low:
            found[filled] = tract[each]
            found[filled + 1] = tract[each + 1] if tract[each + 1] < low else low
            filled += 2
        if tract[each + 1] > high:
            found[filled] = tract[each] if tract[each] > high else high
            found[filled + 1] = tract[each + 1]
            filled += 2
    return filled


cdef class FastTraversal:
    """Processes casts without receipts at one peer. `Traversals` is the reference and handles the other cases.

    It applies to a peer with one committed interval, a routing table that has a next hop for every part, and no
    complaints. The only cached state is the interval and the table; both are read again when the table changes.
    """

    cdef object _surface, _host, _send, _routing, _table, _sheet, _name, _address, _stock, _traversals, _notify
    cdef dict _registries
    cdef int64_t _low, _high, _mask, _rows
    cdef const int32_t *_drawn
    cdef double _cosine
    cdef bint _merge, _stopped
    cdef int _width
    cdef int _dimensions, _first_notch, _last_notch

    def __init__(self, surface, registries, traversals, settings, name, notify, cast_to, way, notification, address_of):
        global _CastRequest, _Way, _Notify, _address_of
        _CastRequest, _Way, _Notify, _address_of = cast_to, way, notification, address_of
        self._surface, self._stock, self._traversals = surface, registries, traversals
        self._host, self._name, self._notify = surface.host, name, notify
        self._send, self._address = surface.host.send, surface.address
        self._routing = self._registries = self._table = self._sheet = None
        self._stopped = False
        self._cosine, self._merge = settings.terms.cosine, settings.terms.merge
        self._dimensions, self._first_notch, self._last_notch = (
            settings.dimensions, settings.first_notch, settings.last_notch
        )
        self._mask = (<int64_t>1 << (BITS - settings.deepest * settings.dimensions)) - 1
        self._low = self._high = 0

    cdef bint _look(self) except -1:
        """Read a changed table. Returns whether the fast path applies."""
        ownership, table = self._surface.ownership, self._routing.table
        if ownership.unsettled or len(ownership.committed) != 2 or not table.named or table.owns != 1 or not table.owners:
            return False
        self._low, self._high = ownership.committed
        self._sheet = table.sheet
        cdef const int32_t[:, ::1] sheet = self._sheet
        self._drawn, self._rows, self._width = &sheet[0, 0], sheet.shape[0], sheet.shape[1]
        self._table = table
        return True

    def stop(self):
        """Leave all casts to `Traversals` from now on."""
        self._stopped = True

    cpdef bint go(self, cast) except -1:
        """Process a cast above notch 0. Returns False if it is left to `Traversals`."""
        if self._stopped:
            return False
        if self._routing is None:
            self._routing, self._registries = self._surface.routing, self._stock.by_key
        SOON(<PyObject *>self._routing)
        SOON(<PyObject *>self._registries)
        if self._table is not None:
            SOON(self._drawn)
            SOON(<const char *>self._drawn + 64)
        if type(cast) is not _CastRequest or not cast.notch or cast.count_only:
            return False
        terms = cast.target.terms
        if cast.term >= len(terms) or not terms[cast.term].has:
            return False
        if not _current(_expiry(cast.payload), self._host.now_us):
            return False
        cdef int64_t ends[ENDS_MAX + 4]
        cdef int64_t part[ENDS_MAX + 4]
        cdef int count, filled
        cdef tuple tract = cast.way.tract
        if self._routing._table is not self._table or self._table is None:
            self._table = None
            if not self._look():
                return False
        count = _ends_of(tract, ends)
        if count < 2 or count & 1:
            return False
        for filled in range(1, count):
            if ends[filled] <= ends[filled - 1]:
                return False  # not a valid tract
        filled = _clip(ends, count, self._low, self._high, part)
        if filled:
            count = self._rest(ends, count)
            tract = _tract_of(ends, count) if count else ()
        if count and not self._on(cast, cast.way if not filled else None, tract, ends, count, cast.notch):
            return False
        if filled:
            self._visit_all(cast, part, filled)
        return True

    cdef int _rest(self, int64_t *ends, int count) noexcept:
        """Subtract the own interval in place."""
        cdef int64_t found[ENDS_MAX + 4]
        cdef int each, filled = _without(ends, count, self._low, self._high, found)
        for each in range(filled):
            ends[each] = found[each]
        return filled

    cdef bint _on(self, cast, way, tuple tract, int64_t *ends, int count, notch) except -1:
        """Forward a cast. Returns False, and sends nothing, if no neighbour is nearer to some part."""
        cdef list hops
        if count == 2 and ends[1] - ends[0] == 1:
            if way is not None and way.stuck:
                return False  # detours exist only with receipts
            to = hop_at(self._drawn, self._rows, self._width, ends[0])
            if to < 0:
                return False
            hops = [(to, tract)]
        else:
            hops = branches_at(self._drawn, self._rows, self._width, tract, self._cosine, self._merge)
            for to, _ in hops:
                if to < 0:
                    return False
            way = None
        name, target, term, payload = cast.cast, cast.target, cast.term, cast.payload
        tag, level, root, tried, send = cast.tag, cast.level, cast.root, cast.tried, self._send
        for to, part in hops:
            send(to, _CastRequest(_Way(part) if way is None else way, name, target, term, tag, level, root, notch, payload,
                             tried))
        return True

    cdef _visit_all(self, cast, int64_t *part, int filled):
        """`Traversals.visit_all` without a task."""
        cdef int64_t rest[ENDS_MAX + 4]
        cdef int64_t base, low, root = cast.root
        cdef int each, left, notch = cast.notch, above, shift
        cdef tuple own, closed
        tag, number = cast.tag, cast.root
        if notch > self._last_notch or notch < self._first_notch or (root ^ <int64_t>_address_of(tag)) & self._mask:
            return  # no such registry can exist
        while filled:
            registry = self._registries.get((tag, number, notch))
            if registry is None:
                return
            own, closed = _tract_of(part, filled), registry.closed
            if len(closed) > 2 or (closed and notch >= self._last_notch):
                self._traversals.visit_all(None, cast, notch, own)
                return
            self._visit(cast, registry, own)
            if not closed:
                return
            filled = _clip(part, filled, closed[0], closed[1], rest)
            above = notch + 1  # the fast path handles notches above 0
            shift = above * self._dimensions
            base = root >> shift << shift
            shift -= self._dimensions
            low = root >> shift << shift
            for each in range(filled):
                rest[each] = base + ((rest[each] - low) << self._dimensions)
            left = filled
            filled = _clip(rest, left, self._low, self._high, part)
            if filled:
                left = self._rest(rest, left)
            if left:
                own = _tract_of(rest, left)
                if not self._on(cast, None, own, rest, left, above):
                    self._traversals.send_up(None, _replace(cast, way=_Way(own), notch=above))
            notch = above

    cdef _visit(self, cast, registry, tuple part):
        cdef list found
        target, term = cast.target, cast.term
        records, least = registry.record_slice, target.terms[term]
        if records is None and not registry.records:
            return  # all records have been passed up
        if records is None or term or least.where:
            found = registry.selected(target, term, part, self._host.now_us)
        else:
            found = (<RecordSlice>records).selected(least, part, False)
        if not found:
            return
        notify = _Notify(cast.cast, target, cast.payload)
        send = self._send
        alone = records is not None  # a column has one member for each address
        for member in found:
            address = member.address
            if address == self._address or (not alone and member.name == self._name):
                self._notify(None, cast, member, notify)
            else:
                send(address, notify)


cdef int64_t _expiry(bytes carried) except? -1:
    """`expiry.expiry_of`: the first eight bytes. A time beyond 2^63 is negative here, and never current."""
    cdef const unsigned char *at = <const unsigned char *>PyBytes_AS_STRING(carried)
    cdef uint64_t found = 0
    cdef int each
    if len(carried) < 8:
        return 0
    for each in range(8):
        found = found << 8 | at[each]
    return <int64_t>found


cdef inline bint _current(int64_t expiry_us, int64_t now_us) noexcept:
    """`expiry.is_current`."""
    return expiry_us >= now_us - CLOCK_BOUND_US and expiry_us <= now_us + LIFETIME_MAX_US + CLOCK_BOUND_US


def take(inbox, host, description, cast, target, bytes carried):
    """`Inbox.take` for an unsigned member without limits. None: left to `Inbox.take`.

    A cast is delivered if it matches, is current, was not seen before, and can be remembered.
    """
    cdef dict young
    cdef int64_t now_us, expiry_us, until_us
    if description is None or description.values:
        return None
    tags = description.tags
    for term in target.terms:
        if term.where:
            return None
        if _selects(term.has, term.lacks, tags):
            break
    else:
        return None
    seen = inbox.seen
    young, now_us, expiry_us = seen._young, host.now_us, _expiry(carried)
    if not _current(expiry_us, now_us) or expiry_us > now_us + LIFETIME_US:
        return None
    until_us = now_us + LIFETIME_US + 2 * CLOCK_BOUND_US
    if until_us // PERIOD_US != seen._period or seen._others is not None or 2 * len(young) >= seen._bound:
        return None
    block, bit = _place_of(cast)
    bits = young.get(block, 0)
    if bits & bit:
        return None
    young[block] = bits | bit
    host.deliver(_Notice(cast, carried[8:]))
    return True
