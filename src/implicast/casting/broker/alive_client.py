"""A client that outlives its broker: it notices the silence, asks all brokers, and goes to the first that answers.

What it has registered, and what it has cast and nobody has confirmed, it tells the new broker. Being wrong about the
old one does no harm: the old one's notifications are recognised as repeats, and it forgets the client after a lease.
"""

from implicast.casting.broker.kind import Client
from implicast.casting.broker.messages import Check, CheckRound, Here, Known, Notify, Publish, Register, Stored
from implicast.casting.reliable import Hops
from implicast.overlay.detector import Detector, DetectorSettings
from implicast.peer.contract import Address, CastId, Host, Message, handles
from implicast.peer.events import Joined, Refused

UNCARRIED_MAX = 4_096
"""Casts that may await confirmation; further ones are refused."""


class LivingClient(Client, parts={"hops": Hops, "detector": Detector}):
    """A member that finds another broker when its own dies."""

    __slots__ = ("check_us", "detector", "joined", "publications", "uncarried")

    def __init__(
        self, address: Address, host: Host, brokers: list[int], broker: Address | None, check_us: int, tries: int
    ) -> None:
        """`tries`: few, for a client that is wrong about its broker loses nothing by going to another."""
        super().__init__(address, host, brokers, broker, acknowledge=True)
        self.check_us = check_us
        self.publications = Hops(address, host, self._done, self._done)
        self.hops = self.publications  # type: ignore[assignment]
        self.detector: Detector[Address] = Detector(address, host, DetectorSettings(tries=tries), self._lose)
        self.uncarried: dict[CastId, Publish] = {}
        """Casts that the broker has not confirmed."""
        self.joined = broker is not None
        host.after(int(check_us * host.rng.random()), CheckRound())

    def _done(self, broker: Address, cast: CastId) -> None:
        if broker == self.broker:
            self.uncarried.pop(cast, None)

    def _send(self, message: Message) -> None:
        if isinstance(message, Publish):
            if len(self.uncarried) >= UNCARRIED_MAX:
                self.host.deliver(Refused("cast", f"{UNCARRIED_MAX} casts await a broker already"))
                return
            self.uncarried[message.cast] = message
            if self.broker is not None:
                self.publications.send(self.broker, message.cast, message)
        elif self.broker is not None:
            self.host.send(self.broker, message)

    @handles(CheckRound)
    def on_check_round(self, alarm: CheckRound) -> None:
        self.host.after(self.check_us, CheckRound())
        if self.broker is not None:
            self.detector.probe(self.broker, Check(self.version))

    @handles(Known)
    def on_known(self, sender: Address, known: Known) -> None:
        self.detector.answered(sender)
        if sender == self.broker and known.version < self.version and self.version not in self.unanswered:
            self._tell_again()

    def _tell_again(self) -> None:
        """The broker does not know the newest description: it is another one, or has lost its memory."""
        if self.description is not None or self.version in self.unanswered:
            self._register(Register(self.version, self.description))

    def _lose(self, broker: Address) -> None:
        """The broker is silent: look for another."""
        if broker == self.broker:
            self.broker = None
            for cast in self.uncarried:
                self.publications.drop(broker, cast)
            self._probe()

    @handles(Here)
    def on_here(self, sender: Address, here: Here) -> None:
        if self.broker is not None:
            return
        self.detector.heard(sender)
        self.unanswered.answer("probe")
        self.broker = sender
        if not self.joined:
            self.joined = True
            self.host.deliver(Joined())
        if self.version:
            self._tell_again()
        for publish in list(self.uncarried.values()):
            self.publications.send(sender, publish.cast, publish)

    @handles(Stored)
    def on_stored(self, sender: Address, stored: Stored) -> None:
        if sender == self.broker:
            super().on_stored(sender, stored)

    @handles(Notify)
    def on_notify(self, sender: Address, notify: Notify) -> None:
        self.publications.confirm(sender, notify.cast)
        self.inbox.take(notify.cast, notify.target, notify.payload)
