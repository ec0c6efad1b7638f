"""Expiry of casts: the time after which no peer sends a cast and no member takes it.

The publisher sets the expiry when it makes the cast. It travels in the first bytes of the payload,
in every message that carries one; acknowledgements do not carry it. Where casts are signed the
publisher's signature covers it (`signing.py`). A member remembers a cast until after its expiry
(`memory.py`), so that an outbox that resumes the cast hours later causes no second notice.

Clocks differ by up to `CLOCK_BOUND_US`. A member therefore takes a cast up to this bound after its
expiry, and remembers it for the bound twice: its own clock may be set back by the bound once.
"""

EXPIRY_BYTES = 8
"""Bytes of the expiry: microseconds, big-endian."""
LIFETIME_US = 24 * 3_600 * 1_000_000
"""Time from a cast to its expiry unless the publisher chooses another."""
LIFETIME_MAX_US = 30 * LIFETIME_US
"""Longest lifetime that a publisher may choose, 30 days."""
CLOCK_BOUND_US = 300_000_000
"""Largest difference of two members' clocks. It is also longer than the time for which any peer
repeats a message of a cast that it sent before the expiry.
"""

DEFAULT_MEMORY_US = LIFETIME_US + 2 * CLOCK_BOUND_US
"""How long a member remembers a cast with the default lifetime."""


def with_expiry(expiry_us: int, payload: bytes) -> bytes:
    """A payload with the expiry of its cast."""
    return expiry_us.to_bytes(EXPIRY_BYTES, "big") + payload


def expiry_of(carried: bytes) -> int:
    """The expiry in front of a payload. 0, which is always past, if there is none."""
    return int.from_bytes(carried[:EXPIRY_BYTES], "big") if len(carried) >= EXPIRY_BYTES else 0


def is_expired(expiry_us: int, now_us: int) -> bool:
    """Whether a member with this time refuses a cast because of its age."""
    return now_us > expiry_us + CLOCK_BOUND_US


def is_current(expiry_us: int, now_us: int) -> bool:
    """Whether a cast may be taken or forwarded. An expiry beyond the longest lifetime is a lie."""
    return -CLOCK_BOUND_US <= expiry_us - now_us <= LIFETIME_MAX_US + CLOCK_BOUND_US


def remembered_until_us(expiry_us: int, now_us: int, is_proven: bool) -> int:
    """Until when a member remembers a cast that it takes now. Where casts are not signed, another
    peer may have shortened the expiry: the cast is then remembered for the default lifetime at
    least.
    """
    least_us = expiry_us if is_proven else max(expiry_us, now_us + LIFETIME_US)
    return least_us + 2 * CLOCK_BOUND_US
