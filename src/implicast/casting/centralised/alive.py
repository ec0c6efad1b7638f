"""Server and clients of an unkind world: messages get lost, clients vanish, the server falls and gets up again.

- A request is repeated until the server answers; the server answers only what it has written down (`disk.py`).
- A notification is repeated until the member confirms it, for 40 s; members drop what they have heard before.
- A description is on lease: clients renew it three times per lease, and whoever does not is forgotten. A client that
  was away for longer is found again at its next renewal, without asking anything of its user.
- A server that comes back has all descriptions and all unfinished casts, and tells those again; members drop repeats.

What one server cannot give: while it is away nothing is delivered or registered, and if its disk is lost all is lost.
"""

from implicast.casting.centralised.disk import Disk, Done, Forgotten, Kept, Taken
from implicast.casting.centralised.kind import Client, Server
from implicast.casting.centralised.messages import Accepted, Finished, Notify, Publish, Register, Renew, Stored, Sweep
from implicast.casting.inbox import Seen
from implicast.casting.reliable import Hops
from implicast.language.target import Description
from implicast.peer.contract import Address, CastId, Host, handles
from implicast.peer.events import Left, Settled

CASTS_MAX = 4_096
"""Unfinished casts that the server takes on; others are not accepted and are asked for again."""
SWEEPS_PER_LEASE = 8
RENEWAL = 0
"""The key under which a renewal awaits its answer: versions begin with 1."""


class LivingClient(Client, parts={"hops": Hops}):
    """A member that outlives its server's absences and its own."""

    __slots__ = ("hops", "lease_us", "leaving")

    def __init__(self, address: Address, host: Host, server: Address, lease_us: int) -> None:
        super().__init__(address, host, server, acknowledge=True)
        self.hops = Hops(address, host)
        self.lease_us = lease_us
        self.leaving = False

    def leave(self) -> None:
        self.leaving = True
        self.withdraw()

    def _tell(self, description: Description | None) -> None:
        if not self.version:
            self.host.after(int(self.lease_us / 3 * self.host.rng.random()), Renew())
        super()._tell(description)

    @handles(Renew)
    def on_renew(self, alarm: Renew) -> None:
        if not self.leaving:
            self.host.after(self.lease_us // 3, Renew())
        if self.description is not None and self.version not in self.unanswered:
            self._ask(RENEWAL, Register(self.version, self.description), again=True)

    @handles(Stored)
    def on_stored(self, sender: Address, stored: Stored) -> None:
        if stored.version == self.version:
            self.unanswered.answer(RENEWAL)
        left = self.leaving and stored.version == self.version and stored.version in self.unanswered
        super().on_stored(sender, stored)
        if left:
            self.host.deliver(Left())

    @handles(Notify)
    def on_notify(self, sender: Address, notify: Notify) -> None:
        self.hops.confirm(sender, notify.cast)
        super().on_notify(sender, notify)

    @handles(Finished)
    def on_finished(self, sender: Address, finished: Finished) -> None:
        self.unanswered.answer(finished.cast)
        self.host.deliver(Settled(finished.cast, finished.notified, finished.unreachable))


class LivingServer(Server, parts={"hops": Hops}):
    """Keeps all descriptions and unfinished casts on its disk, and in memory what it needs to be quick."""

    __slots__ = ("_disk", "heard_us", "hops", "lease_us", "seen", "silent", "waiting")

    def __init__(self, address: Address, host: Host, lease_us: int, written: tuple[bytes, ...] = ()) -> None:
        super().__init__(address, host, acknowledge=True)
        self._disk = Disk(written)
        self.lease_us = lease_us
        self.hops = Hops(address, host, self._confirmed, self._given_up)
        self.seen = Seen()
        self.heard_us: dict[Address, int] = {}
        """When each member renewed its lease; after coming back, all get a new one."""
        self.waiting: dict[CastId, int] = {}
        """How many members each unfinished cast still waits for."""
        self.silent: dict[CastId, int] = {}
        """How many of them were given up."""
        self._begin_again()
        host.after(lease_us // SWEEPS_PER_LEASE, Sweep())

    def disk(self) -> tuple[bytes, ...]:
        return self._disk.content()

    def _begin_again(self) -> None:
        for kept in self._disk.members.values():
            self._keep(kept)
        for taken in list(self._disk.casts.values()):
            self.seen.first(taken.publish.cast)
            self._carry(taken)

    def _keep(self, kept: Kept) -> None:
        self.heard_us[kept.member] = self.host.now_us
        self.versions[kept.member] = kept.version
        self.index.remove(kept.member)
        if kept.description is not None:
            self.index.add(kept.member, kept.description)

    @handles(Register)
    def on_register(self, sender: Address, register: Register) -> None:
        known = self.versions.get(sender, 0)
        if register.version > known:
            kept = Kept(sender, register.version, register.description)
            self._disk.write(kept)
            self._keep(kept)
        elif register.version == known:
            self.heard_us[sender] = self.host.now_us
        self.host.send(sender, Stored(register.version))

    @handles(Sweep)
    def on_sweep(self, alarm: Sweep) -> None:
        """Forget whoever has not renewed its lease."""
        self.host.after(self.lease_us // SWEEPS_PER_LEASE, Sweep())
        over_us = self.host.now_us - self.lease_us
        for member in [member for member, heard_us in self.heard_us.items() if heard_us < over_us]:
            self._disk.write(Forgotten(member))
            del self.heard_us[member], self.versions[member]
            self.index.remove(member)

    @handles(Publish)
    def on_publish(self, sender: Address, publish: Publish) -> None:
        if len(self.waiting) >= CASTS_MAX and publish.cast not in self.waiting:
            return
        self.host.send(sender, Accepted(publish.cast))
        if self.seen.first(publish.cast):
            taken = Taken(publish, tuple(self.index.select(publish.target)))
            self._disk.write(taken)
            self._carry(taken)

    def _carry(self, taken: Taken) -> None:
        publish = taken.publish
        self.waiting[publish.cast] = len(taken.members)
        self.silent[publish.cast] = 0
        notify = Notify(publish.cast, publish.target, publish.payload)
        for member in taken.members:
            self.hops.send(member, publish.cast, notify)
        if not taken.members:
            self._finish(taken)

    def _confirmed(self, member: Address, cast: CastId) -> None:
        self._settle(cast, silent=0)

    def _given_up(self, member: Address, cast: CastId) -> None:
        self._settle(cast, silent=1)

    def _settle(self, cast: CastId, silent: int) -> None:
        """One member less to wait for."""
        self.waiting[cast] -= 1
        self.silent[cast] += silent
        if not self.waiting[cast]:
            self._finish(self._disk.casts[cast])

    def _finish(self, taken: Taken) -> None:
        cast = taken.publish.cast
        silent = self.silent.pop(cast)
        del self.waiting[cast]
        self._disk.write(Done(cast))
        self.host.send(cast.publisher, Finished(cast, len(taken.members) - silent, silent))
