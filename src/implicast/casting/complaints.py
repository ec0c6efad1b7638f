"""Complaints (thesis, 10.2.3): who keeps lists hears of unwanted casts, and slows a publisher of whom many complain.

A member complains to the peer that told it; each name counts once for a publisher, and only among those who were told
here, at the address where they were told. A publisher is slowed when the share of those it reached who complained is,
beyond reasonable doubt (Wilson's lower bound at three standard deviations), above a quarter. So the few cannot speak
for the many: names that are a tenth of an audience never reach it, and in an audience of three nobody can.

To be slowed is not to be silenced. A slowed publisher pays for every member it reaches with time; its next cast is
declined as a whole until that is paid, an hour at most. Small groups hardly notice. It is told until when. Accounts
are opened by the first complaint and forgotten after an hour: without complaints nothing is kept or counted. They
outlive the keeper's restart: a publisher is not freed by a crash of the one that heard of it.
"""

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Annotated

from msgspec import Meta

from implicast.peer.contract import Address, CastId, Contact, Message, Name
from implicast.peer.fields import Count, Micros
from implicast.peer.memory import Recent
from implicast.peer.words import personal

SHARE = 0.25
"""Of those whom a publisher reached: if surely more than these complain, it is slowed."""
DEVIATIONS = 3.0
"""How sure: standard deviations of the share, counted against the complaint."""
PAID_US = 60_000_000
"""What a slowed publisher pays for each member it reaches: one in a minute."""
MEMORY_US = 3_600_000_000
"""How long complaints are remembered, and the most that a publisher pays for one cast."""
ACCOUNTS_MAX = 256
"""Publishers of whom a keeper remembers complaints; the one opened first is forgotten first."""
LONE_MAX = 3
"""Publishers of whom nobody but the members at one address complains; the one opened first is forgotten first. So one
who complains of everybody pushes out only what it said itself."""
NAMES_MAX = 4_096
"""Members that one account remembers."""
KEPT_NAMES_MAX = 16_384
"""Members that are written down in all accounts together; beyond them only the verdict on a publisher is."""

Names = Annotated[tuple[Name, ...], Meta(max_length=NAMES_MAX)]
Places = Annotated[tuple[Contact, ...], Meta(max_length=NAMES_MAX)]


@personal("by")
class Complain(Message):
    """The member `by` was told of this cast and did not want it."""

    wire = 0x0103

    cast: CastId
    by: Name


class Slowing(Message):
    """The publisher of this cast is slowed until a moment: so many complained of so many that were told."""

    wire = 0x0104

    cast: CastId
    until_us: Micros
    complaints: Count
    reached: Count


KINDS: tuple[type[Message], ...] = (Complain, Slowing)


class KeptAccount(Message):
    """What a keeper writes down of one publisher."""

    publisher: Name
    opened_us: Micros
    clear_us: Micros
    audience: Count
    against: Names = ()
    beyond: Names = ()
    reached: Places = ()
    complained: Places = ()


KeptDocket = Annotated[tuple[KeptAccount, ...], Meta(max_length=ACCOUNTS_MAX)]


def surely_above(count: int, of: int) -> float:
    """The least share that `count` of `of` stand for, three standard deviations down (Wilson)."""
    if not of:
        return 0.0
    share, square = min(1.0, count / of), DEVIATIONS * DEVIATIONS
    middle = share + square / (2 * of)
    spread = DEVIATIONS * sqrt(share * (1 - share) / of + square / (4 * of * of))
    return (middle - spread) / (1 + square / of)


