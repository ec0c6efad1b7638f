"""The data dictionary: what every column of every table means, and its unit.

It is printed by `implicast lab tables`, written into the metadata of every Parquet file, and it is
the page `docs/reference/tables.md`; a test holds the three equal. The journals' own columns are in
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
    "TINK_used_G": "Gini coefficient of packets over those directed links that carried anything",
    "TINK_router_G": "Gini coefficient of packets over the directed links between routers, idle ones included",
    "RTH": "messages of a cast / (1 + members), mean over casts",
    "RAH": "mean hops to a member / 2, mean over casts with members",
    "RMH": "largest hops to a member / 2, mean over casts with members",
    "latency_ms_mean": "from cast to notification, mean over notifications",
    "latency_ms_median": "from cast to notification, median over notifications",
    "latency_ms_p99": "from cast to notification, 99th percentile of notifications",
    "latency_ms_max": "from cast to notification, largest of all notifications",
    "TOUT_capacity_G": "Gini coefficient of TOUT divided by what each peer can bear",
}
"""Name -> meaning. Counts are messages or packets, latency is in milliseconds, the rest are plain
numbers.
"""

CHANGE = {
    "delivery_ratio": "share of the expected notifications that came, of casts made while things changed",
    "delivery_ratio_after": "share of the expected notifications that came, of casts made once repair time was over",
    "wrong": "repeated, uninvited, invented or altered notifications of casts made while things changed, and false "
    "receipts; must be 0",
    "late": "first notified later than ten seconds after the cast, while things changed",
    "late_share": "share of the notifications that came later than ten seconds after the cast, while things changed",
    "repair_s_median": "seconds from the end of a deed without a word (a crash, a broker's fail or restart, a sleeper, "
    "a cut) to the first look that finds all invariants in force, median; one looks every second, so 1 is the least",
    "repair_s_max": "the longest such repair",
    "settle_s_max": "seconds from a join or leave to the first such look, longest",
    "unrepaired": "deeds after which something was wrong until the end",
    "upkeep_per_peer_minute": "messages of standing upkeep per peer and minute that it was there",
    "upkeep_at_rest": "messages of standing upkeep per peer and minute once all was quiet, where that lasted for a "
    "minute at least",
    "storm": "messages in the busiest second over those in the mean second",
    "returns": "members that crashed and came back at their address",
    "return_s_max": "seconds from coming back to the completion of the first registration, longest",
    "complaints": "newcomers that never joined, leavers that never left, registrations never complete",
}
"""Name -> meaning, of runs in which peers come, go or fail (`measures/change.py`)."""

CONTRACT = {
    "expected": "pairs of cast and peer that must be notified: a complete registration is selected, and stays so",
    "notified": "notifications, repeated and invented ones included",
    "missing": "expected but never notified (liveness)",
    "repeated": "notifications beyond the first of one cast to one peer (at most once)",
    "uninvited": "notified, but no registration of the peer is selected (only the selected, only the registered)",
    "invented": "notifications of casts that no peer made (no invention)",
    "excused": "not notified of a cast whose publisher was gone before it was finished; neither expected nor missing",
    "late": "first notified later than ten seconds after the cast",
    "altered": "notified of something else than was cast (unaltered)",
    "misreported": "casts whose publisher was told in the end what is not so (true receipts)",
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
            "the design, with its network or other fixed setting where an experiment compares several",
        ),
        "axis": ("", "what varies"),
        "point": ("", "where on the axis"),
        "position": ("", "the so-manieth point, from 0"),
        "seed": ("", "the seed of everything that is drawn"),
        "network": ("", "the network, or what draws it"),
        "workload": ("", "who registers and casts what"),
        "peers": ("peers", "how many"),
        "casts": ("casts", "how many"),
        "scenario": ("", "everything that decides the outcome, as JSON"),
        "command": ("", "how to replay it"),
        "planned": (
            "",
            "asked for by the experiment as it was run last; others stay, and no summary counts them",
        ),
        "error": ("", "why it failed; null: it was finished"),
        "commit": ("", "the commit of the code that made it"),
        "version": ("", "the version of implicast that made it"),
        "finished_utc": ("", "when it was finished, as ISO 8601"),
        "seconds": ("s", "time it took in its worker"),
        "cpu_s": ("s", "processor time it took in its worker"),
        "peak_mb": ("MB", "the most memory that its worker had by then"),
        "messages": ("messages", "sent in all phases"),
        "rows": ("rows", "messages and notifications in its journal"),
        "measured_by": (
            "",
            "task: where it was made; spark: together with others; null: not measured",
        ),
        "differs": ("", "where its measures differ from the world's own; null: nowhere"),
    },
    "measures": {"run": _RUN, **{name: (unit_of(name), text) for name, text in MEASURES.items()}},
    "contract": {"run": _RUN, **{name: ("pairs", text) for name, text in CONTRACT.items()}},
    "costs": {
        "run": _RUN,
        "phase": ("", "join, register, withdraw, leave, upkeep, warm-up or cast"),
        "messages": ("messages", "sent in this phase"),
        "bytes": ("bytes", "sent in this phase"),
        "messages_per_peer": ("messages per peer", "the same over all who take part"),
        "bytes_per_peer": ("bytes per peer", "the same over all who take part"),
    },
    "lorenz": {
        "run": _RUN,
        "load": ("", "TOUT, TIN or STOR"),
        "position": ("", "order along the curve"),
        "share_of_peers": ("0 to 1", "the least loaded of all who take part"),
        "share_of_load": ("0 to 1", "what they bear together"),
    },
    "change": {
        "run": _RUN,
        **{
            f"{period}_{name}": ("pairs", f"{text}; casts made {when}")
            for period, when in (
                ("during", "while things changed"),
                ("after", "once repair time was over"),
            )
            for name, text in CONTRACT.items()
        },
        **{name: (unit_of(name), text) for name, text in CHANGE.items()},
        "calm_s": (
            "s",
            "from the end of the last event to the first look that finds all well; infinite: none did",
        ),
        "allowed_s": ("s", "what the design allows itself for that"),
        "sudden": ("", "events that came without a word"),
        "kept": ("", "what may be promised during change was kept"),
    },
    "trials": {"run": _RUN, "measure": ("", "name of the measure"), "value": ("", "its value")},
    "rejected": {"run": _RUN, "reason": ("", "why its journal could not be measured")},
    "summary": {
        "series": ("", "as in runs"),
        "design": ("", "as in runs"),
        "axis": ("", "as in runs"),
        "point": ("", "as in runs"),
        "position": ("", "as in runs"),
        "measure": ("", "a measure, a cost of a phase per peer, or a measure of change"),
        "runs": ("runs", "seeds that were counted"),
        "mean": ("the measure's", "mean over seeds"),
        "low": (
            "the measure's",
            "lower end of its 95 % confidence interval; the mean itself for one seed",
        ),
        "high": ("the measure's", "upper end"),
    },
}
"""Tables of a sweep's folder besides the journals; the column `experiment` is in the path."""

