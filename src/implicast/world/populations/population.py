"""How the network of a design is assembled, preloaded and checked."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from implicast.casting.client_registry import ClientEntry, Register
from implicast.language.target import Description
from implicast.peer.contract import Contact, Name, Peer
from implicast.peer.member import Member
from implicast.peer.name import name_of, next_incarnation, version_of
from implicast.peer.signing import SignedMessage
from implicast.peer.wire import size
from implicast.space.digest import stream
from implicast.world.plan import Plan

Objections = Callable[[Sequence[Peer]], list[str]]
"""Sentences about violated invariants of a network at rest; empty if there is none."""


def no_objections(population: Sequence[Peer]) -> list[str]:
    return []


def preload_by_verb(plan: Plan, population: Sequence[Peer]) -> None:
    """Preload by calling `register`, for designs in which this sends no message at assembly."""
    for peer, description in zip(population[: plan.peers], plan.descriptions, strict=False):
        assert isinstance(peer, Member), "members come first"
        peer.register(description)


def registration(member: Member, description: Description) -> ClientEntry:
    """The entry that a front end holds of a member after its first registration."""
    version = version_of(member.incarnation, 1)
    signed = member.signing.sign_message(Register(member.name, version, description))
    evidence = signed if isinstance(signed, SignedMessage) else None
    return ClientEntry(member.contact, version, description, evidence)


def entries(plan: Plan) -> Iterator[ClientEntry]:
    """By address, the entry that a front end holds of a member that is not materialised."""
    network = plan.network
    for address, description in enumerate(plan.descriptions):
        incarnation = next_incarnation(0, stream(plan.seed, "life", address, 0, 0, 0))
        yield ClientEntry(
            Contact(name_of(network, address), address), version_of(incarnation, 1), description
        )


class LazyPeers(ABC):
    """The members of an assembled and preloaded network, each materialised on its first input.

    A materialised peer is in the state in which `assemble` and `preload` would have left it. The
    state of all peers is kept in columns. This requires that a peer arms no alarm and draws no
    random number when it is made: a network at rest, without receipts.
    """

    @abstractmethod
    def make(self, address: int) -> Peer:
        """Materialise the peer of an address."""

    def stored_bytes(self, address: int) -> int:
        """Bytes that the peer would store for others."""
        return size(self.make(address).holdings())

    def objections(self, awake: Mapping[int, Peer]) -> list[str] | None:
        """Violations, judged by the columns and the materialised peers (`awake`); None: not
        checked.
        """
        return None


@dataclass(frozen=True, slots=True)
class Population:
    """What the laboratory, and no node, knows of the network of a design."""

    assemble: Callable[[Plan], list[Peer]]
    """Build the converged network: members first, then infrastructure; the index is the address."""
    objections: Objections = no_objections
    """Check the invariants of the overlay."""
    preload: Callable[[Plan, Sequence[Peer]], None] | None = None
    """Put the state that the registrations of all members (`Plan.descriptions`) leave behind into
    an assembled network, and deliver `Registered` to each member. None: members always register by
    messages.
    """
    lazy_peers: Callable[[Plan], LazyPeers | None] | None = None
    """The same network, preloaded, with lazy peers. None: all peers are made at once."""
    lazy_from: int = 100_000
    """Number of peers from which on lazy peers are used."""
    watcher: Callable[[], Objections] | None = None
    """Makes a check with the same results as `objections` that skips what has not changed since its
    last call.
    """

    credentials: Callable[[Plan, Name, str], Any] | None = None
    """Issues the credentials of a node: keys and certificates, as an authority does on a network,
    or facts that a paper's experiments give to peers in advance.
    """

    def watch(self) -> Objections:
        """A check for repeated use."""
        return self.objections if self.watcher is None else self.watcher()