class Account:
    """What one keeper knows of one publisher since somebody complained of it."""

    __slots__ = (
        "_audience",
        "_beyond",
        "_complained",
        "_reached",
        "against",
        "clear_us",
        "opened_us",
    )

    def __init__(self, kept: KeptAccount) -> None:
        self.opened_us = kept.opened_us
        self.clear_us = kept.clear_us
        """Until when its casts are declined; 0: it is not slowed."""
        self.against = dict.fromkeys(kept.against)
        """Those who were told, and complained."""
        self._audience = kept.audience
        """Members that one cast reached by way of this keeper, those that others told for it included."""
        self._beyond = dict.fromkeys(kept.beyond)
        """Those who complained to keepers beyond this one."""
        self._reached: dict[Name, Address] = {each.name: each.address for each in kept.reached}
        self._complained: dict[Name, Address] = {
            each.name: each.address for each in kept.complained
        }

    @property
    def names(self) -> int:
        """Names that are written down with it."""
        return len(self.against) + len(self._beyond) + len(self._reached) + len(self._complained)

    def kept(self, publisher: Name, whole: bool) -> KeptAccount:
        """`whole`: with all names; else the verdict alone, and how many were reached."""
        if not whole:
            return KeptAccount(publisher, self.opened_us, self.clear_us, self.reached)
        known = (
            tuple(map(Contact, each, each.values())) for each in (self._reached, self._complained)
        )
        return KeptAccount(
            publisher,
            self.opened_us,
            self.clear_us,
            self._audience,
            tuple(sorted(self.against)),
            tuple(sorted(self._beyond)),
            *known,
        )

    def is_lone(self, address: Address | None) -> bool:
        """Whether nobody has complained but from this address, and nothing came of it."""
        return (
            not self.clear_us and not self._beyond and set(self._complained.values()) == {address}
        )

    @property
    def reached(self) -> int:
        return max(len(self._reached), self._audience)

    @property
    def complaints(self) -> int:
        return len(self.against | self._beyond) if self._audience else len(self.against)

    def count(self, notified: int) -> None:
        self._audience = max(self._audience, notified)

    def reach(self, name: Name, address: Address) -> None:
        self._note(self._reached, name, address)
        if self.clear_us:
            self.clear_us += PAID_US

    def complain(self, name: Name, address: Address | None) -> None:
        if address is not None:
            self._note(self._complained, name, address)
        elif len(self._beyond) < NAMES_MAX:
            self._beyond[name] = None

    def _note(self, known: dict[Name, Address], name: Name, address: Address) -> None:
        """Whoever complained from where it was told counts against the publisher."""
        if len(known) < NAMES_MAX or name in known:
            known[name] = address
        if name in self._complained and self._reached.get(name) == self._complained[name]:
            self.against[name] = None

    def judge(self, now_us: int) -> None:
        """Slow it, if it is to be; what it reached so far is to be paid."""
        shares = (
            surely_above(len(self.against), len(self._reached)),
            surely_above(self.complaints, self.reached),
        )
        if not self.clear_us and max(shares) > SHARE:
            self.clear_us = now_us + self.reached * PAID_US
        if self.clear_us:
            self.clear_us = min(max(self.clear_us, now_us), now_us + MEMORY_US)


class Docket:
    """The complaints that one keeper has heard. It speaks to nobody: the keeper does."""

    __slots__ = ("_accounts", "_decided", "_now")

    def __init__(self, now: Callable[[], int], kept: KeptDocket = ()) -> None:
        self._now = now
        self._accounts: Recent[Name, Account] = Recent(ACCOUNTS_MAX)
        self._decided: Recent[CastId, bool] = Recent(ACCOUNTS_MAX)
        for each in kept:
            self._accounts[each.publisher] = Account(each)

    def kept(self) -> KeptDocket:
        """What outlives a crash; the accounts opened last have their names first."""
        room, found = KEPT_NAMES_MAX, []
        for publisher, account in reversed(self._accounts.items()):
            whole = account.names <= room
            room -= account.names if whole else 0
            found.append(account.kept(publisher, whole))
        return tuple(reversed(found))

    def complain(self, complaint: Complain, sender: Address | None) -> None:
        """`sender`: where the member was told; None: it complained to a keeper beyond this one."""
        publisher = complaint.cast.publisher
        account = self._account(publisher)
        if account is None:
            lone = [each for each, known in self._accounts.items() if known.is_lone(sender)]
            if len(lone) >= LONE_MAX:
                del self._accounts[lone[0]]
            account = self._accounts[publisher] = Account(KeptAccount(publisher, self._now(), 0, 0))
        account.complain(complaint.by, sender)
        account.judge(self._now())

    def count(self, cast: CastId, notified: int) -> None:
        """So many were reached by way of this keeper."""
        account = self._account(cast.publisher)
        if account is not None:
            account.count(notified)

    def _account(self, publisher: Name) -> Account | None:
        account = self._accounts.get(publisher)
        if (
            account is not None
            and self._now() - account.opened_us > MEMORY_US
            and self._now() >= account.clear_us
        ):
            del self._accounts[publisher]
            return None
        return account

    def tell(self, cast: CastId, name: Name, address: Address) -> bool:
        """May this member be told? If so it is about to be. The same answer for all members of one cast."""
        account = self._account(cast.publisher) if self._accounts else None
        if account is None or self.declines(cast):
            return account is None
        account.reach(name, address)
        return True

    def declines(self, cast: CastId) -> bool:
        """Is the publisher slowed? Decided once for each cast."""
        account = self._account(cast.publisher) if self._accounts else None
        if account is None:
            return False
        declined = self._decided.get(cast)
        if declined is None:
            account.judge(self._now())
            declined = self._decided[cast] = account.clear_us > self._now()
        return declined

    def admits(self, cast: CastId, members: Sequence[Contact]) -> bool:
        """May these be told? If so they are about to be."""
        return not self._accounts or all(
            self.tell(cast, each.name, each.address) for each in members
        )

    def slowing(self, cast: CastId) -> Slowing | None:
        """What the publisher of a declined cast is told; None if it was not declined."""
        account = self._accounts.get(cast.publisher)
        if account is None or not self._decided.get(cast):
            return None
        return Slowing(cast, account.clear_us, account.complaints, account.reached)
