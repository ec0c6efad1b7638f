"""CENTRALISED: what is kept, repeated, leased and forgotten, and who is told what."""

import pytest

from implicast.casting.central_subscriptions import (
    EventNotify,
    PublishEvent,
    Subscribe,
    SubscribeAck,
)
from implicast.casting.centralised import CentralisedClient, Server
from implicast.casting.client_registry import (
    KeepAlive,
    KeepAliveAck,
    LeaseSweep,
    Register,
    RegisterAck,
    RegisterOutdated,
)
from implicast.casting.designs import design
from implicast.casting.forwarding import ANSWER_US, ENDED_MAX, FORWARDING_MAX, ProgressAnswerDue
from implicast.casting.front_end_client import KeepAliveDue
from implicast.casting.inbox import Outcome
from implicast.casting.notifier import RETRY, Notify, NotifyAck
from implicast.casting.open_casts import OPEN_CASTS_MAX, CastProgress, Publish
from implicast.language.target import Description, Predicate, Target, Term
from implicast.peer.contract import CastId
from implicast.peer.events import (
    Estimated,
    IncarnationAdvanced,
    Joined,
    Left,
    Notice,
    Refused,
    Registered,
    Settled,
    Withdrawn,
)
from implicast.peer.expiry import LIFETIME_US
from implicast.peer.ledger import Ledger
from implicast.peer.name import name_of, version_of
from implicast.peer.requests import RequestTimeout
from implicast.peer.site import Site
from implicast.peer.subscriber import Subscribed
from implicast.world.churn import Churn
from implicast.world.faults import Faults
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate
from sites import sealed

S = 1_000_000
LEASE_US = 90 * S
FAN = Description(("jazz",))
JAZZ = Target((Term(has=("jazz",)),))
ONE, TWO, THREE = (name_of(b"", number) for number in (1, 2, 3))
CAST = CastId(TWO, 1, 1)
FIRST = version_of(1, 1)
SERVER, HERE = ("server.example", 7070), ("one.example", 7071)


def site(name, address, kept=None, incarnation=1, **given) -> Site:
    parameters = design("centralised").settle(given)
    return Site(
        name,
        incarnation,
        address,
        Ledger(),
        parameters,
        b"",
        {"server": (SERVER,)},
        durable_state=kept,
    )


def a_server(kept=None, **given) -> tuple[Server, Ledger]:
    server = Server(site(name_of(b"", 9), SERVER, kept, **given))
    server.host.take()
    return server, server.host


def a_client(kept=None, incarnation=1, **given) -> tuple[CentralisedClient, Ledger]:
    client = CentralisedClient(site(ONE, HERE, kept, incarnation, **given))
    return client, client.host


def events(ledger: Ledger) -> list:
    return [event for verb, _, event in ledger.take() if verb == "deliver"]


def registered(name=ONE, version=FIRST, description=FAN) -> Register:
    return Register(name, version, description)


def ack(name=ONE, outcome=Outcome.TAKEN) -> NotifyAck:
    return NotifyAck(CAST, name, outcome)


def final(notified=0, unreachable=0, declined=0, open=0, silent=()) -> CastProgress:
    return CastProgress(CAST, 0, notified, unreachable, declined, open, silent)


# --- the server


def test_what_was_answered_is_kept():
    server, ledger = a_server()
    server.receive(1, registered())
    server.receive(2, Publish(CAST, JAZZ, sealed(b"x")))
    assert ledger.sent() == [(1, RegisterAck(FIRST)), (1, Notify(CAST, JAZZ, sealed(b"x")))]

    again = Server(site(name_of(b"", 9), SERVER, server.durable_state(), incarnation=2))

    assert again.clients.index.description(ONE) == FAN
    assert again.host.sent() == [(1, Notify(CAST, JAZZ, sealed(b"x")))], (
        "an unfinished cast goes on"
    )


def test_a_finished_cast_is_not_told_again_after_a_crash():
    server, _ = a_server()
    server.receive(1, registered())
    server.receive(2, Publish(CAST, JAZZ, sealed(b"x")))
    server.receive(1, ack())

    assert (
        Server(site(name_of(b"", 9), SERVER, server.durable_state(), incarnation=2)).host.sent()
        == []
    )


