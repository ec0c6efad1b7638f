"""Entries kept where they do not belong go back to whoever answers for them; once arrived they are forgotten here."""

from collections.abc import Iterator, Sequence

from implicast.casting.keeping.messages import Return, Returned, Row
from implicast.casting.keeping.rows import REMEMBERED_US
from implicast.casting.keeping.share import Share
from implicast.peer.contract import Address, Host, Part, handles
from implicast.space.ring import up_to

RETURN_ROWS = 40
"""Entries that are returned together: they go from owner to owner, so where messages get lost a long row of them would
hardly get on. A node that was alone on its side of a partition returns most of what it keeps."""


class Strays(Part):
    """Sees to it that a node keeps nothing for good that is none of its business, and nothing that is over."""

    __slots__ = ("_look_us", "_looked_through", "_share")

    def __init__(self, address: Address, host: Host, share: Share) -> None:
        super().__init__(address, host)
        self._share = share
        self._looked_through = (0, 0)
        self._look_us = 0

    def give_back(self) -> None:
        """Also forgets what is over. Nothing has to be looked through again while nothing changes."""
        share, now_us = self._share, self.host.now_us
        rows, beyond, lease_us = share.rows, share.copies_low(), share.settings.lease_us
        seen = (rows.changes, beyond)
        if not share.is_ready or (seen == self._looked_through and now_us < self._look_us):
            return
        if lease_us:
            self._look_us = now_us + min(lease_us // 10, REMEMBERED_US)
            rows.expire(now_us, lease_us)
        self._looked_through = (rows.changes, beyond)
        if beyond != share.own:
            self._send_all_back(sorted((each.row for each in rows.within(share.own, beyond)), key=lambda row: row.key))

    def _send_all_back(self, strays: list[Row]) -> None:
        if strays:
            self._looked_through = (0, 0)
        for part in in_rows(strays, RETURN_ROWS):
            self._send_back(Return(part[0].key, part, self.address))

    def _send_back(self, back: Return) -> None:
        if not self._share.chord.pass_on(back.key, back):
            self.on_return(self.address, back)

    @handles(Return)
    def on_return(self, sender: Address, back: Return) -> None:
        share, chord = self._share, self._share.chord
        if chord.pass_on(back.key, back, sender) or not share.is_ready:
            return
        low, mask, owns = share.low(), chord.table.mask, chord.owns
        ours = sorted((row for row in back.rows if owns(row.key)), key=lambda row: (row.key - low - 1) & mask)
        share.learn(ours)
        if back.origin != self.address and ours:  # only as far as this row went: others may still be on their way
            self.host.send(back.origin, Returned((ours[0].key - 1) & mask, ours[-1].key))
        rest = tuple(row for row in back.rows if not owns(row.key))
        if rest:
            self._send_back(Return(rest[0].key, rest, back.origin))

    @handles(Returned)
    def on_returned(self, sender: Address, returned: Returned) -> None:
        share = self._share
        beyond = share.copies_low()
        if beyond != share.own and share.settings.copies:  # the only other one may belong to a leaver
            share.retract()
            theirs = (entry.row for entry in share.rows.within(returned.low, returned.high))
            share.rows.drop([row for row in theirs if not up_to(beyond, row.key, share.own)])


def in_rows(rows: Sequence[Row], most: int) -> Iterator[tuple[Row, ...]]:
    """Rows in order of their keys, about so many at a time; those of one key stay together."""
    start = 0
    for end in range(1, len(rows) + 1):
        if end == len(rows) or (end - start >= most and rows[end].key != rows[end - 1].key):
            yield tuple(rows[start:end])
            start = end
