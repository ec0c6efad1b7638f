"""Nodes of bft begin one at a time, from a site each, at addresses of a real network."""

from collections import deque

from bft_network import tagged

from implicast.casting.bft import DESIGNS
from implicast.casting.bft.authority_peer import AuthorityPeer
from implicast.casting.bft.member import Bft
from implicast.language.target import Description
from implicast.peer.contract import Address, Message, Peer
from implicast.peer.events import Joined, Notice, Registered, Settled
from implicast.peer.ledger import Ledger
from implicast.peer.name import name_of
from implicast.peer.site import Site
from implicast.peer.wire import Codec
from implicast.world.populations.keys import Laboratory

OFFICE = ("authority.example", 7000)
CODEC = Codec(DESIGNS[0].kinds)


class Street:
    """Nodes on ledgers; messages travel as bytes."""

    def __init__(self) -> None:
        self.keys = Laboratory(1, "ed25519")
        self.ledgers: dict[Address, Ledger] = {}
        self.peers: dict[Address, Peer] = {}
        self.told: dict[Address, list[Message]] = {}
        self.peers[OFFICE] = AuthorityPeer(self.site(OFFICE, self.keys.authority()))

    def site(self, address: Address, credentials: object, number: int = 0) -> Site:
        ledger = self.ledgers[address] = Ledger(seed=number, now_us=10**15)
        self.told[address] = []
        parameters = DESIGNS[0].settle({})
        name = name_of(b"street", number)
        where = {"authority": (OFFICE,)}
        return Site(name, 1 << 16, address, ledger, parameters, b"street", where, credentials)

    def member(self, number: int) -> Bft:
        address = (f"node{number}.example", 7000 + number)
        keys = self.keys.member(name_of(b"street", number))
        member = DESIGNS[0].member(self.site(address, keys, number))  # type: ignore[misc]
        assert isinstance(member, Bft)
        self.peers[address] = member
        return member

    def run(self) -> None:
        queue: deque[tuple[Address, Address, bytes]] = deque()
        while self._collect(queue) or queue:
            sender, to, data = queue.popleft()
            self.peers[to].receive(sender, CODEC.decode(data))

    def _collect(self, queue: deque[tuple[Address, Address, bytes]]) -> bool:
        before = len(queue)
        for address, ledger in self.ledgers.items():
            for verb, to, what in ledger.take():
                if verb == "send":
                    queue.append((address, to, CODEC.encode(what)))  # type: ignore[arg-type]
                elif verb == "deliver":
                    self.told[address].append(what)
        return len(queue) > before


def test_nodes_join_register_and_cast_at_addresses_of_a_network() -> None:
    street = Street()
    members = [street.member(number) for number in range(1, 7)]
    for member in members:
        member.join((members[0].address,) if member is not members[0] else ())
        street.run()
        member.register(Description(("jazz",) if member is not members[3] else ("samba",)))
        street.run()
        assert [type(each) for each in street.told[member.address]] == [Joined, Registered]

    cast = members[1].cast(tagged("jazz"), b"hello")
    street.run()

    heard = [member for member in members if Notice(cast, b"hello") in street.told[member.address]]
    assert heard == [member for member in members if member is not members[3]]
    settled = street.told[members[1].address][-1]
    assert settled == Settled(cast, 5, uncertain=1), "no time passes, and no lists are compared"
