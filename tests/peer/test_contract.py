"""A peer decides by kind of message; parts of a peer decide on their own kinds."""

from implicast.peer.contract import Address, Host, Message, Part, Peer, handles
from implicast.peer.ledger import Ledger


class Ping(Message):
    number: int


class Pong(Message):
    number: int


class Tick(Message):
    """Rings when it is time."""


class Echo(Part):
    @handles(Ping)
    def on_ping(self, sender: Address, ping: Ping) -> None:
        self.host.send(sender, Pong(ping.number))


class Counting(Peer, parts={"echo": Echo}):
    __slots__ = ("echo", "ticks")

    def __init__(self, address: Address, host: Host) -> None:
        super().__init__(address, host)
        self.echo = Echo(address, host)
        self.ticks = 0

    @handles(Tick)
    def on_tick(self, alarm: Tick) -> None:
        self.ticks += 1
        self.host.after(1000, Tick())


class Doubling(Counting, parts={"echo": Echo}):
    @handles(Tick)
    def on_tick(self, alarm: Tick) -> None:
        self.ticks += 2


def test_a_message_goes_to_the_part_that_handles_its_kind():
    ledger = Ledger()
    peer = Counting(1, ledger)

    peer.receive(2, Ping(7))

    assert ledger.take() == [("send", 2, Pong(7))]


def test_an_alarm_wakes_the_peer_and_may_be_set_again():
    ledger = Ledger()
    peer = Counting(1, ledger)

    peer.wake(Tick())

    assert peer.ticks == 1
    assert ledger.take() == [("after", 1000, Tick())]


def test_a_subclass_decides_in_place_of_its_base():
    peer = Doubling(1, Ledger())

    peer.wake(Tick())

    assert peer.ticks == 2


def test_the_kinds_of_messages_are_listed_and_alarms_are_not_among_them():
    assert [kind.__name__ for kind in Counting.kinds()] == ["Ping"]


def test_a_kind_that_is_not_for_this_role_is_counted_and_dropped():
    ledger = Ledger()
    peer = Counting(1, ledger)

    peer.receive(2, Pong(1))
    peer.receive(2, Tick())

    assert (peer.strays, peer.ticks) == (2, 0), "an alarm that comes as a message rings nothing"
    assert ledger.take() == []


class Bell(Part):
    @handles(Pong)
    def on_pong(self, sender: Address, pong: Pong) -> None:
        self.host.send(sender, Ping(pong.number))


class Tower(Part, parts={"bell": Bell}):
    def __init__(self, address: Address, host: Host) -> None:
        super().__init__(address, host)
        self.bell = Bell(address, host)


class Church(Counting, parts={"tower": Tower}):
    def __init__(self, address: Address, host: Host) -> None:
        super().__init__(address, host)
        self.tower = Tower(address, host)


def test_a_part_of_a_part_is_reached_too():
    ledger = Ledger()
    peer = Church(1, ledger)

    peer.receive(2, Pong(5))
    peer.receive(2, Ping(6))

    assert ledger.sent() == [(2, Ping(5)), (2, Pong(6))]
