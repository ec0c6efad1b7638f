"""Base class of members: a peer with the application's verbs, the same in every design."""

from abc import abstractmethod
from enum import Enum

from implicast.language.target import Description, Target
from implicast.peer.contract import (
    Address,
    CastId,
    Contact,
    Incarnation,
    Message,
    Peer,
    Serial,
    Version,
)
from implicast.peer.errors import RemoteError
from implicast.peer.events import IncarnationAdvanced, Refused
from implicast.peer.expiry import LIFETIME_MAX_US, LIFETIME_US
from implicast.peer.memory import SeenBlock
from implicast.peer.name import NUMBERS, has_next, incarnation_of, next_incarnation, version_of
from implicast.peer.policy import policy_of
from implicast.peer.signing import Envelopes, envelopes_for
from implicast.peer.site import Site


class DurableMember(Message):
    """Durable state of a member that all designs share."""

    incarnation: Incarnation
    version: Version
    serial: Serial
    description: Description | None
    seen_blocks: tuple[SeenBlock, ...] = ()


class DurableState(Message):
    """Durable state of a member of one design: the common part, and fields of subclasses."""

    member: DurableMember

    @property
    def incarnation(self) -> Incarnation:
        return self.member.incarnation


class Fitting(Enum):
    """Which of a member's descriptions a target selects."""

    PRESENT = "present"
    FORMER = "former"
    """Only the one before the present one."""
    NEITHER = "neither"


class Member(Peer, parts={"envelopes": Envelopes}):
    """A participant that describes itself and casts to descriptions.

    Every `register` and `withdraw` takes the next `version`, so that statements of different age
    can be ordered. Every `cast` takes the next `serial`. Both start anew with every incarnation.
    """

    __slots__ = (
        "_resumed",
        "assured",
        "contact",
        "description",
        "envelopes",
        "former",
        "incarnation",
        "name",
        "policy",
        "serial",
        "signing",
        "version",
    )

    def __init__(self, site: Site) -> None:
        super().__init__(site.address, site.host)
        self.name, self.incarnation = site.name, site.incarnation
        self.contact = Contact(site.name, site.address)
        self.assured, self.signing, self.policy = (
            site.assured,
            site.signing,
            policy_of(site.parameters),
        )
        self.envelopes = envelopes_for(self, site.signing)
        durable = getattr(site.durable_state, "member", None)
        self.description: Description | None = (
            durable.description if isinstance(durable, DurableMember) else None
        )
        """The member's description. After a restart it is the one from disk until the application
        changes it.
        """
        self.former: Description | None = None
        """The description before this one; None after a restart."""
        self.version: Version = 0
        self.serial = 0
        self._resumed: CastId | None = None

    @abstractmethod
    def join(self, introducers: tuple[Address, ...]) -> None:
        """Join the overlay with the help of peers that are in it. Without introducers, be the first
        peer.
        """

    @abstractmethod
    def leave(self) -> None:
        """Hand over what is stored for other peers, then deliver `Left`."""

    @abstractmethod
    def register(self, description: Description) -> None:
        """Replace this member's description. `Registered(version)` is delivered when it is
        complete.
        """

    @abstractmethod
    def withdraw(self) -> None:
        """Remove this member's description. `Withdrawn(version)` follows when it is complete."""

    @abstractmethod
    def cast(self, target: Target, payload: bytes, expiry_us: int = 0) -> CastId:
        """Send a payload to all members that the target selects. `expiry_us`: the time after which
        no peer sends it; 0 stands for the default lifetime (`expiry.py`).
        """

    def cast_verified(self, target: Target, payload: bytes, expiry_us: int = 0) -> CastId:
        """Cast, and verify the registrations of the selected members at the publisher. Designs that
        do not show registrations to publishers deliver `Refused`; there the peers that store them
        verify them.
        """
        reason = (
            "this design shows publishers no registrations; the peers that store them verify them"
        )
        self.host.deliver(Refused("cast", reason))
        return self.next_cast()

    def estimate(self, target: Target) -> int:
        """Ask how many members a target selects and what a cast to it costs. `Estimated` follows,
        with the token that this returns; or `Refused` in designs that cannot tell.
        """
        self.host.deliver(
            Refused("estimate", "this design cannot estimate how many members a target selects")
        )
        return 0

    def complain(self, cast: CastId) -> bool:
        """Report a cast as unwanted to the peer that notified this member. False if there is no
        such peer.
        """
        return False

    def upcoming_version(self) -> Version:
        """Version of the next description. When the numbers of an incarnation are used up it is of
        the next incarnation.
        """
        if self.version and (self.version + 1) & (NUMBERS - 1):
            return self.version + 1
        return version_of(self.incarnation if not self.version else self.incarnation + 1, 1)

    def next_version(self) -> Version:
        self.version = self.upcoming_version()
        if self.version & (NUMBERS - 1) == 1:  # the first number of an incarnation
            self.incarnation = max(self.incarnation, incarnation_of(self.version))
        return self.version

    def become(self, description: Description | None) -> None:
        """Set the description without announcing it."""
        self.description = description

    def fit(self, target: Target) -> Fitting:
        """Which of this member's descriptions a target selects."""
        if self.description is not None and target.selects(self.description):
            return Fitting.PRESENT
        is_former = self.former is not None and target.selects(self.former)
        return Fitting.FORMER if is_former else Fitting.NEITHER

    def describe(self, description: Description | None) -> Version:
        """Set the description; None removes it. Returns the version under which it has to be
        announced.
        """
        self.former, self.description = self.description, description
        return self.next_version()

    def next_cast(self) -> CastId:
        """Take the identity of the next cast; each `cast` calls this once."""
        cast = self.upcoming_cast()
        if self._resumed is None:
            self.serial += 1
        self._resumed = None
        return cast

    def upcoming_cast(self) -> CastId:
        """Identity of the next cast."""
        return self._resumed or CastId(self.name, self.incarnation, self.serial + 1)

    def carry_on(self, cast: CastId, target: Target, payload: bytes, expiry_us: int) -> None:
        """Continue a cast of an earlier incarnation under its old identity and with its old expiry.
        Members that have it drop it as a repeat. The caller continues no cast that has expired.
        """
        self._resumed = cast
        self.cast(target, payload, expiry_us)

    def seal(self, cast: CastId, about: object, payload: bytes, expiry_us: int = 0) -> bytes:
        """The payload of an own cast as it is sent: with its expiry, at most the longest lifetime
        from now, and signed where casts are signed.
        """
        now_us = self.host.now_us
        latest_us = min(expiry_us or now_us + LIFETIME_US, now_us + LIFETIME_MAX_US)
        return self.signing.sign_payload(cast, about, payload, latest_us)

    def advance_incarnation(self, known: Version) -> Version:
        """Another peer knows a later version of this member than its own: take an incarnation above
        it.

        Returns the version under which the present description has to be announced again.
        """
        before, newest = self.version, max(self.incarnation, incarnation_of(known))
        if not has_next(newest):
            raise RemoteError(f"incarnation {newest} is impossible: no further one could follow it")
        self.incarnation = next_incarnation(newest, self.host.rng)
        self.version = version_of(self.incarnation, 1)
        self.serial = 0
        self.host.deliver(IncarnationAdvanced(self.incarnation, before, self.version))
        return self.version

    def durable_member(self, seen_blocks: tuple[SeenBlock, ...] = ()) -> DurableMember:
        return DurableMember(
            self.incarnation, self.version, self.serial, self.description, seen_blocks
        )
