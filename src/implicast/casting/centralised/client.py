"""A member of CENTRALISED: all it knows is the server, to which it says what it is and what it subscribes to."""

from implicast.casting.central_subscriptions import (
    Announce,
    Happened,
    Subscribe,
    SubscriptionKept,
    Wording,
)
from implicast.casting.served import Served
from implicast.casting.service import Known
from implicast.casting.telling import Got
from implicast.language.target import Description, Target
from implicast.peer.asking import Patience
from implicast.peer.contract import Address, CastId, Incarnation, Message, handles
from implicast.peer.events import Joined
from implicast.peer.lease import renewal_us
from implicast.peer.member import Keepsake
from implicast.peer.name import version_of
from implicast.peer.site import Site
from implicast.peer.subscriber import Subscribed, Subscriber, Unsubscribed

SUBSCRIBE = "subscribe"
PATIENCE = Patience(2_000_000, times=1 << 30)


class KeptClient(Keepsake):
    """What outlives a crash: also the subscriptions."""

    subscriptions: tuple[Wording, ...] = ()


class Client(Served, Subscriber):
    """Describes itself, casts and subscribes through the server."""

    __slots__ = ("_last", "subscriptions")

    def __init__(self, site: Site) -> None:
        (server,) = site.infrastructure["server"]
        kept: KeptClient | None = site.kept
        super().__init__(site, server, renewal_us(int(float(site.parameters["lease_s"]) * 1e6)))
        self.subscriptions = {
            each.subscription: each for each in (kept.subscriptions if kept else ())
        }
        self._last = max(self.subscriptions, default=0)
        self.asker.topic(SUBSCRIBE, PATIENCE)

    def join(self, introducers: tuple[Address, ...]) -> None:
        self.host.deliver(Joined())
        assert self.station is not None, "there is one server, always the same"
        self.meet(self.station)
        self._say_subscriptions()

    def leave(self) -> None:
        for number in list(self.subscriptions):
            self.unsubscribe(number)
        super().leave()

    def subscribe(self, target: Target) -> int:
        self.keep_in_touch()
        self._last += 1
        self._word(self._last, 1, target)
        return self._last

    def update(self, number: int, target: Target | None) -> None:
        if number in self.subscriptions:
            self._word(number, self.subscriptions[number].version + 1, target)

    def unsubscribe(self, number: int) -> None:
        self.update(number, None)

    def publish(self, description: Description, payload: bytes) -> CastId:
        cast = self.next_cast()
        return self.ask_for(
            Announce(cast, description, self.words.seal(cast, description, payload))
        )

    def kept(self) -> KeptClient:
        return KeptClient(
            self.kept_member(self.hearing.inbox.seen.heard()), tuple(self.subscriptions.values())
        )

    # --- subscriptions

    def _word(self, number: int, version: int, target: Target | None) -> None:
        if target is None:
            del self.subscriptions[number]
        else:
            self.subscriptions[number] = Wording(number, version, target)
        self._say(number, version, target)

    def _say(self, number: int, version: int, target: Target | None) -> None:
        assert self.station is not None, "there is one server, always the same"
        said = Subscribe(self.name, self.incarnation, number, version, target)
        self.asker.ask(SUBSCRIBE, number, self.station, self.words.say(said), said)

    def _say_subscriptions(self) -> None:
        """Tell the server all of them: it does not know them, or only of an earlier life."""
        for each in self.subscriptions.values():
            self._say(each.subscription, each.version, each.target)

    @handles(SubscriptionKept)
    def on_kept(self, sender: Address, kept: SubscriptionKept) -> None:
        question = self.asker.open(SUBSCRIBE, kept.subscription)
        if question is None or sender != self.station:
            return
        said = question.about
        assert isinstance(said, Subscribe), "nothing else is asked on this topic"
        if kept.incarnation > self.incarnation and not self.words.signed:
            self._live_beyond(kept.incarnation)
        elif (kept.incarnation, kept.version) == (said.incarnation, said.version):
            self.asker.answered(SUBSCRIBE, kept.subscription)
            number, gone = said.subscription, said.target is None
            self.host.deliver(Unsubscribed(number) if gone else Subscribed(number, said.version))

    def _live_beyond(self, incarnation: Incarnation) -> None:
        """The server has a wording of a life that this member may have forgotten."""
        if incarnation > self.incarnation:
            self.outlive(version_of(incarnation, 0))
            self._say_subscriptions()

    def shown(self, message: Message) -> None:
        if isinstance(message, Subscribe):
            self._live_beyond(message.incarnation)
        else:
            super().shown(message)

    @handles(Known)
    def on_known(self, sender: Address, known: Known) -> None:
        super().on_known(sender, known)
        if sender == self.station and known.subscriptions < len(self.subscriptions):
            self._say_subscriptions()

    @handles(Happened)
    def on_happened(self, sender: Address, happened: Happened) -> None:
        """Only what some subscription asks for now: it may have been reworded meanwhile."""
        fits = any(
            each.target.selects(happened.description) for each in self.subscriptions.values()
        )
        outcome = self.hearing.inbox.admit(
            happened.cast, happened.description, happened.payload, fits
        )
        if self.assured:
            self.host.send(sender, self.words.say(Got(happened.cast, self.name, outcome)))
