# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=False
"""Compiled form of the skip graph's tables and list functions. The Python ones in `table.py`, `place.py`, `places.py`
and `agreement.py` define the behaviour; `tests/laws` compares both.

With peers that join and leave, rings and lists took a fifth of the run time in Python. Here each ring is a sorted list
of keys. A node that is added or removed is inserted into, or deleted from, the rings it belongs to, and only the lists
that it belongs to are computed again. Whether a node shares one digit more is not looked up: the walk on a ring runs
beside one on the ring of the next level.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.string cimport memcmp

cdef enum:
    MOVED_MAX = 8  # with more nodes added or removed, all lists are computed again: to test each would cost as much
    ALPHA_MAX = 16
    MANY = 32

cdef int _compare(bytes one, bytes other) noexcept:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(one), length = PyBytes_GET_SIZE(other)
    cdef int found = memcmp(PyBytes_AS_STRING(one), PyBytes_AS_STRING(other), size if size < length else length)
    return found if found else (size > length) - (size < length)


cdef Py_ssize_t _place(list ring, bytes key) noexcept:
    """`bisect_left`."""
    cdef Py_ssize_t low = 0, high = PyList_GET_SIZE(ring), middle
    while low < high:
        middle = (low + high) >> 1
        if _compare(<bytes>PyList_GET_ITEM(ring, middle), key) < 0:
            low = middle + 1
        else:
            high = middle
    return low


cdef class Level:
    """One list, defined by `table.Level`."""

    cdef readonly tuple nodes, fresh, keys
    cdef readonly Py_ssize_t own
    cdef readonly bint full
    cdef list _sorted
    cdef Py_ssize_t _shift

    def __len__(self):
        return len(self.nodes)

    def position(self, bytes key):
        cdef Py_ssize_t size = len(self.keys), found
        if self._sorted is None:
            self._sorted = sorted(self.keys)
            self._shift = _place(self._sorted, self.keys[0])
        found = (_place(self._sorted, key) - self._shift) % size
        if found < 0:
            found += size
        return found if found or key == self.keys[0] else size

    cpdef bint spans(self, bytes key):
        cdef bytes first, last
        if self.full:
            return True
        first, last = self.keys[0], self.keys[len(self.keys) - 1]
        return _within(first, last, key)


cdef Level _made(tuple nodes, Py_ssize_t own, bint full, tuple fresh, tuple keys):
    cdef Level level = Level.__new__(Level)
    level.nodes, level.own, level.full, level.fresh, level.keys = nodes, own, full, fresh, keys
    return level


cdef bint _is_same(Level one, Level other) except -1:
    """Whether two every-class lists of one owner are equal."""
    return one.full == other.full and one.nodes == other.nodes


cdef class LevelTable:
    """The lists of one node, defined by `table.LevelTable`."""

    cdef readonly object owner
    cdef readonly tuple levels
    cdef readonly Py_ssize_t top
    cdef tuple _borders, _everyone
    cdef dict _named, _answers

    def listed(self):
        return [level.nodes for level in self.levels]

    def borders(self, sides):
        cdef list found
        cdef Level level
        cdef Py_ssize_t left, right, size, own
        if self._borders is None or self._borders[0] is not sides:
            left, right = sides
            found = []
            for level in self.levels:
                size, own = len(level.keys), level.own
                found.append((
                    level.keys[(own - left + size) % size if left < size else own],
                    level.keys[(own + right) % size if right < size else own],
                ))
            self._borders = sides, found
        return self._borders[1]

    def ends(self, Py_ssize_t number):
        keys = (<Level>self.levels[number]).keys
        return keys, 0, len(keys)

    @property
    def everyone(self):
        cdef dict found
        if self._everyone is None:
            found = self._of(0, len(self.levels))
            self._everyone = tuple([found[key] for key in sorted(found)])
        return self._everyone

    cdef dict _of(self, Py_ssize_t first, Py_ssize_t last):
        cdef Py_ssize_t number, at
        cdef Level level
        cdef tuple asked = (first, last)
        cdef dict found = self._named.get(asked)
        if found is None:
            found = {self.owner.key: self.owner}
            for number in range(first, min(last, <Py_ssize_t>len(self.levels))):
                level = <Level>self.levels[number]
                for at in range(len(level.keys)):
                    found[level.keys[at]] = level.nodes[at]
            self._named[asked] = found
        return found

    cdef tuple _all_of(self, Py_ssize_t last):
        """All nodes listed below a level, cached: the same answer is given many times while a table stays."""
        found = self._answers.get(last)
        if found is None:
            found = self._answers[last] = tuple(self._of(0, last).values())
        return found

    def named(self, Py_ssize_t first, Py_ssize_t last):
        return self._of(first, last)

    def contacts(self):
        key = self.owner.key
        return [node for node in self.everyone if node.key != key]


cdef LevelTable _table(object owner, list levels):
    cdef LevelTable table = LevelTable.__new__(LevelTable)
    table.owner, table.levels, table.top, table._named, table._answers = owner, tuple(levels), len(levels) - 1, {}, {}
    return table


cdef class NodeLists:
    """The nodes that an owner knows, defined by `table.NodeLists`."""

    cdef readonly dict known
    cdef readonly Py_ssize_t changes
    cdef object _owner, _vectors
    cdef bytes _key
    cdef Py_ssize_t _wanted, _width, _bits, _alpha
    cdef unsigned long long _vector
    cdef dict _shared, _moved
    cdef list _rings
    cdef set _loose
    cdef LevelTable _narrow, _wide

    def __init__(self, owner, Py_ssize_t k, vectors):
        self._owner, self._vectors, self._key = owner, vectors, owner.key
        self._wanted, self._vector = k - 1, owner.vector
        self._alpha, self._width, self._bits = vectors.alpha, vectors.width, vectors.length * vectors.width
        self.known, self._shared, self._moved, self._rings, self._loose = {}, {}, {}, [], set()

    cdef Py_ssize_t _common(self, node) except -1:
        cdef unsigned long long other = node.vector, apart = self._vector ^ other
        cdef Py_ssize_t bits = 0
        while apart:
            apart >>= 1
            bits += 1
        return (self._bits - bits) // self._width

    # --- known nodes

    def put(self, node):
        self.changes += 1
        cdef bytes key = node.key
        cdef Py_ssize_t shared = self._common(node)
        held = self._shared.get(key)
        if held is None or held != shared:
            if held is not None:
                self._unring(key, held)
                self._move(key, held)
            self._ring(key, shared)
        self.known[key] = node
        self._move(key, shared)

    def remove(self, bytes key):
        held = self._shared.get(key)
        if held is None:
            return False
        self.changes += 1
        del self.known[key]
        self._unring(key, held)
        self._move(key, held)
        return True

    cdef int _move(self, bytes key, Py_ssize_t shared) except -1:
        """Note that the lists up to this level may change. The highest level counts: a node may change its vector more
        than once between two computations.
        """
        moved = self._moved.get(key)
        if moved is None or moved < shared:
            self._moved[key] = shared
        return 0

    def replace(self, nodes):
        cdef dict wanted = {node.key: node for node in nodes}
        cdef Py_ssize_t most = -1, shared
        cdef list ring
        self.changes += 1
        self.known.clear()
        self.known.update(wanted)
        self._shared = {}
        for key, node in self.known.items():
            shared = self._common(node)
            self._shared[key] = shared
            most = max(most, shared)
        self._moved, self._narrow, self._wide = dict(self._shared), None, None
        self._rings = [[] for _ in range(most + 1)]
        for key in sorted(self.known):
            for ring in self._rings[: self._shared[key] + 1]:
                ring.append(key)

    def renew(self, owner):
        assert owner.vector == self._owner.vector, "a place keeps its vector"
        self._owner, self._narrow, self._wide = owner, None, None
        self._loose.update(self.known)

    def keep_listed(self):
        cdef list gone = [], ring
        cdef dict known = self.known
        cdef Py_ssize_t number
        self.tables()
        for key in self._loose:
            if key in known and not self._is_listed(<bytes>key, self._shared[key]):
                gone.append(key)
        self._loose.clear()
        self.changes += 1 if gone else 0
        for key in gone:
            del known[key]
            if PyList_GET_SIZE(gone) <= MANY:
                self._unring(key, self._shared[key])
            else:
                del self._shared[key]
        if PyList_GET_SIZE(gone) > MANY:  # after a search: filter whole rings
            for number in range(PyList_GET_SIZE(self._rings)):
                ring = <list>self._rings[number]
                self._rings[number] = [key for key in ring if key in known]

    cdef bint _is_listed(self, bytes key, Py_ssize_t shared) except -1:
        """Whether a known node is in a wide list: it is, if it is in the ring and between the ends of the list."""
        cdef Py_ssize_t number
        for number in range(min(shared + 1, <Py_ssize_t>len(self._wide.levels))):
            if (<Level>self._wide.levels[number]).spans(key):
                return True
        return False

    cdef int _ring(self, bytes key, Py_ssize_t shared) except -1:
        cdef list rings = self._rings, ring
        cdef Py_ssize_t number
        while PyList_GET_SIZE(rings) <= shared:
            rings.append([])
        for number in range(shared + 1):
            ring = <list>PyList_GET_ITEM(rings, number)
            ring.insert(_place(ring, key), key)
        self._shared[key] = shared
        return 0

    cdef int _unring(self, bytes key, Py_ssize_t shared) except -1:
        cdef list ring
        cdef Py_ssize_t number
        for number in range(shared + 1):
            ring = <list>PyList_GET_ITEM(self._rings, number)
            del ring[_place(ring, key)]
        del self._shared[key]
        return 0

    # --- lists

    def tables(self):
        cdef tuple old = (), before
        cdef list narrow, wide
        cdef bint is_top = False
        cdef Py_ssize_t number
        if self._wide is not None and not self._moved:
            return self._narrow, self._wide
        if self._wide is not None and len(self._moved) <= MOVED_MAX:
            old = self._wide.levels
        before = self._wide.levels if self._wide is not None else ()
        narrow, wide = [], []
        while not is_top:
            number = PyList_GET_SIZE(wide)
            if number < len(old) and not self._concerns(<Level>old[number], number):
                narrow.append(self._narrow.levels[number])
                wide.append(old[number])
                is_top = number == len(old) - 1
            else:
                is_top = self._cut(number, narrow, wide)
                if number < len(before) and _is_same(<Level>before[number], <Level>wide[number]):
                    narrow[number], wide[number] = self._narrow.levels[number], before[number]
        self._note_loose(wide)
        self._moved = {}
        self._narrow, self._wide = _table(self._owner, narrow), _table(self._owner, wide)
        return self._narrow, self._wide

    cdef bint _concerns(self, Level level, Py_ssize_t number) except -1:
        for key, shared in self._moved.items():
            if <Py_ssize_t>shared >= number and level.spans(<bytes>key):
                return True
        return False

    cdef int _note_loose(self, list wide) except -1:
        cdef Py_ssize_t number
        cdef Level level, now
        self._loose.update(self._moved)
        for number in range(len(self._wide.levels) if self._wide is not None else 0):
            level = <Level>self._wide.levels[number]
            if number >= PyList_GET_SIZE(wide):
                self._loose.update(level.keys)
                continue
            now = <Level>wide[number]
            if now is not level and not now.full:
                for key in level.keys:
                    if not now.spans(<bytes>key):
                        self._loose.add(key)
        return 0

    cdef bint _cut(self, Py_ssize_t number, list narrow, list wide) except -1:
        """Append the two lists of one level; True for the top level."""
        cdef list ring = <list>self._rings[number] if number < PyList_GET_SIZE(self._rings) else []
        cdef list near = <list>self._rings[number + 1] if number + 1 < PyList_GET_SIZE(self._rings) else []
        cdef Py_ssize_t size = PyList_GET_SIZE(ring), at = _place(ring, self._key), first, last
        cdef Py_ssize_t mine_left = 0, all_left = 0, mine_right = 0, all_right = 0
        cdef Level level
        self._reaches(ring, near, number, at, 1, &mine_right, &all_right)
        self._reaches(ring, near, number, at, -1, &mine_left, &all_left)
        if all_left + all_right <= size and size:
            level = self._level(ring, near, at, all_left, all_right, False)
            first, last = all_left - mine_left, all_left + mine_right + 1
            narrow.append(
                _made(level.nodes[first:last], mine_left, False, level.fresh[first:last], level.keys[first:last])
            )
            wide.append(level)
            return False
        level = self._level(ring, near, at, at, size - at, True)
        wide.append(level)
        if PyList_GET_SIZE(near) < 2 * self._wanted:
            narrow.append(level)
            return True
        narrow.append(self._level(ring, near, at, mine_left, mine_right, False))
        return False

    cdef int _reaches(
        self, list ring, list near, Py_ssize_t number, Py_ssize_t at, int step, Py_ssize_t *mine, Py_ssize_t *every
    ) except -1:
        cdef Py_ssize_t size = PyList_GET_SIZE(ring), among = PyList_GET_SIZE(near), missing = self._alpha - 1
        cdef Py_ssize_t place = at if step > 0 else at - 1, beside = _place(near, self._key), places, met = 0
        cdef Py_ssize_t[ALPHA_MAX] others
        cdef PyObject *key
        cdef int digit = 0
        for digit in range(ALPHA_MAX):
            others[digit] = 0
        digit = 0
        if step < 0:
            beside -= 1
        mine[0] = 0
        for places in range(1, size + 1):
            if place < 0:
                place = size - 1
            elif place == size:
                place = 0
            if among and beside < 0:
                beside = among - 1
            elif beside == among:
                beside = 0
            key = <PyObject *>PyList_GET_ITEM(ring, place)
            every[0] = places
            if among and <PyObject *>PyList_GET_ITEM(near, beside) == key:  # rings share the key objects
                beside += step
                met += 1
                if met == self._wanted:
                    mine[0] = places
                    if not missing:
                        break
            else:
                if self._alpha > 2:
                    digit = self._vectors.digit(self.known[<object>key].vector, number)
                others[digit] += 1
                if others[digit] == self._wanted:
                    missing -= 1
                    if not missing and mine[0]:
                        break
            place += step
        if not mine[0]:
            mine[0] = every[0]
        return 0

    cdef Level _level(
        self, list ring, list near, Py_ssize_t at, Py_ssize_t left, Py_ssize_t right, bint full
    ):
        """The list that reaches this far to the left and to the right."""
        cdef Py_ssize_t size = PyList_GET_SIZE(ring), among = PyList_GET_SIZE(near), place, beside, index
        cdef tuple nodes = PyTuple_New(left + right + 1), fresh = PyTuple_New(left + right + 1)
        cdef tuple keys = PyTuple_New(left + right + 1)
        cdef dict known = self.known
        cdef bytes key
        if left:
            place = (at - left + size) % size
            beside = _place(near, <bytes>PyList_GET_ITEM(ring, place))
        elif size:
            place, beside = at % size, _place(near, self._key)
        else:
            place = beside = 0
        _set(nodes, left, self._owner)
        _set(keys, left, self._key)
        _set(fresh, left, False)
        for index in range(left + right + 1):
            if index == left:
                continue
            if place == size:
                place = 0
            if beside == among:
                beside = 0
            key = <bytes>PyList_GET_ITEM(ring, place)
            _set(nodes, index, known[key])
            _set(keys, index, key)
            if among and <PyObject *>PyList_GET_ITEM(near, beside) == <PyObject *>key:
                beside += 1
                _set(fresh, index, False)
            else:
                _set(fresh, index, True)
            place += 1
        return _made(nodes, left, full, fresh, keys)


cdef inline int _set(tuple where, Py_ssize_t index, value) except -1:
    """Set an item of a tuple that is not yet visible to other code."""
    Py_INCREF(value)
    PyTuple_SET_ITEM(where, index, value)
    return 0


# --- functions on lists

def nearest(bytes key, nodes, Py_ssize_t count):
    """`place.nearest`. If each side has `count` nodes, only these are sorted."""
    cdef list below = [], after = [], beyond = [], ahead = [], ring
    cdef dict by_key
    cdef bytes other
    cdef int side
    nodes = tuple(nodes)
    for node in <tuple>nodes:
        other = node.key
        side = _compare(other, key)
        if side < 0:
            _select(below, beyond, other, node, count, True)
        elif side > 0:
            _select(after, ahead, other, node, count, False)
    if PyList_GET_SIZE(below) == count and PyList_GET_SIZE(after) == count:
        return beyond + ahead
    by_key = {node.key: node for node in <tuple>nodes}
    by_key.pop(key, None)
    ring = sorted(by_key)
    if PyList_GET_SIZE(ring) <= 2 * count:
        return [by_key[other] for other in ring]
    at, size = _place(ring, key), PyList_GET_SIZE(ring)
    return [by_key[ring[(at + step + size) % size]] for step in range(-count, count)]


cdef int _select(list keys, list nodes, bytes key, node, Py_ssize_t count, bint is_most) except -1:
    """Keep the `count` least or greatest keys sorted; of two nodes with one key the later one."""
    cdef Py_ssize_t size = PyList_GET_SIZE(keys), at
    if size == count and _compare(key, <bytes>PyList_GET_ITEM(keys, 0 if is_most else size - 1)) * (
        -1 if is_most else 1
    ) > 0:
        return 0
    at = _place(keys, key)
    if at < size and _compare(<bytes>PyList_GET_ITEM(keys, at), key) == 0:
        nodes[at] = node
        return 0
    keys.insert(at, key)
    nodes.insert(at, node)
    if size == count:
        del keys[0 if is_most else count], nodes[0 if is_most else count]
    return 0


def unneighbourhood(dict known, named):
    """`place.unneighbourhood`."""
    cdef list found = []
    for node in named:
        held = known.get(node.key)
        if held is not node and held != node:
            found.append(node)
    return found


def add_nodes(NodeLists node_lists, bytes own, nodes):
    """`place.add_nodes`."""
    cdef list found = []
    cdef bytes key
    cdef Py_ssize_t shared
    for node in nodes:
        key = node.key
        held = node_lists.known.get(key)
        if held is node or (held is not None and held.serial >= node.serial) or _compare(key, own) == 0:
            continue
        if held is None:
            shared = node_lists._common(node)
            node_lists._ring(key, shared)
            node_lists.known[key] = node
            node_lists._move(key, shared)
            node_lists.changes += 1
        else:
            node_lists.put(node)
        found.append(node)
    return found


def answer(table, vectors, Py_ssize_t k, about):
    """`place.answer`."""
    cdef Py_ssize_t count = len(table.levels), at, size, step, levels = vectors.common(table.owner.vector, about.vector)
    cdef bytes key = about.key
    cdef dict listed
    cdef tuple everyone
    cdef list beyond = []
    levels = min(levels + 1, count)
    listed = (<LevelTable>table)._of(0, levels) if isinstance(table, LevelTable) else table.named(0, levels)
    if levels < count:
        lowest = table.levels[0]
        if not (lowest.full or k <= lowest.position(key) < len(lowest) - k):
            everyone = table.everyone
            size = len(everyone)
            at = _rank(everyone, key)
            for step in range(-k, k + 1):
                node = everyone[((at + step) % size + size) % size]
                if node.key not in listed:
                    beyond.append(node)
    if beyond:
        listed = dict(listed)
        for node in beyond:
            listed[node.key] = node
    elif key not in listed:
        return (<LevelTable>table)._all_of(levels) if isinstance(table, LevelTable) else tuple(listed.values())
    if key not in listed:
        return tuple(listed.values())
    return tuple([node for other, node in listed.items() if other != key])


cdef Py_ssize_t _rank(tuple nodes, bytes key) except -1:
    """Number of nodes, sorted by key, before a key."""
    cdef Py_ssize_t low = 0, high = len(nodes), middle
    while low < high:
        middle = (low + high) >> 1
        if _compare(<bytes>nodes[middle].key, key) < 0:
            low = middle + 1
        else:
            high = middle
    return low


def nodes_with(held, what, value):
    """`places.nodes_with`."""
    cdef dict found = {}
    for place in held:
        for key, node in (<dict>place.known).items():
            if what(node) == value:
                found[key] = node
    return found


def revoked_keys(dict known, revoked, expelled):
    """`places.revoked_keys`."""
    return [key for key, node in known.items() if node.serial in revoked or node.name in expelled]


def updated(tuple listed, dict added, dict known, about, own):
    """`place.updated`."""
    cdef dict named = {}
    cdef bytes key
    for node in listed:
        key = node.key
        if key in known:
            named[key] = node
    for key, node in added.items():
        if key in known:
            named[key] = node
    named.pop(about.key, None)
    return (own, *named.values())


def own_neighbours(table, me):
    """`agreement.own_neighbours`."""
    cdef list found = []
    cdef tuple nodes
    cdef Py_ssize_t number, own, size, at, step
    for number, level in enumerate(table.levels):
        nodes, own = level.nodes, level.own
        size = len(nodes)
        for step in (-1, 1):
            at = own + step
            if at < 0 or at >= size:
                if not level.full:
                    continue
                at = (at + size) % size
            if at != own:
                node = nodes[at]
                if node.address == me:
                    found.append((number, node.key))
    return found


def span_agrees(wide, span):
    """`agreement.span_agrees`."""
    cdef tuple levels = wide.levels, theirs = span.keys, mine
    cdef Py_ssize_t number = span.level, count = len(theirs), size, first, last, begin, end, at
    if not 0 <= number < len(levels):
        return False
    level = levels[number]
    mine = level.keys
    size = len(mine)
    if level.full or span.full:
        return level.full and span.full and size == count and set(mine) == set(theirs)
    if not count:
        return False
    begin, end = _index(theirs, mine[0]), _index(theirs, mine[size - 1])
    if begin >= 0:
        first = 0
    else:
        first, begin = _index(mine, theirs[0]), 0
    if end >= 0:
        last = size - 1
    else:
        last, end = _index(mine, theirs[count - 1]), count - 1
    if first < 0 or last < 0:
        return False
    first, last = _index(mine, mine[first]), _index(mine, mine[last])
    begin, end = _index(theirs, theirs[begin]), _index(theirs, theirs[end])
    if (begin and level.spans(theirs[0])) or (theirs[count - 1] != theirs[end] and level.spans(theirs[count - 1])):
        return False  # the lists overlap at the far side of the ring too
    if last < first or last - first != end - begin:
        return False
    for at in range(last - first + 1):
        if mine[first + at] != theirs[begin + at]:
            return False
    return True


cdef Py_ssize_t _index(tuple keys, bytes key) except -2:
    """First index of a key, or -1."""
    cdef Py_ssize_t at
    for at in range(len(keys)):
        if <PyObject *>keys[at] == <PyObject *>key or _compare(<bytes>keys[at], key) == 0:
            return at
    return -1


def unagreed(tuple levels, before, dict agreed):
    """`agreement.unagreed`."""
    cdef list found = []
    cdef Py_ssize_t number, old = len(before)
    for number in range(len(levels)):
        level = levels[number]
        if number < old and before[number] is level:
            continue
        nodes = level.nodes
        for is_left in (True, False):
            held = agreed.get((number, is_left))
            if held is not nodes and held != nodes:
                found.append((number, is_left, level))
    return found


def neighbour(level, me, bint is_left):
    """`agreement.neighbour`."""
    cdef tuple nodes = level.nodes
    cdef Py_ssize_t own = level.own, size = len(nodes), at = own, places
    for places in range(size - 1 if level.full else own if is_left else size - own - 1):
        at += -1 if is_left else 1
        if at < 0:
            at = size - 1
        elif at == size:
            at = 0
        node = nodes[at]
        if node.address != me:
            return node
    return None


def span_differences(wide, vectors, span):
    """`agreement.span_differences`."""
    cdef tuple keys = span.keys, levels = wide.levels
    cdef unsigned long long limit = vectors.limits[span.level], vector = wide.owner.vector, other
    level = levels[min(<Py_ssize_t>span.level, <Py_ssize_t>len(levels) - 1)]
    cdef dict mine = {}
    cdef bytes key, own = span.owner.key, first, last
    cdef set theirs = set(keys)
    cdef list lacking = [], unknown = []
    cdef bint whole = span.full or not keys
    theirs.add(own)
    if not whole:
        first, last = keys[0], keys[len(keys) - 1]
    for node in <tuple>level.nodes:
        other = node.vector
        if vector ^ other < limit:
            mine[node.key] = node
    for key, node in mine.items():
        if key not in theirs and (whole or _within(first, last, key)):
            lacking.append(node)
    for key in keys:
        if key not in mine and key != own and level.spans(key):
            unknown.append(key)
    return lacking, unknown


cdef bint _within(bytes first, bytes last, bytes key) noexcept:
    if _compare(first, last) <= 0:
        return _compare(first, key) <= 0 and _compare(key, last) <= 0
    return _compare(key, first) >= 0 or _compare(key, last) <= 0
