"""What a scenario has shown: pairs and triples of messages and their causes, from its journal.

A pair is (kind of a message, kind of its cause, role of the sender, trouble in force, health); a
triple has the kind of the cause's cause too. An alarm or a call is a cause without a kind; it
counts by the phase of what it sent. The trouble in force is the kind of the scripted event that
began last and is not over. The health is the number of violated invariants at the last check, in
three classes.

Each is hashed to 62 bits by the names of its parts, so that those of different runs, seeds and
designs can be compared.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from implicast.space.digest import digest_bits
from implicast.world.arrays import numbers
from implicast.world.journal import read

Codes = NDArray[np.int64]
NOTHING: Codes = np.empty(0, np.int64)
KIND_BITS, ROLE_BITS, EVENT_BITS, HEALTH_BITS = 16, 6, 6, 2
SOME_WRONG, MANY_WRONG = 1, 4
"""Numbers of violated invariants from which on the health is another class."""


def coverage(journal: Path) -> Codes:
    """Sorted codes of all pairs and triples of a journal."""
    columns = ["serial", "cause", "sent_us", "sender", "kind", "phase"]
    sends = read(journal, "sends", columns).combine_chunks()
    if not len(sends):
        return NOTHING
    serial, order = _sorted(numbers(sends["serial"]))
    kind = _named(sends["kind"], KIND_BITS)[order]
    phase = _named(sends["phase"], KIND_BITS)[order]
    before = _cause(serial, numbers(sends["cause"])[order])
    cause = np.where(before < 0, phase, kind[before])
    earlier = np.where(before < 0, 0, cause[before])
    place = _places(journal, numbers(sends["sender"])[order], numbers(sends["sent_us"])[order])
    pairs = ((kind << KIND_BITS) | cause) << KIND_BITS
    shift = ROLE_BITS + EVENT_BITS + HEALTH_BITS
    return np.unique(
        np.concatenate([(pairs << shift) | place, ((pairs | earlier) << shift) | place])
    )


def _sorted(serial: Any) -> tuple[Codes, Codes]:
    order = np.argsort(serial, kind="stable")
    return np.asarray(serial, np.int64)[order], order


def _cause(serial: Codes, cause: Any) -> Codes:
    """By message, the row of the message that caused it; -1 if none did."""
    row = np.minimum(np.searchsorted(serial, cause), len(serial) - 1)
    found: Codes = np.where(serial[row] == cause, row, -1)
    return found


def _named(column: Any, bits: int) -> Codes:
    """Codes of the names in a dictionary column."""
    column = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    codes = [1 + digest_bits(bits - 1, name) for name in column.dictionary.to_pylist()]
    found: Codes = np.array(codes, np.int64)[np.asarray(column.indices)]
    return found


def _places(journal: Path, sender: Any, sent_us: Any) -> Codes:
    """Role of the sender, trouble in force and health, of each message."""
    peers = read(journal, "peers", ["role"])
    roles = np.array([digest_bits(ROLE_BITS, name) for name in peers["role"].to_pylist()], np.int64)
    role = roles[np.minimum(sender, len(roles) - 1)]
    trouble = (role << EVENT_BITS) | _events(journal, sent_us)
    found: Codes = (trouble << HEALTH_BITS) | _health(journal, sent_us)
    return found


def _events(journal: Path, sent_us: Any) -> Codes:
    """The kind of the event that began last and is not over; 0 for none."""
    events = read(journal, "scripted_events", ["from_us", "to_us", "kind"])
    force = np.zeros(len(sent_us), np.int64)
    rows = zip(
        numbers(events["from_us"]).tolist(),
        numbers(events["to_us"]).tolist(),
        events["kind"].to_pylist(),
        strict=True,
    )
    order = np.argsort(sent_us, kind="stable")
    times_us = np.asarray(sent_us)[order]
    for from_us, to_us, kind in sorted(rows):
        first, last = np.searchsorted(times_us, [from_us, max(to_us, from_us + MOMENT_US)])
        force[first:last] = 1 + digest_bits(EVENT_BITS - 1, kind)
    found = np.empty_like(force)
    found[order] = force
    return found


MOMENT_US = 10_000_000
"""How long an event without duration counts as in force."""


def _health(journal: Path, sent_us: Any) -> Codes:
    health = read(journal, "health", ["time_us", "wrong"])
    wrong = numbers(health["wrong"])
    classes = (wrong >= SOME_WRONG).astype(np.int64) + (wrong >= MANY_WRONG)
    last = np.searchsorted(numbers(health["time_us"]), sent_us, side="right") - 1
    return np.where(last < 0, 0, classes[np.maximum(last, 0)])


def fresh(seen: Codes, found: Codes) -> Codes:
    """Codes that were not seen before."""
    return np.setdiff1d(found, seen, assume_unique=True)


def joined(seen: Codes, found: Codes) -> Codes:
    return np.union1d(seen, found)
