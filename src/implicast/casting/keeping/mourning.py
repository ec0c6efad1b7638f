"""Entries of peers that died are forgotten, each keeper judging for itself.

Said to be dead, a peer is asked by whoever keeps entries of its; one that answers nothing for longer than freezes and
partitions last is forgotten at once, and for a while not taken back from copies whose keepers have not judged yet. No
removal is noted: what the other side of a long partition kept comes back with it. Whoever is asked learns that it was
missed, and lays its own entries again: one that stood still for long is found again as soon as it wakes.
"""

from collections.abc import Callable

from implicast.casting.keeping.keeper import Keeper
from implicast.casting.keeping.messages import DoubtRound, Here, Rouse, Row, Still
from implicast.peer.contract import Address, Host, Part, handles

ASK_US = 5_000_000
ASKS_MAX = 8
"""Questions to one who is said to be dead, over 30 s at least: longer than links are cut and peers stand still."""
RECALLS_MAX = 16
"""Further questions to one that was forgotten, over two minutes: what a long partition parted finds itself again.
At first all ask who do not take its entries back, then those who answer for their places: many are left, and one is
enough."""
RECALL_US = 8_000_000
"""Between two such questions, in the end: from one round of doubts to the next but one."""
ROUSED_US = 15_000_000
"""Between two times that the own entries are laid again for such a cause."""
ABSENT_US = 30_000_000
"""For so long entries of the dead are not taken back."""
DOUBTED_MAX = 1024
"""Peers that are being asked; further ones are left to their leases."""
ABSENT_MAX = 1024
"""Peers remembered as dead."""


class Mourning(Part):
    """One keeper's doubts."""

    __slots__ = (
        "_armed",
        "_doubted",
        "_forgotten",
        "_roused_us",
        "_rousing",
        "absent",
        "keeper",
        "lay_again",
        "owner_of",
    )

    def __init__(
        self, address: Address, host: Host, keeper: Keeper, owner_of: Callable[[Row], Address],
        lay_again: Callable[[], None],
    ) -> None:  # fmt: skip
        """`owner_of(row)`: whose entry it is; `lay_again()` lays the own ones."""
        super().__init__(address, host)
        self.keeper, self.owner_of, self.lay_again = keeper, owner_of, lay_again
        self._roused_us = -ROUSED_US
        self._doubted: dict[Address, int] = {}
        self._forgotten: dict[Address, tuple[int, int, tuple[int, ...]]] = {}
        """When it is asked next, how often it was, and where its entries were."""
        self.absent: dict[Address, int] = {}
        """Who is taken for dead, and until when nothing of it is taken."""
        self._armed = self._rousing = False
        keeper.takes, keeper.lives, keeper.rows.owner_of = self.takes, self.lives, owner_of

    def takes(self, row: Row) -> bool:
        """Whether a copy may be taken: not of somebody who has just been found dead."""
        return not self.absent or not row.packed or self.owner_of(row) not in self.absent

    def doubt(self, who: Address) -> None:
        if who == self.address or who in self._doubted or len(self._doubted) >= DOUBTED_MAX:
            return
        if who in self.keeper.rows.owned:
            self._doubted[who] = ASKS_MAX
            self.host.send(who, Still())
            self._arm()

    def _arm(self) -> None:
        if not self._armed and (self._doubted or self.absent or self._forgotten):
            self._armed = True
            self.host.after(int(ASK_US * (0.75 + self.host.rng.random() / 2)), DoubtRound())

    @handles(Still)
    def on_still(self, sender: Address, still: Still) -> None:
        self.host.send(sender, Here())
        wait_us = self._roused_us + ROUSED_US - self.host.now_us
        if wait_us <= 0:
            self._lay_again()
        elif not self._rousing:  # whoever asks may have forgotten us after we laid them
            self._rousing = True
            self.host.after(wait_us, Rouse())

    @handles(Rouse)
    def on_rouse(self, alarm: Rouse) -> None:
        self._rousing = False
        self._lay_again()

    def _lay_again(self) -> None:
        self._roused_us = self.host.now_us
        self.lay_again()

    @handles(Here)
    def on_here(self, sender: Address, here: Here) -> None:
        self.lives(sender)

    def lives(self, who: Address) -> None:
        """A word from it."""
        self._doubted.pop(who, None)
        self.absent.pop(who, None)
        self._forgotten.pop(who, None)

    @handles(DoubtRound)
    def on_doubt_round(self, alarm: DoubtRound) -> None:
        self._armed = False
        now_us = self.host.now_us
        for who in [who for who, until_us in self.absent.items() if until_us <= now_us]:
            del self.absent[who]
        self._recall()
        for who, left in list(self._doubted.items()):
            if left:
                self._doubted[who] = left - 1
                self.host.send(who, Still())
            else:
                del self._doubted[who]
                self._forget(who)
        self._arm()

    def _recall(self) -> None:
        """Ask those who were forgotten, but those that were asked often enough."""
        owns, now_us = self.keeper.chord.owns, self.host.now_us
        for who, (due_us, asked, keys) in list(self._forgotten.items()):
            if asked == RECALLS_MAX:
                del self._forgotten[who]
            elif due_us <= now_us:
                self._forgotten[who] = now_us + min(RECALL_US, ASK_US << asked), asked + 1, keys
                if who in self.absent or any(owns(key) for key in keys):
                    self.host.send(who, Still())

    def _forget(self, who: Address) -> None:
        self.absent[who] = self.host.now_us + ABSENT_US
        if len(self.absent) > ABSENT_MAX:
            del self.absent[next(iter(self.absent))]
        theirs = [entry.row for entry in self.keeper.rows.entries() if entry.owner == who]
        self.keeper.rows.drop(theirs)
        self._forgotten[who] = self.host.now_us, 0, tuple(dict.fromkeys(row.key for row in theirs))
        if len(self._forgotten) > ABSENT_MAX:
            del self._forgotten[next(iter(self._forgotten))]
