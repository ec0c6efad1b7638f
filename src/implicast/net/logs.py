"""The log of a node: levels, one line an event, nothing secret: names and counts, never what was said or to whom."""

import logging

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
