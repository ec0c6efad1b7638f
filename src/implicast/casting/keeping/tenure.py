"""Coming, staying and going of a node that keeps lists.

A newcomer claims from its right neighbour what it now answers for and is silent to askers until that has come; a leaver
makes sure that its right neighbour has everything. A node that stays sees who dies on its left, and what it inherits
without having copies of it: then all of these died together, and everybody must be told (`rumours.py`).
"""

from collections.abc import Callable

from implicast.casting.keeping.copies import Comparisons
from implicast.casting.keeping.messages import ClaimRows, Death, Estate, EstateTaken
from implicast.casting.keeping.rumours import Rumours
from implicast.casting.keeping.share import Share, Shareholder
from implicast.overlay.links import Above, Ref
from implicast.overlay.links.refs import lies_between
from implicast.overlay.links.state import IN, OUT
from implicast.peer.contract import Address, Message, handles
from implicast.peer.events import Left

CLAIM_US = 1_500_000
"""Patience with a neighbour that was asked for an estate or given one; jittered by half."""
CLAIMS_MAX = 8
"""Attempts to claim or to bequeath; then a newcomer begins with what it has, and says so to all, for the neighbour that
did not answer may have died with all copies; and a leaver goes: comparing does the rest."""
TURNS = 256


class ClaimLate(Message):
    """Rings when a claim or a bequest should have been answered."""

    incarnation: int
    turn: int


