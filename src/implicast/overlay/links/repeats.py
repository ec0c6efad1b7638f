"""Messages that have come by: a network that repeats them would multiply those that go in a circle without end."""

from implicast.peer.contract import Message


def came_by(passed: dict[Message, int], message: Message, now_us: int, within_us: int, most: int) -> bool:
    """Whether this one came by within a time; it is noted as the latest of those remembered, if not."""
    before_us = passed.get(message)
    if before_us is not None:
        if before_us + within_us > now_us:
            return True
        del passed[message]  # put last again
    passed[message] = now_us
    if len(passed) > most:
        del passed[next(iter(passed))]
    return False
