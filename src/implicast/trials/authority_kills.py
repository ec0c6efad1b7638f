"""The authority killed again and again, at random moments, and begun again from its disk or from an old copy of it.

The office is the real one, and so are the members' lists of what counts no more; of the rest of a member there is only
who applies, gives up and applies again. Now and then a name is expelled. What must hold, whatever falls when: no number
is used twice, no name is admitted that was expelled by a list which members know, and nobody honest is refused.
"""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from random import Random

import msgspec

from implicast.casting.bft.keys import HOME, tag_realm
from implicast.casting.bft.lists import RevocationLists
from implicast.casting.bft.messages import Apply, Denied, Granted
from implicast.casting.bft.office import KeptOffice, Office
from implicast.casting.bft.settings import AuthorityKeys
from implicast.casting.bft.settler import CLEARING, JOINING
from implicast.casting.designs import design
from implicast.peer.authority import Authority
from implicast.peer.contract import Address, Host, Message, Peer, handles
from implicast.peer.identity import Certificate, Enrolment, Revocation, Trust
from implicast.peer.name import name_of, next_incarnation, version_of
from implicast.peer.signatures import Scheme, scheme
from implicast.peer.site import Site
from implicast.space.digest import digest, stream
from implicast.space.vector import Vectors
from implicast.world.journal import UPKEEP
from implicast.world.world import World

OFFICE = 0
TAGS = 6
WAIT_US = 2_000_000
"""An applicant that hears nothing asks again."""
PATIENCE_US = 60_000_000
"""An honest applicant that has not been granted what it asked for by then, the authority being there, was refused."""
COPIES = 12
"""Old copies of the authority's disk that are kept, of any age."""

Row = dict[str, float | int]


class Even:
    def latency_us(self, a: int, b: int) -> int:
        return 10_000


class Acquaintance:
    """Stands for a skip graph in which everybody knows everybody."""

    def __init__(self, trust: Trust, others: list[Address]) -> None:
        self.trust, self.others, self.places = trust, others, self

    def contact_addresses(self) -> dict[Address, None]:
        return dict.fromkeys(self.others)

    def learn(self, revocation: Revocation) -> bool:
        return self.trust.learn(revocation)


class Applicant(Peer, parts={"lists": RevocationLists}):
    """A member that asks for places and gives them up."""

    __slots__ = (
        "certificates",
        "denied",
        "enrolment",
        "is_expelled",
        "lists",
        "open",
        "signer",
        "stamp",
        "trust",
    )

    def __init__(
        self, address: int, host: Host, signing: Scheme, teller: Authority, members: int
    ) -> None:
        super().__init__(address, host)
        self.signer = signing.signer(digest("applicant", address))
        self.enrolment: Enrolment = teller.enrol(name_of(b"", address), self.signer.public)
        self.trust = Trust(signing, teller.public, Vectors(2))
        others: list[Address] = [each for each in range(1, members + 1) if each != address]
        graph = Acquaintance(self.trust, others)
        self.lists = RevocationLists(address, host, graph, self.trust, OFFICE, lambda flaw: None)  # type: ignore[arg-type]
        self.certificates: dict[bytes, Certificate] = {}
        self.open: Apply | None = None
        self.is_expelled = False
        self.denied: list[str] = []
        self.stamp = version_of(1, 0)

    def apply(
        self,
        errand: int,
        wanted: tuple[bytes, ...],
        given_up: tuple[bytes, ...],
        listed: int | None = None,
    ) -> None:
        """Who was expelled names nothing that could remind the authority of it."""
        newest = max(self.certificates.values(), key=lambda each: each.serial, default=None)
        self.stamp += 1
        known = self.lists.number if listed is None else listed
        shown = (None, 0) if self.is_expelled else (newest, known)
        bare = Apply(errand, self.stamp, self.enrolment, wanted, given_up, *shown, b"")
        self.open = msgspec.structs.replace(
            bare, signature=self.signer.sign(bare.body(self.address))
        )
        for realm in given_up:
            self.certificates.pop(realm, None)
        self.host.send(OFFICE, self.open)

    def be_expelled(self) -> None:
        self.is_expelled = True

    def ask_again(self) -> None:
        if self.open is not None:
            bare = msgspec.structs.replace(
                self.open, listed=0 if self.is_expelled else self.lists.number
            )
            self.host.send(
                OFFICE,
                msgspec.structs.replace(bare, signature=self.signer.sign(bare.body(self.address))),
            )

    @handles(Granted)
    def on_granted(self, sender: Address, granted: Granted) -> None:
        if self.open is not None and granted.errand == self.open.errand:
            self.open = None
            self.certificates.update((each.realm, each) for each in granted.certificates)
            if granted.revocation is not None:
                self.lists.on_revocation(sender, granted.revocation)

    @handles(Denied)
    def on_denied(self, sender: Address, denied: Denied) -> None:
        if self.open is not None and denied.errand == self.open.errand:
            self.open = None
            self.denied.append(denied.reason)


