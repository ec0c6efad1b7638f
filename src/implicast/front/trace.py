"""What happened to one cast, message by message: a journal in memory."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from implicast.world.journal import SENDS_DTYPE


class Step(NamedTuple):
    """One message of a cast."""

    sender: int
    receiver: int
    depth: int
    kind: str
    sent_us: int


@dataclass(slots=True)
class Trace:
    """Keeps what the world writes down, in place of a journal on disk."""

    sends: list[bytes] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    notices: list[tuple[int, int, int, int]] = field(default_factory=list)
    """time_us, peer, cast, depth."""

    heard: Callable[[int, int], None] = lambda peer, cast: None
    """Told of every peer that is notified, and of which cast."""

    def notice(
        self, cause: int, time_us: int, peer: int, cast: int, depth: int, altered: bool
    ) -> None:
        self.notices.append((time_us, peer, cast, depth))
        self.heard(peer, cast)

    def flush_sends(self) -> None:
        """Nothing is written anywhere: what is not of a cast is dropped."""
        rows = self._rows()
        self.sends[:] = [row.tobytes() for row in rows[rows["purpose"] >= 0]]

    def _rows(self) -> "np.ndarray[tuple[int], np.dtype[np.void]]":
        return np.frombuffer(b"".join(self.sends), SENDS_DTYPE)

    def steps(self, cast: int) -> list[Step]:
        """The messages of one cast, in order of sending."""
        rows = self._rows()
        found = rows[rows["purpose"] == cast]
        return [
            Step(
                int(row["sender"]),
                int(row["receiver"]),
                int(row["depth"]),
                self.kinds[row["kind"]],
                int(row["sent_us"]),
            )
            for row in found
        ]

    def told(self, cast: int) -> list[tuple[int, int, int]]:
        """time_us, peer and depth of those who were told of a cast."""
        return [(time_us, peer, depth) for time_us, peer, of, depth in self.notices if of == cast]
