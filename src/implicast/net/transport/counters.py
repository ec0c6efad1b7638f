"""The counters of a node."""

from collections import Counter

NAMES = {
    "sent": "messages handed to a connection",
    "received": "messages received",
    "bytes_sent": "bytes written, frames included",
    "bytes_received": "bytes read",
    "dropped_queue": "messages dropped because the queue of their receiver was full",
    "dropped_unreachable": "messages dropped because the address is unreachable",
    "refused_frames": "frames or messages that could not be decoded",
    "refused_strangers": "connections refused: the other side does not belong to this network",
    "refused_version": "connections refused: another version of the protocol",
    "refused_network": "connections refused: another network",
    "refused_design": "connections refused: another design, other parameters or another version",
    "refused_revoked": "connections refused: a revoked name",
    "refused_address": "connections refused: the address of this node or of another name",
    "refused_name": "connections refused: a certificate for another name",
    "refused_limit": "connections refused: too many at once",
    "strays": "messages of a kind that is not for this role",
    "broken": "messages whose handler raised an exception: a bug, see the log",
    "delivered": "notices handed to the inbox",
    "dials": "connections dialled",
    "accepted": "connections accepted",
    "limited": "messages dropped because a connection exceeded its rate limit",
    "journal_lost": "rows of the journal that could not be written",
}


class Counters(Counter[str]):
    """Counters by name; a counter without events is zero."""

    def shown(self) -> dict[str, int]:
        return {name: self[name] for name in NAMES}
