"""The data dictionary: what every column of every table means, and its unit.

`implicast lab tables` prints it, every Parquet file has it as metadata, and the page
`docs/reference/tables.md` shows it; a test compares the three. The journals' own columns are in
`world/columns.py`.
"""

from collections.abc import Iterator

from implicast.world.columns import COLUMNS as JOURNAL

MEASURES = {
    "POUT_M": "most messages one peer sent for others in one cast",
    "TOUT_M": "most messages one peer sent for others in all casts",
    "TOUT_G": "Gini coefficient of those totals over all peers",
    "PIN_M": "most messages one peer received beyond the one it expects, in one cast",
    "TIN_M": "most such messages one peer received in all casts",
    "TIN_G": "Gini coefficient of those totals over all peers",
    "STOR_M": "most bytes one peer stores for the system or for others",
    "STOR_G": "Gini coefficient of stored bytes over all peers",
    "PINK_M": "most packets one directed physical link carried for one cast",
    "TINK_M": "most packets one directed physical link carried for all casts",
    "TINK_G": "Gini coefficient of those totals over all directed links, idle ones included",
    "TINK_used_G": "Gini coefficient of packets over the directed links that carried a packet",
    "TINK_router_G": "Gini coefficient of packets over the directed links between routers, idle "
    "ones included",
    "RTH": "messages of a cast / (1 + members), mean over casts",
    "RAH": "mean hops to a member / 2, mean over casts with members",
    "RMH": "largest hops to a member / 2, mean over casts with members",
    "latency_ms_mean": "from cast to notification, mean over notifications",
    "latency_ms_median": "from cast to notification, median over notifications",
    "latency_ms_p99": "from cast to notification, 99th percentile of notifications",
    "latency_ms_max": "from cast to notification, largest of all notifications",
    "TOUT_capacity_G": "Gini coefficient of TOUT divided by the capacity of each peer",
}
"""Name -> meaning. Counts are messages or packets, latency is in milliseconds, the rest are plain
numbers.
"""

CHANGE = {
    "delivery_ratio": "share of the expected notifications that arrived, of casts made during "
    "change",
    "delivery_ratio_after": "share of the expected notifications that arrived, of casts made "
    "after the repair time",
    "wrong": "repeated, uninvited, invented or altered notifications of casts made during change, "
    "and false receipts; "
    "must be 0",
    "late": "first notifications later than ten seconds after the cast, of casts made during "
    "change",
    "late_share": "share of the notifications later than ten seconds after the cast, of casts "
    "made during change",
    "repair_s_median": "seconds from the end of an unannounced event (a crash, a fail or restart "
    "of a broker, a freeze, a "
    "cut) to the first check without a violated invariant, median; checks run every second, so "
    "the least is 1",
    "repair_s_max": "the longest such repair",
    "settle_s_max": "seconds from a join or leave to the first check without a violation, longest",
    "unrepaired": "events after which no check was without a violation",
    "upkeep_per_peer_minute": "upkeep messages per peer and minute of its presence",
    "upkeep_at_rest": "upkeep messages per peer and minute after the repair time, if that lasted "
    "at least a minute",
    "storm": "messages in the busiest second divided by the mean over all seconds",
    "returns": "members that crashed and came back at their address",
    "return_s_max": "seconds from the return of a member to the completion of its first "
    "registration, longest",
    "complaints": "newcomers that never joined, leavers that never left, registrations never "
    "completed",
}
"""Name -> meaning, of runs in which peers join, leave or fail (`measures/change.py`)."""

CONTRACT = {
    "expected": "pairs of cast and peer that must be notified: a complete registration is "
    "selected and stays selected",
    "notified": "notifications, repeated and invented ones included",
    "missing": "expected but never notified (liveness)",
    "repeated": "notifications beyond the first of one cast to one peer (at most once)",
    "uninvited": "notified, but no registration of the peer is selected (only the selected, only "
    "the registered)",
    "invented": "notifications of casts that no peer made (no invention)",
    "excused": "not notified of a cast whose publisher left or crashed before it was finished; "
    "neither expected nor missing",
    "late": "first notified later than ten seconds after the cast",
    "altered": "notified with a payload that differs from that of the cast (unaltered)",
    "misreported": "casts with a false final receipt (true receipts)",
}

