# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, freethreading_compatible=False
"""Pending requests of one peer, compiled: the twin of `requests.OpenRequests`, with a C heap of due times.

Both send, repeat and give up the same requests at the same times (`tests/peer/test_requests.py`), so that runs write
the same journal.
"""

cimport cython
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc

cdef struct Due:
    int64_t due_us
    int64_t serial
    PyObject *request_key


@cython.freelist(256)
cdef class PendingRequest:
    """One request that awaits an answer."""

    cdef readonly object to, message, context
    cdef readonly int64_t attempts, due_us, started_us

    def reset_attempts(self):
        self.attempts = 1


cdef class OpenRequests:
    """Open requests of one peer and the alarm that serves them. Topics and requests are the dicts of `requests.AbstractRequests`."""

    cdef object _host, _alarm, _round_trip_us, _budget
    cdef bint _is_upkeep
    cdef int64_t _free_us
    cdef dict _topics, _open
    cdef Due *_due
    cdef int64_t _count, _room, _serial, _alarm_us
    cdef Py_ssize_t _bound

    def __init__(self, host, alarm, dict topics, dict pending, Py_ssize_t bound, round_trip_us, budget):
        self._budget, self._is_upkeep, self._free_us = budget, alarm.upkeep, 0
        self._host, self._alarm, self._round_trip_us = host, alarm, round_trip_us
        self._topics, self._open, self._bound = topics, pending, bound
        self._alarm_us = -1

    def __dealloc__(self):
        while self._count:
            self._count -= 1
            Py_DECREF(<object>self._due[self._count].request_key)
        free(self._due)

    def ask(self, topic, key, to, message, context=None):
        cdef tuple request_key = (topic, key)
        cdef PendingRequest request
        host = self._host
        if len(self._open) >= self._bound and request_key not in self._open:
            return False
        request = PendingRequest.__new__(PendingRequest)
        request.to, request.message, request.context = to, message, context
        request.attempts, request.started_us = 1, host.now_us
        if self._is_upkeep and not self._budget.take(request.started_us):
            self._free_us = self._budget.next_us(request.started_us)
            request.attempts, request.due_us = 0, request.started_us
            self._open[request_key] = request
            self._schedule(request.due_us, request_key)
            return True
        request.due_us = request.started_us + <int64_t>(<tuple>self._topics[topic])[0]
        self._open[request_key] = request
        self._schedule(request.due_us, request_key)
        host.send(to, message)
        return True

    def open(self, topic, key):
        return self._open.get((topic, key))

    def answered(self, topic, key):
        found = self._open.pop((topic, key), None)
        if found is not None and (<PendingRequest>found).attempts == 1:
            self._round_trip_us((<PendingRequest>found).to, <int64_t>self._host.now_us - (<PendingRequest>found).started_us)
        return found

    def postpone(self, topic, key, int64_t wait_us):
        cdef tuple request_key = (topic, key)
        found = self._open.get(request_key)
        if found is not None:
            (<PendingRequest>found).attempts, (<PendingRequest>found).due_us = 0, <int64_t>self._host.now_us + wait_us
            self._schedule((<PendingRequest>found).due_us, request_key)

    def resend_due(self):
        cdef int64_t now_us = self._host.now_us, due_us
        cdef bint is_due
        if now_us >= self._alarm_us:
            self._alarm_us = -1
        while self._count and self._due[0].due_us <= now_us:
            due_us = self._due[0].due_us
            request_key = <object>self._due[0].request_key
            found = self._open.get(request_key)
            is_due = found is not None and (<PendingRequest>found).due_us == due_us
            if is_due and not self._may_go_on(<tuple>request_key, <PendingRequest>found, now_us):
                break
            self._pop()
            if is_due:
                self._resend(<tuple>request_key, <PendingRequest>found)
        self._arm()

    cdef bint _may_go_on(self, tuple request_key, PendingRequest request, int64_t now_us):
        if request.attempts >= <int64_t>(<tuple>self._topics[request_key[0]])[1].times or self._budget.take(now_us):
            return True
        self._free_us = self._budget.next_us(now_us)
        return False

    cdef _resend(self, tuple request_key, PendingRequest request):
        _, policy, lost = <tuple>self._topics[request_key[0]]
        if request.attempts >= <int64_t>policy.times:
            del self._open[request_key]
            lost(request_key[1], request)
            return
        if request.due_us == request.started_us:  # it waited for the budget
            request.started_us = self._host.now_us
        request.attempts += 1
        request.due_us = <int64_t>self._host.now_us + <int64_t>policy.wait_us(request.attempts)
        self._schedule(request.due_us, request_key)
        self._host.send(request.to, request.message)

    cdef _schedule(self, int64_t due_us, tuple request_key):
        self._serial += 1
        self._push(due_us, request_key)
        if not 0 <= self._alarm_us <= due_us:  # an alarm at or before due_us is already armed
            self._arm()

    cdef _arm(self):
        cdef int64_t due_us, now_us
        while self._count:
            due_us = self._due[0].due_us
            found = self._open.get(<object>self._due[0].request_key)
            if found is not None and (<PendingRequest>found).due_us == due_us:
                due_us = max(due_us, self._free_us)
                if self._alarm_us < 0 or due_us < self._alarm_us:
                    self._alarm_us, now_us = due_us, self._host.now_us
                    self._host.after(due_us - now_us if due_us > now_us else 0, self._alarm)
                return
            self._pop()  # stale: answered or postponed since

    # --- binary heap: earliest first; among equal times in order of insertion

    cdef _push(self, int64_t due_us, tuple request_key):
        cdef int64_t at = self._count, above
        cdef Due *more
        if at == self._room:
            more = <Due *>realloc(self._due, (2 * self._room + 8) * sizeof(Due))
            if more == NULL:
                raise MemoryError()
            self._due, self._room = more, 2 * self._room + 8
        while at:
            above = (at - 1) >> 1
            if self._due[above].due_us <= due_us:  # inserted earlier
                break
            self._due[at] = self._due[above]
            at = above
        Py_INCREF(request_key)
        self._due[at].due_us, self._due[at].serial, self._due[at].request_key = due_us, self._serial, <PyObject *>request_key
        self._count += 1

    cdef object _pop(self):
        cdef object first = <object>self._due[0].request_key
        cdef int64_t at = 0, child
        cdef Due last
        Py_DECREF(first)
        self._count -= 1
        last = self._due[self._count]
        while True:
            child = 2 * at + 1
            if child >= self._count:
                break
            if child + 1 < self._count and _before(&self._due[child + 1], &self._due[child]):
                child += 1
            if not _before(&self._due[child], &last):
                break
            self._due[at] = self._due[child]
            at = child
        self._due[at] = last
        return first


cdef inline bint _before(Due *one, Due *other) noexcept:
    return one.due_us < other.due_us or (one.due_us == other.due_us and one.serial < other.serial)
