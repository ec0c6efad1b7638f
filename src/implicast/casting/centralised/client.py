"""A member of CENTRALISED: all it knows is the server."""

from implicast.casting.central_subscriptions import Announce, Desk, Subscribe, Wording
from implicast.casting.served import Served
from implicast.casting.service import Known
from implicast.language.target import Description, Target
from implicast.peer.contract import Address, CastId, Message, handles
from implicast.peer.events import Joined
from implicast.peer.lease import renewal_us
from implicast.peer.member import Keepsake
from implicast.peer.site import Site
from implicast.peer.subscriber import Subscriber


class KeptClient(Keepsake):
    """What outlives a crash: also the subscriptions."""

    subscriptions: tuple[Wording, ...] = ()


class Client(Served, Subscriber, parts={"desk": Desk}):
    """Describes itself, casts and subscribes through the server."""

    __slots__ = ("desk",)

    def __init__(self, site: Site) -> None:
        (server,) = site.infrastructure["server"]
        kept: KeptClient | None = site.kept
        super().__init__(site, server, renewal_us(int(float(site.parameters["lease_s"]) * 1e6)))
        self.desk = Desk(self, server, self.asker, self.hearing.inbox, kept.subscriptions if kept else ())

    def join(self, introducers: tuple[Address, ...]) -> None:
        self.host.deliver(Joined())
        assert self.station is not None, "there is one server, always the same"
        self.meet(self.station)
        self.desk.say_again()

    def leave(self) -> None:
        for number in list(self.desk.subscriptions):
            self.unsubscribe(number)
        super().leave()

    def subscribe(self, target: Target) -> int:
        self.keep_in_touch()
        return self.desk.subscribe(target)

    def update(self, number: int, target: Target) -> None:
        self.desk.reword(number, target)

    def unsubscribe(self, number: int) -> None:
        self.desk.reword(number, None)

    def publish(self, description: Description, payload: bytes) -> CastId:
        cast = self.next_cast()
        return self.ask_for(Announce(cast, description, self.words.seal(cast, description, payload)))

    def shown(self, message: Message) -> None:
        if isinstance(message, Subscribe):
            self.desk.outlive(message.life)
        else:
            super().shown(message)

    def kept(self) -> KeptClient:
        member = self.kept_member(self.hearing.inbox.seen.heard())
        return KeptClient(member, tuple(self.desk.subscriptions.values()))

    @handles(Known)
    def on_known(self, sender: Address, known: Known) -> None:
        super().on_known(sender, known)
        if sender == self.station and known.subscriptions < len(self.desk.subscriptions):
            self.desk.say_again()
