"""A peer with the verbs of the application: what every design offers, in the world as on a network."""

from abc import abstractmethod

from implicast.language.target import Description, Target
from implicast.peer.contract import Address, CastId, Host, Peer


class Member(Peer):
    """A participant that describes itself and casts to descriptions.

    Every `register` and every `withdraw` takes the next `version`, so that news of different ages can be told
    apart; every `cast` takes the next `serial`.
    """

    __slots__ = ("description", "serial", "version")

    def __init__(self, address: Address, host: Host) -> None:
        super().__init__(address, host)
        self.description: Description | None = None
        self.version = 0
        self.serial = 0

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

    def next_version(self) -> int:
        self.version += 1
        return self.version

    def next_cast(self) -> CastId:
        """Take the next name for a cast; each `cast` does so once."""
        self.serial += 1
        return CastId(self.address, self.serial)

    def upcoming_cast(self) -> CastId:
        """How the next cast will be called."""
        return CastId(self.address, self.serial + 1)
