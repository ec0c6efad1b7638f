"""Delivery in spite of liars: counted at honest members, for casts of honest publishers.

The contract checker of every run (`world/invariants.py`) counts, on a trace without the liars.
Receipts are not checked: a liar that acknowledges what it withheld deceives an honest publisher.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from implicast.language.target import Target
from implicast.world.application import Cast, Registration
from implicast.world.invariants import ContractChecker, Notices
from implicast.world.liars.coalition import Coalition
from implicast.world.liars.detection import LieDetection

Lies = Callable[[int], bool]
"""Whether the member of a number is a liar."""


@dataclass(frozen=True, slots=True)
class TrustResult:
    """Delivery and harm among honest members."""

    liars: int
    """Number of liars without newcomers."""
    victim: int
    expected: int
    arrived: int
    arrival: float
    victim_expected: int
    victim_arrived: int
    forged: int
    """Notices with an altered payload, or of casts that were never made."""
    repeated: int
    uninvited: int
    breakdowns: int
    """Exceptions in handlers of honest peers. The message is dropped, as on a network."""
    noticed: int = 0
    """Liars reported by an honest member."""
    noticed_s: float = 0.0
    """Mean time until then after they began to act."""
    accused: int = 0
    """Honest members reported by an honest member."""

    @property
    def harmless(self) -> bool:
        """Whether no honest member got a false notice."""
        return not (self.forged or self.repeated or self.uninvited)

    def described(self) -> dict[str, Any]:
        return asdict(self)


def trust(
    judge: ContractChecker,
    registrations: Sequence[Registration],
    coalition: Coalition,
    lies: Lies,
    breakdowns: int,
    lie_detection: LieDetection,
) -> TrustResult:
    """Check the honest part of a run, and the victim's part of that."""
    whole = _seen_by(judge, registrations, lies, lambda number: not lies(number)).report()
    forged = int(
        np.count_nonzero(
            _heard(judge, lies, lambda number: not lies(number)) & judge.notices.altered
        )
    )
    of_victim = _seen_by(judge, registrations, lies, coalition.victim.__eq__).report()
    arrived = whole.expected - whole.missing
    return TrustResult(
        len(coalition.liars),
        coalition.victim,
        whole.expected,
        arrived,
        arrived / whole.expected if whole.expected else 1.0,
        of_victim.expected,
        of_victim.expected - of_victim.missing,
        forged + whole.invented,
        whole.repeated,
        whole.uninvited,
        breakdowns,
        lie_detection.noticed,
        lie_detection.noticed_s,
        lie_detection.accused,
    )


def _seen_by(
    judge: ContractChecker,
    registrations: Sequence[Registration],
    lies: Lies,
    hears: Callable[[int], bool],
) -> ContractChecker:
    """The checker restricted to honest publishers, to some receivers, and to unaltered notices."""
    casts = [_for_nobody(cast) if lies(cast.publisher) else cast for cast in judge.casts]
    notices, chosen = judge.notices, _heard(judge, lies, hears) & ~judge.notices.altered
    notices = Notices(
        notices.cast[chosen],
        notices.peer[chosen],
        notices.time_us[chosen],
        notices.altered[chosen],
    )
    return ContractChecker(
        casts,
        [each for each in registrations if hears(each.peer)],
        notices,
        judge.away,
        False,
        judge.forgotten,
    )


def _heard(
    judge: ContractChecker, lies: Lies, hears: Callable[[int], bool]
) -> npt.NDArray[np.bool_]:
    """Which notices reached these receivers and are not of liars' casts."""
    theirs = np.asarray([cast.number for cast in judge.casts if lies(cast.publisher)], np.int64)
    notices = judge.notices
    return np.asarray([hears(each) for each in notices.peer.tolist()], bool) & ~np.isin(
        notices.cast, theirs
    )


def _for_nobody(cast: Cast) -> Cast:
    """A liar's cast with its number and an empty target, so that it owes no notice."""
    return Cast(cast.number, cast.publisher, cast.time_us, Target(()), warm_up=cast.warm_up)
