"""What a node counts: events that are no errors of its own."""

from collections import Counter

NAMES = {
    "sent": "messages handed to a connection",
    "received": "messages that came",
    "bytes_sent": "bytes written, frames included",
    "bytes_received": "bytes read",
    "dropped_queue": "messages dropped because the queue of their receiver was full",
    "dropped_unreachable": "messages dropped because nobody answers at the address",
    "refused_frames": "frames or messages that could not be read",
    "refused_strangers": "connections of those who do not belong to this network",
    "strays": "messages of a kind that is not for this role",
    "broken": "messages over which a handler broke down: a bug, see the log",
    "delivered": "notices handed to the inbox",
    "dials": "connections begun",
    "accepted": "connections accepted",
    "limited": "messages dropped because a connection sent more than it may",
    "journal_lost": "rows of the journal that could not be written",
}


class Counters(Counter[str]):
    """By name; those that nothing happened for are zero."""

    def shown(self) -> dict[str, int]:
        return {name: self[name] for name in NAMES}
