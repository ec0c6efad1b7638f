# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, freethreading_compatible=False
"""The compiled core: `world.World` and its hosts, with a C heap for the agenda and C rows for the journal.

`world.py` is the law: every line here does what the line there does, in the same order, and both write the same
journal, byte for byte (`tests/world/test_cores.py`). What is gained: no tuple for each thing on the agenda, no call for
each step of carrying a message.
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
from implicast.world.faults import Losing as _Losing
from implicast.world.faults import unharmed as _unharmed
from implicast.world.journal import CHUNK_ROWS as _CHUNK_ROWS
from implicast.world.journal import UPKEEP as _UPKEEP

cdef enum:
    PEER_LINES = 5  # of 64 bytes: the slots of a peer
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
cdef int NOBODY = -1
cdef int64_t NEVER_US = <int64_t>1 << 62
cdef object _pack = pack
cdef object _Notice = Notice
cdef object _Peer = Peer
cdef object _Part = Part

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define SOON(at) __builtin_prefetch(at)
    #else
    #define SOON(at) ((void)(at))
    #endif
    """
    void SOON(const void *at) noexcept nogil

cdef struct Entry:
    int64_t time_us
    int64_t serial
    int32_t to  # NOBODY: a verb of the application
    int32_t sender  # NOBODY: an alarm
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


cdef packed struct Told:
    int64_t cause
    int64_t time_us
    int32_t peer
    int32_t cast
    int32_t depth
    char altered


cdef inline bint _before(Entry *one, Entry *other) noexcept nogil:
    return one.time_us < other.time_us or (one.time_us == other.time_us and one.serial < other.serial)


