"""Entries of peers that died are forgotten, each keeper judging for itself.

Said to be dead, a peer is asked by whoever keeps entries of its; one that answers nothing for longer than freezes and
partitions last is forgotten at once, and for a while not taken back from copies whose keepers have not judged yet. No
removal is noted: what the other side of a long partition kept comes back with it. A peer that is asked learns that it
was missed, and lays its own entries again. Those who were forgotten are asked for an hour, ever more rarely, and all at
once when one of them speaks: a partition may have ended.
"""

from collections.abc import Callable
from typing import NamedTuple

from implicast.casting.keeping.messages import Here, Still
from implicast.casting.keeping.share import ABSENT_MAX, Share, Shareholder
from implicast.peer.asking import Patience, Question, UpkeepAsker
from implicast.peer.contract import Address, Contact, Name, StandingAlarm, handles
from implicast.peer.fields import Micros
from implicast.peer.memory import Recent

DOUBTING = "doubting"
ASK_US = 5_000_000
ASKS_MAX = 9
"""Questions to one who is said to be dead, over 30 s at least: longer than links are cut and peers stand still."""
RECALLS_MAX = 16
"""Further questions to one that was forgotten, over two minutes: first by all who do not take its entries back, then by
those who answer for their places. So what a long partition parted finds itself again."""
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


class Forgotten(NamedTuple):
    """A peer whose entries were dropped: where it was, since when, their keys; when it is asked next, how often yet."""

    address: Address
    since_us: int
    keys: tuple[int, ...]
    due_us: int
    asked: int = 0


class DoubtRound(StandingAlarm):
    """Rings when those who are said to be dead should have answered."""

    due_us: Micros


class Rouse(StandingAlarm):
    """Rings when the own entries may be laid again for somebody who had asked too soon."""


class Doubts(Shareholder):
    """One keeper's doubts, and its answer to those of others."""

    __slots__ = ("_asker", "_due_us", "_forgotten", "_lay_again", "_name", "_roused_us", "_rousing")

    def __init__(self, share: Share, asker: UpkeepAsker, lay_again: Callable[[], None]) -> None:
        """`lay_again()` lays the own entries."""
        super().__init__(share)
        self._name, self._asker, self._lay_again = share.contact.name, asker, lay_again
        asker.topic(DOUBTING, Patience(ASK_US, ASKS_MAX), self._forget)
        self._roused_us = -ROUSED_US
        self._forgotten: Recent[Name, Forgotten] = Recent(ABSENT_MAX)
        self._due_us = 0
        """When the next round of doubts rings; 0: there is none."""
        self._rousing = False

    def doubt(self, where: Address) -> None:
        """Whoever is at this address may be dead: ask all owners of entries that were there."""
        rows = self._share.rows
        owners = rows.owned if where in rows.addresses else ()  # nearly always none
        for owner in [owner for owner in owners if owner.address == where != self.address]:
            if self._asker.open(DOUBTING, owner.name) is None:
                self._asker.ask(DOUBTING, owner.name, where, Still(owner.name), owner)

    def _arm(self) -> None:
        """Rounds come every few seconds while entries of anybody are not taken, later when somebody is to be asked."""
        if not (self._share.absent or self._forgotten):
            return
        due_us = self.host.now_us + int(ASK_US * (0.75 + self.host.rng.random() / 2))
        if not self._share.absent:
            due_us = max(due_us, min(one.due_us for one in self._forgotten.values()))
        if not self._due_us or due_us + ASK_US < self._due_us:
            self._due_us = due_us
            self.host.after(due_us - self.host.now_us, DoubtRound(due_us))

    @handles(Still)
    def on_still(self, sender: Address, still: Still) -> None:
        if still.name != self._name:
            return  # another peer was at this address before
        self.host.send(sender, Here(self._name))
        wait_us = self._roused_us + ROUSED_US - self.host.now_us
        if wait_us <= 0:
            self.on_rouse(Rouse())
        elif not self._rousing:  # whoever asks may have forgotten this peer after it laid them
            self._rousing = True
            self.host.after(wait_us, Rouse())

    @handles(Rouse)
    def on_rouse(self, alarm: Rouse) -> None:
        self._rousing, self._roused_us = False, self.host.now_us
        self._lay_again()

    @handles(Here)
    def on_here(self, sender: Address, here: Here) -> None:
        self.incarnations(here.name)

    def incarnations(self, who: Name) -> None:
        """A word from it. Where one who was forgotten speaks, others may be back too."""
        self._asker.drop(DOUBTING, who)
        self._share.absent.pop(who, None)
        if self._forgotten and self._forgotten.pop(who, None) is not None:
            for each, one in self._forgotten.items():
                self._forgotten[each] = one._replace(due_us=self.host.now_us)
            self._recall()

    @handles(DoubtRound)
    def on_doubt_round(self, alarm: DoubtRound) -> None:
        if alarm.due_us != self._due_us:
            return  # another comes sooner, or came
        self._due_us, absent = 0, self._share.absent
        for who in [who for who, until_us in absent.items() if until_us <= self.host.now_us]:
            del absent[who]
        self._recall()
        self._arm()

    def _recall(self) -> None:
        """Ask those who were forgotten and whose turn it is: often at first, then ever more rarely."""
        owns, now_us = self._chord.owns, self.host.now_us
        for who, one in list(self._forgotten.items()):
            if one.since_us + RECALLED_US < now_us:
                del self._forgotten[who]
            elif one.due_us <= now_us:
                often = one.asked < RECALLS_MAX
                pause_us = (
                    min(RECALL_US, ASK_US << one.asked)
                    if often
                    else (now_us - one.since_us) // RECALLS_GROW
                )
                self._forgotten[who] = one._replace(due_us=now_us + pause_us, asked=one.asked + 1)
                if who in self._share.absent or any(owns(key) for key in one.keys):
                    self.host.send(one.address, Still(who))

    def _forget(self, name: Name, question: Question) -> None:
        """It never answered."""
        who: Contact = question.about
        now_us, rows = self.host.now_us, self._share.rows
        self._share.absent[who.name] = now_us + ABSENT_US
        theirs = rows.of(who)
        rows.drop(theirs)
        keys = tuple(dict.fromkeys(row.key for row in theirs))
        self._forgotten[who.name] = Forgotten(who.address, now_us, keys, now_us)
        self._arm()