def test_the_publisher_hears_once_how_its_cast_ended():
    server, ledger = a_server()
    server.receive(1, registered())
    server.receive(2, Publish(CAST, JAZZ, sealed(b"x")))
    ledger.take()
    server.receive(1, ack())
    server.wake(ProgressAnswerDue(CAST, 0))

    assert ledger.sent() == [(2, final(notified=1))]


def test_what_is_declined_is_not_counted_as_notified():
    server, ledger = a_server()
    for address, name in ((1, ONE), (3, THREE)):
        server.receive(address, registered(name))
    server.receive(2, Publish(CAST, JAZZ, sealed(b"x")))
    ledger.take()
    server.receive(1, ack(outcome=Outcome.UNFIT))
    server.receive(3, ack(THREE, Outcome.REPEAT))

    assert ledger.sent() == [(2, final(notified=1, declined=1))]


def test_the_sum_holds_at_all_times():
    server, ledger = a_server()
    for address, name in ((1, ONE), (3, THREE)):
        server.receive(address, registered(name))
    server.receive(2, Publish(CAST, JAZZ, sealed(b"x")))
    ledger.take()
    ledger.now_us += ANSWER_US
    server.wake(ProgressAnswerDue(CAST, 0))
    assert ledger.sent() == [(2, final(open=2))], (
        "after a second the publisher knows that it was accepted"
    )
    server.receive(1, ack())
    server.receive(2, Publish(CAST, JAZZ, sealed(b"x")))
    assert ledger.sent() == [(2, final(notified=1, open=1))], "and whenever it asks"
    server.receive(3, ack(THREE))
    assert ledger.sent() == [(2, final(notified=2))]


def test_repeats_end_and_the_silent_are_named():
    server, ledger = a_server()
    server.receive(1, registered())
    server.receive(2, Publish(CAST, JAZZ, sealed(b"x")))
    tally, answers = 0, []
    for _ in range(100):
        sent = ledger.sent()
        tally += sum(isinstance(message, Notify) for _, message in sent)
        answers += [message for _, message in sent if isinstance(message, CastProgress)]
        ledger.now_us += 2 * S
        server.wake(RequestTimeout())

    assert tally == RETRY.times
    assert answers == [final(unreachable=1, silent=(ONE,))]
    assert not server.forwarding.notifying
    assert not server.forwarding.entries


def test_a_repeated_publish_is_answered_and_not_carried_again():
    server, ledger = a_server()
    server.receive(1, registered())
    server.receive(2, Publish(CAST, JAZZ, sealed(b"x")))
    server.receive(1, ack())
    ledger.take()
    server.receive(2, Publish(CAST, JAZZ, sealed(b"x")))

    assert ledger.sent() == [(2, final(notified=1))]


def test_a_server_with_its_hands_full_takes_no_more_and_loses_nothing():
    server, ledger = a_server()
    server.receive(1, registered())
    half = FORWARDING_MAX // 2
    for serial in range(half + 3):
        server.receive(2, Publish(CastId(TWO, 1, serial), JAZZ, sealed(b"x")))
    assert len(server.forwarding.entries) == half, (
        "one publisher has half of the room, the rest is for the others"
    )
    assert len(server.durable_state().casts) == half
    server.receive(1, NotifyAck(CastId(TWO, 1, 0), ONE, Outcome.TAKEN))
    ledger.take()
    server.receive(2, Publish(CastId(TWO, 1, half), JAZZ, sealed(b"x")))

    assert len(server.forwarding.entries) == half
    assert len(server.forwarding.ended) <= ENDED_MAX


def test_an_older_version_is_said_to_be_outdated_and_never_stored():
    server, ledger = a_server()
    server.receive(1, registered(version=version_of(5, 1)))
    ledger.take()
    server.receive(1, registered(version=version_of(4, 9), description=Description(("samba",))))

    assert ledger.sent() == [(1, RegisterOutdated(version_of(5, 1)))]
    assert server.clients.index.description(ONE) == FAN


