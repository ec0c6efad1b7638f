# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=False
"""Whom a term selects among the records of a registry, compiled: `Registry.selected` is the law for it.

A cast looks through some records at each of thousands of peers, and finds one in ten. What costs is not looking but
fetching them from memory. So a registry has, beside its records, a row of 16 bytes for each: where it is at home, and
two bits out of 64 for each of its tags. Records without all the bits that a term asks for are not fetched.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_Next
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_Check, PyUnicode_CheckExact
from libc.stdint cimport int32_t, int64_t, uint64_t

from bisect import bisect_right

cdef extern from "Python.h":
    bint PyUnicode_CHECK_INTERNED(object word)
    void *PyUnicode_DATA(PyObject *word)
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject *word)
    int PyUnicode_KIND(PyObject *word)

cdef struct Step:
    PyObject *what  # the way of a hop, or the part of a registry that is visited
    PyObject *registry  # NULL: a hop
    PyObject *to  # of a hop
    int notch

cdef struct Row:
    int64_t home
    uint64_t marks

cdef enum:
    PASSAGES_MAX = 64  # at one peer; the one that was noted first is forgotten

cdef object _CastTo = None
cdef object _Notify = None
"""What walks send; set by `Passages`, for the modules that define them may import this one."""
cdef uint64_t ALL = ~<uint64_t>0
cdef uint64_t BASIS = <uint64_t>0xCBF29CE4 << 32 | <uint64_t>0x84222325
cdef uint64_t PRIME = <uint64_t>0x100 << 32 | <uint64_t>0x1B3


cdef uint64_t _marks(tuple tags) noexcept:
    """Two bits for each tag, drawn by its letters (FNV-1a)."""
    cdef uint64_t found = 0, drawn
    cdef const unsigned char *letters
    cdef Py_ssize_t index, letter
    cdef PyObject *tag
    for index in range(PyTuple_GET_SIZE(tags)):
        tag = PyTuple_GET_ITEM(tags, index)
        if not PyUnicode_Check(<object>tag):
            continue  # no bits, neither here nor where it is asked for
        letters = <const unsigned char *>PyUnicode_DATA(tag)
        drawn = BASIS
        for letter in range(PyUnicode_GET_LENGTH(tag) * PyUnicode_KIND(tag)):
            drawn = (drawn ^ letters[letter]) * PRIME
        found |= <uint64_t>1 << (drawn >> 58) | <uint64_t>1 << (drawn >> 52 & 63)
    return found


def rows_of(dict records):
    """A row for each record, in their order. One that says two things, or nothing any more, has all bits."""
    cdef bytes made = PyBytes_FromStringAndSize(NULL, len(records) * sizeof(Row))
    cdef Row *row = <Row *>PyBytes_AS_STRING(made)
    for held in records.values():
        entry = held.entry
        row.home = held.home
        row.marks = ALL if entry.before is not None or entry.description is None else _marks(entry.description.tags)
        row += 1
    return made


cdef bint _holds(tuple tags, object tag) except -1:
    """`tag in tags`. Of two interned words that are not one and the same none is equal to the other."""
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
    for index in range(PyTuple_GET_SIZE(has) - 1, -1, -1):  # by its first tag it was found
        if not _holds(tags, <object>PyTuple_GET_ITEM(has, index)):
            return False
    for index in range(PyTuple_GET_SIZE(lacks)):
        if _holds(tags, <object>PyTuple_GET_ITEM(lacks, index)):
            return False
    return True


cdef bint _tells(object held, tuple has, tuple lacks, object now_us) except -1:
    """Does what a record says, or said until lately, fit?"""
    entry = held.entry
    description, before = entry.description, entry.before
    if description is not None and _selects(has, lacks, description.tags):
        return True
    return before is not None and now_us < held.before_us and _selects(has, lacks, before.tags)


def selected(dict records, bytes rows, term, tuple part, bint everywhere, now_us):
    """Members of the records that are at home in the part (`everywhere`: all are) whom a term of tags selects.

    `rows`: as `rows_of` made them of these records.
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
    """By description, the bits of its tags: what `rows_of` writes beside each record's home."""
    cdef bytes made = PyBytes_FromStringAndSize(NULL, len(descriptions) * sizeof(uint64_t))
    cdef uint64_t *marks = <uint64_t *>PyBytes_AS_STRING(made)
    for description in descriptions:
        marks[0] = _marks(description.tags)
        marks += 1
    return made


@cython.no_gc  # nothing that it refers to refers back
cdef class Lot:
    """The records of a column from `first` to before `past`; `entries` makes them, one by one."""

    cdef public Column column
    cdef public int64_t first, past
    cdef object _entries

    def __init__(self, Column column, int64_t first, int64_t past, entries):
        self.column, self.first, self.past, self._entries = column, first, past, entries

    def entries(self):
        return self._entries(self)

    cpdef list selected(self, term, tuple part, bint everywhere):
        """As `Registry.selected` would find them among the records."""
        return self.column.selected(self.first, self.past, term, part, everywhere)


