# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=False
"""Whom a term selects among the records of a registry, compiled: `Registry.selected` is the law for it.

A cast looks through some records at each of thousands of peers. Columns beside the records made that quick before, and
took as much memory as the records; this is as quick, and takes none.
"""

from bisect import bisect_right


cdef bint _selects(tuple has, tuple lacks, tuple tags) except -1:
    for tag in has:
        if tag not in tags:
            return False
    for tag in lacks:
        if tag in tags:
            return False
    return True


def selected(dict records, term, tuple part, bint everywhere, now_us):
    """Members of the records that are at home in the part (`everywhere`: all are) whom a term of tags selects."""
    cdef list found = []
    cdef tuple has = term.has, lacks = term.lacks
    cdef bint single = len(part) == 2
    low, high = (part[0], part[1]) if single else (0, 0)
    for held in records.values():
        if not everywhere:
            home = held.home
            if not (low <= home < high if single else bisect_right(part, home) & 1):
                continue
        entry = held.entry
        description = entry.description
        if description is not None and _selects(has, lacks, description.tags):
            found.append(entry.member)
            continue
        before = entry.before
        if before is not None and now_us < held.before_us and _selects(has, lacks, before.tags):
            found.append(entry.member)
    return found