cdef class World:
    """Peers, their time and their network. Nothing in it is global: many worlds live in one process."""

    cdef public object latency_us, journal, faults, codec, rng, peers, hosts, rates, casts, numbers
    cdef public object payload_of, events, heard, asleep
    cdef public int64_t now_us, cause, busy, carried
    cdef public int purpose, depth
    cdef dict _kinds
    cdef dict _decisions
    cdef dict _alarms
    cdef object _last
    cdef int _facts_purpose, _facts_length, _facts_kind
    cdef Entry *_heap
    cdef int64_t _count, _room, _serial
    cdef Row *_rows
    cdef int _filled
    cdef Told *_told
    cdef int _tellings
    cdef object _cast, _payload
    cdef int _number
    cdef bint _bulk
    cdef object _halved
    cdef list _from_us, _to_us, _between_us, _seats, _swifts
    cdef object _fate, _random
    cdef double _loss
    cdef bint _calls_fate
    cdef int64_t *_out_us
    cdef int64_t *_in_us
    cdef int64_t _halves
    cdef int _swift_kind

    def __cinit__(self):
        self._room = 1024
        self._count = self._serial = 0
        self._heap = <Entry *>malloc(self._room * sizeof(Entry))
        self._rows = <Row *>malloc(CHUNK_ROWS * sizeof(Row))
        self._told = <Told *>malloc(CHUNK_ROWS * sizeof(Told))
        self._out_us = self._in_us = NULL
        self._halves = 0
        if self._heap == NULL or self._rows == NULL or self._told == NULL:
            raise MemoryError()

    def __init__(self, network, seed=0, journal=None, faults=None, codec=None):
        self.latency_us = self._halved = network.latency_us
        halves_us = getattr(network, "halves_us", None)
        self._from_us, self._to_us = ([], []) if halves_us is None else halves_us
        self._between_us = getattr(network, "between_us", [])
        self._fate = self._random = None
        self.journal, self.faults, self.codec = journal, faults, codec
        self.rng = stream(seed, "protocol")
        self.peers, self.hosts, self.rates, self.casts, self.numbers = {}, {}, {}, {}, {}
        self.payload_of = _nothing
        self.asleep, self._seats, self._swifts, self._swift_kind = None, [], [], -1
        self.events = []
        self.heard = self._note_event
        self.now_us = self.cause = self.busy = self.carried = 0
        self.purpose, self.depth = UPKEEP, 0
        self._bulk = hasattr(journal, "flush_told")
        self._kinds, self._decisions, self._alarms = {}, {}, {}
        self._last = self._cast = None
        self._tellings, self._number, self._payload = 0, -1, b""
        self._facts_purpose, self._facts_length, self._facts_kind = UPKEEP, 0, 0

    def __dealloc__(self):
        if self._heap != NULL:
            self._empty()
            free(self._heap)
        free(self._rows)
        free(self._told)
        free(self._out_us)
        free(self._in_us)

    def close(self):
        """Nothing more will happen. What waits is let go: it refers to the world, and no collector sees it here."""
        self._empty()
        self._unseat()

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

    # --- the population

    def host(self, address):
        """The host of an address; the same until the peer there crashes or is removed."""
        if address not in self.hosts:
            rate = self.rates.get(address, 1.0)
            self.hosts[address] = WorldHost(self, address) if rate == 1 else DriftingHost(self, address, rate)
        return self.hosts[address]

    def place(self, address, peer):
        """From now on this peer receives what is sent to the address."""
        self.peers[address] = peer
        self._unseat()  # those who slept are found among all from now on

    def peer(self, address):
        """Whoever is at an address."""
        found = self.peers.get(address)
        if found is None and self.asleep is not None:
            found = self.peers[address] = self.asleep(address)
            self._seat(address, found)
        return found

    cdef _seat(self, int address, peer):
        """Those who slept can be found by their number: among a million, a table is three misses of the cache."""
        if address >= len(self._seats):
            if not self._seats:
                self._lay_out_halves()
            more = max(address + 1 - len(self._seats), len(self._seats))
            self._seats += [None] * more
            self._swifts += [None] * more
        self._seats[address] = peer
        self._swifts[address] = None

    cdef _unseat(self):
        self._seats, self._swifts = [], []

    cdef _lay_out_halves(self):
        """Latencies as they lie now: among a million, numbers of Python are two misses more."""
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
        """The peer stops while it runs: its mail vanishes, its alarms ring no more."""
        self.peers.pop(address, None)
        self._unseat()
        host = self.hosts.pop(address, None)
        if host is not None:
            host.silence()

    def let_go(self):
        """Nobody is there any more. Peers and their parts refer to each other and would have to be looked for among all
        that there is: they are taken apart instead."""
        peers = list(self.peers.values())
        self.peers.clear()
        self.hosts.clear()
        self._unseat()
        while peers:
            peer = peers.pop()
            for part in get_referents(peer):
                if isinstance(part, _Part) and part is not peer:
                    _take_apart(part)
            _take_apart(peer)

    # --- what is to happen

    def at(self, time_us, purpose, verb):
        """Let the application do something at a time."""
        if purpose != UPKEEP:
            self.busy += 1
        self._put(time_us, NOBODY, NOBODY, verb, purpose, 0, 0, 0, None)

    def announce(self, name, number):
        """This is how the cast with this number is called; what the running verb does belongs to it."""
        self.casts[name] = number
        self.purpose = number
        self._cast = None

    def run(self, until_us=None):
        """Until at rest, or until a time; then the clock stands at that time."""
        cdef int64_t left
        if until_us is None:
            while self.busy:
                left = self.busy
                while left and self._count:
                    self._work_off()
                    left -= 1
            return
        self._run_until(until_us)
        if until_us > self.now_us:
            self.now_us = until_us

    cdef _run_until(self, int64_t until_us):
        while self._count and self._heap[0].time_us <= until_us:
            self._work_off()

    def step(self):
        """Handle the next thing on the agenda; False when there is nothing."""
        if not self._count:
            return False
        self._work_off()
        return True

    cdef _work_off(self):
        cdef Entry entry = self._pop()
        if self._seats:
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
        if entry.sender != NOBODY:
            self._last = thing
            self._facts_purpose, self._facts_length, self._facts_kind = entry.purpose, entry.length, entry.kind
            if entry.kind == self._swift_kind and entry.to < len(self._swifts):
                swift = self._swifts[entry.to]
                if swift is not None and swift.go(thing):
                    return
            peer = self._seats[entry.to] if entry.to < len(self._seats) else (<dict>self.peers).get(entry.to)
            if peer is None:
                peer = self.peer(entry.to)
            if peer is None:
                return
            if self.codec is not None:
                thing = self._arrive(thing[0], thing[1])
            decisions = self._decisions.get(type(peer))
            if decisions is None:
                decisions = self._learn_role(type(peer))
            decision = (<dict>decisions).get(type(thing))
            if decision is None:
                peer.receive(entry.sender, thing)
                return
            path, handler, is_swift = <tuple>decision  # what `Peer.receive` does, without a call of it
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
        if entry.to == NOBODY:
            thing()
        elif host.alive:
            self._wake(self.peers[entry.to], thing)

    cdef _wake(self, peer, alarm):
        alarms = self._alarms.get(type(peer))
        if alarms is None:
            alarms = self._learn_alarms(type(peer))
        decision = (<dict>alarms).get(type(alarm))
        if decision is None:
            peer.wake(alarm)
            return
        path, handler, _ = <tuple>decision  # what `Peer.wake` does, without a call of it
        for name in <tuple>path:
            peer = getattr(peer, name)
        handler(peer, alarm)

    cdef void _fetch_next(self) noexcept:
        """Among a million peers nothing of the next things to happen is in the cache: let the next two be fetched
        meanwhile, and of the four of which the second is one where their peers are."""
        cdef PyObject **seats = (<PyListObject *>self._seats).ob_item
        cdef PyObject **swifts = (<PyListObject *>self._swifts).ob_item
        cdef int64_t count = len(self._seats), each, second = 1
        if not self._count:
            return
        SOON(self._heap[0].thing)
        self._fetch(seats, swifts, count, &self._heap[0])
        for each in range(1, min(5, self._count)):
            if _before(&self._heap[each], &self._heap[second]):
                second = each
            SOON(self._heap[each].thing)
            if 0 <= self._heap[each].to < count:
                SOON((swifts if self._heap[each].kind == self._swift_kind else seats) + self._heap[each].to)
        if second < self._count:
            self._fetch(seats, swifts, count, &self._heap[second])

    cdef void _fetch(self, PyObject **seats, PyObject **swifts, int64_t count, Entry *entry) noexcept:
        """Who it is for."""
        cdef char *there
        cdef int each
        if not 0 <= entry.to < count:
            return
        if entry.kind == self._swift_kind:
            there = <char *>swifts[entry.to]
            for each in range(SWIFT_LINES):
                SOON(there + 64 * each)
        else:
            there = <char *>seats[entry.to]
            for each in range(PEER_LINES):
                SOON(there + 64 * each)

    # --- what peers ask for

    cpdef carry(self, int sender, int to, message):
        """Every message comes this way."""
        cdef int64_t serial, arrived_us, delay_us
        cdef int purpose, depth = self.depth + 1
        if message is not self._last:
            self._look_at(message)
        purpose = self._facts_purpose
        what = message if self.codec is None else self._packed(sender, to, message)
        if self.latency_us is not self._halved or sender < 0 or to < 0:
            delay_us = self.latency_us(sender, to)
        elif sender < self._halves and to < self._halves:
            delay_us = self._out_us[sender] + self._in_us[to]
        elif sender < len(self._from_us) and to < len(self._to_us):
            delay_us = self._from_us[sender] + self._to_us[to]  # what it would say, without a call of it
        elif sender < len(self._between_us) and to < len(self._between_us):
            delay_us = (<list>self._between_us[sender])[to]
        else:
            delay_us = self.latency_us(sender, to)
        if self.faults is not None:
            fate = self.faults.fate
            if fate is not self._fate:
                self._learn_fate(fate)
        if self.faults is None or (not self._calls_fate and not self._loses()):
            arrived_us = self.now_us + delay_us
            if purpose != UPKEEP:
                self.busy += 1
            serial = self._put(arrived_us, to, sender, what, purpose, depth, self._facts_length, self._facts_kind, None)
        else:
            delays_us = fate(self.now_us, sender, to, delay_us) if self._calls_fate else ()
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

    cdef _learn_fate(self, fate):
        """What befalls messages from now on. The two that are usual are judged here, without a call of them."""
        losing = type(fate) is _Losing
        self._fate, self._calls_fate = fate, not losing and fate is not _unharmed
        self._random, self._loss = (fate.random, fate.loss) if losing else (None, 0)

    cdef bint _loses(self) except -1:
        """Whether a message is lost, where nothing else befalls any."""
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
        """Hand over the rows that are not in the journal yet."""
        if self._filled and self.journal is not None:
            self.journal.sends.append(PyBytes_FromStringAndSize(<char *>self._rows, self._filled * sizeof(Row)))
        self._filled = 0
        if self._tellings and self.journal is not None:
            self.journal.told.append(PyBytes_FromStringAndSize(<char *>self._told, self._tellings * sizeof(Told)))
        self._tellings = 0

    cpdef deliver(self, address, event):
        cdef Told *row
        if type(event) is not _Notice or self.journal is None:
            self.heard(address, event)
            return
        if event.cast is not self._cast:  # one cast is told to many in a row
            self._cast = event.cast
            self._number = self.casts.get(event.cast, -1)
            self._payload = self.payload_of(self._number) if self._number >= 0 else event.payload
        if not self._bulk:
            altered = self._number >= 0 and event.payload != self._payload
            who = self.numbers.get(address, address)
            self.journal.notice(self.cause, self.now_us, who, self._number, self.depth, altered)
            return
        row = &self._told[self._tellings]
        row.cause, row.time_us, row.depth, row.cast = self.cause, self.now_us, self.depth, self._number
        row.peer = self.numbers.get(address, address) if self.numbers else address
        row.altered = self._number >= 0 and event.payload != self._payload
        self._tellings += 1
        if self._tellings >= CHUNK_ROWS:
            self.journal.told.append(PyBytes_FromStringAndSize(<char *>self._told, self._tellings * sizeof(Told)))
            self._tellings = 0
            self.journal.flush_told()

    # --- inside

    def push(self, time_us, what):
        """Put an input on the agenda: receiver, sender, thing, purpose, depth, and what is beside it: the facts of a
        message, the host of an alarm."""
        to, sender, thing, purpose, depth, beside = what
        if purpose != UPKEEP:
            self.busy += 1
        if sender is None:
            return self._put(time_us, NOBODY if to is None else to, NOBODY, thing, purpose, depth, 0, 0, beside)
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

    cdef _look_at(self, message):
        """Find out kind, purpose and size of a message about to be carried."""
        self._last = message
        known = self._kinds.get(type(message))
        if known is None:
            known = self._learn(type(message))
        kind, names_cast = known
        self._facts_purpose = self.casts.get(message.cast, self.purpose) if names_cast else self.purpose
        self._facts_length = HEAD + len(_pack(message)) if self.journal is not None else 0
        self._facts_kind = kind

    cdef _learn_role(self, role):
        """By kind of message, who decides on it at a peer of this role; nothing where it receives in its own way."""
        plain = getattr(role, "receive", None) is _Peer.receive
        known = role._messages if plain else {}
        found = self._decisions[role] = {kind: _led(role, handler) for kind, handler in known.items()}
        return found

    cdef _learn_alarms(self, role):
        """Likewise by kind of alarm."""
        plain = getattr(role, "wake", None) is _Peer.wake
        known = role._alarms if plain else {}
        found = self._alarms[role] = {kind: _led(role, handler) for kind, handler in known.items()}
        return found

    cdef _learn(self, kind):
        names_cast = "cast" in getattr(kind, "__struct_fields__", ())
        found = self._kinds[kind] = (len(self._kinds), names_cast)
        if self.journal is not None:
            self.journal.kinds.append(kind.__name__)
        return found

    def _packed(self, sender, to, message):
        assert sender != to, f"{sender} sent {message} to itself: that is a plain call, not a message"
        return message, self.codec.encode(message)

    def _arrive(self, message, packed):
        """The strict world: what arrives must be what was sent, and must have survived the wire."""
        assert self.codec.encode(message) == packed, f"{message} was changed after it was sent"
        received = self.codec.decode(packed)
        assert received == message, f"{message} came off the wire as {received}"
        return received


