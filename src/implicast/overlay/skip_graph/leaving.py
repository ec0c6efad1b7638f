"""Leaving a network that fails: one signed farewell for all places, repeated until everyone who may list them knows.

The leaver serves until then, and tells those too who learn of it meanwhile; afterwards it tells whoever still asks.
Ring upkeep, part D.2: nobody can say farewell for another, and nobody is removed by the word of others.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable

from implicast.overlay.skip_graph.graph import SkipGraph
from implicast.overlay.skip_graph.messages import (
    ALL_GONE,
    Announce,
    Ask,
    Claim,
    Disown,
    Farewell,
    Heard,
    Insist,
    Leaving,
    claim,
    disown,
)
from implicast.overlay.skip_graph.searching import PATIENCE_US
from implicast.peer.contract import Address, Host, handles
from implicast.peer.identity import Certificate, Trust
from implicast.peer.pending import Pending
from implicast.peer.signatures import Signer
from implicast.space.vector import Vectors

DISOWNED_MAX = 256
"""Places in one word that they are none of the sender's."""
AFTERWARDS = 30
"""Who was silent may have slept or been cut off: so many further farewells, as long as the leaver is still there."""


class LeavingGraph(SkipGraph):
    """The places of one peer that says farewell, and hears that others do."""

    __slots__ = ("_farewells", "_home", "_left_all")

    def __init__(self, address: Address, host: Host, k: int, vectors: Vectors, trust: Trust, signer: Signer) -> None:
        super().__init__(address, host, k, vectors, trust, signer)
        self._farewells: Pending[tuple[Address, bytes], tuple[Leaving | Farewell, int]] = Pending(
            host, Insist(), PATIENCE_US
        )
        self._left_all: Callable[[], None] | None = None
        self._home: Certificate | None = None

    @abstractmethod
    def _forget(self, leaver: Certificate) -> None:
        """A peer has left: out of all lists."""

    @abstractmethod
    def _elsewhere(self) -> Iterable[Address]:
        """Who else may list us, though we do not list it."""

    def leave(self, left: Callable[[], None]) -> None:
        """Say farewell for all places at once; `left` is called when everyone has confirmed or is silent."""
        home = next(iter(self.places.values()), None)
        told = dict.fromkeys(address for place in self.places.values() for address in place.acquaintances())
        told.update(dict.fromkeys(self._elsewhere()))
        told.pop(self.address, None)
        self._home = home.certificate if home is not None else None
        self._left_all = left
        if home is not None:
            farewell = self._leaving(home.certificate)
            for address in told:
                self._insist(address, farewell, self.tries)
        self._maybe_left()

    def _leaving(self, home: Certificate) -> Leaving:
        return Leaving(claim(self._signer, ALL_GONE, home, self.host.now_us))

    def has_left(self, sender: Address) -> bool:
        """Whether we have left. Who looks for us all the same is told so instead of being answered."""
        if self._home is None or self.places:
            return False
        self.host.send(sender, self._leaving(self._home))
        return True

    @handles(Ask)
    def on_ask(self, sender: Address, ask: Ask) -> None:
        super().on_ask(sender, ask)
        self._tell_late(sender)

    @handles(Announce)
    def on_announce(self, sender: Address, announce: Announce) -> None:
        super().on_announce(sender, announce)
        self._tell_late(sender)

    def _tell_late(self, sender: Address) -> None:
        """Who learns of us while we are leaving was not among those told: without this it would list us for ever."""
        home = self._home if self._left_all is not None else None
        if home is not None and (sender, home.key) not in self._farewells:
            self._insist(sender, self._leaving(home), self.tries)

    def _answer_for_nobody(self, sender: Address, ask: Ask) -> None:
        super()._answer_for_nobody(sender, ask)
        self.has_left(sender)

    def _say_left(self, sender: Address, asked: Iterable[bytes]) -> None:
        """Of places for whose holder somebody takes us it gets the farewells, or hears that they are none of ours."""
        others = [key for key in asked if key not in self.places]
        for key in others:
            if key in self._left:
                self.host.send(sender, self._farewell(self._left[key].owner))
        unknown = tuple([key for key in others if key not in self._left])
        if unknown:
            self._disown(sender, unknown)

    def _disown(self, sender: Address, places: tuple[bytes, ...]) -> None:
        """Farewells are kept for so many places only: who lists one that was left long ago would not be rid of it, and
        take us for silent."""
        super()._disown(sender, places)
        self.host.send(sender, disown(self._signer, places, self.host.now_us))

    @handles(Disown)
    def on_disown(self, sender: Address, said: Disown) -> None:
        """Counts for places that we list or asked on that address, by the signature of their holder."""
        asked = frozenset(said.places[:DISOWNED_MAX])
        met = (node for place in self.places.values() for node in (*place.known.values(), *place.asked.values()))
        found = {node.serial: node for node in met if node.key in asked and node.address == sender}
        for node in found.values():
            if self.belief.disowns(node, said):
                self._departed(node, said.sent_us)

    def _insist(self, address: Address, farewell: Leaving | Farewell, tries: int) -> None:
        self._farewells.ask((address, farewell.claim.certificate.key), (farewell, tries))
        self.host.send(address, farewell)

    def _say_farewell(self, address: Address, farewell: Farewell) -> None:
        self._insist(address, farewell, self.tries)

    def _maybe_left(self) -> None:
        if self._left_all is not None and not self._awaits_confirmation():
            left, self._left_all = self._left_all, None
            self._keep_farewells()
            left()

    def _awaits_confirmation(self) -> bool:
        return any(self._farewells.get(each)[1] > 0 for each in self._farewells.awaited())  # type: ignore[index]

    def _keep_farewells(self) -> None:
        for key in list(self.places):
            self._remember_left(self.places.pop(key))

    @handles(Insist)
    def on_insist(self, alarm: Insist) -> None:
        for (address, _), (farewell, left) in self._farewells.due():
            if left > -AFTERWARDS:
                self._insist(address, self._signed_anew(farewell), left - 1)
        self._maybe_left()

    def _signed_anew(self, farewell: Leaving | Farewell) -> Leaving | Farewell:
        certificate = farewell.claim.certificate
        return self._leaving(certificate) if isinstance(farewell, Leaving) else self._farewell(certificate)

    @handles(Heard)
    def on_heard(self, sender: Address, heard: Heard) -> None:
        if self._farewells.answer((sender, heard.claimant)) is not None:
            self._maybe_left()
        else:
            super().on_heard(sender, heard)

    @handles(Farewell)
    def on_farewell(self, sender: Address, farewell: Farewell) -> None:
        leaver = farewell.claim.certificate
        if not self.belief.has_left(leaver):
            super().on_farewell(sender, farewell)
        if self.belief.has_left(leaver) and sender != self.address:
            self.host.send(sender, Heard(leaver.key))

    @handles(Leaving)
    def on_leaving(self, sender: Address, leaving: Leaving) -> None:
        """Only the leaver's own signature takes its places away, all at once.

        Its farewell for the one place that signs may have come before: that says nothing of the others.
        """
        leaver = leaving.claim.certificate
        if not self.belief.has_left_with_all(leaver):
            if not self._credible_leaving(leaving.claim):
                return
            self.belief.departed_with_all(leaving.claim)
            self._forget(leaver)
        self.host.send(sender, Heard(leaver.key))

    def _credible_leaving(self, said: Claim) -> bool:
        return self.belief.credible_from_the_departed(ALL_GONE, said)
