"""A member of the Byzantine-tolerant design: its places, its casts, and what it does with those of others.

Paper, section 3: k-redundant key-range multicast over a skip graph, with certificates. Describing oneself means to take
a place per tag and value (`settler.py`); casting means one multicast per handle of the target (`multicasts.py`). Of
several places that a target reaches, the one of the least selecting term's handle notifies.
"""

from typing import Any

from implicast.casting.bft.gate import Gate
from implicast.casting.bft.keys import handles_of
from implicast.casting.bft.messages import Source
from implicast.casting.bft.multicast import Arc
from implicast.casting.bft.multicasts import Manner, Multicasts
from implicast.casting.bft.settler import Settler
from implicast.casting.inbox import Inbox
from implicast.language.target import Description, Target
from implicast.overlay.detector import Ping
from implicast.overlay.skip_graph.graph import SkipGraph
from implicast.overlay.skip_graph.upkeep import Upkeep
from implicast.peer.contract import Address, Bound, CastId, Host, Message, handles
from implicast.peer.events import Refused
from implicast.peer.identity import Revocation, Trust
from implicast.peer.member import Member
from implicast.peer.signatures import Signer


class Bft(Member, parts={"graph": SkipGraph, "settler": Settler, "multicasts": Multicasts}):
    """One participant that trusts nobody but the authority."""

    __slots__ = ("_bound", "_signer", "graph", "inbox", "multicasts", "settler")

    def __init__(
        self, address: Address, host: Host, gate: Gate, k: int, trust: Trust, signer: Signer, upkeep: Upkeep,
        office: Address, manner: Manner,
    ) -> None:  # fmt: skip
        super().__init__(address, host)
        self._signer = signer
        self.graph = SkipGraph(
            address, host, k, gate.vectors, trust, signer, upkeep, self._lonely, lambda gone: self._forget(gone)
        )
        self.settler = Settler(address, host, self.graph, signer, office)
        self.multicasts = Multicasts(address, host, self.graph, gate, signer, manner, self._take)
        self.inbox = Inbox(self)
        self._bound = Bound(self)

    @property
    def public(self) -> bytes:
        return self._signer.public

    def _lonely(self, key: bytes) -> None:
        self.settler.find_introducers()

    def _forget(self, address: Address) -> None:
        self.multicasts.carriage.drop(address)

    # --- verbs

    def join(self, introducers: tuple[Address, ...]) -> None:
        self.settler.begin(introducers)

    def leave(self) -> None:
        self.description = None
        self.settler.depart()

    def register(self, description: Description) -> None:
        self.description = description
        self.settler.settle(self.next_version(), description)

    def withdraw(self) -> None:
        self.description = None
        self.settler.settle(self.next_version(), None)

    def cast(self, target: Target, payload: bytes) -> CastId:
        cast = self.next_cast()
        if self.graph.places.held:
            self.multicasts.cast(cast, target, payload)
        else:
            self.host.deliver(Refused("cast", "this peer has no place in the graph yet"))
        return cast

    def holdings(self) -> Any:
        """Every contact once, however many lists it is in."""
        held = self.graph.places.held.values()
        contacts = {node.key: node for place in held for node in place.contacts(wide=True)}
        return [self.graph.certificates(), [contacts[key] for key in sorted(contacts)], self.description]

    # --- what comes in

    def receive(self, sender: Address, message: Message) -> None:
        self.graph.heard(sender)
        kind = type(message)
        if kind is not Ping or not self.graph.has_left(sender):
            self._bound[kind](sender, message)

    def wake(self, alarm: Message) -> None:
        self._bound[type(alarm)](alarm)

    @handles(Revocation)
    def on_revocation(self, sender: Address, revocation: Revocation) -> None:
        if not self.graph.learn(revocation):
            self.multicasts.gate.refuse("old_or_forged_revocation")

    def _take(self, source: Source, arc: Arc) -> None:
        """The least-term rule: of all arcs that reach this peer, that of the least selecting term notifies.

        While places come and go any arc that reaches it will do: the inbox lets nothing pass twice.
        """
        if self.description is None:
            return
        if self.settler.moving or _least_arc(source, self.description) == arc:
            self.inbox.take(source.cast, source.target, source.payload)


def _least_arc(source: Source, description: Description) -> Arc | None:
    for term, chosen in zip(source.target.terms, source.handles, strict=True):
        if term.selects(description):
            return handles_of(term)[chosen]
    return None
