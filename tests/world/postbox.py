"""A design as small as can be, for tests of the world: one server that remembers who said what, with names and lives.

It keeps the promises about returns by the plainest means, and has a switch for each way of breaking them.
"""

from collections import Counter
from dataclasses import dataclass

from implicast.casting.designs import ASSURANCE, Design
from implicast.language.target import Description, Target
from implicast.peer.contract import CastId, Contact, Message, Name, Peer, handles
from implicast.peer.events import Joined, Left, Notice, Registered, Settled, Withdrawn
from implicast.peer.member import DurableMember, Member
from implicast.peer.site import Site
from implicast.world.plan import Plan


class Say(Message):
    wire = 0x7001

    by: Contact
    version: int
    description: Description | None


class Stored(Message):
    wire = 0x7002

    version: int


class Outdated(Message):
    wire = 0x7003

    version: int


class Spread(Message):
    wire = 0x7004

    cast: CastId
    target: Target
    payload: bytes


class NotifyTally(Message):
    wire = 0x7005

    cast: CastId
    notified: int
    unreachable: int


class NotifyAck(Message):
    wire = 0x7006

    cast: CastId


class Tell(Message):
    wire = 0x7007

    to: Name
    cast: CastId
    target: Target
    payload: bytes


class Kept(Message):
    member: DurableMember
    heard: tuple[CastId, ...]

    @property
    def incarnation(self) -> int:
        return self.member.incarnation


class Done(Message):
    to: int
    cast: CastId
    members: int


@dataclass
class Manners:
    """What goes wrong, where a test wants it to."""

    forgets_heard: bool = False
    stores_older: bool = False
    answers_falsely: bool = False
    boasts: int = 0
    garbles: bool = False


MANNERS = Manners()


class Office(Peer):
    """The server: each name with its contact, its newest version and what it said."""

    role = "server"

    def __init__(self, site: Site) -> None:
        super().__init__(site.address, site.host)
        self.known: dict[Name, Say] = {}
        self.got: Counter[CastId] = Counter()

    @handles(Say)
    def _said(self, sender, say: Say) -> None:
        before = self.known.get(say.by.name)
        if before is not None and before.version > say.version:
            if MANNERS.answers_falsely:
                self.host.send(sender, Stored(say.version))
            else:
                self.host.send(sender, Outdated(before.version))
            if not MANNERS.stores_older:
                return
        self.known[say.by.name] = say
        self.host.send(sender, Stored(say.version))

    @handles(Spread)
    def _spread(self, sender, spread: Spread) -> None:
        payload = spread.payload + b"!" if MANNERS.garbles else spread.payload
        fitting = [
            each
            for each in self.known.values()
            if each.description and spread.target.selects(each.description)
        ]
        for each in fitting:
            self.host.send(each.by.address, Tell(each.by.name, spread.cast, spread.target, payload))
        self.host.after(2_000_000, Done(sender, spread.cast, len(fitting)))

    @handles(Done)
    def _done(self, done: Done) -> None:
        got = min(done.members, self.got[done.cast])
        self.host.send(done.to, NotifyTally(done.cast, got, done.members - got))

    @handles(NotifyAck)
    def _got(self, sender, got: NotifyAck) -> None:
        self.got[got.cast] += 1


class Poster(Member):
    """A member: says what it is, casts, and remembers what it heard, on its disk too."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        (self.server,) = site.infrastructure["server"]
        self.heard: dict[CastId, None] = {}
        if site.durable_state is not None and not MANNERS.forgets_heard:
            self.heard = dict.fromkeys(site.durable_state.heard)

    def durable_state(self) -> Kept:
        return Kept(self.durable_member(), tuple(self.heard))

    def join(self, introducers) -> None:
        self.host.deliver(Joined())

    def leave(self) -> None:
        self.withdraw()
        self.host.deliver(Left())

    def register(self, description: Description) -> None:
        self._say(description)

    def withdraw(self) -> None:
        self._say(None)

    def _say(self, description: Description | None) -> None:
        self.description = description
        self.host.send(self.server, Say(self.contact, self.next_version(), description))

    def cast(self, target: Target, payload: bytes, expiry_us: int = 0) -> CastId:
        cast = self.next_cast()
        self.host.send(self.server, Spread(cast, target, payload))
        return cast

    @handles(Stored)
    def _stored(self, sender, stored: Stored) -> None:
        if stored.version == self.version:
            event = Registered if self.description is not None else Withdrawn
            self.host.deliver(event(stored.version))

    @handles(Outdated)
    def _outdated(self, sender, outdated: Outdated) -> None:
        if outdated.version > self.version:
            self.host.send(
                self.server,
                Say(self.contact, self.advance_incarnation(outdated.version), self.description),
            )

    @handles(Tell)
    def _told(self, sender, tell: Tell) -> None:
        fits = self.description is not None and tell.target.selects(self.description)
        if tell.to == self.name and fits and tell.cast not in self.heard:
            self.heard[tell.cast] = None
            self.host.deliver(Notice(tell.cast, tell.payload))
            self.host.send(sender, NotifyAck(tell.cast))

    @handles(NotifyTally)
    def _done(self, sender, told: NotifyTally) -> None:
        if told.cast.incarnation == self.incarnation and told.cast.serial <= self.serial:
            self.host.deliver(Settled(told.cast, told.notified + MANNERS.boasts, told.unreachable))


def assemble(plan: Plan) -> list[Peer]:
    members: list[Peer] = [Poster(plan.site(address)) for address in range(plan.peers)]
    return [*members, Office(plan.site(plan.peers, "server"))]


POSTBOX = Design(
    "postbox",
    "one server for tests",
    "nowhere",
    assemble=assemble,
    kinds=(Say, Stored, Outdated, Spread, NotifyTally, Tell, NotifyAck),
    parameters=(ASSURANCE,),
    infrastructure=lambda peers, parameters: 1,
    member=Poster,
    fixture=lambda site, role: Office(site),
    roles=lambda peers, infrastructure: {"server": (peers,)},
    durable_types={"member": Kept},
    survives=frozenset({"joins", "returns"}),
    repair_us=5_000_000,
)