cdef _take_apart(object owner):
    cdef PyTypeObject *kind = Py_TYPE(<PyObject *>owner)
    if kind.tp_clear != NULL:
        kind.tp_clear(<PyObject *>owner)


def _nothing(number):
    return b""


cdef tuple _led(role, handler):
    """The names that lead to the part that decides, none for the peer itself, the method that does, and whether the
    part has compiled code that may be asked first (`swift`)."""
    path, method = getattr(handler, "leads_to", ("", handler))
    names = tuple(path.split(".")) if path else ()
    return names, method, len(names) == 1 and hasattr(role.parts.get(path), "swift")


cdef class WorldHost:
    """What one peer sees of the world."""

    cdef public World world
    cdef public int address
    cdef public bint alive

    def __init__(self, World world, int address):
        self.world, self.address, self.alive = world, address, True

    def silence(self):
        """The peer is dead: whatever it may still ask for does not happen."""
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
            world._put(world.now_us + delay_us if delay_us > 0 else world.now_us, self.address, NOBODY, alarm, purpose,
                       world.depth, 0, 0, self)


cdef class DriftingHost(WorldHost):
    """A host whose clock, and with it every alarm, runs a little fast or slow."""

    cdef double _rate

    def __init__(self, World world, int address, double rate):
        super().__init__(world, address)
        self._rate = rate

    @property
    def now_us(self):
        return int(self.world.now_us / self._rate)

    def after(self, delay_us, alarm):
        """Never early by the host's own clock: whoever waits for a deadline would otherwise arm itself without end."""
        due_us = self.now_us + delay_us
        at_us = int(due_us * self._rate)
        while int(at_us / self._rate) < due_us:
            at_us += 1
        self._arm(at_us - self.world.now_us, alarm)
