# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, freethreading_compatible=False
"""The compiled core: `world.World` and its hosts, with a C heap for the agenda and C rows for the journal.

`world.py` is the specification. Both do the same in the same order and write the same journal, byte for byte
(`tests/world/test_cores.py`). This core saves a tuple for each agenda entry and the calls for sending a message.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int16_t, int32_t, int64_t
from libc.stdlib cimport free, malloc, realloc

from gc import get_referents

from implicast.peer.contract import Part, Peer
from implicast.peer.events import Notice
from implicast.peer.wire import KIND_BYTES, pack
from implicast.space.digest import stream
from implicast.world.faults import LossOnly as _LossOnly
from implicast.world.faults import without_faults as _without_faults
from implicast.world.journal import CHUNK_ROWS as _CHUNK_ROWS
from implicast.world.journal import UPKEEP as _UPKEEP

cdef enum:
    PEER_LINES = 5  # cache lines of 64 bytes of a peer's slots
    SWIFT_LINES = 4

cdef extern from "Python.h":
    ctypedef struct PyListObject:
        PyObject **ob_item
    ctypedef struct PyTypeObject:
        int (*tp_clear)(PyObject *) except -1
    PyTypeObject *Py_TYPE(PyObject *) noexcept

cdef int UPKEEP = _UPKEEP
cdef int CHUNK_ROWS = _CHUNK_ROWS
cdef int HEAD = KIND_BYTES
cdef int NO_ADDRESS = -1
cdef int64_t NEVER_US = <int64_t>1 << 62
cdef object _pack = pack
cdef object _Notice = Notice
cdef object _Peer = Peer
cdef object _Part = Part

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define PREFETCH(at) __builtin_prefetch(at)
    #else
    #define PREFETCH(at) ((void)(at))
    #endif
    """
    void PREFETCH(const void *at) noexcept nogil

cdef struct Entry:
    int64_t time_us
    int64_t serial
    int32_t to  # NO_ADDRESS: a call by the application
    int32_t sender  # NO_ADDRESS: an alarm
    int32_t purpose
    int32_t depth
    int32_t length
    int32_t kind
    PyObject *thing
    PyObject *host  # of an alarm

cdef packed struct Row:
    int64_t serial
    int64_t cause
    int64_t sent_us
    int64_t arrived_us
    int32_t sender
    int32_t receiver
    int32_t purpose
    int32_t depth
    int32_t length
    int16_t kind


cdef packed struct NoticeRow:
    int64_t cause
    int64_t time_us
    int32_t peer
    int32_t cast
    int32_t depth
    char altered


cdef inline bint _before(Entry *one, Entry *other) noexcept nogil:
    return one.time_us < other.time_us or (one.time_us == other.time_us and one.serial < other.serial)