WORKLOADS: dict[str, Columns] = {
    "registrations": {
        "peer": ("peer", "who"),
        "tags": ("", "its tags, commonest first where the source ranks them"),
    },
    "casts": {
        "cast": ("cast", "number of the cast, in order of time"),
        "publisher": ("peer", "who casts it"),
        "target": ("", "to whom, as an expression"),
    },
    "entries": {
        "bibliography": ("", "name of the file"),
        "number": ("", "the so-manieth entry of the file, from 0; -1: the file as a whole"),
        "line": ("", "where it begins, from 1"),
        "key": ("", "its citation key"),
        "kind": ("", "article, book, ..."),
        "words": ("", "the words of its descriptive fields, in order"),
        "reason": ("", "why it is not used; null: it is"),
        "text": ("", "how it begins, where it is not used"),
    },
    "queries": {
        "source": ("", "name of the list"),
        "tags": ("", "its distinct words without stop words"),
        "asked": ("", "how often it was asked"),
    },
    "groups": {
        "cast": ("cast", "which cast"),
        "block": ("", "peers from block * 65536 on"),
        "size": ("peers", "how many of the block are selected"),
        "members": ("", "which: a Roaring bitmap of their numbers"),
    },
    "ranks": {
        "of": ("", "registrations, casts or queries"),
        "rank": ("", "1: the commonest"),
        "frequency": ("", "how many hold the tag, or ask for the target, of this rank"),
    },
    "sizes": {
        "of": ("", "group: members of a cast; tags: tags of its target"),
        "size": ("", "so many"),
        "casts": ("casts", "how many casts have this size"),
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
