"""Unit and meaning of every journal column; stored in the metadata of the Parquet files."""

import pyarrow as pa

US = "us"
"""Microseconds of the world's clock, from 0."""

COLUMNS: dict[str, dict[str, tuple[str, str]]] = {
    "sends": {
        "serial": ("", "number of the message, in order of sending"),
        "cause": ("", "serial of the message, alarm or call that made its sender send it"),
        "sent_us": (US, "when it was sent"),
        "arrived_us": (US, "when it arrived; null: it was lost"),
        "sender": ("peer", "sender"),
        "receiver": ("peer", "receiver"),
        "kind": ("", "name of the message in its design"),
        "phase": (
            "",
            "what it was sent for: cast, upkeep, join, register, withdraw, leave or warm-up",
        ),
        "cast": ("cast", "the cast it was sent for; null: for none"),
        "depth": ("hops", "messages from the application's call to this one"),
        "bytes": ("bytes", "size as it would be encoded"),
    },
    "notices": {
        "cause": ("", "serial of the message that led to the notification"),
        "time_us": (US, "when the application was notified"),
        "peer": ("peer", "notified peer"),
        "cast": ("cast", "the cast"),
        "depth": ("hops", "messages from the cast to the notification"),
        "altered": ("", "the payload differs from that of the cast"),
    },
    "casts": {
        "cast": ("cast", "number of the cast, in order of time"),
        "publisher": ("peer", "publisher"),
        "time_us": (US, "when"),
        "target": ("", "target, as an expression"),
        "settled_us": (US, "when its publisher knew the outcome; null: never"),
        "carried_us": (
            US,
            "when its publisher resumed it after returning with its disk; null: never",
        ),
        "warm_up": ("", "made before the measured casts"),
        "notified": (
            "peers",
            "notified members in the final receipt; null: there is none",
        ),
        "declined": ("peers", "members that declined, in the final receipt"),
        "unreachable": ("peers", "unreachable members in the final receipt"),
        "uncertain": (
            "regions",
            "regions whose members are not known, in the final receipt; it is complete only if 0",
        ),
    },
    "registrations": {
        "peer": ("peer", "the described peer"),
        "version": ("", "number of the registration of this peer, from 1"),
        "begun_us": (US, "when it was asked for"),
        "completed_us": (US, "when it was complete; null: never"),
        "withdrawn": ("", "the peer withdrew"),
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
        "capacity": ("", "load it can bear, relative to 1"),
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
        "position": ("", "position of the link on the path, from 0"),
        "link": ("link", "the link"),
    },
    "timeline": {
        "from_us": (US, "time of the first cast, from which event times count"),
        "over_us": (US, "end of the last event"),
        "calm_us": (US, "by when the design promises full repair"),
        "end_us": (US, "end of the run"),
    },
    "scripted_events": {
        "from_us": (US, "when it began"),
        "to_us": (US, "when it was over"),
        "kind": ("", "join, leave, crash, freeze, restart, ..."),
        "peers": ("peer", "peers it concerns"),
        "amount": ("", "amount, for kinds that have one"),
        "detail": ("", "disk of a return, tags of a describe"),
    },
    "incarnations": {
        "peer": ("peer", "the peer"),
        "from_us": (US, "start of the incarnation"),
        "joined_us": (US, "when it had joined; null: never"),
        "leaving_us": (US, "when it asked to leave; null: never"),
        "to_us": (US, "end of the incarnation; null: present to the end of the run"),
        "end": ("", "stayed, left or crashed"),
        "returned": ("", "it began with a return"),
        "back_us": (
            US,
            "when the first registration after a return was complete; null: never",
        ),
        "copied_us": (
            US,
            "when the old copy of its disk was made; null: its disk was not an old copy",
        ),
    },
    "health": {
        "time_us": (US, "time of the check of the invariants"),
        "wrong": ("", "number of violations"),
        "first": ("", "the first of them; null: none"),
    },
}


def described(schemas: dict[str, pa.Schema]) -> dict[str, pa.Schema]:
    """The same schemas with `unit` and `meaning` in the metadata of each field."""
    return {
        name: pa.schema(
            [with_meaning(each, *COLUMNS.get(name, {}).get(each.name, ("", ""))) for each in schema]
        )
        for name, schema in schemas.items()
    }


def with_meaning(field: pa.Field, unit: str, meaning: str) -> pa.Field:
    return field.with_metadata({"unit": unit, "meaning": meaning}) if meaning else field
