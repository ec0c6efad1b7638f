"""Complaints about unwanted casts (thesis, 10.2.3). A peer that notifies members records their
complaints and throttles a publisher when too large a share complains.

A member complains to the peer that notified it. Each name counts once for a publisher, and only if
it was notified by this peer, at the address from which it complains. A publisher is throttled when
the share of complaints among the members it reached is above a quarter, with confidence of three
standard deviations (Wilson's lower bound). A minority cannot throttle a publisher: a tenth of an
audience never suffices, and in an audience of three not even all do.

A throttled publisher is delayed, not blocked. It pays one minute for every member that it reaches;
until that time is over, one hour at most, its next cast is declined as a whole. Small groups hardly
notice. The publisher is told until when. An account is opened by the first complaint and dropped
after an hour; without complaints nothing is recorded or counted. Accounts are durable, so that a
crash of the recording peer does not release a publisher.
"""

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Annotated

from msgspec import Meta

from implicast.peer.contract import Address, CastId, Contact, Message, Name
from implicast.peer.fields import Count, Micros
from implicast.peer.memory import Recent
from implicast.peer.signing import signed_by

SHARE = 0.25
"""Share of complaints among the members reached, above which a publisher is throttled."""
DEVIATIONS = 3.0
"""Confidence: standard deviations by which the measured share has to exceed `SHARE`."""
PENALTY_US = 60_000_000
"""Delay of a throttled publisher for each member that it reaches: one minute."""
MEMORY_US = 3_600_000_000
"""How long complaints are remembered, and the longest delay for one cast."""
ACCOUNTS_MAX = 256
"""Publishers with an account; the account opened first is dropped first."""
LONE_MAX = 3
"""Accounts in which all complaints came from one address; the one opened first is dropped first. A
member that complains about every publisher thus evicts only its own complaints.
"""
NAMES_MAX = 4_096
"""Members in one account."""
DURABLE_NAMES_MAX = 16_384
"""Members written to disk in all accounts together. Accounts beyond that are written without names:
only counts and the end of the delay.
"""

Names = Annotated[tuple[Name, ...], Meta(max_length=NAMES_MAX)]
Places = Annotated[tuple[Contact, ...], Meta(max_length=NAMES_MAX)]


@signed_by("by")
class Complain(Message):
    """The member `by` was notified of this cast and did not want it."""

    wire = 0x0103

    cast: CastId
    by: Name


class Slowing(Message):
    """The publisher of this cast is throttled until `until_us`: `complaints` of `reached` members
    complained.
    """

    wire = 0x0104

    cast: CastId
    until_us: Micros
    complaints: Count
    reached: Count


KINDS: tuple[type[Message], ...] = (Complain, Slowing)


class DurableAccount(Message):
    """Durable state of one account."""

    publisher: Name
    opened_us: Micros
    clear_us: Micros
    audience: Count
    against: Names = ()
    beyond: Names = ()
    reached: Places = ()
    complained: Places = ()


DurableComplaintLog = Annotated[tuple[DurableAccount, ...], Meta(max_length=ACCOUNTS_MAX)]


def surely_above(count: int, of: int) -> float:
    """Wilson's lower bound of a share, at three standard deviations: the true share is almost
    surely above it.
    """
    if not of:
        return 0.0
    share, square = min(1.0, count / of), DEVIATIONS * DEVIATIONS
    middle = share + square / (2 * of)
    spread = DEVIATIONS * sqrt(share * (1 - share) / of + square / (4 * of * of))
    return (middle - spread) / (1 + square / of)


