"""A simulated population as the laboratory knows it, and the part of it that each node is given."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from implicast.casting.designs import Design
from implicast.language.parameters import Parameters
from implicast.language.target import Description, Target
from implicast.peer.contract import Host, Incarnation, Name, Peer
from implicast.peer.member import Member
from implicast.peer.name import name_of, network_of, next_incarnation
from implicast.peer.signing import KeyedSigning
from implicast.peer.site import Site
from implicast.space.digest import stream
from implicast.world.key_ring import laboratory_signing


@dataclass(frozen=True, slots=True)
class Plan:
    """The global view of a population from which the laboratory builds all peers at once. No peer
    ever sees it.
    """

    peers: int
    """Number of members, at addresses 0 to peers - 1. Infrastructure (a server, brokers) has the
    addresses from `peers` on.
    """
    infrastructure: int
    parameters: Parameters
    seed: int
    host: Callable[[int], Host]
    """The host of an address."""
    latency_us: Callable[[int, int], int]
    """One-way latency between two addresses, as a peer would measure it; used for trees and
    landmarks.
    """
    targets: Sequence[Target] = ()
    """The casts of the run, for parameters that are computed in advance from them (replication
    levels).
    """
    interval_us: int = 1_000_000
    """Time between two casts."""
    descriptions: Sequence[Description] = ()
    """By address, the description that a member will register; for placement by description and
    preloaded state.
    """
    start: str = "assembled"
    """`joined`: members join by messages, so infrastructure must not assume that they are present.
    """
    roles: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By role, the addresses of the infrastructure."""
    resting: bool = False
    """The network is assembled and nothing changes during the run (`Site.resting`)."""
    credentials: "Callable[[Plan, Name, str], Any] | None" = None
    """Issues the credentials of a node (`Population.credentials`)."""
    router: Sequence[int] = ()
    """By address, its router. Latencies from hosts on one router differ only by the access latency
    of each.
    """

    @property
    def network(self) -> bytes:
        return network_of(self.seed)

    def site(
        self,
        address: int,
        role: str = "member",
        previous: Incarnation = 0,
        again: int = 0,
        durable_state: Any = None,
        starts: int = 0,
    ) -> Site:
        """What the node at an address knows when it starts or restarts.

        `previous` is the incarnation on its disk, `again` the number of starts with an empty disk.
        `starts` distinguishes two starts from the same disk: no two incarnations are equal.
        """
        host = self.host(address)
        signing = laboratory_signing(
            self.parameters, self.seed, self.network, host, address, again, self.descriptions
        )
        name = (
            signing.name
            if isinstance(signing, KeyedSigning)
            else name_of(self.network, address, again)
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
            durable_state,
            self.resting,
            signing,
        )

    def new_member(
        self,
        design: Design,
        address: int,
        previous: Incarnation = 0,
        again: int = 0,
        durable_state: Any = None,
        starts: int = 0,
    ) -> Member:
        """A member that has yet to join, new or restarted with its durable state."""
        return design.member(self.site(address, "member", previous, again, durable_state, starts))

    def new_fixture(
        self, design: Design, address: int, previous: Incarnation = 0, durable_state: Any = None
    ) -> Peer:
        """A server or broker, new or restarted with its durable state."""
        role = next(role for role, addresses in self.roles.items() if address in addresses)
        assert design.fixture is not None, f"{design.name} has no infrastructure"
        return design.fixture(self.site(address, role, previous, 0, durable_state), role)
