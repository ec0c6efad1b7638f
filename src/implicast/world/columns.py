"""What every column of a journal means, and its unit; it travels in the metadata of the Parquet files."""

import pyarrow as pa

US = "us"
"""Microseconds of the world's clock, from 0."""

COLUMNS: dict[str, dict[str, tuple[str, str]]] = {
    "sends": {
        "serial": ("", "number of the message, in order of sending"),
        "cause": ("", "serial of the message, alarm or wish that made its sender send it"),
        "sent_us": (US, "when it was sent"),
        "arrived_us": (US, "when it arrived; null: it was lost"),
        "sender": ("peer", "who sent it"),
        "receiver": ("peer", "to whom"),
        "kind": ("", "name of the message in its design"),
        "phase": (
            "",
            "what it was sent for: cast, upkeep, join, register, withdraw, leave or warm-up",
        ),
        "cast": ("cast", "the cast it was sent for; null: for none"),
        "depth": ("hops", "messages from the wish to this one"),
        "bytes": ("bytes", "size as it would be encoded"),
    },
    "notices": {
        "cause": ("", "serial of the message that led to the notification"),
        "time_us": (US, "when the application was notified"),
        "peer": ("peer", "who was notified"),
        "cast": ("cast", "of which cast"),
        "depth": ("hops", "messages from the cast to the notification"),
        "altered": ("", "notified of another payload than was cast"),
    },
    "casts": {
        "cast": ("cast", "number of the cast, in order of time"),
        "publisher": ("peer", "who cast it"),
        "time_us": (US, "when"),
        "target": ("", "to whom, as an expression"),
        "settled_us": (US, "when its publisher knew how it ended; null: never"),
        "carried_us": (
            US,
            "when its publisher, back with its disk, carried on with it; null: never",
        ),
        "warm_up": ("", "made before those that are measured"),
        "notified": (
            "peers",
            "how many its publisher was told were notified; null: it was told nothing",
        ),
        "declined": ("peers", "how many its publisher was told declined"),
        "unreachable": ("peers", "how many its publisher was told could not be reached"),
    },
    "registrations": {
        "peer": ("peer", "whose description it is"),
        "version": ("", "which of this peer's, from 1"),
        "begun_us": (US, "when it was asked for"),
        "completed_us": (US, "when it was complete; null: never"),
        "withdrawn": ("", "the peer withdrew instead of describing itself anew"),
        "tags": ("", "the tags"),
        "values": ("", "the attributes and their values"),
    },
    "peers": {
        "peer": ("peer", "number of the participant, its address"),
        "role": ("", "peer, server or broker"),
        "router": ("router", "where it is attached to the network"),
        "access_us": (US, "latency of its access link"),
        "storage_bytes": (
            "bytes",
            "what it stores for the system or for others at the end of registration",
        ),
        "capacity": ("", "what it can bear, relative to 1"),
    },
    "links": {
        "link": ("link", "number of the directed link between two routers"),
        "source": ("router", "where it begins"),
        "target": ("router", "where it ends"),
        "latency_us": (US, "its latency"),
    },
    "paths": {
        "source_router": ("router", "where the path begins"),
        "target_router": ("router", "where it ends"),
        "position": ("", "the so-manieth link of the path, from 0"),
        "link": ("link", "the link"),
    },
    "course": {
        "from_us": (US, "when change began"),
        "over_us": (US, "when its last event was over"),
        "calm_us": (US, "when the design promises that everything is repaired"),
        "end_us": (US, "when the run ended"),
    },
    "deeds": {
        "from_us": (US, "when it began"),
        "to_us": (US, "when it was over"),
        "kind": ("", "join, leave, crash, freeze, restart, ..."),
        "peers": ("peer", "to whom it happened"),
        "amount": ("", "how much, where the kind has an amount"),
        "detail": ("", "what else the kind says"),
    },
    "lives": {
        "peer": ("peer", "who"),
        "from_us": (US, "since when it was there"),
        "joined_us": (US, "since when it was joined; null: never"),
        "leaving_us": (US, "since when it was leaving; null: never"),
        "to_us": (US, "until when it was there; null: to the end"),
        "end": ("", "stayed, left or crashed"),
        "returned": ("", "it had been there before"),
        "back_us": (
            US,
            "when the first registration of a life that began with a return was complete",
        ),
        "copied_us": (
            US,
            "when the old copy of its disk was made with which it came back; null: it lost nothing",
        ),
    },
    "health": {
        "time_us": (US, "when the invariants were looked at"),
        "wrong": ("", "how many were broken"),
        "first": ("", "the first of them; null: none"),
    },
}


def described(schemas: dict[str, pa.Schema]) -> dict[str, pa.Schema]:
    """The same schemas, each field with `unit` and `meaning` where they are known."""
    return {
        name: pa.schema(
            [with_meaning(each, *COLUMNS.get(name, {}).get(each.name, ("", ""))) for each in schema]
        )
        for name, schema in schemas.items()
    }


def with_meaning(field: pa.Field, unit: str, meaning: str) -> pa.Field:
    return field.with_metadata({"unit": unit, "meaning": meaning}) if meaning else field
