"""What takes the place of a failure detector in a world without crashes."""

from typing import Any, ClassVar


def _nothing(*given: Any) -> None:
    return None


def _never(*given: Any) -> bool:
    return False


class NoDetector:
    """No peer is ever suspected, and requests repeat until they are answered. It has no state, so
    all peers share `NO_DETECTOR`. The methods are those of `Detector`.
    """

    __slots__ = ()
    health: ClassVar[int] = 0
    heard_from = sample_round_trip = mark_left = suspect = staticmethod(_nothing)
    probe = check = lower_health = raise_health = silent_for_us = staticmethod(_nothing)
    watches = is_enough = is_suspect = suspected_within = staticmethod(_never)
    is_lost = is_probing = is_quiet = staticmethod(_never)


NO_DETECTOR = NoDetector()