def test_a_member_that_moved_is_told_where_it_is_now():
    server, ledger = a_server()
    server.receive(1, registered())
    server.receive(7, registered())
    ledger.take()
    server.receive(2, Publish(CAST, JAZZ, sealed(b"x")))

    assert ledger.sent() == [(7, Notify(CAST, JAZZ, sealed(b"x")))]


def test_a_member_that_is_silent_for_a_lease_is_forgotten_and_found_again():
    server, ledger = a_server()
    server.receive(1, registered())
    server.receive(2, registered(TWO))
    ledger.now_us = LEASE_US - S
    server.receive(1, KeepAlive(ONE, FIRST))
    ledger.now_us = LEASE_US + S
    server.wake(LeaseSweep())

    assert set(server.clients.index) == {ONE}
    ledger.take()
    server.receive(2, KeepAlive(TWO, FIRST))
    assert ledger.sent() == [(2, KeepAliveAck(0))]


def test_strangers_leave_nothing_behind():
    server, _ = a_server()
    for number in range(200):
        server.receive(5, KeepAlive(name_of(b"", number), 0))
        server.receive(5, registered(name_of(b"", number)))
        server.receive(5, registered(name_of(b"", number + 1000), version=0))

    assert len(server.clients.entries) == 16
    assert len(server.clients.leases) == 16


def test_what_no_member_would_say_harms_nobody():
    server, ledger = a_server()
    server.receive(1, registered(description=Description(("jazz", "jazz"))))
    server.receive(1, registered(version=FIRST + 1))
    for serial, term in enumerate((Term(), Term(lacks=("jazz",)))):
        server.receive(2, Publish(CastId(TWO, 1, serial), Target((term,)), sealed(b"")))
        server.receive(2, Subscribe(TWO, 1, serial, 1, Target((term,))))
    server.receive(2, Publish(CastId(TWO, 1, 9), Target(()), sealed(b"")))
    server.receive(2, PublishEvent(CAST, Description(("jazz", "jazz")), sealed(b"")))
    with pytest.raises(ValueError, match="one word at both ends"):
        Predicate("price", 1, "x")

    assert not [message for _, message in ledger.sent() if isinstance(message, SubscribeAck)]


def test_how_many_a_target_selects_is_counted_and_nobody_told():
    for given in ({}, {"assurance": "none"}):
        server, ledger = a_server(**given)
        server.receive(1, registered())
        client, own = a_client(**given)
        token = client.estimate(JAZZ)
        ((_, asked),) = own.sent()
        ledger.take()
        server.receive(HERE, asked)
        ((to, answer),) = ledger.sent()
        client.receive(SERVER, answer)

        assert to == HERE
        assert events(own) == [Estimated(token, 1, 2 if given else 4)]


# --- clients


