"""Leases: an entry held for another peer expires unless its owner renews it.

`Leases` is the holder's side: when each owner was last heard from, and which leases have expired.
The owner's side is an interval: `renewal_us` allows two renewals in a row to be lost.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

Owner = TypeVar("Owner", bound=Hashable)

RENEWALS = 3
"""Renewals within one lease; two of them may be lost."""
UNENDING_US = 1 << 60
"""A lease that never ends, for networks in which nothing changes (`Site.resting`) and no renewals
are sent.
"""

OWED_US = 600_000_000
"""A member that falls silent without leaving is still owed casts for this long (10 minutes). Until
then a receipt does not count the place where it was registered as known.
"""


def renewal_us(lease_us: int) -> int:
    """Interval between an owner's renewals."""
    return lease_us // RENEWALS


class Leases(Generic[Owner]):
    """When each owner was last heard from, least recent first."""

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
        """Remove and return the owners whose lease has expired."""
        over: list[Owner] = []
        for owner, heard_us in self._heard_us.items():
            if heard_us + self.lease_us >= now_us:
                break
            over.append(owner)
        for owner in over:
            del self._heard_us[owner]
        return over
