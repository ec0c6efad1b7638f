"""The log of a node: one line per event. It contains names and counts, never payloads, targets or
descriptions.
"""

import json
import logging
from datetime import UTC, datetime

from implicast.peer.contract import CastId, Message
from implicast.peer.events import (
    IncarnationAdvanced,
    Joined,
    Left,
    Notice,
    Refused,
    Registered,
    Settled,
)

log = logging.getLogger("implicast")

FORM = "%(asctime)s %(levelname)s %(name)s %(message)s"


class OneLine(logging.Formatter):
    """Formats each record as one line, also a traceback, because logs are read line by line."""

    def format(self, record: logging.LogRecord) -> str:
        return " | ".join(super().format(record).splitlines())


class JsonLine(logging.Formatter):
    """Formats each record as one JSON object in one line."""

    def format(self, record: logging.LogRecord) -> str:
        row = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if record.exc_info:
            row["traceback"] = self.formatException(record.exc_info)
        return json.dumps(row)


def log_to_stderr(level: str, form: str = "text") -> None:
    """Log records of at least this level (`debug`, `info` or `warning`), one line each, as `text`
    or `json`.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLine() if form == "json" else OneLine(FORM))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def log_event(event: Message) -> None:
    """Log an event that the peer delivered."""
    if isinstance(event, Notice):
        if log.isEnabledFor(logging.DEBUG):
            log.debug("notice of %s, %d bytes", _named(event.cast), len(event.payload))
    elif isinstance(event, Settled):
        missed = (event.unreachable or event.uncertain) and not event.open
        level = logging.WARNING if missed else logging.INFO
        if log.isEnabledFor(level):
            log.log(
                level,
                "cast %s: %d of %d notified, %d declined, %d unreachable, %d open, "
                "%d regions uncertain",
                _named(event.cast),
                event.notified,
                event.expected,
                event.declined,
                event.unreachable,
                event.open,
                event.uncertain,
            )
    elif isinstance(event, Registered):
        log.info("registered: the description is visible to all casts (version %d)", event.version)
    elif isinstance(event, Joined):
        log.info("joined")
    elif isinstance(event, Left):
        log.info("left")
    elif isinstance(event, IncarnationAdvanced):
        log.warning(
            "other nodes know a later incarnation of this node: it continues as incarnation %d",
            event.incarnation,
        )
    elif isinstance(event, Refused):
        log.warning("%s was refused: %s", event.verb, event.reason)


def _named(cast: CastId) -> str:
    return f"{cast.publisher.hex()[:8]}.{cast.incarnation}.{cast.serial}"