cdef class Column:
    """The records of all registries of an assembled network, one behind the other: a row of 16 bytes, as `rows_of`
    makes it, and the number of its member for each. No record is made as long as they are only looked through."""

    cdef const int64_t[:, ::1] _rows
    cdef const int32_t[::1] _members
    cdef list _descriptions, _contacts

    def __init__(self, rows, members, list descriptions, list contacts):
        self._rows, self._members = rows, members
        self._descriptions, self._contacts = descriptions, contacts

    cdef list selected(self, Py_ssize_t first, Py_ssize_t past, object term, tuple part, bint everywhere):
        """`selected` of the records from `first` to before `past`."""
        cdef list found = []
        cdef tuple has = term.has, lacks = term.lacks
        cdef uint64_t wanted = _marks(has)
        cdef bint single = len(part) == 2
        cdef int64_t low = part[0] if single else 0, high = part[1] if single else 0
        cdef const Row *row
        cdef Py_ssize_t each
        cdef int32_t member
        if first >= past:
            return found
        row = <const Row *>&self._rows[first, 0] - 1
        for each in range(first, past):
            row += 1
            if row.marks & wanted != wanted:
                continue
            if everywhere or (low <= row.home < high if single else bisect_right(part, row.home) & 1):
                member = self._members[each]
                if _selects(has, lacks, <tuple>self._descriptions[member].tags):
                    found.append(self._contacts[member])
        return found


@cython.no_gc
cdef class Passage:
    """What a cast without receipts does at one peer: hops that it takes and parts of registries that it visits."""

    cdef object _tag
    cdef int64_t _root
    cdef int _notch, _count
    cdef Step *_steps

    def __cinit__(self):
        self._steps = NULL
        self._count = 0

    def __init__(self, cast, list steps):
        cdef Step *step
        self._tag, self._root, self._notch = cast.tag, cast.root, cast.notch
        self._steps = <Step *>PyMem_Malloc(max(1, len(steps)) * sizeof(Step))
        if self._steps == NULL:
            raise MemoryError()
        for what, registry, to, notch in steps:
            step = &self._steps[self._count]
            step.what, step.notch = <PyObject *>what, notch
            step.registry = NULL if registry is None else <PyObject *>registry
            step.to = NULL if to is None else <PyObject *>to
            Py_INCREF(what)
            if registry is not None:
                Py_INCREF(registry)
            if to is not None:
                Py_INCREF(to)
            self._count += 1

    def __dealloc__(self):
        cdef int each
        for each in range(self._count):
            Py_XDECREF(self._steps[each].what)
            Py_XDECREF(self._steps[each].registry)
            Py_XDECREF(self._steps[each].to)
        PyMem_Free(self._steps)


cdef class Passages:
    """What casts without receipts do at one peer, by where they go: nine of ten come as others of their tag came.

    `Walks` is the law for it: the first walk is noted as it goes by, and followed by the next with the same tract as
    long as neither the peer's ground and table nor what it keeps has changed, and nobody has complained of anybody.
    """

    cdef object _spice, _host, _send, _stock, _routes, _table, _version, _name, _noting
    cdef dict _known
    cdef list _steps

    def __init__(self, spice, cast_to, notify):
        global _CastTo, _Notify
        _CastTo, _Notify = cast_to, notify
        self._spice, self._host, self._stock, self._name = spice, spice.host, spice.stock, spice.name
        self._send = spice.host.send
        self._routes = spice.surface.routes
        self._table = self._version = self._noting = None
        self._known = {}
        self._steps = []

    cpdef bint cross(self, cast) except -1:
        """Follow those before; False, and the walk is noted from now on, where there were none."""
        cdef Passage known
        cdef Step *step
        cdef int each
        table = self._routes.resting_table
        if table is not self._table or self._stock.version != self._version or table is None:
            self._known.clear()
            self._table, self._version = table, self._stock.version
        found = self._known.get(cast.way.tract)
        if found is None or self._spice.casts.minds:
            self._begin(cast)
            return False
        known = <Passage>found
        if known._root != cast.root or known._notch != cast.notch or known._tag != cast.tag:
            self._begin(cast)
            return False
        name, target, term, payload = cast.cast, cast.target, cast.term, cast.payload
        tag, level, root, tried = cast.tag, cast.level, cast.root, cast.tried
        send = self._send
        for each in range(known._count):
            step = &known._steps[each]
            if step.registry == NULL:
                send(<object>step.to, _CastTo(<object>step.what, name, target, term, tag, level, root, step.notch,
                                              payload, tried))
            else:
                self._visit(cast, target, term, <object>step.registry, <tuple>step.what)
        return True

    cdef _visit(self, cast, target, term, registry, tuple part):
        cdef list found
        lot, least = registry._lot, target.terms[term]
        if lot is None or term or least.where or not registry.notch:
            found = registry.selected(target, term, part, self._host.now_us)
        else:
            found = (<Lot>lot).selected(least, part, False)
        if not found:
            return
        notify = _Notify(cast.cast, target, cast.payload)
        for member in found:
            address = member.address
            if address == self._spice.address or member.name == self._name:
                self._spice.casts.tell_plainly(cast, member, notify)
            else:
                self._send(address, notify)

    cdef _begin(self, cast):
        self._noting = cast
        self._steps = []

    def hop(self, to, way, notch):
        """The walk that is noted goes on to a peer."""
        if self._noting is not None:
            self._steps.append((way, None, to, notch))

    def visit(self, registry, part):
        """The walk that is noted visits a part of a registry."""
        if self._noting is not None:
            self._steps.append((part, registry, None, 0))

    def spoil(self):
        """The walk that is noted waits for something: others may not."""
        self._noting = None

    def end(self):
        """The walk that is noted has gone by."""
        if self._noting is not None:
            if len(self._known) >= PASSAGES_MAX:
                del self._known[next(iter(self._known))]
            self._known[self._noting.way.tract] = Passage(self._noting, self._steps)
        self._noting = None
        self._steps = []