class Kills:
    """One authority, its members, and what was seen of them."""

    def __init__(self, members: int, seed: int) -> None:
        self.rng, self.world = stream(seed, "authority kills", members), World(Even(), seed)
        signing, secret = scheme("stand-in", digest("notary", seed)), digest("authority", seed)
        self.keys, self.parameters = AuthorityKeys(signing, secret), design("bft").settle({})
        self.signing, self.starts, self.copies = signing, 0, list[KeptOffice]()
        self.count: Counter[str] = Counter()
        self.numbers: dict[int, bytes] = {}
        """By number, what bears it."""
        self.expelled: set[int] = set()
        teller = Authority(signing, secret, Vectors(2))
        self.members = [
            Applicant(each, self.world.host(each), signing, teller, members)
            for each in range(1, members + 1)
        ]
        for member in self.members:
            self.world.place(int(str(member.address)), member)
            member.lists.begin()
        self.office = self._begin(None)

    def _begin(self, kept: KeptOffice | None) -> Office:
        self.starts += 1
        incarnation = next_incarnation(
            0 if kept is None else kept.incarnation, stream(self.starts, "lives of the authority")
        )
        host = Watched(self.world.host(OFFICE), self)
        roles: dict[str, tuple[Address, ...]] = {"authority": (OFFICE,)}
        office = Office(
            Site(
                name_of(b"", OFFICE),
                incarnation,
                OFFICE,
                host,
                self.parameters,
                b"",
                roles,
                self.keys,
                kept,
            )
        )
        self.world.place(OFFICE, office)
        return office

    def kill(self) -> None:
        """It falls, is away for a while, and begins from its disk or from a copy made at any time."""
        kept = self.office.kept()
        self.world.crash(OFFICE)
        self._pass(self.rng.randrange(1, 1_000_000))
        if self.rng.random() < 0.2:
            self.copies = [*self.copies, kept][-COPIES:]
        is_old = bool(self.copies) and self.rng.random() < 0.5
        self.count["old_copies"] += is_old
        self.office = self._begin(self.rng.choice(self.copies) if is_old else kept)

    def _pass(self, time_us: int) -> None:
        self.world.run(self.world.now_us + time_us)

    def round(self) -> None:
        """Something is asked for; and at a random moment of it the authority falls."""
        for member in self.rng.sample(self.members, 3):
            self.world.at(self.world.now_us, UPKEEP, partial(self._ask, member))
        if self.rng.random() < 0.05 and len(self.expelled) < len(self.members) // 3:
            self.expel(self.rng.choice(self.members))
        self._pass(int(10 ** self.rng.uniform(3, 6.8)))  # from a millisecond to six seconds
        self.kill()
        for member in self.members:
            self.world.at(self.world.now_us + self.rng.randrange(WAIT_US), UPKEEP, member.ask_again)
        self._pass(self.rng.randrange(WAIT_US))

    def _ask(self, member: Applicant) -> None:
        if member.open is None:
            realms = [tag_realm(f"tag{each}") for each in range(TAGS)]
            held = [realm for realm in realms if realm in member.certificates]
            if HOME not in member.certificates:
                member.apply(JOINING, (HOME,), ())
            elif held and self.rng.random() < 0.5:
                member.apply(CLEARING + 1 + self.starts, (), (self.rng.choice(held),))
            else:
                member.apply(version_of(1, self.starts), (self.rng.choice(realms),), ())

    def expel(self, member: Applicant) -> None:
        self.expelled.add(int(str(member.address)))
        member.be_expelled()
        self.office.expel(member.enrolment.name)
        self.count["expelled"] += 1

    def saw(self, to: Address, message: Message) -> None:
        """What leaves the authority."""
        if isinstance(message, Granted):
            for each in message.certificates:
                self._number(each.serial, each.signature)
            self.count["granted"] += 1
            self.count["admitted_expelled"] += self._is_out(to) and bool(message.certificates)
        elif isinstance(message, Revocation):
            self._number(message.number, message.signature)

    def _is_out(self, address: Address) -> bool:
        """Whether a name was expelled by a list that every other member knows."""
        name = name_of(b"", int(str(address)))
        others = [each for each in self.members if each.address not in self.expelled]
        return address in self.expelled and all(_knows(each, name) for each in others)

    def _number(self, number: int, signature: bytes) -> None:
        self.count["twice"] += self.numbers.setdefault(number, signature) != signature

    def settle(self) -> None:
        """Nothing falls any more: whatever was asked for is granted, and every list reaches everybody."""
        until_us = self.world.now_us + PATIENCE_US
        while self.world.now_us < until_us:
            for member in self.members:
                self.world.at(self.world.now_us, UPKEEP, member.ask_again)
            self._pass(WAIT_US)

    def row(self) -> Row:
        honest = [each for each in self.members if each.address not in self.expelled]
        refused = sum(len(each.denied) + (each.open is not None) for each in honest)
        unsound = [flaw for each in honest for flaw in _flaws(each, honest, self.world.now_us)]
        return {
            "kills": self.starts - 1,
            "old_copies": self.count["old_copies"],
            "granted": self.count["granted"],
            "numbers": len(self.numbers),
            "twice": self.count["twice"],
            "expelled": self.count["expelled"],
            "admitted_expelled": self.count["admitted_expelled"],
            "refused_honest": refused,
            "unsound_honest": len(unsound),
            "lists_apart": len({each.lists.number for each in honest}) - 1,
        }


class Watched:
    """A host that shows what leaves."""

    __slots__ = ("_host", "_kills", "after", "deliver")

    def __init__(self, host: Host, kills: Kills) -> None:
        self._host, self._kills, self.after, self.deliver = host, kills, host.after, host.deliver

    @property
    def now_us(self) -> int:
        return self._host.now_us

    @property
    def rng(self) -> Random:
        return self._host.rng

    def send(self, to: Address, message: Message) -> None:
        self._kills.saw(to, message)
        self._host.send(to, message)


def _knows(member: Applicant, name: bytes) -> bool:
    known = member.trust.revocation
    return known is not None and name in known.names


def _flaws(member: Applicant, others: list[Applicant], now_us: int) -> Iterator[str]:
    """What others hold against the certificates of a member."""
    for certificate in member.certificates.values():
        found = {each.trust.flaw(certificate, now_us) for each in others} - {None}
        yield from (str(flaw) for flaw in found)


def kills_row(members: int = 30, kills: int = 1_000, seed: int = 1) -> Row:
    """An authority killed so often: what was numbered twice, admitted although expelled, refused although honest."""
    trial = Kills(members, seed)
    for _ in range(kills):
        trial.round()
    trial.settle()
    return trial.row()
