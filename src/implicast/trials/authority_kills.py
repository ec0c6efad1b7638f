"""Kills the certificate authority at random moments and restarts it from its disk or from an old
copy of it.

The authority peer and the members' revocation lists are those of the design. The rest of a member
is reduced to applying for places, releasing them and applying again. Now and then a name is
expelled. Whenever the kills happen, no serial number may be used twice, no name may be admitted
that was expelled by a list which members know, and no honest member may be refused.
"""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from random import Random

import msgspec

from implicast.casting.bft.authority_peer import AuthorityPeer, DurableAuthority
from implicast.casting.bft.keys import HOME, tag_realm
from implicast.casting.bft.placement import JOIN, RELEASE, Apply, Denied, Granted
from implicast.casting.bft.revocation_lists import RevocationLists
from implicast.casting.bft.settings import AuthorityKeys
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

AUTHORITY = 0
TAGS = 6
WAIT_US = 2_000_000
"""An applicant without an answer asks again after this time."""
GRANT_LIMIT_US = 60_000_000
"""An honest applicant whose request is still open after this time, with the authority up, counts as
refused.
"""
COPIES = 12
"""Number of old copies of the authority's disk that are kept."""

Row = dict[str, float | int]


class UniformLatency:
    def latency_us(self, a: int, b: int) -> int:
        return 10_000


class StaticContacts:
    """Stand-in for a skip graph in which every member knows every other."""

    def __init__(self, trust: Trust, others: list[Address]) -> None:
        self.trust, self.others, self.places = trust, others, self

    def contact_addresses(self) -> dict[Address, None]:
        return dict.fromkeys(self.others)

    def learn_revocation(self, revocation: Revocation) -> bool:
        return self.trust.learn(revocation)


class Applicant(Peer, parts={"lists": RevocationLists}):
    """A member that applies for places and releases them."""

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
        self, address: int, host: Host, signing: Scheme, authority: Authority, members: int
    ) -> None:
        super().__init__(address, host)
        self.signer = signing.signer(digest("applicant", address))
        self.enrolment: Enrolment = authority.enrol(name_of(b"", address), self.signer.public)
        self.trust = Trust(signing, authority.public, Vectors(2))
        others: list[Address] = [each for each in range(1, members + 1) if each != address]
        graph = StaticContacts(self.trust, others)
        self.lists = RevocationLists(
            address,
            host,
            graph,  # type: ignore[arg-type]
            self.trust,
            AUTHORITY,
            lambda flaw: None,
        )
        self.certificates: dict[bytes, Certificate] = {}
        self.open: Apply | None = None
        self.is_expelled = False
        self.denied: list[str] = []
        self.stamp = version_of(1, 0)

    def apply(
        self,
        request: int,
        wanted: tuple[bytes, ...],
        given_up: tuple[bytes, ...],
        listed: int | None = None,
    ) -> None:
        """Send an application. An expelled member shows no certificate or list that would remind
        the authority of its expulsion.
        """
        newest = max(self.certificates.values(), key=lambda each: each.serial, default=None)
        self.stamp += 1
        known = self.lists.number if listed is None else listed
        shown = (None, 0) if self.is_expelled else (newest, known)
        bare = Apply(request, self.stamp, self.enrolment, wanted, given_up, *shown, b"")
        self.open = msgspec.structs.replace(
            bare, signature=self.signer.sign(bare.body(self.address))
        )
        for realm in given_up:
            self.certificates.pop(realm, None)
        self.host.send(AUTHORITY, self.open)

    def be_expelled(self) -> None:
        self.is_expelled = True

    def ask_again(self) -> None:
        if self.open is not None:
            bare = msgspec.structs.replace(
                self.open, listed=0 if self.is_expelled else self.lists.number
            )
            self.host.send(
                AUTHORITY,
                msgspec.structs.replace(bare, signature=self.signer.sign(bare.body(self.address))),
            )

    @handles(Granted)
    def on_granted(self, sender: Address, granted: Granted) -> None:
        if self.open is not None and granted.request == self.open.request:
            self.open = None
            self.certificates.update((each.realm, each) for each in granted.certificates)
            if granted.revocation is not None:
                self.lists.on_revocation(sender, granted.revocation)

    @handles(Denied)
    def on_denied(self, sender: Address, denied: Denied) -> None:
        if self.open is not None and denied.request == self.open.request:
            self.open = None
            self.denied.append(denied.reason)


