"""Leases: what a holder keeps for others lapses when its owner does not renew it.

The holder's side is `Leases`: when each owner was last heard, and who has been silent for too long. The owner's side is
a time: `renewal_us` says how often to renew so that two renewals may be lost.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

Owner = TypeVar("Owner", bound=Hashable)

RENEWALS = 3
"""Renewals within one lease: two of them may be lost."""
UNENDING_US = 1 << 60
"""A lease where nothing changes (`Site.resting`): nobody comes to renew it."""


def renewal_us(lease_us: int) -> int:
    """How often an owner renews."""
    return lease_us // RENEWALS


class Leases(Generic[Owner]):
    """When each owner was last heard, the one silent for longest first."""

    __slots__ = ("_heard_us", "lease_us")

    def __init__(self, lease_us: int) -> None:
        self.lease_us = lease_us
        self._heard_us: dict[Owner, int] = {}

    def __len__(self) -> int:
        return len(self._heard_us)

    def __contains__(self, owner: Owner) -> bool:
        return owner in self._heard_us

    def renew(self, owner: Owner, now_us: int) -> None:
        self._heard_us.pop(owner, None)
        self._heard_us[owner] = now_us

    def end(self, owner: Owner) -> None:
        self._heard_us.pop(owner, None)

    def heard_us(self, owner: Owner) -> int | None:
        return self._heard_us.get(owner)

    def lapsed(self, now_us: int) -> list[Owner]:
        """The owners whose lease is over; they are forgotten here."""
        over: list[Owner] = []
        for owner, heard_us in self._heard_us.items():
            if heard_us + self.lease_us >= now_us:
                break
            over.append(owner)
        for owner in over:
            del self._heard_us[owner]
        return over