cdef class World:
    """Peers, their clock and their network. There is no global state: one process may run many worlds."""

    cdef public object latency_us, journal, faults, codec, rng, peers, hosts, rates, shifts, casts, numbers
    cdef public object payload_of, events, on_event, materialise
    cdef public int64_t now_us, cause, busy, carried
    cdef public int purpose, depth
    cdef dict _kinds
    cdef dict _handlers
    cdef dict _alarms
    cdef object _last
    cdef int _facts_purpose, _facts_length, _facts_kind
    cdef Entry *_heap
    cdef int64_t _count, _room, _serial
    cdef Row *_rows
    cdef int _filled
    cdef NoticeRow *_notice_rows
    cdef int _notice_count
    cdef object _cast, _payload
    cdef int _number
    cdef bint _bulk
    cdef object _halved
    cdef list _from_us, _to_us, _between_us, _peer_table, _swifts
    cdef object _delay_function, _random
    cdef double _loss
    cdef bint _calls_faults
    cdef int64_t *_out_us
    cdef int64_t *_in_us
    cdef int64_t _halves
    cdef int _swift_kind

    def __cinit__(self):
        self._room = 1024
        self._count = self._serial = 0
        self._heap = <Entry *>malloc(self._room * sizeof(Entry))
        self._rows = <Row *>malloc(CHUNK_ROWS * sizeof(Row))
        self._notice_rows = <NoticeRow *>malloc(CHUNK_ROWS * sizeof(NoticeRow))
        self._out_us = self._in_us = NULL
        self._halves = 0
        if self._heap == NULL or self._rows == NULL or self._notice_rows == NULL:
            raise MemoryError()

    def __init__(self, network, seed=0, journal=None, faults=None, codec=None):
        self.latency_us = self._halved = network.latency_us
        halves_us = getattr(network, "halves_us", None)
        self._from_us, self._to_us = ([], []) if halves_us is None else halves_us
        self._between_us = getattr(network, "between_us", [])
        self._delay_function = self._random = None
        self.journal, self.faults, self.codec = journal, faults, codec
        self.rng = stream(seed, "protocol")
        self.peers, self.hosts, self.rates, self.casts, self.numbers = {}, {}, {}, {}, {}
        self.shifts = {}
        self.payload_of = _nothing
        self.materialise, self._peer_table, self._swifts, self._swift_kind = None, [], [], -1
        self.events = []
        self.on_event = self._note_event
        self.now_us = self.cause = self.busy = self.carried = 0
        self.purpose, self.depth = UPKEEP, 0
        self._bulk = hasattr(journal, "flush_notices")
        self._kinds, self._handlers, self._alarms = {}, {}, {}
        self._last = self._cast = None
        self._notice_count, self._number, self._payload = 0, -1, b""
        self._facts_purpose, self._facts_length, self._facts_kind = UPKEEP, 0, 0

    def __dealloc__(self):
        if self._heap != NULL:
            self._empty()
            free(self._heap)
        free(self._rows)
        free(self._notice_rows)
        free(self._out_us)
        free(self._in_us)

    def close(self):
        """Drop the agenda. Its entries refer to the world, and the garbage collector does not see the C heap."""
        self._empty()
        self._clear_tables()

    cdef _empty(self):
        cdef Entry entry
        while self._count:
            self._count -= 1
            entry = self._heap[self._count]
            Py_DECREF(<object>entry.thing)
            if entry.host != NULL:
                Py_DECREF(<object>entry.host)

    def _note_event(self, address, event):
        self.events.append((self.now_us, address, event))

    @property
    def facts(self):
        return self._facts_purpose, self._facts_length, self._facts_kind

    # --- peers

    def host(self, address):
        """The host of an address; the same object until the peer there crashes."""
        if address not in self.hosts:
            rate = self.rates.get(address, 1.0)
            self.hosts[address] = (
                WorldHost(self, address)
                if rate == 1 and address not in self.shifts
                else DriftingHost(self, address, rate, self.shifts.get(address, 0))
            )
        return self.hosts[address]

    def place(self, address, peer):
        """Let a peer receive what is sent to an address from now on."""
        self.peers[address] = peer
        self._clear_tables()  # the table holds lazy peers only; look-ups use the dictionary from now on

    def peer(self, address):
        """The peer at an address; a lazy peer is materialised."""
        found = self.peers.get(address)
        if found is None and self.materialise is not None:
            found = self.peers[address] = self.materialise(address)
            self._table_peer(address, found)
        return found

    cdef _table_peer(self, int address, peer):
        """Enter a lazy peer in a table by address. Among a million peers a dictionary costs three cache misses more."""
        if address >= len(self._peer_table):
            if not self._peer_table:
                self._copy_latencies()
            more = max(address + 1 - len(self._peer_table), len(self._peer_table))
            self._peer_table += [None] * more
            self._swifts += [None] * more
        self._peer_table[address] = peer
        self._swifts[address] = None

    cdef _clear_tables(self):
        self._peer_table, self._swifts = [], []

    cdef _copy_latencies(self):
        """Copy latencies into C arrays. Among a million peers Python integers cost two cache misses more."""
        cdef int64_t each, count = min(len(self._from_us), len(self._to_us))
        free(self._out_us)
        free(self._in_us)
        self._halves = 0
        self._out_us = <int64_t *>malloc((count + 1) * sizeof(int64_t))
        self._in_us = <int64_t *>malloc((count + 1) * sizeof(int64_t))
        if self._out_us == NULL or self._in_us == NULL:
            raise MemoryError()
        for each in range(count):
            self._out_us[each], self._in_us[each] = self._from_us[each], self._to_us[each]
        self._halves = count

    def crash(self, address):
        """Remove a peer without notice: messages to it are lost, its alarms do not fire."""
        self.peers.pop(address, None)
        self._clear_tables()
        host = self.hosts.pop(address, None)
        if host is not None:
            host.silence()

    def release_peers(self):
        """Remove all peers and hosts. Clears the references between peers and their parts, which form cycles, so that
        the garbage collector need not search for them."""
        peers = list(self.peers.values())
        self.peers.clear()
        self.hosts.clear()
        self._clear_tables()
        while peers:
            peer = peers.pop()
            for part in get_referents(peer):
                if isinstance(part, _Part) and part is not peer:
                    _clear_references(part)
            _clear_references(peer)

    # --- agenda

    def at(self, time_us, purpose, verb):
        """Schedule a call by the application."""
        if purpose != UPKEEP:
            self.busy += 1
        self._put(time_us, NO_ADDRESS, NO_ADDRESS, verb, purpose, 0, 0, 0, None)

    def announce(self, name, number):
        """Assign a number to the identifier of a cast. What the running call sends belongs to this cast."""
        self.casts[name] = number
        self.purpose = number
        self._cast = None

    def run(self, until_us=None):
        """Run until at rest, or until a time, at which the clock then stands."""
        cdef int64_t left
        if until_us is None:
            while self.busy:
                left = self.busy
                while left and self._count:
                    self._handle_inputs()
                    left -= 1
            return
        self._run_until(until_us)
        if until_us > self.now_us:
            self.now_us = until_us

    cdef _run_until(self, int64_t until_us):
        while self._count and self._heap[0].time_us <= until_us:
            self._handle_inputs()

    def step(self):
        """Handle the next input; False if there is none."""
        if not self._count:
            return False
        self._handle_inputs()
        return True

    cdef _handle_inputs(self):
        cdef Entry entry = self._pop()
        if self._peer_table:
            self._fetch_next()
        cdef object thing = <object>entry.thing
        cdef object host = None
        Py_DECREF(thing)
        if entry.host != NULL:
            host = <object>entry.host
            Py_DECREF(host)
        self.now_us, self.cause = entry.time_us, entry.serial
        self.depth = entry.depth
        self.purpose = entry.purpose
        if entry.purpose != UPKEEP:
            self.busy -= 1
        if entry.sender != NO_ADDRESS:
            self._last = thing
            self._facts_purpose, self._facts_length, self._facts_kind = entry.purpose, entry.length, entry.kind
            if entry.kind == self._swift_kind and entry.to < len(self._swifts):
                swift = self._swifts[entry.to]
                if swift is not None and swift.go(thing):
                    return
            peer = self._peer_table[entry.to] if entry.to < len(self._peer_table) else (<dict>self.peers).get(entry.to)
            if peer is None:
                peer = self.peer(entry.to)
            if peer is None:
                return
            if self.codec is not None:
                thing = self._arrive(thing[0], thing[1])
            handlers = self._handlers.get(type(peer))
            if handlers is None:
                handlers = self._learn_role(type(peer))
            found_handler = (<dict>handlers).get(type(thing))
            if found_handler is None:
                peer.receive(entry.sender, thing)
                return
            path, handler, is_swift = <tuple>found_handler  # `Peer.receive` in line
            part = peer
            for name in <tuple>path:
                part = getattr(part, name)
            if part is None:
                peer.drop_stray()
            else:
                handler(part, entry.sender, thing)
                if is_swift and entry.to < len(self._swifts) and self.codec is None:
                    self._swifts[entry.to], self._swift_kind = part.swift, entry.kind
            return
        self._last = None
        if entry.to == NO_ADDRESS:
            thing()
        elif host.alive:
            self._wake(self.peers[entry.to], thing)

    cdef _wake(self, peer, alarm):
        alarms = self._alarms.get(type(peer))
        if alarms is None:
            alarms = self._learn_alarms(type(peer))
        found_handler = (<dict>alarms).get(type(alarm))
        if found_handler is None:
            peer.wake(alarm)
            return
        path, handler, _ = <tuple>found_handler  # `Peer.wake` in line
        for name in <tuple>path:
            peer = getattr(peer, name)
        handler(peer, alarm)

    cdef void _fetch_next(self) noexcept:
        """Prefetch what the next inputs need; among a million peers none of it is in the cache. The first two inputs get
        their messages and peers, and the four candidates for the second the table entries of their peers."""
        cdef PyObject **peers_at = (<PyListObject *>self._peer_table).ob_item
        cdef PyObject **swifts = (<PyListObject *>self._swifts).ob_item
        cdef int64_t count = len(self._peer_table), each, second = 1
        if not self._count:
            return
        PREFETCH(self._heap[0].thing)
        self._fetch(peers_at, swifts, count, &self._heap[0])
        for each in range(1, min(5, self._count)):
            if _before(&self._heap[each], &self._heap[second]):
                second = each
            PREFETCH(self._heap[each].thing)
            if 0 <= self._heap[each].to < count:
                PREFETCH((swifts if self._heap[each].kind == self._swift_kind else peers_at) + self._heap[each].to)
        if second < self._count:
            self._fetch(peers_at, swifts, count, &self._heap[second])

    cdef void _fetch(self, PyObject **peers_at, PyObject **swifts, int64_t count, Entry *entry) noexcept:
        """Prefetch the receiver of an entry."""
        cdef char *there
        cdef int each
        if not 0 <= entry.to < count:
            return
        if entry.kind == self._swift_kind:
            there = <char *>swifts[entry.to]
            for each in range(SWIFT_LINES):
                PREFETCH(there + 64 * each)
        else:
            there = <char *>peers_at[entry.to]
            for each in range(PEER_LINES):
                PREFETCH(there + 64 * each)

    # --- requests of peers

    cpdef carry(self, int sender, int to, message):
        """Send a message."""
        cdef int64_t serial, arrived_us, delay_us
        cdef int purpose, depth = self.depth + 1
        if message is not self._last:
            self.classify(message)
        purpose = self._facts_purpose
        what = message if self.codec is None else self._packed(sender, to, message)
        if self.latency_us is not self._halved or sender < 0 or to < 0:
            delay_us = self.latency_us(sender, to)
        elif sender < self._halves and to < self._halves:
            delay_us = self._out_us[sender] + self._in_us[to]
        elif sender < len(self._from_us) and to < len(self._to_us):
            delay_us = self._from_us[sender] + self._to_us[to]  # `latency_us` in line
        elif sender < len(self._between_us) and to < len(self._between_us):
            delay_us = (<list>self._between_us[sender])[to]
        else:
            delay_us = self.latency_us(sender, to)
        if self.faults is not None:
            copy_delays_us = self.faults.copy_delays_us
            if copy_delays_us is not self._delay_function:
                self._learn_fate(copy_delays_us)
        if self.faults is None or (not self._calls_faults and not self._loses()):
            arrived_us = self.now_us + delay_us
            if purpose != UPKEEP:
                self.busy += 1
            serial = self._put(arrived_us, to, sender, what, purpose, depth, self._facts_length, self._facts_kind, None)
        else:
            delays_us = copy_delays_us(self.now_us, sender, to, delay_us) if self._calls_faults else ()
            if not delays_us:
                self._serial += 1
                serial, arrived_us = self._serial, -1
            else:
                arrived_us = self.now_us + <int64_t>delays_us[0]
                serial = 0
                for each_us in delays_us:
                    if purpose != UPKEEP:
                        self.busy += 1
                    put = self._put(self.now_us + <int64_t>each_us, to, sender, what, purpose, depth,
                                    self._facts_length, self._facts_kind, None)
                    if not serial:
                        serial = put
        self.carried += 1
        if self.journal is not None:
            self._write(serial, arrived_us, sender, to, purpose, depth)

    cdef _learn_fate(self, copy_delays_us):
        """Cache the delay function of the faults. The two usual ones are evaluated in line."""
        losing = type(copy_delays_us) is _LossOnly
        self._delay_function, self._calls_faults = copy_delays_us, not losing and copy_delays_us is not _without_faults
        self._random, self._loss = (copy_delays_us.random, copy_delays_us.loss) if losing else (None, 0)

    cdef bint _loses(self) except -1:
        """Whether a message is lost, if loss is the only fault."""
        return self._random is not None and <double>self._random() < self._loss

    cdef _write(self, int64_t serial, int64_t arrived_us, int sender, int to, int purpose, int depth):
        cdef Row *row = &self._rows[self._filled]
        row.serial, row.cause, row.sent_us, row.arrived_us = serial, self.cause, self.now_us, arrived_us
        row.sender, row.receiver, row.purpose, row.depth = sender, to, purpose, depth
        row.length, row.kind = self._facts_length, self._facts_kind
        self._filled += 1
        if self._filled >= CHUNK_ROWS:
            self.journal.sends.append(PyBytes_FromStringAndSize(<char *>self._rows, self._filled * sizeof(Row)))
            self._filled = 0
            self.journal.flush_sends()

    def flush(self):
        """Write buffered rows to the journal."""
        if self._filled and self.journal is not None:
            self.journal.sends.append(PyBytes_FromStringAndSize(<char *>self._rows, self._filled * sizeof(Row)))
        self._filled = 0
        if self._notice_count and self.journal is not None:
            self.journal.notices.append(PyBytes_FromStringAndSize(<char *>self._notice_rows, self._notice_count * sizeof(NoticeRow)))
        self._notice_count = 0

    cpdef deliver(self, address, event):
        cdef NoticeRow *row
        if type(event) is not _Notice or self.journal is None:
            self.on_event(address, event)
            return
        if event.cast is not self._cast:  # one cast notifies many peers in a row
            self._cast = event.cast
            self._number = self.casts.get(event.cast, -1)
            self._payload = self.payload_of(self._number) if self._number >= 0 else event.payload
        if not self._bulk:
            altered = self._number >= 0 and event.payload != self._payload
            who = self.numbers.get(address, address)
            self.journal.notice(self.cause, self.now_us, who, self._number, self.depth, altered)
            return
        row = &self._notice_rows[self._notice_count]
        row.cause, row.time_us, row.depth, row.cast = self.cause, self.now_us, self.depth, self._number
        row.peer = self.numbers.get(address, address) if self.numbers else address
        row.altered = self._number >= 0 and event.payload != self._payload
        self._notice_count += 1
        if self._notice_count >= CHUNK_ROWS:
            self.journal.notices.append(PyBytes_FromStringAndSize(<char *>self._notice_rows, self._notice_count * sizeof(NoticeRow)))
            self._notice_count = 0
            self.journal.flush_notices()

    # --- internals

    def push(self, time_us, what):
        """Put an input on the agenda: (receiver, sender, content, purpose, depth, extra). `extra` is the classification
        of a message or the host of an alarm."""
        to, sender, thing, purpose, depth, beside = what
        if purpose != UPKEEP:
            self.busy += 1
        if sender is None:
            return self._put(time_us, NO_ADDRESS if to is None else to, NO_ADDRESS, thing, purpose, depth, 0, 0, beside)
        return self._put(time_us, to, sender, thing, purpose, depth, beside[1], beside[2], None)

    cdef int64_t _put(self, int64_t time_us, int to, int sender, object thing, int purpose, int depth, int length,
                      int kind, object host) except -1:
        cdef Entry entry
        cdef int64_t at, parent
        cdef Entry *heap
        if self._count == self._room:
            heap = <Entry *>realloc(self._heap, 2 * self._room * sizeof(Entry))
            if heap == NULL:
                raise MemoryError()
            self._heap = heap
            self._room *= 2
        self._serial += 1
        entry.time_us, entry.serial = time_us, self._serial
        entry.to, entry.sender, entry.purpose, entry.depth = to, sender, purpose, depth
        entry.length, entry.kind = length, kind
        Py_INCREF(thing)
        entry.thing = <PyObject *>thing
        entry.host = NULL
        if host is not None:
            Py_INCREF(host)
            entry.host = <PyObject *>host
        heap = self._heap
        at = self._count
        self._count += 1
        while at:
            parent = (at - 1) >> 2
            if not _before(&entry, &heap[parent]):
                break
            heap[at] = heap[parent]
            at = parent
        heap[at] = entry
        return entry.serial

    cdef Entry _pop(self) noexcept:
        cdef Entry *heap = self._heap
        cdef Entry first = heap[0]
        cdef Entry last
        cdef int64_t at = 0, child, least, end
        self._count -= 1
        end = self._count
        if end:
            last = heap[end]
            while True:
                least = 4 * at + 1
                if least >= end:
                    break
                for child in range(least + 1, min(least + 4, end)):
                    if _before(&heap[child], &heap[least]):
                        least = child
                if not _before(&heap[least], &last):
                    break
                heap[at] = heap[least]
                at = least
            heap[at] = last
        return first

    cdef classify(self, message):
        """Determine kind, purpose and size of a message about to be sent."""
        self._last = message
        known = self._kinds.get(type(message))
        if known is None:
            known = self._register_kind(type(message))
        kind, names_cast = known
        self._facts_purpose = self.casts.get(message.cast, self.purpose) if names_cast else self.purpose
        self._facts_length = HEAD + len(_pack(message)) if self.journal is not None else 0
        self._facts_kind = kind

    cdef _learn_role(self, role):
        """Handlers by kind of message for a class of peers; none if it overrides `receive`."""
        plain = getattr(role, "receive", None) is _Peer.receive
        known = role.message_handlers if plain else {}
        found = self._handlers[role] = {kind: _dispatch_of(role, handler) for kind, handler in known.items()}
        return found

    cdef _learn_alarms(self, role):
        """The same by kind of alarm."""
        plain = getattr(role, "wake", None) is _Peer.wake
        known = role.alarm_handlers if plain else {}
        found = self._alarms[role] = {kind: _dispatch_of(role, handler) for kind, handler in known.items()}
        return found

    cdef _register_kind(self, kind):
        names_cast = "cast" in getattr(kind, "__struct_fields__", ())
        found = self._kinds[kind] = (len(self._kinds), names_cast)
        if self.journal is not None:
            self.journal.kinds.append(kind.__name__)
        return found

    def _packed(self, sender, to, message):
        assert sender != to, f"{sender} sent {message} to itself: that is a plain call, not a message"
        return message, self.codec.encode(message)

    def _arrive(self, message, packed):
        """Strict mode: check that a message was not changed after sending and survives encoding and decoding."""
        assert self.codec.encode(message) == packed, f"{message} was changed after it was sent"
        received = self.codec.decode(packed)
        assert received == message, f"{message} came off the wire as {received}"
        return received