class Account:
    """Record of one publisher at one peer, from the first complaint on."""

    __slots__ = (
        "_audience",
        "_beyond",
        "_complained",
        "_reached",
        "against",
        "clear_us",
        "opened_us",
    )

    def __init__(self, state: DurableAccount) -> None:
        self.opened_us = state.opened_us
        self.clear_us = state.clear_us
        """Until when its casts are declined; 0: not throttled."""
        self.against = dict.fromkeys(state.against)
        """Members that were notified here and complained."""
        self._audience = state.audience
        """Largest number of members that one cast reached through this peer, including those
        notified by other peers on its behalf.
        """
        self._beyond = dict.fromkeys(state.beyond)
        """Members that complained to other peers further on."""
        self._reached: dict[Name, Address] = {each.name: each.address for each in state.reached}
        self._complained: dict[Name, Address] = {
            each.name: each.address for each in state.complained
        }

    @property
    def names(self) -> int:
        """Number of names stored in the account."""
        return len(self.against) + len(self._beyond) + len(self._reached) + len(self._complained)

    def durable_state(self, publisher: Name, whole: bool) -> DurableAccount:
        """Durable state, with all names if `whole`; else only counts and the end of the delay."""
        if not whole:
            return DurableAccount(publisher, self.opened_us, self.clear_us, self.reached)
        known = (
            tuple(map(Contact, each, each.values())) for each in (self._reached, self._complained)
        )
        return DurableAccount(
            publisher,
            self.opened_us,
            self.clear_us,
            self._audience,
            tuple(sorted(self.against)),
            tuple(sorted(self._beyond)),
            *known,
        )

    def is_lone(self, address: Address | None) -> bool:
        """Whether all complaints came from this address and had no effect."""
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
            self.clear_us += PENALTY_US

    def complain(self, name: Name, address: Address | None) -> None:
        if address is not None:
            self._note(self._complained, name, address)
        elif len(self._beyond) < NAMES_MAX:
            self._beyond[name] = None

    def _note(self, known: dict[Name, Address], name: Name, address: Address) -> None:
        """Record a name. One that complained from the address where it was notified counts against
        the publisher.
        """
        if len(known) < NAMES_MAX or name in known:
            known[name] = address
        if name in self._complained and self._reached.get(name) == self._complained[name]:
            self.against[name] = None

    def judge(self, now_us: int) -> None:
        """Throttle the publisher if its share of complaints is too large; the delay covers the
        members reached so far.
        """
        shares = (
            surely_above(len(self.against), len(self._reached)),
            surely_above(self.complaints, self.reached),
        )
        if not self.clear_us and max(shares) > SHARE:
            self.clear_us = now_us + self.reached * PENALTY_US
        if self.clear_us:
            self.clear_us = min(max(self.clear_us, now_us), now_us + MEMORY_US)


class ComplaintLog:
    """Complaints recorded by one peer. It sends nothing; its owner does."""

    __slots__ = ("_decided", "_now", "accounts")

    def __init__(self, now: Callable[[], int], state: DurableComplaintLog = ()) -> None:
        self._now = now
        self.accounts: Recent[Name, Account] = Recent(ACCOUNTS_MAX)
        self._decided: Recent[CastId, bool] = Recent(ACCOUNTS_MAX)
        for each in state:
            self.accounts[each.publisher] = Account(each)

    def durable_state(self) -> DurableComplaintLog:
        """Durable state. The room for names goes to the accounts opened last."""
        room, found = DURABLE_NAMES_MAX, []
        for publisher, account in reversed(self.accounts.items()):
            whole = account.names <= room
            room -= account.names if whole else 0
            found.append(account.durable_state(publisher, whole))
        return tuple(reversed(found))

    def complain(self, complaint: Complain, sender: Address | None) -> None:
        """Record a complaint. `sender`: the address where the member was notified; None: the member
        complained to another peer further on.
        """
        publisher = complaint.cast.publisher
        account = self._account(publisher)
        if account is None:
            lone = [each for each, known in self.accounts.items() if known.is_lone(sender)]
            if len(lone) >= LONE_MAX:
                del self.accounts[lone[0]]
            account = self.accounts[publisher] = Account(
                DurableAccount(publisher, self._now(), 0, 0)
            )
        account.complain(complaint.by, sender)
        account.judge(self._now())

    def count(self, cast: CastId, notified: int) -> None:
        """Record that a cast reached this number of members through this peer."""
        account = self._account(cast.publisher)
        if account is not None:
            account.count(notified)

    def _account(self, publisher: Name) -> Account | None:
        account = self.accounts.get(publisher)
        if (
            account is not None
            and self._now() - account.opened_us > MEMORY_US
            and self._now() >= account.clear_us
        ):
            del self.accounts[publisher]
            return None
        return account

    def admit_member(self, cast: CastId, name: Name, address: Address) -> bool:
        """Whether this member may be notified; counts it as reached if so. The answer is the same
        for all members of one cast.
        """
        account = self._account(cast.publisher) if self.accounts else None
        if account is None or self.declines(cast):
            return account is None
        account.reach(name, address)
        return True

    def declines(self, cast: CastId) -> bool:
        """Whether a cast is declined because its publisher is throttled. Decided once for each
        cast.
        """
        account = self._account(cast.publisher) if self.accounts else None
        if account is None:
            return False
        declined = self._decided.get(cast)
        if declined is None:
            account.judge(self._now())
            declined = self._decided[cast] = account.clear_us > self._now()
        return declined

    def admits(self, cast: CastId, members: Sequence[Contact]) -> bool:
        """Whether all of these members may be notified; counts them as reached."""
        return not self.accounts or all(
            self.admit_member(cast, each.name, each.address) for each in members
        )

    def slowing(self, cast: CastId) -> Slowing | None:
        """The message to the publisher of a declined cast; None if it was not declined."""
        account = self.accounts.get(cast.publisher)
        if account is None or not self._decided.get(cast):
            return None
        return Slowing(cast, account.clear_us, account.complaints, account.reached)
