"""A peer with the verbs of the application: what every design offers, in the world as on a network."""

from abc import abstractmethod

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
from implicast.peer.events import Outlived, Refused
from implicast.peer.memory import HeardBlock
from implicast.peer.name import NUMBERS, has_next, incarnation_of, next_incarnation, version_of
from implicast.peer.policy import policy_of
from implicast.peer.site import Site
from implicast.peer.words import Envelopes, opener


class KeptMember(Message):
    """What outlives a crash of a member, whatever the design."""

    incarnation: Incarnation
    version: Version
    serial: Serial
    description: Description | None
    heard: tuple[HeardBlock, ...] = ()


class Keepsake(Message):
    """What outlives a crash of a member of one design: what every design keeps, and in further fields what this one
    does."""

    member: KeptMember

    @property
    def incarnation(self) -> Incarnation:
        return self.member.incarnation


class Member(Peer, parts={"envelopes": Envelopes}):
    """A participant that describes itself and casts to descriptions.

    Every `register` and every `withdraw` takes the next `version`, so that news of different ages can be told
    apart; every `cast` takes the next `serial`. Both begin anew with every life.
    """

    __slots__ = (
        "_resumed",
        "assured",
        "contact",
        "description",
        "envelopes",
        "incarnation",
        "name",
        "policy",
        "serial",
        "version",
        "words",
    )

    def __init__(self, site: Site) -> None:
        super().__init__(site.address, site.host)
        self.name, self.incarnation = site.name, site.incarnation
        self.contact = Contact(site.name, site.address)
        self.assured, self.words, self.policy = site.assured, site.words, policy_of(site.parameters)
        self.envelopes = opener(self, site.words)
        kept = getattr(site.kept, "member", None)
        self.description: Description | None = (
            kept.description if isinstance(kept, KeptMember) else None
        )
        """What it is; one that begins again is what it was, until it says otherwise."""
        self.version: Version = 0
        self.serial = 0
        self._resumed: CastId | None = None

    @abstractmethod
    def join(self, introducers: tuple[Address, ...]) -> None:
        """Become part of the overlay, with the help of peers that already are; none: be the first."""

    @abstractmethod
    def leave(self) -> None:
        """Hand over what is kept for others, then go."""

    @abstractmethod
    def register(self, description: Description) -> None:
        """Say what this peer is, in place of what it said before. `Registered(version)` follows when it is complete."""

    @abstractmethod
    def withdraw(self) -> None:
        """Be nobody's audience any more. `Withdrawn(version)` follows when it is complete."""

    @abstractmethod
    def cast(self, target: Target, payload: bytes) -> CastId:
        """Send a message to whoever the target describes."""

    def cast_verified(self, target: Target, payload: bytes) -> CastId:
        """Cast, and check the registrations of those who are selected oneself; `Refused` in designs that do not show
        them to the publisher: there those who keep them check them."""
        reason = "in this design publishers see no registrations to verify; those who keep them check them"
        self.host.deliver(Refused("cast", reason))
        return self.next_cast()

    def estimate(self, target: Target) -> int:
        """Ask about how many a cast would reach, at what cost: `Estimated` with the token that this returns follows,
        or `Refused` in designs that cannot tell."""
        self.host.deliver(
            Refused(
                "estimate", "this design cannot tell how many a target selects before it is cast"
            )
        )
        return 0

    def complain(self, cast: CastId) -> bool:
        """Say to the peer that told of this cast that it was unwanted; False where there is nobody to say it to."""
        return False

    def upcoming_version(self) -> Version:
        """How the next description will be numbered."""
        if self.version and (self.version + 1) & (NUMBERS - 1):
            return self.version + 1
        return version_of(self.incarnation if not self.version else self.incarnation + 1, 1)

    def next_version(self) -> Version:
        self.version = self.upcoming_version()
        self.incarnation = max(self.incarnation, incarnation_of(self.version))
        return self.version

    def become(self, description: Description | None) -> None:
        """Be this, and say nothing of it."""
        self.description = description

    def describe(self, description: Description | None) -> Version:
        """Be this from now on; `None`: nothing. Returns the version under which it is to be said."""
        self.description = description
        return self.next_version()

    def next_cast(self) -> CastId:
        """Take the next name for a cast; each `cast` does so once."""
        cast = self.upcoming_cast()
        if self._resumed is None:
            self.serial += 1
        self._resumed = None
        return cast

    def upcoming_cast(self) -> CastId:
        """How the next cast will be called."""
        return self._resumed or CastId(self.name, self.incarnation, self.serial + 1)

    def carry_on(self, cast: CastId, target: Target, payload: bytes) -> None:
        """Carry on with a cast of an earlier life, under its old name: those who have it drop it as a repeat."""
        self._resumed = cast
        self.cast(target, payload)

    def outlive(self, told: Version) -> Version:
        """Somebody knows a later version of this member than its own: take a life above that one.

        Returns the version under which the present description has to be said again.
        """
        before, later = self.version, max(self.incarnation, incarnation_of(told))
        if not has_next(later):
            raise RemoteError(f"no member has lived for as long as life {later} says")
        self.incarnation = next_incarnation(later, self.host.rng)
        self.version = version_of(self.incarnation, 1)
        self.serial = 0
        self.host.deliver(Outlived(self.incarnation, before, self.version))
        return self.version

    def kept_member(self, heard: tuple[HeardBlock, ...] = ()) -> KeptMember:
        return KeptMember(self.incarnation, self.version, self.serial, self.description, heard)
