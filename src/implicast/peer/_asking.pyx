# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, freethreading_compatible=False
"""Questions of one peer, compiled: `asking.OpenQuestions` is the law, line by line, with a C heap for what is due.

Both ask, repeat and lose the same at the same times (`tests/peer/test_asking.py`), so that runs write the same journal.
"""

cimport cython
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc

cdef struct Due:
    int64_t due_us
    int64_t serial
    PyObject *asked


@cython.freelist(256)
cdef class Question:
    """One question under way."""

    cdef readonly object to, message, about
    cdef readonly int64_t asked, due_us, begun_us

    def begin_anew(self):
        self.asked = 1


cdef class OpenQuestions:
    """The open questions of one peer, and the alarm that serves them; topics and questions are those of the law."""

    cdef object _host, _alarm, _round_trip_us
    cdef dict _topics, _open
    cdef Due *_due
    cdef int64_t _count, _room, _serial, _alarm_us
    cdef Py_ssize_t _bound

    def __init__(self, host, alarm, dict topics, dict questions, Py_ssize_t bound, round_trip_us):
        self._host, self._alarm, self._round_trip_us = host, alarm, round_trip_us
        self._topics, self._open, self._bound = topics, questions, bound
        self._alarm_us = -1

    def __dealloc__(self):
        while self._count:
            self._count -= 1
            Py_DECREF(<object>self._due[self._count].asked)
        free(self._due)

    def ask(self, topic, key, to, message, about=None):
        cdef tuple asked = (topic, key)
        cdef Question question
        host = self._host
        if len(self._open) >= self._bound and asked not in self._open:
            return False
        question = Question.__new__(Question)
        question.to, question.message, question.about = to, message, about
        question.asked, question.begun_us = 1, host.now_us
        question.due_us = question.begun_us + <int64_t>(<tuple>self._topics[topic])[0]
        self._open[asked] = question
        self._note(question.due_us, asked)
        host.send(to, message)
        return True

    def open(self, topic, key):
        return self._open.get((topic, key))

    def answered(self, topic, key):
        found = self._open.pop((topic, key), None)
        if found is not None and (<Question>found).asked == 1:
            self._round_trip_us((<Question>found).to, <int64_t>self._host.now_us - (<Question>found).begun_us)
        return found

    def postpone(self, topic, key, int64_t wait_us):
        cdef tuple asked = (topic, key)
        found = self._open.get(asked)
        if found is not None:
            (<Question>found).asked, (<Question>found).due_us = 0, <int64_t>self._host.now_us + wait_us
            self._note((<Question>found).due_us, asked)

    def ask_again(self):
        cdef int64_t now_us = self._host.now_us, due_us
        if now_us >= self._alarm_us:
            self._alarm_us = -1
        while self._count and self._due[0].due_us <= now_us:
            due_us = self._due[0].due_us
            asked = self._pop()
            found = self._open.get(asked)
            if found is not None and (<Question>found).due_us == due_us:
                self._again(<tuple>asked, <Question>found)
        self._arm()

    cdef _again(self, tuple asked, Question question):
        _, patience, lost = <tuple>self._topics[asked[0]]
        if question.asked >= <int64_t>patience.times:
            del self._open[asked]
            lost(asked[1], question)
            return
        question.asked += 1
        question.due_us = <int64_t>self._host.now_us + <int64_t>patience.wait_us(question.asked)
        self._note(question.due_us, asked)
        self._host.send(question.to, question.message)

    cdef _note(self, int64_t due_us, tuple asked):
        self._serial += 1
        self._push(due_us, asked)
        if not 0 <= self._alarm_us <= due_us:  # else it rings in time as it is
            self._arm()

    cdef _arm(self):
        cdef int64_t due_us, now_us
        while self._count:
            due_us = self._due[0].due_us
            found = self._open.get(<object>self._due[0].asked)
            if found is not None and (<Question>found).due_us == due_us:
                if self._alarm_us < 0 or due_us < self._alarm_us:
                    self._alarm_us, now_us = due_us, self._host.now_us
                    self._host.after(due_us - now_us if due_us > now_us else 0, self._alarm)
                return
            self._pop()  # answered, or put off, meanwhile

    # --- the heap: earliest first, of those due at one time the one noted first

    cdef _push(self, int64_t due_us, tuple asked):
        cdef int64_t at = self._count, above
        cdef Due *more
        if at == self._room:
            more = <Due *>realloc(self._due, (2 * self._room + 8) * sizeof(Due))
            if more == NULL:
                raise MemoryError()
            self._due, self._room = more, 2 * self._room + 8
        while at:
            above = (at - 1) >> 1
            if self._due[above].due_us <= due_us:  # it was noted before
                break
            self._due[at] = self._due[above]
            at = above
        Py_INCREF(asked)
        self._due[at].due_us, self._due[at].serial, self._due[at].asked = due_us, self._serial, <PyObject *>asked
        self._count += 1

    cdef object _pop(self):
        cdef object first = <object>self._due[0].asked
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