cdef _clear_references(object owner):
    cdef PyTypeObject *kind = Py_TYPE(<PyObject *>owner)
    if kind.tp_clear != NULL:
        kind.tp_clear(<PyObject *>owner)


def _nothing(number):
    return b""


cdef tuple _dispatch_of(role, handler):
    """(attribute path to the part that handles a kind, its method, whether the part has a compiled fast path `swift`);
    the path is empty for the peer itself."""
    path, method = getattr(handler, "leads_to", ("", handler))
    names = tuple(path.split(".")) if path else ()
    return names, method, len(names) == 1 and hasattr(role.parts.get(path), "swift")


cdef class WorldHost:
    """The host of one peer."""

    cdef public World world
    cdef public int address
    cdef public bint alive

    def __init__(self, World world, int address):
        self.world, self.address, self.alive = world, address, True

    def silence(self):
        """Ignore all further requests of a removed peer."""
        self.alive = False

    @property
    def now_us(self):
        return self.world.now_us

    @property
    def rng(self):
        return self.world.rng

    def send(self, to, message):
        if self.alive:
            self.world.carry(self.address, to, message)

    def deliver(self, event):
        if self.alive:
            self.world.deliver(self.address, event)

    def after(self, delay_us, alarm):
        self._arm(delay_us, alarm)

    cdef _arm(self, int64_t delay_us, alarm):
        cdef World world = self.world
        cdef int purpose
        if self.alive:
            purpose = UPKEEP if alarm.upkeep else world.purpose
            if purpose != UPKEEP:
                world.busy += 1
            world._put(world.now_us + delay_us if delay_us > 0 else world.now_us, self.address, NO_ADDRESS, alarm, purpose,
                       world.depth, 0, 0, self)


cdef class DriftingHost(WorldHost):
    """A host whose clock, and with it every alarm, runs fast or slow, or jumps. A jump moves no alarm that is armed
    already."""

    cdef double _rate
    cdef public int64_t shift_us

    def __init__(self, World world, int address, double rate, int64_t shift_us):
        super().__init__(world, address)
        self._rate, self.shift_us = rate, shift_us

    @property
    def now_us(self):
        return int(self.world.now_us / self._rate) + self.shift_us

    def after(self, delay_us, alarm):
        """Fire no alarm early by the host's own clock. A peer that waits for a deadline would otherwise re-arm its alarm
        without end."""
        due_us = self.now_us - self.shift_us + delay_us
        at_us = int(due_us * self._rate)
        while int(at_us / self._rate) < due_us:
            at_us += 1
        self._arm(at_us - self.world.now_us, alarm)