class Tenure(Shareholder, Above):
    """From a node's coming to its going."""

    __slots__ = (
        "_came",
        "_copies",
        "_has_given",
        "_lacked",
        "_lefts",
        "_parts",
        "_rumours",
        "_told_us",
        "_tries",
        "_turn",
    )

    def __init__(
        self, share: Share, copies: Comparisons, rumours: Rumours, came: Callable[[], None]
    ) -> None:
        """`came()`: this node has arrived with all it answers for."""
        super().__init__(share)
        self._copies, self._rumours, self._came = copies, rumours, came
        self._turn = self._tries = self._parts = 0
        """Which claim or bequest is under way, so that a late answer to an earlier one is not taken for one to it; how
        many were not answered; which parts of it have come, a bit for each."""
        self._has_given = False
        """Whether an heir has all, so that nothing keeps this node any more."""
        self._lacked = (0, 0)
        self._lefts: tuple[Ref, ...] = ()
        self._told_us: dict[Ref, int] = {}
        """Of whose death all were told, and when; of those between the left neighbour and this node."""
        share.chord.house(self)

    def stand(self) -> None:
        """Be part of a ring that has stood for long, with nothing kept yet."""
        self._share.open(self._share.copies_low())
        self._lefts = self._ring.lefts
        self._chord.fingers.start_refreshing()
        self._copies.begin(least=0.0)

    # Coming

    def entered(self) -> None:
        self._tries = 0
        self._share.close()
        self._copies.begin()
        self._claim()

    def _claim(self) -> None:
        ring, is_alone = self._ring, self._ring.right == self._ring.me
        if not is_alone and self._tries < CLAIMS_MAX:
            self._try_again_later()
            ring.tell_right(ClaimRows(ring.me, self._share.low(), self._turn))
            return
        self._begin_serving()
        if not is_alone:
            self._rumours.announce_lack(self._share.low(), self._share.own)

    def _begin_serving(self) -> None:
        self._share.open(self._share.low())
        self._lefts = self._ring.lefts
        self._came()
        self._copies.soon()
        if self._share.is_going:
            self.leave()

    def _try_again_later(self) -> None:
        self._tries, self._turn, self._parts = self._tries + 1, (self._turn + 1) % TURNS, 0
        self._ring.later(CLAIM_US, ClaimLate(self._ring.me.incarnation, self._turn))

    @handles(ClaimLate)
    def on_claim_late(self, alarm: ClaimLate) -> None:
        if (alarm.incarnation, alarm.turn) != (
            self._ring.me.incarnation,
            self._turn,
        ) or self._ring.state != IN:
            return
        if not self._share.is_ready:
            self._claim()
        elif self._share.is_going and not self._has_given:
            self._bequeath()

    @handles(ClaimRows)
    def on_claim(self, sender: Address, claim: ClaimRows) -> None:
        """A newcomer to keys whose keeper and copies have died cannot know that it gets not all: this node says so."""
        share = self._share
        if not share.is_ready or self._ring.state != IN:
            return
        for part in share.parts(claim.low, self._chord.table.key_of(claim.by)):
            self.host.send(claim.by.address, Estate(self._ring.me, False, claim.turn, *part))
        lacked = (claim.low, share.floor_key)
        if share.is_further(*lacked) and self._lacked != lacked:
            self._lacked = lacked
            self._rumours.announce_lack(*lacked)

    # Going

    def leave(self) -> None:
        """Make sure that the right neighbour has everything, then leave the ring. A newcomer first arrives."""
        self._share.go(True)
        ring = self._ring
        if ring.state == OUT or (ring.state == IN and ring.right == ring.me):
            ring.leave()
        elif ring.state == IN and self._share.is_ready:
            self._tries = 0
            self._bequeath()

    def _bequeath(self) -> None:
        ring, own = self._ring, self._share.own
        if self._tries >= CLAIMS_MAX or ring.right == ring.me:
            ring.leave()
            return
        self._try_again_later()
        # Copies and strays too: a node that answered for a key for a moment may have the newest word about it.
        for part in self._share.parts(own, own):
            ring.tell_right(Estate(ring.me, True, self._turn, *part))

    @handles(Estate)
    def on_estate(self, sender: Address, estate: Estate) -> None:
        share = self._share
        if self._ring.state != IN or (estate.bequest and self._has_given):
            return  # a bequest would leave with this node: the leaver tries again, and has another heir by then
        is_news = self._copies.learn(row for row in estate.rows if share.rows.is_news(row))
        if estate.bequest:
            self.host.send(estate.by.address, EstateTaken(estate.turn, estate.part, estate.parts))
            if share.is_going and share.is_ready and is_news:
                self._bequeath()  # what a leaver inherits its own heir must have too
        elif not share.is_ready and self._completes(estate):
            self._begin_serving()

    def _completes(self, estate: Estate | EstateTaken) -> bool:
        """Whether this was the last part of the claim or the bequest that is under way."""
        if estate.turn == self._turn and estate.part < estate.parts:
            self._parts |= 1 << estate.part
        return self._parts.bit_count() == estate.parts

    @handles(EstateTaken)
    def on_taken(self, sender: Address, taken: EstateTaken) -> None:
        if self._share.is_going and self._ring.state == IN and self._completes(taken):
            self._has_given = True
            self._ring.leave()

    def departed(self) -> None:
        self._share.rows.clear()
        self._share.close()
        self._share.go(False)
        self._has_given = False
        self.host.deliver(Left())

    # Staying

    def moved(self) -> None:
        """Neighbours have changed: what is answered for, and of whom copies are kept."""
        share = self._share
        if not share.is_ready:
            return
        self._copies.notice_return()
        self._notice_deaths()
        share.retract()
        lacked = (share.low(), share.floor_key)
        if share.is_further(*lacked):
            share.open(lacked[0])
            self._rumours.announce_lack(*lacked)
        self._copies.soon()

    def _notice_deaths(self) -> None:
        """Those on the left that fell silent, now that the ring is repaired behind them: neighbours, and nodes that
        came between and died before they were. Each is told of once, unless it was there again and fell silent anew."""
        ring, before, told_us = self._ring, self._lefts, self._told_us
        self._lefts, self._told_us = ring.lefts, {}
        for ref in dict.fromkeys((*before, *ring.company.missed)):
            if (
                ref not in ring.lefts
                and lies_between(ring.left, ref, ring.me)
                and self._fell_silent(ref)
            ):
                self._told_us[ref] = told_us.get(ref, self.host.now_us)
                if ref not in told_us or self._fell_silent(ref, since_us=told_us[ref]):
                    self._told_us[ref] = self.host.now_us
                    self._rumours.announce(Death, ref.address)

    def _fell_silent(self, ref: Ref, since_us: int = -1) -> bool:
        detector = self._ring.detector
        return detector is not None and detector.suspected_within(ref, self.host.now_us - since_us)