def test_a_client_reminds_the_server_three_times_a_lease_until_it_leaves():
    client, ledger = a_client()
    client.register(FAN)
    client.receive(SERVER, RegisterAck(client.version))
    ledger.take()
    client.wake(KeepAliveDue())
    assert (SERVER, KeepAlive(ONE, client.version)) in ledger.sent()
    client.receive(SERVER, KeepAliveAck(client.version))
    client.wake(KeepAliveDue())
    assert ledger.take() == [("after", LEASE_US // 3, KeepAliveDue())]
    client.leave()
    client.receive(SERVER, RegisterAck(client.version))
    ledger.take()
    client.wake(KeepAliveDue())
    assert ledger.take() == []


def test_a_client_that_is_not_known_says_again_what_it_is_and_is_registered_once():
    client, ledger = a_client()
    client.register(FAN)
    client.receive(SERVER, RegisterAck(FIRST))
    client.receive(SERVER, KeepAliveAck(0))
    client.receive(SERVER, RegisterAck(FIRST))

    entries = ledger.take()
    assert [message for verb, _, message in entries if verb == "send"] == [
        registered(),
        registered(),
    ]
    assert [event for verb, _, event in entries if verb == "deliver"] == [Registered(FIRST)]


def test_a_leaver_has_left_when_the_server_knows():
    client, ledger = a_client()
    client.register(FAN)
    client.leave()
    client.receive(SERVER, RegisterAck(FIRST))
    ledger.take()
    for _ in range(2):
        client.receive(SERVER, RegisterAck(FIRST + 1))

    assert events(ledger) == [Withdrawn(FIRST + 1), Left()]


def test_a_repeated_notification_is_confirmed_and_not_delivered():
    client, ledger = a_client()
    client.register(FAN)
    ledger.take()
    for _ in range(2):
        client.receive(SERVER, Notify(CAST, JAZZ, sealed(b"x")))

    entries = ledger.take()
    assert [message.outcome for verb, _, message in entries if verb == "send"] == [
        Outcome.TAKEN,
        Outcome.REPEAT,
    ]
    assert [event for verb, _, event in entries if verb == "deliver"] == [Notice(CAST, b"x")]


def test_the_publisher_asks_until_nothing_is_open():
    client, ledger = a_client()
    cast = client.cast(JAZZ, b"x")
    client.receive(SERVER, CastProgress(cast, 0, 1, 0, 0, 2))
    assert events(ledger) == [Settled(cast, 1, open=2)]
    ledger.now_us += 3 * S
    client.wake(RequestTimeout())
    assert (SERVER, Publish(cast, JAZZ, sealed(b"x"))) in ledger.sent()
    client.receive(SERVER, CastProgress(cast, 0, 2, 0, 1, 0))
    assert events(ledger) == [Settled(cast, 2, declined=1)]
    ledger.now_us += 99 * S
    client.wake(RequestTimeout())
    assert ledger.sent() == []


def test_nobody_but_the_server_answers_for_it():
    client, ledger = a_client()
    client.register(FAN)
    cast = client.cast(JAZZ, b"x")
    ledger.take()
    for lie in (
        RegisterAck(FIRST),
        RegisterOutdated(version_of(9, 9)),
        KeepAliveAck(version_of(9, 9)),
        CastProgress(cast, 0, 3, 0, 0, 0),
    ):
        client.receive(("liar.example", 1), lie)

    assert ledger.take() == []


def test_casts_beyond_what_may_be_open_are_refused():
    client, ledger = a_client()
    for _ in range(OPEN_CASTS_MAX + 3):
        client.cast(JAZZ, b"x")

    assert len(client.open_casts.casts) == OPEN_CASTS_MAX
    assert sum(isinstance(event, Refused) for event in events(ledger)) == 3


def test_a_client_that_begins_again_says_what_it_was_and_carries_on():
    client, _ = a_client()
    client.register(FAN)
    client.receive(SERVER, RegisterAck(FIRST))
    cast = client.cast(JAZZ, b"x")
    client.receive(SERVER, Notify(CAST, JAZZ, sealed(b"y")))

    again, ledger = a_client(client.durable_state(), incarnation=2)
    again.join(())
    again.carry_on(cast, JAZZ, b"x", LIFETIME_US)
    entries = ledger.take()
    said = [message for verb, _, message in entries if verb == "send"]
    assert said == [registered(version=version_of(2, 1)), Publish(cast, JAZZ, sealed(b"x"))]
    again.receive(SERVER, RegisterAck(version_of(2, 1)))
    again.receive(SERVER, Notify(CAST, JAZZ, sealed(b"y")))
    assert events(ledger) == [Registered(version_of(2, 1))], "what it heard before is no news"
    assert Joined() in [event for verb, _, event in entries if verb == "deliver"]


def test_a_client_with_an_old_copy_of_its_disk_takes_a_life_above_what_it_is_told():
    client, ledger = a_client()
    client.register(FAN)
    client.receive(SERVER, RegisterOutdated(version_of(7, 3)))

    outlived, *_ = events(ledger)
    assert isinstance(outlived, IncarnationAdvanced)
    assert client.version > version_of(7, 3)
    client.receive(SERVER, RegisterAck(client.version))
    assert events(ledger) == [Registered(client.version)]


# --- subscriptions


def test_subscriptions_outlive_both_ends():
    client, own = a_client()
    server, ledger = a_server()
    number = client.subscribe(JAZZ)
    ((_, asked),) = own.sent()
    server.receive(HERE, asked)
    client.receive(SERVER, ledger.sent()[0][1])
    assert Subscribed(number, 1) in events(own)

    server = Server(site(name_of(b"", 9), SERVER, server.durable_state(), incarnation=2))
    server.receive(2, PublishEvent(CAST, FAN, sealed(b"x")))
    assert (HERE, EventNotify(CAST, FAN, sealed(b"x"))) in server.host.sent()

    again, own = a_client(client.durable_state(), incarnation=2)
    again.join(())
    assert (SERVER, Subscribe(ONE, 2, number, 1, JAZZ)) in own.sent()
    again.receive(SERVER, EventNotify(CAST, FAN, sealed(b"x")))
    again.receive(SERVER, EventNotify(CAST, FAN, sealed(b"x")))
    assert own.take() == [
        ("deliver", None, Notice(CAST, b"x")),
        ("send", SERVER, ack()),
        ("send", SERVER, ack(outcome=Outcome.REPEAT)),
    ]


def test_a_subscription_of_a_later_life_is_not_replaced_by_an_old_copy():
    server, ledger = a_server()
    server.receive(HERE, Subscribe(ONE, 5, 1, 1, JAZZ))
    ledger.take()
    server.receive(HERE, Subscribe(ONE, 3, 1, 4, Target((Term(has=("samba",)),))))
    assert ledger.sent() == [(HERE, SubscribeAck(5, 1, 1))]

    client, own = a_client(incarnation=3)
    client.subscribe(JAZZ)
    client.receive(SERVER, SubscribeAck(5, 1, 1))
    assert client.incarnation > 5
    assert (SERVER, Subscribe(ONE, client.incarnation, 1, 1, JAZZ)) in own.sent()


def test_a_server_that_has_forgotten_subscriptions_is_told_them_again():
    client, own = a_client()
    client.subscribe(JAZZ)
    client.receive(SERVER, SubscribeAck(1, 1, 1))
    own.take()
    client.receive(SERVER, KeepAliveAck(0, 1))
    assert own.sent() == []
    client.receive(SERVER, KeepAliveAck(0, 0))

    assert own.sent() == [(SERVER, Subscribe(ONE, 1, 1, 1, JAZZ))]


# --- whole runs


def alive(churn: str, **more):
    return simulate(
        Scenario(
            "centralised",
            peers=32,
            casts=150,
            seed=4,
            workload="groups",
            churn=Churn.parse(churn),
            parameters=more,
            faults=Faults.parse("loss=0.02"),
        )
    )


def test_a_server_that_falls_and_gets_up_misses_nothing():
    outcome = alive("event=10..25:restart:32,event=40..41:restart:32")

    assert outcome.contract_held
    assert outcome.contract.missing == 0
    assert outcome.contract.late > 0


def test_a_client_that_stood_still_for_longer_than_its_lease_is_found_again():
    outcome = alive("event=5..60:freeze:0+1+2+3+4+5+6+7", lease_s=10.0)

    assert outcome.contract_held
    assert outcome.change.during.missing > 0, "it was forgotten meanwhile"
    assert outcome.change.after.missing == 0


def test_without_receipts_a_cast_takes_one_message_for_each_member_and_with_them_two():
    once, assured = (
        simulate(
            Scenario("centralised", peers=64, casts=32, seed=4, parameters={"assurance": assurance})
        )
        for assurance in ("none", "receipts")
    )

    assert once.measures["RTH"] == 1.0
    assert assured.measures["RTH"] == 2.0
    assert assured.measures["latency_ms_mean"] == once.measures["latency_ms_mean"]
    assert once.messages.keys() <= {"register", "cast"}


@pytest.mark.parametrize("interval_ms", [1, 20])
@pytest.mark.parametrize("name", ["centralised", "broker"])
def test_nothing_of_a_fast_publisher_is_lost(name, interval_ms):
    outcome = simulate(
        Scenario(
            name,
            peers=4,
            casts=3000,
            seed=1,
            workload="groups",
            faults=Faults.parse("loss=0.05"),
            interval_ms=interval_ms,
        )
    )

    assert outcome.contract.clean