Columns = dict[str, tuple[str, str]]
_RUN = ("", "name of the run; it ends in a digest of its scenario")


def unit_of(measure: str) -> str:
    """The unit of a measure, from its name."""
    endings = {
        "_G": "0 to 1",
        "_M": "messages",
        "_share": "0 to 1",
        "_ratio": "0 to 1",
        "_ratio_after": "0 to 1",
    }
    if measure.startswith("latency_ms"):
        return "ms"
    if measure.startswith(("PINK", "TINK")) and measure.endswith("_M"):
        return "packets"
    if measure == "STOR_M":
        return "bytes"
    if "_s_" in measure or measure.endswith("_s"):
        return "s"
    if measure.startswith("upkeep"):
        return "messages per peer and minute"
    return next((unit for ending, unit in endings.items() if measure.endswith(ending)), "")


LAB: dict[str, Columns] = {
    "runs": {
        "run": _RUN,
        "design": ("", "the design, or the variant of a trial"),
        "series": (
            "",
            "the design, with its network or other fixed setting where an experiment compares "
            "several",
        ),
        "axis": ("", "the setting that varies"),
        "point": ("the axis's", "point on the axis as a number; null: it is none"),
        "point_label": ("", "point on the axis as it is written"),
        "position": ("", "number of the point on the axis, from 0"),
        "seed": ("", "seed of all random numbers"),
        "network": ("", "the network: a kind or a path"),
        "workload": ("", "the workload: a kind or a directory"),
        "peers": ("peers", "number of peers"),
        "casts": ("casts", "number of casts"),
        "scenario": ("", "all settings of the run, as JSON"),
        "command": ("", "command that replays the run"),
        "planned": (
            "",
            "part of the latest plan of the experiment; other runs stay in the tables and are not "
            "in the summary",
        ),
        "error": ("", "why the run failed; null: it finished"),
        "commit": ("", "commit of the code that made the run; null: the worker ran other code"),
        "version": ("", "version of implicast of the driver"),
        "code": (
            "",
            "digest of what the worker ran: sources, compiled modules, core and versions of "
            "libraries",
        ),
        "host": ("", "host of the worker that made the run"),
        "finished_utc": ("", "when the run finished, as ISO 8601"),
        "seconds": ("s", "elapsed time in the worker"),
        "cpu_s": ("s", "CPU time in the worker"),
        "peak_mb": ("MB", "peak memory of the worker up to the end of the run"),
        "messages": ("messages", "sent in all phases"),
        "rows": ("rows", "messages and notifications in the journal"),
        "measured_by": (
            "",
            "task: by the task that made the run; spark: together with other runs; null: not "
            "measured",
        ),
        "differs": ("", "measures that differ from those that the simulator computed; null: none"),
    },
    "measures": {"run": _RUN, **{name: (unit_of(name), text) for name, text in MEASURES.items()}},
    "contract": {"run": _RUN, **{name: ("pairs", text) for name, text in CONTRACT.items()}},
    "costs": {
        "run": _RUN,
        "phase": ("", "join, register, withdraw, leave, upkeep, warm-up or cast"),
        "messages": ("messages", "sent in this phase"),
        "bytes": ("bytes", "sent in this phase"),
        "messages_per_peer": (
            "messages per peer",
            "messages divided by the number of participants",
        ),
        "bytes_per_peer": ("bytes per peer", "bytes divided by the number of participants"),
    },
    "lorenz": {
        "run": _RUN,
        "load": ("", "TOUT, TIN or STOR"),
        "position": ("", "order along the curve"),
        "share_of_peers": ("0 to 1", "share of the participants, least loaded first"),
        "share_of_load": ("0 to 1", "share of the total load that they carry"),
    },
    "change": {
        "run": _RUN,
        **{
            f"{period}_{name}": ("pairs", f"{text}; casts made {when}")
            for period, when in (
                ("during", "during change"),
                ("after", "after the repair time"),
            )
            for name, text in CONTRACT.items()
        },
        **{name: (unit_of(name), text) for name, text in CHANGE.items()},
        "calm_s": (
            "s",
            "from the end of the last event to the first check without a violation; infinite: "
            "there was none",
        ),
        "allowed_s": ("s", "repair time that the design guarantees"),
        "sudden": ("", "unannounced events"),
        "kept": ("", "the contract under change held"),
    },
    "trials": {"run": _RUN, "measure": ("", "name of the measure"), "value": ("", "its value")},
    "rejected": {"run": _RUN, "reason": ("", "why its journal could not be measured")},
    "summary": {
        "series": ("", "as in runs"),
        "design": ("", "as in runs"),
        "axis": ("", "as in runs"),
        "point": ("the axis's", "as in runs"),
        "point_label": ("", "as in runs"),
        "position": ("", "as in runs"),
        "measure": ("", "a measure, a cost of a phase per peer, or a measure of change"),
        "runs": ("runs", "number of seeds"),
        "mean": ("the measure's", "mean over seeds"),
        "low": (
            "the measure's",
            "lower end of its 95 % confidence interval; null for one seed",
        ),
        "high": ("the measure's", "upper end"),
    },
}
"""Tables of a sweep's folder besides the journals; the column `experiment` is in the path."""

