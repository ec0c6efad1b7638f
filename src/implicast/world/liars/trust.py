"""What the honest got in spite of liars: counted at honest members, of casts by honest publishers.

It is the judge of every run (`world/invariants.py`) that counts, with the liars taken out of what it is shown. Receipts
are not weighed: a liar that confirms what it kept back makes an honest publisher believe it.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from implicast.language.target import Target
from implicast.world.application import Cast, Registration
from implicast.world.invariants import Judge, Notices
from implicast.world.liars.gang import Gang
from implicast.world.liars.sight import Sight

Lies = Callable[[int], bool]
"""Whether the member of a number is a liar."""


@dataclass(frozen=True, slots=True)
class Trust:
    """How honest members fared among liars."""

    liars: int
    """How many there were, newcomers left out."""
    victim: int
    expected: int
    arrived: int
    arrival: float
    victim_expected: int
    victim_arrived: int
    forged: int
    """Notices of something else than was cast, or of what nobody cast."""
    repeated: int
    uninvited: int
    breakdowns: int
    """Handlers of honest peers that broke down on what they were sent; the message is dropped, as on a network."""
    noticed: int = 0
    """Liars that some honest member holds something against."""
    noticed_s: float = 0.0
    """How long that took after they began to act, in the mean."""
    accused: int = 0
    """Honest members that some honest member holds something against."""

    @property
    def harmless(self) -> bool:
        """Nobody honest was told what it should not have been."""
        return not (self.forged or self.repeated or self.uninvited)

    def described(self) -> dict[str, Any]:
        return asdict(self)


def trust(
    judge: Judge,
    registrations: Sequence[Registration],
    gang: Gang,
    lies: Lies,
    breakdowns: int,
    sight: Sight,
) -> Trust:
    """The honest part of a run, and the victim's part of that."""
    whole = _seen_by(judge, registrations, lies, lambda number: not lies(number)).verdict()
    forged = int(
        np.count_nonzero(
            _heard(judge, lies, lambda number: not lies(number)) & judge.notices.altered
        )
    )
    of_victim = _seen_by(judge, registrations, lies, gang.victim.__eq__).verdict()
    arrived = whole.expected - whole.missing
    return Trust(
        len(gang.liars),
        gang.victim,
        whole.expected,
        arrived,
        arrived / whole.expected if whole.expected else 1.0,
        of_victim.expected,
        of_victim.expected - of_victim.missing,
        forged + whole.invented,
        whole.repeated,
        whole.uninvited,
        breakdowns,
        sight.noticed,
        sight.noticed_s,
        sight.accused,
    )


def _seen_by(
    judge: Judge, registrations: Sequence[Registration], lies: Lies, hears: Callable[[int], bool]
) -> Judge:
    """The same judge, shown honest publishers and some members alone, and of what they were told what was cast."""
    casts = [_for_nobody(cast) if lies(cast.publisher) else cast for cast in judge.casts]
    told, chosen = judge.notices, _heard(judge, lies, hears) & ~judge.notices.altered
    seen = Notices(told.cast[chosen], told.peer[chosen], told.time_us[chosen], told.altered[chosen])
    return Judge(
        casts,
        [each for each in registrations if hears(each.peer)],
        seen,
        judge.away,
        False,
        judge.forgotten,
    )


def _heard(judge: Judge, lies: Lies, hears: Callable[[int], bool]) -> npt.NDArray[np.bool_]:
    """Which notices are theirs, and not of casts of liars."""
    theirs = np.asarray([cast.number for cast in judge.casts if lies(cast.publisher)], np.int64)
    told = judge.notices
    return np.asarray([hears(each) for each in told.peer.tolist()], bool) & ~np.isin(
        told.cast, theirs
    )


def _for_nobody(cast: Cast) -> Cast:
    """A liar's cast keeps its number and is owed to nobody."""
    return Cast(cast.number, cast.publisher, cast.time_us, Target(()), warm_up=cast.warm_up)
