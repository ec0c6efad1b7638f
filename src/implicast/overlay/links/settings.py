"""Waits and bounds of ring maintenance, in microseconds. Every wait but the first of a request is
multiplied by a random factor of 0.5 to 1.5.
"""

from dataclasses import dataclass

from implicast.peer.backoff import backed_off_us

NEVER_US = 1 << 62
"""Longer than any run."""
LOOKUPS_MAX = 4
"""Introducers through which a joining node looks its place up at the same time."""
NODES_TOLD = 8
"""Nodes that a member names to a joining node."""


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Settings of a ring. `departed_us` and `keep_us` must exceed the sum of all waits of one
    operation plus the longest lifetime of a message in the network, because operations under way
    are settled by the stored answers of a departed node.
    """

    rto_us: int = 250_000
    """The first wait for an answer."""
    rto_cap_us: int = 2_000_000
    """The longest wait; waits double up to it."""
    tries: int = 0
    """Attempts before a silent node is suspected. 0: no node is ever suspected (a world without
    crashes) and requests repeat until answered.
    """
    check_us: int = 0
    """Period of stabilisation; 0: only when an event gives cause."""
    seek_us: int = 1_000_000
    """A joining node that has received no place looks it up again after this."""
    again_us: int = 150_000
    """Pause after a refusal."""
    departed_us: int = 30_000_000
    """How long a departed incarnation still answers."""
    keep_us: int = 30_000_000
    """How long answers are remembered."""
    forget_us: int = 20_000_000
    """How long a suspicion lasts without new evidence."""
    fresh_us: int = 4_000_000
    """An older suspicion does not suffice to bypass a node: it is queried again."""
    lefts: int = 4
    """k_left: number of nearest nodes on the left that a node knows."""
    find_hops: int = 1024
    """A place lookup is dropped after this many hops; its origin retries."""
    departed_max: int = 64
    """Departed incarnations that are remembered."""
    merge_us: int = 0
    """Period of the place lookup that merges separated rings; 0: never."""
    health_max: int = 4
    """A node in bad health waits up to 1 + this times as long; 0: its own health is ignored."""
    leave_us: int = 30_000_000
    """Where peers crash, a node whose leaving has not been accepted for this long leaves as if it
    had crashed.
    """
    unreachable_max: int = 64
    """Suspected nodes that are probed now and then, because a partition may have ended."""
    passed_max: int = 256
    """Forwarded place lookups that are remembered, so that duplicates are dropped."""
    seen_max: int = 1024
    """Requesters whose last answers are remembered."""

    @property
    def leave_limit_us(self) -> int:
        """The longest time that leaving may take; without crashes it always succeeds."""
        return self.leave_us if self.tries else NEVER_US

    @property
    def passed_bound(self) -> int:
        """Forwarded place lookups that are remembered; none without crashes, where pointers never
        form a cycle.
        """
        return self.passed_max if self.tries else 0

    @property
    def lookups_at_once(self) -> int:
        """Introducers through which a joining node looks its place up at the same time, at most."""
        return LOOKUPS_MAX if self.tries else 1

    @property
    def nodes_told(self) -> int:
        """Nodes that a member names to a joining node, so that it finds the ring if its introducers
        crash.
        """
        return NODES_TOLD if self.tries else 0

    @property
    def founds(self) -> bool:
        """Whether nodes may found a ring anew after a stop of all members."""
        return self.tries > 0

    @property
    def merges(self) -> bool:
        """Whether there may be several rings."""
        return self.tries > 0

    def backoff_us(self, tried: int) -> int:
        """The wait after this many attempts."""
        return backed_off_us(self.rto_us, tried, self.rto_cap_us)

    @classmethod
    def with_crashes(
        cls,
        check_us: int = 5_000_000,
        tries: int = 7,
        merge_us: int = 15_000_000,
        resting: bool = False,
    ) -> "LinkSettings":
        """Settings for a world in which peers crash: periodic stabilisation, suspicion and merging.
        Waits double up to 1 s or half a period, so seven attempts take 5.75 s, as long as five with
        waits of up to 2 s. At 5 % loss seven attempts all fail once in twelve million times, five
        once in a hundred thousand. `resting`: no periodic checks.
        """
        cap_us = min(1_000_000, max(250_000, check_us // 2))
        check_us, merge_us = (0, 0) if resting else (check_us, merge_us)
        return cls(
            check_us=check_us, tries=tries, merge_us=merge_us, health_max=2, rto_cap_us=cap_us
        )