WORKLOADS: dict[str, Columns] = {
    "registrations": {
        "peer": ("peer", "number of the peer"),
        "tags": ("", "tags of the peer, most common first if the source ranks them"),
    },
    "casts": {
        "cast": ("cast", "number of the cast, in order of time"),
        "publisher": ("peer", "peer that makes the cast"),
        "target": ("", "target, as an expression"),
    },
    "entries": {
        "bibliography": ("", "name of the file"),
        "number": ("", "number of the entry in the file, from 0; -1: the whole file"),
        "line": ("", "line on which the entry begins, from 1"),
        "key": ("", "citation key"),
        "kind": ("", "article, book, ..."),
        "words": ("", "words of the descriptive fields, in order"),
        "reason": ("", "why the entry is not used; null: it is used"),
        "text": ("", "beginning of the entry, if it is not used"),
    },
    "queries": {
        "source": ("", "name of the list"),
        "tags": ("", "distinct words of the query without stop words"),
        "asked": ("", "number of times the query occurs"),
    },
    "groups": {
        "cast": ("cast", "number of the cast"),
        "block": ("", "block of 65,536 peers: block * 65536 is the first"),
        "size": ("peers", "selected peers of the block"),
        "members": ("", "their numbers, as a Roaring bitmap"),
    },
    "ranks": {
        "of": ("", "registrations, casts or queries"),
        "rank": ("", "rank by frequency; 1: the most common"),
        "frequency": (
            "",
            "number of peers that hold the tag, or of casts or queries with the target, of this rank",
        ),
    },
    "sizes": {
        "of": ("", "group: members of a cast; tags: tags of its target"),
        "size": ("", "number of members or tags"),
        "casts": ("casts", "number of casts of this size"),
    },
}
"""Tables of a workload's folder."""

ROOMS = {"sweep": LAB, "journal": JOURNAL, "workload": WORKLOADS}


def columns_of(table: str, room: str | None = None) -> Columns:
    """The columns of a table that is written by Spark: of a workload or a sweep, unless the room is
    named.
    """
    rooms = (WORKLOADS, LAB) if room is None else (ROOMS[room],)
    return next((each[table] for each in rooms if table in each), {})


def rows() -> Iterator[dict[str, str]]:
    """The whole dictionary, a row for each column."""
    for room, tables in ROOMS.items():
        for table, columns in tables.items():
            for column, (unit, meaning) in columns.items():
                yield {
                    "room": room,
                    "table": table,
                    "column": column,
                    "unit": unit,
                    "meaning": meaning,
                }
