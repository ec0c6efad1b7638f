"""Entries of peers that died are forgotten, each keeper judging for itself.

Said to be dead, a peer is asked by whoever keeps entries of its; one that answers nothing for longer than freezes and
partitions last is forgotten at once, and for a while not taken back from copies whose keepers have not judged yet. No
removal is noted: what the other side of a long partition kept comes back with it. Whoever is asked learns that it was
missed, and lays its own entries again: one that stood still for long is found again as soon as it wakes. Those who were
forgotten are asked for an hour, ever more rarely, and all at once when one of them speaks: a partition may have ended.
"""

from collections.abc import Callable
from typing import NamedTuple

from implicast.casting.keeping.messages import DoubtRound, Here, Rouse, Still
from implicast.casting.keeping.share import ABSENT_MAX, Share
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
RECALLED_US = 3_600_000_000
"""For so long those who answer for their places go on asking, at pauses that grow with the silence: the entries of one
who was on the other side of a longer partition may be lost on both sides."""
RECALLS_GROW = 4
"""Those pauses are the silence divided by this."""
ROUSED_US = 15_000_000
"""Between two times that the own entries are laid again for such a cause."""
ABSENT_US = 30_000_000
"""For so long entries of the dead are not taken back."""
DOUBTED_MAX = 1024
"""Peers that are being asked; further ones are left to their leases."""


class Forgotten(NamedTuple):
    """Somebody whose entries were dropped: since when, where they were, when it is asked next, how often it was."""

    since_us: int
    keys: tuple[int, ...]
    due_us: int
    asked: int = 0


class Doubts(Part):
    """One keeper's doubts."""

    __slots__ = ("_doubted", "_due_us", "_forgotten", "_lay_again", "_roused_us", "_rousing", "_share")

    def __init__(self, address: Address, host: Host, share: Share, lay_again: Callable[[], None]) -> None:
        """`lay_again()` lays the own entries."""
        super().__init__(address, host)
        self._share, self._lay_again = share, lay_again
        self._roused_us = -ROUSED_US
        self._doubted: dict[Address, int] = {}
        self._forgotten: dict[Address, Forgotten] = {}
        self._due_us = 0
        """When the next round of doubts rings; 0: there is none."""
        self._rousing = False

    def doubt(self, who: Address) -> None:
        if who == self.address or who in self._doubted or len(self._doubted) >= DOUBTED_MAX:
            return
        if who in self._share.rows.owned:
            self._doubted[who] = ASKS_MAX
            self.host.send(who, Still())
            self._arm()

    def _arm(self) -> None:
        """Rounds come every few seconds while anybody is doubted, later only when somebody is to be asked."""
        if not (self._doubted or self._share.absent or self._forgotten):
            return
        wait_us = int(ASK_US * (0.75 + self.host.rng.random() / 2))
        due_us = self.host.now_us + wait_us
        if not self._doubted and not self._share.absent:
            due_us = max(due_us, min(one.due_us for one in self._forgotten.values()))
        if not self._due_us or due_us + ASK_US < self._due_us:
            self._due_us = due_us
            self.host.after(due_us - self.host.now_us, DoubtRound(due_us))

    @handles(Still)
    def on_still(self, sender: Address, still: Still) -> None:
        self.host.send(sender, Here())
        wait_us = self._roused_us + ROUSED_US - self.host.now_us
        if wait_us <= 0:
            self._rouse()
        elif not self._rousing:  # whoever asks may have forgotten us after we laid them
            self._rousing = True
            self.host.after(wait_us, Rouse())

    @handles(Rouse)
    def on_rouse(self, alarm: Rouse) -> None:
        self._rousing = False
        self._rouse()

    def _rouse(self) -> None:
        self._roused_us = self.host.now_us
        self._lay_again()

    @handles(Here)
    def on_here(self, sender: Address, here: Here) -> None:
        self.lives(sender)

    def lives(self, who: Address) -> None:
        """A word from it. Where one who was forgotten speaks, others may be back too."""
        self._doubted.pop(who, None)
        self._share.let_in(who)
        if self._forgotten.pop(who, None) is not None and self._forgotten:
            now_us = self.host.now_us
            self._forgotten = {each: one._replace(due_us=now_us) for each, one in self._forgotten.items()}
            self._recall()

    @handles(DoubtRound)
    def on_doubt_round(self, alarm: DoubtRound) -> None:
        if alarm.due_us != self._due_us:
            return  # another comes sooner, or came
        self._due_us = 0
        self._share.let_in_again()
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
        """Ask those who were forgotten and whose turn it is: often at first, then ever more rarely."""
        owns, now_us = self._share.chord.owns, self.host.now_us
        for who, one in list(self._forgotten.items()):
            if one.since_us + RECALLED_US < now_us:
                del self._forgotten[who]
            elif one.due_us <= now_us:
                often = one.asked < RECALLS_MAX
                pause_us = min(RECALL_US, ASK_US << one.asked) if often else (now_us - one.since_us) // RECALLS_GROW
                self._forgotten[who] = one._replace(due_us=now_us + pause_us, asked=one.asked + 1)
                if who in self._share.absent or any(owns(key) for key in one.keys):
                    self.host.send(who, Still())

    def _forget(self, who: Address) -> None:
        self._share.shut_out(who, self.host.now_us + ABSENT_US)
        theirs = [entry.row for entry in self._share.rows.entries() if entry.owner == who]
        self._share.rows.drop(theirs)
        keys = tuple(dict.fromkeys(row.key for row in theirs))
        self._forgotten[who] = Forgotten(self.host.now_us, keys, self.host.now_us)
        if len(self._forgotten) > ABSENT_MAX:
            del self._forgotten[next(iter(self._forgotten))]
