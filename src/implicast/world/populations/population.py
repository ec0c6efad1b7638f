"""How the network of a design is set up at once, and looked at from outside."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from implicast.casting.roster import Enrolled
from implicast.peer.contract import Contact, Name, Peer
from implicast.peer.member import Member
from implicast.peer.name import name_of, next_incarnation, version_of
from implicast.peer.wire import size
from implicast.space.digest import stream
from implicast.world.plan import Plan

Objections = Callable[[Sequence[Peer]], list[str]]
"""Sentences about what is wrong with a network at rest; none when all is well."""


def no_objections(population: Sequence[Peer]) -> list[str]:
    return []


def enrol_by_verb(plan: Plan, population: Sequence[Peer]) -> None:
    """For designs in whose assembled networks registering sends nothing: everything is in its place already."""
    for peer, description in zip(population[: plan.peers], plan.descriptions, strict=False):
        assert isinstance(peer, Member), "members come first"
        peer.register(description)


def entries(plan: Plan) -> Iterator[Enrolled]:
    """What stations know of members that are not made yet, by address: what each would say (`Served.entry`)."""
    network = plan.network
    for address, description in enumerate(plan.descriptions):
        incarnation = next_incarnation(0, stream(plan.seed, "life", address, 0, 0, 0))
        yield Enrolled(
            Contact(name_of(network, address), address), version_of(incarnation, 1), description
        )


class Sleepers(ABC):
    """The members of a network that is assembled and enrolled, where none of them has been needed yet.

    Each is made when something happens to it, just as `assemble` and `enrol` would have left it; what is known of all
    is kept in columns. Only where nothing is armed or drawn when a peer is made: in a world at rest, without receipts.
    """

    @abstractmethod
    def make(self, address: int) -> Peer:
        """The peer of an address."""

    def stored_bytes(self, address: int) -> int:
        """What the peer would store for others."""
        return size(self.make(address).holdings())

    def objections(self, awake: Mapping[int, Peer]) -> list[str] | None:
        """What is wrong with the network, by its columns and by those who are awake; None: that is not judged."""
        return None


@dataclass(frozen=True, slots=True)
class Population:
    """What the laboratory knows of the network of a design, and no node ever does."""

    assemble: Callable[[Plan], list[Peer]]
    """The converged network at once: members first, then infrastructure, index = address."""
    objections: Objections = no_objections
    """Invariants of the overlay seen from outside."""
    enrol: Callable[[Plan, Sequence[Peer]], None] | None = None
    """What the registrations of all members (`Plan.descriptions`) leave behind, put at once into an assembled network,
    as if they had been made by messages long ago; `Registered` is delivered to each. None: always by messages."""
    sleepers: Callable[[Plan], Sleepers | None] | None = None
    """The same network with its registrations, each peer made when it is needed. None: all are made at once."""
    asleep_from: int = 100_000
    """In networks of so many, peers are made when something happens to them."""
    watcher: Callable[[], Objections] | None = None
    """Makes one that says the same as `objections` and remembers from look to look what need not be looked at again."""

    credentials: Callable[[Plan, Name, str], Any] | None = None
    """What the laboratory gives each node when it begins: keys and certificates, as enrolment does on a network, or
    what a paper's experiments let peers know beforehand."""

    def watch(self) -> Objections:
        """To look again and again."""
        return self.objections if self.watcher is None else self.watcher()
