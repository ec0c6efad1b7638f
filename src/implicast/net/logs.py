"""The log of a node: levels, one line an event, nothing secret: names and counts, never what was said or to whom."""

import logging

from implicast.peer.contract import CastId, Message
from implicast.peer.events import Joined, Left, Notice, Outlived, Refused, Registered, Settled

log = logging.getLogger("implicast")

FORM = "%(asctime)s %(levelname)s %(name)s %(message)s"


class OneLine(logging.Formatter):
    """Whatever an event says, also a traceback, is one line: a log is read by lines."""

    def format(self, record: logging.LogRecord) -> str:
        return " | ".join(super().format(record).splitlines())


def log_to_stderr(level: str) -> None:
    """Log what is at least of this level: `debug`, `info` or `warning`."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine(FORM))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def log_event(event: Message) -> None:
    """What happened to a node, at its level."""
    if isinstance(event, Notice):
        if log.isEnabledFor(logging.DEBUG):
            log.debug("notice of %s, %d bytes", _named(event.cast), len(event.payload))
    elif isinstance(event, Settled):
        level = logging.WARNING if event.unreachable and not event.open else logging.INFO
        if log.isEnabledFor(level):
            log.log(
                level,
                "cast %s: %d of %d notified, %d declined, %d unreachable, %d open",
                _named(event.cast),
                event.notified,
                event.expected,
                event.declined,
                event.unreachable,
                event.open,
            )
    elif isinstance(event, Registered):
        log.info(
            "registered: what this node says of itself is complete (version %d)", event.version
        )
    elif isinstance(event, Joined):
        log.info("joined")
    elif isinstance(event, Left):
        log.info("left")
    elif isinstance(event, Outlived):
        log.warning(
            "others know a later life of this node: it goes on in life %d", event.incarnation
        )
    elif isinstance(event, Refused):
        log.warning("%s was refused: %s", event.verb, event.reason)


def _named(cast: CastId) -> str:
    return f"{cast.publisher.hex()[:8]}.{cast.incarnation}.{cast.serial}"