class AuthorityKills:
    """One authority, its members, and the counts of what was observed."""

    def __init__(self, members: int, seed: int) -> None:
        self.rng, self.world = (
            stream(seed, "authority kills", members),
            World(UniformLatency(), seed),
        )
        signing, secret = scheme("stand-in", digest("notary", seed)), digest("authority", seed)
        self.keys, self.parameters = AuthorityKeys(signing, secret), design("bft").settle({})
        self.signing, self.starts, self.copies = signing, 0, list[DurableAuthority]()
        self.count: Counter[str] = Counter()
        self.numbers: dict[int, bytes] = {}
        """The signature issued under each serial number."""
        self.expelled: set[int] = set()
        authority = Authority(signing, secret, Vectors(2))
        self.members = [
            Applicant(each, self.world.host(each), signing, authority, members)
            for each in range(1, members + 1)
        ]
        for member in self.members:
            self.world.place(int(str(member.address)), member)
            member.lists.start_gossip()
        self.authority_peer = self._start_authority(None)

    def _start_authority(self, durable: DurableAuthority | None) -> AuthorityPeer:
        self.starts += 1
        incarnation = next_incarnation(
            0 if durable is None else durable.incarnation,
            stream(self.starts, "lives of the authority"),
        )
        host = RecordingHost(self.world.host(AUTHORITY), self)
        roles: dict[str, tuple[Address, ...]] = {"authority": (AUTHORITY,)}
        authority_peer = AuthorityPeer(
            Site(
                name_of(b"", AUTHORITY),
                incarnation,
                AUTHORITY,
                host,
                self.parameters,
                b"",
                roles,
                self.keys,
                durable,
            )
        )
        self.world.place(AUTHORITY, authority_peer)
        return authority_peer

    def kill(self) -> None:
        """Crash the authority, and after a while restart it from its disk or from an old copy."""
        durable = self.authority_peer.durable_state()
        self.world.crash(AUTHORITY)
        self._run_for(self.rng.randrange(1, 1_000_000))
        if self.rng.random() < 0.2:
            self.copies = [*self.copies, durable][-COPIES:]
        is_old = bool(self.copies) and self.rng.random() < 0.5
        self.count["old_copies"] += is_old
        self.authority_peer = self._start_authority(
            self.rng.choice(self.copies) if is_old else durable
        )

    def _run_for(self, time_us: int) -> None:
        self.world.run(self.world.now_us + time_us)

    def run_round(self) -> None:
        """Three members send requests, and the authority is killed at a random moment while they
        are handled.
        """
        for member in self.rng.sample(self.members, 3):
            self.world.at(self.world.now_us, UPKEEP, partial(self._ask, member))
        if self.rng.random() < 0.05 and len(self.expelled) < len(self.members) // 3:
            self.expel(self.rng.choice(self.members))
        self._run_for(int(10 ** self.rng.uniform(3, 6.8)))  # from a millisecond to six seconds
        self.kill()
        for member in self.members:
            self.world.at(self.world.now_us + self.rng.randrange(WAIT_US), UPKEEP, member.ask_again)
        self._run_for(self.rng.randrange(WAIT_US))

    def _ask(self, member: Applicant) -> None:
        if member.open is None:
            realms = [tag_realm(f"tag{each}") for each in range(TAGS)]
            held = [realm for realm in realms if realm in member.certificates]
            if HOME not in member.certificates:
                member.apply(JOIN, (HOME,), ())
            elif held and self.rng.random() < 0.5:
                member.apply(RELEASE + 1 + self.starts, (), (self.rng.choice(held),))
            else:
                member.apply(version_of(1, self.starts), (self.rng.choice(realms),), ())

    def expel(self, member: Applicant) -> None:
        self.expelled.add(int(str(member.address)))
        member.be_expelled()
        self.authority_peer.expel(member.enrolment.name)
        self.count["expelled"] += 1

    def on_authority_message(self, to: Address, message: Message) -> None:
        """Check a message that leaves the authority."""
        if isinstance(message, Granted):
            for each in message.certificates:
                self._number(each.serial, each.signature)
            self.count["granted"] += 1
            self.count["admitted_expelled"] += self._is_out(to) and bool(message.certificates)
        elif isinstance(message, Revocation):
            self._number(message.number, message.signature)

    def _is_out(self, address: Address) -> bool:
        """Whether a name was expelled by a list that every honest member knows."""
        name = name_of(b"", int(str(address)))
        others = [each for each in self.members if each.address not in self.expelled]
        return address in self.expelled and all(_knows(each, name) for each in others)

    def _number(self, number: int, signature: bytes) -> None:
        self.count["twice"] += self.numbers.setdefault(number, signature) != signature

    def settle_requests(self) -> None:
        """Without further kills, let every request be answered and every list spread."""
        until_us = self.world.now_us + GRANT_LIMIT_US
        while self.world.now_us < until_us:
            for member in self.members:
                self.world.at(self.world.now_us, UPKEEP, member.ask_again)
            self._run_for(WAIT_US)

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


class RecordingHost:
    """A host that shows each outgoing message to the trial."""

    __slots__ = ("_host", "_kills", "after", "deliver")

    def __init__(self, host: Host, kills: AuthorityKills) -> None:
        self._host, self._kills, self.after, self.deliver = host, kills, host.after, host.deliver

    @property
    def now_us(self) -> int:
        return self._host.now_us

    @property
    def rng(self) -> Random:
        return self._host.rng

    def send(self, to: Address, message: Message) -> None:
        self._kills.on_authority_message(to, message)
        self._host.send(to, message)


def _knows(member: Applicant, name: bytes) -> bool:
    known = member.trust.revocation
    return known is not None and name in known.names


def _flaws(member: Applicant, others: list[Applicant], now_us: int) -> Iterator[str]:
    """Reasons for which other members reject the certificates of a member."""
    for certificate in member.certificates.values():
        found = {each.trust.flaw(certificate, now_us) for each in others} - {None}
        yield from (str(flaw) for flaw in found)


def kills_row(members: int = 30, kills: int = 1_000, seed: int = 1) -> Row:
    """Kill the authority `kills` times; count serial numbers used twice, expelled names admitted,
    and honest members refused.
    """
    trial = AuthorityKills(members, seed)
    for _ in range(kills):
        trial.run_round()
    trial.settle_requests()
    return trial.row()
