"""A population as the laboratory sees it: all that is known beforehand, and what each node is told of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from implicast.casting.designs import Design
from implicast.language.parameters import Parameters
from implicast.language.target import Description, Target
from implicast.peer.contract import Host, Incarnation, Name, Peer
from implicast.peer.member import Member
from implicast.peer.name import name_of, network_of, next_incarnation
from implicast.peer.site import Site
from implicast.peer.words import SignedWords
from implicast.space.digest import stream
from implicast.world.key_ring import laboratory_words


@dataclass(frozen=True, slots=True)
class Plan:
    """The laboratory's bird's-eye view of a population that is set up at once; no peer ever sees it."""

    peers: int
    """Members, at addresses 0 to peers - 1. Infrastructure (a server, brokers) follows at `peers` and beyond."""
    infrastructure: int
    parameters: Parameters
    seed: int
    host: Callable[[int], Host]
    """The host of an address."""
    latency_us: Callable[[int, int], int]
    """One way between two addresses, as a peer would measure it; for trees and landmarks, never to cheat."""
    targets: Sequence[Target] = ()
    """The casts to come, for what is computed beforehand (replication levels) when the parameters say so."""
    interval_us: int = 1_000_000
    """Time between two casts."""
    descriptions: Sequence[Description] = ()
    """What members will say of themselves, by address: for places chosen by it and for states that settled before."""
    start: str = "assembled"
    """`joined`: members are newcomers yet to join by messages, so infrastructure must not take them for present."""
    roles: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By role, the addresses of the infrastructure."""
    resting: bool = False
    """The network is assembled, and nothing will change in this run (`Site.resting`)."""
    credentials: "Callable[[Plan, Name, str], Any] | None" = None
    """Stands for enrolment (`Population.credentials`)."""
    router: Sequence[int] = ()
    """By address, the router on which it hangs: to all who hang on one the ways differ by their own access alone."""

    @property
    def network(self) -> bytes:
        return network_of(self.seed)

    def site(
        self,
        address: int,
        role: str = "member",
        previous: Incarnation = 0,
        again: int = 0,
        kept: Any = None,
        starts: int = 0,
    ) -> Site:
        """What the node at an address knows when it begins, or begins again.

        `previous` is the life before, as its disk says; `again` counts how often it began with an empty disk. `starts`
        tells two starts from the same disk apart: no two lives are the same.
        """
        host = self.host(address)
        words = laboratory_words(
            self.parameters, self.seed, self.network, host, address, again, self.descriptions
        )
        name = (
            words.name if isinstance(words, SignedWords) else name_of(self.network, address, again)
        )
        incarnation = next_incarnation(
            previous, stream(self.seed, "life", address, again, previous, starts)
        )
        credentials = self.credentials(self, name, role) if self.credentials is not None else None
        return Site(
            name,
            incarnation,
            address,
            host,
            self.parameters,
            self.network,
            self.roles,
            credentials,
            kept,
            self.resting,
            words,
        )

    def begin(
        self,
        design: Design,
        address: int,
        previous: Incarnation = 0,
        again: int = 0,
        kept: Any = None,
        starts: int = 0,
    ) -> Member:
        """A simulated member that has yet to join, anew or again with what it had kept."""
        return design.member(self.site(address, "member", previous, again, kept, starts))

    def stand(
        self, design: Design, address: int, previous: Incarnation = 0, kept: Any = None
    ) -> Peer:
        """A simulated piece of infrastructure, anew or again with what it had kept."""
        role = next(role for role, addresses in self.roles.items() if address in addresses)
        assert design.fixture is not None, f"{design.name} has no infrastructure"
        return design.fixture(self.site(address, role, previous, 0, kept), role)
