"""The waits and bounds of ring upkeep. In microseconds; every wait but the first is jittered by 0.5 to 1.5."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """What a ring may choose. `grace_us` and `keep_us` must exceed the sum of all waits of one operation plus the
    longest life of a message in the network: a leaver's memory is what settles operations under way."""

    rto_us: int = 250_000
    """The first wait for an answer."""
    rto_cap_us: int = 2_000_000
    """The longest wait; waits double up to it."""
    tries: int = 0
    """Attempts before the silent one is suspected; 0: nobody ever is (a world without crashes), requests repeat."""
    check_us: int = 0
    """Period of the look to the left; 0: only when something gives cause."""
    seek_us: int = 1_000_000
    """A newcomer that got no place asks again after this."""
    again_us: int = 150_000
    """Pause after a refusal."""
    grace_us: int = 30_000_000
    """How long a leaver still answers."""
    keep_us: int = 30_000_000
    """How long answers are remembered."""
    forget_us: int = 20_000_000
    """How long a suspicion lasts without new evidence."""
    fresh_us: int = 4_000_000
    """A suspicion older than this does not suffice to pass somebody over: it is asked again."""
    lefts: int = 4
    """k_left: nearest nodes on the left that are known."""
    find_hops: int = 1024
    """A look-up for a place is dropped after so many hops; its seeker asks again."""
    gone_max: int = 64
    """Departed lives that are remembered."""
    merge_us: int = 0
    """Period of the look from outside, which merges rings that fell apart; 0: never."""
    health_max: int = 4
    """An observer in bad health waits up to 1 + this times as long; 0: its own health does not matter."""
    leave_us: int = 30_000_000
    """Where peers crash, a leaver that could not be let go for so long goes as if it had crashed."""
    missed_max: int = 64
    """Nodes that fell silent and are asked again now and then: a partition may have ended."""
    passed_max: int = 256
    """Questions of seekers remembered, so that repeats are not passed on."""
    seen_max: int = 1024
    """Askers whose last answers are remembered."""

    def backoff_us(self, tried: int) -> int:
        """How long to wait after so many attempts."""
        return min(self.rto_cap_us, self.rto_us << min(tried, 8))

    @classmethod
    def living(
        cls,
        check_us: int = 5_000_000,
        tries: int = 7,
        merge_us: int = 15_000_000,
        resting: bool = False,
    ) -> "LinkSettings":
        """For a world in which peers crash: they are looked at, suspected, and sought again. Waits double up to a
        second only, or half a period: so seven questions take the 5.75 s that five take with waits of up to two; at 5 %
        loss all are in vain once in twelve million times, not in a hundred thousand. `resting`: nobody is looked at."""
        cap_us = min(1_000_000, max(250_000, check_us // 2))
        check_us, merge_us = (0, 0) if resting else (check_us, merge_us)
        return cls(
            check_us=check_us, tries=tries, merge_us=merge_us, health_max=2, rto_cap_us=cap_us
        )
