"""Entries kept where they do not belong go back to whoever answers for them; once arrived they are forgotten here."""

from collections.abc import Iterator, Sequence

from implicast.casting.keeping.comparing import Comparing, KeyOf
from implicast.casting.keeping.messages import Return, Returned, Row
from implicast.casting.keeping.rows import REMEMBERED_US
from implicast.casting.keeping.settings import KeepingSettings
from implicast.overlay.chord import LivingChord
from implicast.peer.contract import Address, Host, handles
from implicast.space.ring import up_to

RETURN_ROWS = 40
"""Entries that are returned together: they go from owner to owner, so where messages get lost a long row of them would
hardly get on. A node that was alone on its side of a partition returns most of what it keeps."""


class Returning(Comparing):
    """A node that keeps nothing for good that is none of its business."""

    __slots__ = ("_look_us", "_looked_through")

    def __init__(
        self, address: Address, host: Host, chord: LivingChord, key_of: KeyOf, settings: KeepingSettings
    ) -> None:
        super().__init__(address, host, chord, key_of, settings)
        self._looked_through = (0, 0)
        self._look_us = 0

    def _return_what_is_not_ours(self) -> None:
        """Also forgets what is over. Nothing has to be looked through again while nothing changes."""
        beyond, now_us = self._copies_low(), self.host.now_us
        seen = (self.rows.changes, beyond)
        if not self.is_ready or (seen == self._looked_through and now_us < self._look_us):
            return
        self._look_us = now_us + min(self.settings.lease_us // 10, REMEMBERED_US)
        self.rows.expire(now_us, self.settings.lease_us)
        self._looked_through = (self.rows.changes, beyond)
        if beyond == self._own:
            return
        strays = sorted((entry.row for entry in self.rows.within(self._own, beyond)), key=lambda row: row.key)
        if strays:
            self._looked_through = (0, 0)
            for part in in_rows(strays, RETURN_ROWS):
                self._send_back(Return(part[0].key, part, self.address))

    def _send_back(self, back: Return) -> None:
        if not self.chord.pass_on(back.key, back):
            self.on_return(self.address, back)

    @handles(Return)
    def on_return(self, sender: Address, back: Return) -> None:
        if self.chord.pass_on(back.key, back, sender) or not self.is_ready:
            return
        low, mask, owns = self._low(), self.chord.table.mask, self.chord.owns
        ours = sorted((row for row in back.rows if owns(row.key)), key=lambda row: (row.key - low - 1) & mask)
        self._learn(ours)
        if back.origin != self.address and ours:  # only as far as this row went: others may still be on their way
            self.host.send(back.origin, Returned((ours[0].key - 1) & mask, ours[-1].key))
        rest = tuple(row for row in back.rows if not owns(row.key))
        if rest:
            self._send_back(Return(rest[0].key, rest, back.origin))

    @handles(Returned)
    def on_returned(self, sender: Address, returned: Returned) -> None:
        beyond = self._copies_low()
        if beyond != self._own:
            if self._is_further(self.floor_key, beyond):
                self.floor_key = beyond  # what is dropped is not had any more, whoever vouched for it
            theirs = (entry.row for entry in self.rows.within(returned.low, returned.high))
            self.rows.drop([row for row in theirs if not up_to(beyond, row.key, self._own)])


def in_rows(rows: Sequence[Row], most: int) -> Iterator[tuple[Row, ...]]:
    """Rows in order of their keys, about so many at a time; those of one key stay together."""
    start = 0
    for end in range(1, len(rows) + 1):
        if end == len(rows) or (end - start >= most and rows[end].key != rows[end - 1].key):
            yield tuple(rows[start:end])
            start = end
