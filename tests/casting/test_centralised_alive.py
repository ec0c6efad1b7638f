"""CENTRALISED where messages get lost and machines fall: what is written down, repeated, leased and forgotten."""

from implicast.casting.centralised import LivingClient, LivingServer
from implicast.casting.centralised.disk import COMPACT_LEAST, Disk, Done, Forgotten, Kept, Taken
from implicast.casting.centralised.messages import (
    Accepted,
    Finished,
    Notify,
    Publish,
    Register,
    Renew,
    Stored,
    Sweep,
)
from implicast.casting.reliable import REPEATS_MAX, Got, Repeat
from implicast.language.target import Description, Target, Term
from implicast.peer.contract import CastId
from implicast.peer.events import Left, Notice, Registered, Settled, Withdrawn
from implicast.peer.ledger import Ledger
from implicast.world.churn import Churn
from implicast.world.faults import Faults
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate

S = 1_000_000
LEASE_US = 90 * S
FAN = Description(("jazz",))
JAZZ = Target((Term(has=("jazz",)),))
CAST = CastId(2, 1)


def a_server(written: tuple[bytes, ...] = ()) -> tuple[LivingServer, Ledger]:
    ledger = Ledger()
    return LivingServer(9, ledger, LEASE_US, written), ledger


def a_client() -> tuple[LivingClient, Ledger]:
    ledger = Ledger()
    return LivingClient(1, ledger, 9, LEASE_US), ledger


def test_what_was_answered_is_on_the_disk():
    server, ledger = a_server()
    server.receive(1, Register(1, FAN))
    server.receive(2, Publish(CAST, JAZZ, b"x"))
    assert (1, Stored(1)) in (sent := ledger.sent())
    assert (2, Accepted(CAST)) in sent

    again, ledger = a_server(server.disk())

    assert again.index.description(1) == FAN
    assert ledger.sent() == [(1, Notify(CAST, JAZZ, b"x"))], "an unfinished cast goes on"


def test_a_finished_cast_is_not_told_again_after_a_crash():
    server, _ = a_server()
    server.receive(1, Register(1, FAN))
    server.receive(2, Publish(CAST, JAZZ, b"x"))
    server.receive(1, Got(CAST))

    _, ledger = a_server(server.disk())

    assert ledger.sent() == []


def test_the_publisher_hears_how_its_cast_ended():
    server, ledger = a_server()
    for client in (1, 3):
        server.receive(client, Register(1, FAN))
    server.receive(2, Publish(CAST, JAZZ, b"x"))
    server.receive(1, Got(CAST))
    ledger.take()
    for _ in range(REPEATS_MAX + 1):
        ledger.now_us += 2 * S
        server.wake(Repeat())

    assert (2, Finished(CAST, 1, 1)) in ledger.sent()


def test_repeats_end():
    server, ledger = a_server()
    server.receive(1, Register(1, FAN))
    server.receive(2, Publish(CAST, JAZZ, b"x"))
    told = 0
    for _ in range(100):
        told += sum(isinstance(message, Notify) for _, message in ledger.sent())
        ledger.now_us += 2 * S
        server.wake(Repeat())

    assert told == 1 + REPEATS_MAX
    assert not server.waiting


def test_a_repeated_publish_is_confirmed_and_not_carried_again():
    server, ledger = a_server()
    server.receive(1, Register(1, FAN))
    server.receive(2, Publish(CAST, JAZZ, b"x"))
    ledger.take()
    server.receive(2, Publish(CAST, JAZZ, b"x"))

    assert ledger.sent() == [(2, Accepted(CAST))]


def test_whoever_is_silent_for_a_lease_is_forgotten_and_found_again():
    server, ledger = a_server()
    server.receive(1, Register(1, FAN))
    server.receive(2, Register(1, FAN))
    ledger.now_us = LEASE_US - S
    server.receive(1, Register(1, FAN))
    ledger.now_us = LEASE_US + S
    server.wake(Sweep())

    assert list(server.index) == [1]
    server.receive(2, Register(1, FAN))
    assert list(server.index) == [1, 2]


def test_a_client_renews_three_times_a_lease_until_it_leaves():
    client, ledger = a_client()
    client.register(FAN)
    client.receive(9, Stored(1))
    ledger.take()
    client.wake(Renew())

    entries = ledger.take()
    assert ("send", 9, Register(1, FAN)) in entries
    assert ("after", LEASE_US // 3, Renew()) in entries
    client.leave()
    ledger.take()
    client.wake(Renew())
    assert ledger.take() == []


def test_a_renewal_is_no_new_registration():
    client, ledger = a_client()
    client.register(FAN)
    client.receive(9, Stored(1))
    client.wake(Renew())
    client.receive(9, Stored(1))

    assert [event for verb, _, event in ledger.take() if verb == "deliver"] == [Registered(1)]


def test_a_leaver_has_left_when_the_server_knows():
    client, ledger = a_client()
    client.register(FAN)
    client.leave()
    client.receive(9, Stored(1))
    ledger.take()
    client.receive(9, Stored(2))
    client.receive(9, Stored(2))

    assert [event for verb, _, event in ledger.take() if verb == "deliver"] == [Withdrawn(2), Left()]


def test_a_repeated_notification_is_confirmed_and_not_delivered():
    client, ledger = a_client()
    client.register(FAN)
    ledger.take()
    for _ in range(2):
        client.receive(9, Notify(CAST, JAZZ, b"x"))

    entries = ledger.take()
    assert [message for verb, _, message in entries if verb == "send"] == [Got(CAST)] * 2
    assert [event for verb, _, event in entries if verb == "deliver"] == [Notice(CAST, b"x")]


def test_the_publisher_knows_how_its_cast_ended():
    client, ledger = a_client()
    cast = client.cast(JAZZ, b"x")
    ledger.take()
    client.receive(9, Finished(cast, 3, 1))

    assert ledger.take() == [("deliver", None, Settled(cast, 3, 1))]


def test_the_log_is_compacted_and_says_the_same():
    disk = Disk()
    for version in range(1, 10 * COMPACT_LEAST):
        disk.write(Kept(version % 5, version, FAN))
        disk.write(Taken(Publish(CastId(2, version), JAZZ, b"x"), (1,)))
        if version % 100:
            disk.write(Done(CastId(2, version)))
    disk.write(Forgotten(3))

    assert len(disk.content()) <= 2 * COMPACT_LEAST
    again = Disk(disk.content())
    assert again.members == disk.members
    assert again.casts == disk.casts
    assert set(again.members) == {0, 1, 2, 4}


def alive(churn: str, **more):
    return simulate(
        Scenario(
            "centralised", peers=32, casts=150, seed=4, workload="groups", churn=Churn.parse(churn),
            parameters={"alive": True, **more}, faults=Faults.parse("loss=0.02"),
        )
    )  # fmt: skip


def test_a_server_that_falls_and_gets_up_misses_nothing():
    outcome = alive("deed=10..25:restart:32,deed=40..41:restart:32")

    assert outcome.kept
    assert outcome.contract.missing == 0
    assert outcome.contract.late > 0


def test_a_client_that_stood_still_for_longer_than_its_lease_is_found_again():
    outcome = alive("deed=5..60:freeze:0+1+2+3+4+5+6+7", lease_s=10.0)

    assert outcome.kept
    assert outcome.change.during.missing > 0, "it was forgotten meanwhile"
    assert outcome.change.after.missing == 0


def test_the_kind_world_is_as_before():
    kind = simulate(Scenario("centralised", peers=64, casts=32, seed=4))

    assert kind.measures["RTH"] == 1.0
    assert kind.messages.keys() <= {"register", "cast"}
