"""BROKER: clients find their broker and another when it dies, brokers serve them, casts go where filters let them."""

from dataclasses import replace

import pytest

from implicast.casting.broker import Broker, BrokerClient, brokers_wanted
from implicast.casting.broker.broker import BrokerState
from implicast.casting.broker.client import BrokerProbe, BrokerProbeAck, ProbeAgain
from implicast.casting.client_registry import (
    KeepAlive,
    KeepAliveAck,
    LeaseSweep,
    Register,
    RegisterAck,
    RegisterOutdated,
)
from implicast.casting.coverage import CastTally
from implicast.casting.designs import design
from implicast.casting.forwarding import FORWARDING_MAX, ForwardToBroker, ProgressAnswerDue
from implicast.casting.front_end_client import ClientState, KeepAliveDue
from implicast.casting.inbox import Outcome
from implicast.casting.notifier import Notify, NotifyAck
from implicast.casting.open_casts import OPEN_CASTS_MAX, CastProgress, Publish
from implicast.language.target import Description, Predicate, Target, Term, Value
from implicast.overlay.backbone.edges import CoverageAck, FlushDue, TagUpdate
from implicast.overlay.backbone.fields import EPOCH_SHIFT
from implicast.overlay.backbone.views import FIRST_EPOCH, View
from implicast.peer.contract import CastId
from implicast.peer.errors import ParameterError
from implicast.peer.events import Estimated, Joined, Left, Notice, Refused, Registered, Withdrawn
from implicast.peer.expiry import LIFETIME_US
from implicast.peer.ledger import Ledger
from implicast.peer.name import name_of, version_of
from implicast.peer.requests import RequestTimeout
from implicast.peer.site import Site
from implicast.world.network import build
from implicast.world.plan import Plan
from implicast.world.populations import population
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate
from implicast.world.world import World
from sites import sealed

S = 1_000_000
JAZZ = Target((Term(has=("jazz",)),))
FAN = Description(("jazz",))
ONE, TWO = name_of(b"", 1), name_of(b"", 2)
CAST = CastId(name_of(b"", 4), 1, 1)
V1 = version_of(1, 1)
A, B, C = (("broker.example", port) for port in (10, 11, 12))
BASE = FIRST_EPOCH << EPOCH_SHIFT


def site(name: bytes, address, kept=None, incarnation=1, **given) -> Site:
    settled = design("broker").settle(given)
    return Site(
        name,
        incarnation,
        address,
        Ledger(),
        settled,
        b"",
        {"broker": (A, B, C)},
        durable_state=kept,
    )


def state(where: Site, neighbours) -> BrokerState:
    return BrokerState(View(FIRST_EPOCH, A, neighbours, int(where.parameters["expected_tags"])))


def a_broker(neighbours=(B, C), kept=None, tags=("jazz",), **given) -> tuple[Broker, Ledger]:
    """The broker at A between B and C, beyond both of which a client likes jazz."""
    where = site(name_of(b"", 10), A, kept, **given)
    broker = Broker(where, None if neighbours is None else state(where, neighbours))
    for neighbour in neighbours or ():
        broker.backbone.table.put(neighbour, tags)
    broker.host.take()
    return broker, broker.host


def a_client(broker=A, kept=None, incarnation=1, **given) -> tuple[BrokerClient, Ledger]:
    client = BrokerClient(site(ONE, ("one.example", 1), kept, incarnation, **given))
    if broker is not None:
        client.restore(ClientState(broker))
    return client, client.host


def events(ledger: Ledger) -> list:
    return [event for verb, _, event in ledger.take() if verb == "deliver"]


def registered(name=ONE, version=V1, description=FAN) -> Register:
    return Register(name, version, description)


def passed(cast=CAST, epoch=FIRST_EPOCH) -> ForwardToBroker:
    return ForwardToBroker(cast, epoch, JAZZ, sealed(b"x"))


def carried(
    epoch=FIRST_EPOCH, notified=0, unreachable=0, declined=0, open=0, cast=CAST
) -> CastProgress:
    return CastProgress(cast, epoch, notified, unreachable, declined, open)


PUBLISH = Publish(CAST, JAZZ, sealed(b"x"))


# --- clients and their brokers


def test_the_first_broker_to_answer_is_the_nearest():
    client, ledger = a_client(broker=None)
    client.join(())
    assert {to for to, message in ledger.sent() if message == BrokerProbe()} == {A, B, C}
    client.receive(("liar.example", 1), BrokerProbeAck())
    client.receive(B, BrokerProbeAck())
    client.receive(A, BrokerProbeAck())

    assert client.front_end == B
    assert ledger.take() == [("deliver", None, Joined())]


def test_a_client_that_hears_of_no_broker_asks_again():
    client, ledger = a_client(broker=None)
    client.join(())
    ledger.take()
    client.wake(ProbeAgain())
    assert len([message for _, message in ledger.sent() if message == BrokerProbe()]) == 3
    client.receive(B, BrokerProbeAck())
    ledger.take()
    client.wake(ProbeAgain())
    assert ledger.take() == []


@pytest.mark.parametrize("assurance", ["none", "receipts"])
def test_what_is_asked_before_a_broker_is_known_is_sent_when_it_is(assurance):
    client, ledger = a_client(broker=None, assurance=assurance)
    client.register(FAN)
    cast = client.cast(JAZZ, b"hello")
    assert ledger.sent() == []
    client.receive(B, BrokerProbeAck())

    assert ledger.sent() == [(B, registered()), (B, Publish(cast, JAZZ, sealed(b"hello")))]


def test_silence_makes_a_client_ask_again_but_only_for_what_still_counts():
    client, ledger = a_client()
    client.register(FAN)
    client.withdraw()
    ledger.take()
    ledger.now_us += 10**8
    client.wake(RequestTimeout())

    assert ledger.sent() == [(A, registered(version=V1 + 1, description=None))]


def test_a_client_that_leaves_has_left_when_it_is_forgotten():
    client, ledger = a_client()
    client.register(FAN)
    client.receive(A, RegisterAck(V1))
    client.leave()
    client.receive(A, RegisterAck(V1 + 1))

    assert events(ledger) == [Registered(V1), Withdrawn(V1 + 1), Left()]


def test_a_client_drops_what_its_newest_description_does_not_fit_and_what_it_has_heard():
    client, ledger = a_client()
    client.register(FAN)
    ledger.take()
    casts = [CastId(TWO, 1, serial) for serial in (1, 2, 3)]
    for cast in (casts[0], casts[0], casts[1]):
        client.receive(A, Notify(cast, JAZZ, sealed(b"")))
    client.register(Description(("football",)))
    client.receive(B, Notify(casts[2], JAZZ, sealed(b"")))

    assert events(ledger) == [Notice(casts[0], b""), Notice(casts[1], b"")]


def test_a_client_counts_where_it_took_a_cast():
    client, ledger = a_client()
    client.register(FAN)
    ledger.take()
    for broker in (B, A, B):
        client.receive(broker, Notify(CAST, JAZZ, sealed(b"")))
    entries = ledger.take()

    assert [event for verb, _, event in entries if verb == "deliver"] == [Notice(CAST, b"")]
    answers = [(to, message.outcome) for verb, to, message in entries if verb == "send"]
    assert answers == [(B, Outcome.TAKEN), (A, Outcome.ELSEWHERE), (B, Outcome.REPEAT)]


def test_a_client_that_has_crashed_still_counts_where_it_took_a_cast():
    """Else a receipt would say that it declined what it had taken."""
    before, first = a_client()
    before.register(FAN)
    before.receive(B, Notify(CAST, JAZZ, sealed(b"")))
    first.take()
    client, ledger = a_client(kept=before.durable_state(), incarnation=2)
    ledger.take()
    for broker in (B, A):
        client.receive(broker, Notify(CAST, JAZZ, sealed(b"")))

    answers = [(to, message.outcome) for verb, to, message in ledger.take() if verb == "send"]
    assert answers == [(B, Outcome.REPEAT), (A, Outcome.ELSEWHERE)]


def test_one_who_took_a_cast_elsewhere_has_not_declined_it():
    tally = CastTally(2)
    tally.count(Outcome.TAKEN)
    tally.count(Outcome.ELSEWHERE)

    assert (tally.open, tally.notified, tally.declined, tally.unreachable) == (0, 1, 0, 0)


def silence(client: BrokerClient, ledger: Ledger) -> None:
    """Let the client remind its broker in vain until it gives up."""
    for _ in range(int(client.tries) + 1):
        ledger.now_us += 20 * S
        client.wake(KeepAliveDue())


def test_a_client_whose_broker_is_silent_asks_all_and_tells_the_first_that_answers():
    client, ledger = a_client()
    client.register(FAN)
    client.receive(A, RegisterAck(V1))
    cast = client.cast(JAZZ, b"x")
    ledger.take()
    silence(client, ledger)

    assert {to for to, message in ledger.sent() if message == BrokerProbe()} == {A, B, C}
    client.receive(C, BrokerProbeAck())
    client.receive(B, BrokerProbeAck())
    assert ledger.sent() == [(C, registered()), (C, Publish(cast, JAZZ, sealed(b"x")))]


def test_a_client_joins_once_however_often_it_changes_its_broker():
    client, ledger = a_client(broker=None)
    client.join(())
    client.receive(B, BrokerProbeAck())
    client.register(FAN)
    silence(client, ledger)
    client.receive(C, BrokerProbeAck())

    assert events(ledger) == [Joined()]


def test_a_broker_that_lost_its_memory_is_told_again():
    client, ledger = a_client()
    client.register(FAN)
    client.receive(A, RegisterAck(V1))
    ledger.take()
    client.receive(A, KeepAliveAck(0))
    assert ledger.sent() == [(A, registered())]
    client.receive(A, RegisterAck(V1))
    client.receive(A, KeepAliveAck(V1))
    assert ledger.take() == []


def test_casts_that_no_broker_takes_are_kept_up_to_a_bound_and_then_refused():
    client, ledger = a_client(broker=None)
    for _ in range(OPEN_CASTS_MAX + 3):
        client.cast(JAZZ, b"x")

    assert len(client.open_casts.casts) == OPEN_CASTS_MAX
    assert sum(isinstance(event, Refused) for event in events(ledger)) == 3
    client.receive(B, BrokerProbeAck())
    assert (
        len([message for _, message in ledger.sent() if isinstance(message, Publish)])
        == OPEN_CASTS_MAX
    )


def test_an_answer_of_a_former_broker_completes_nothing():
    client, ledger = a_client()
    client.register(FAN)
    silence(client, ledger)
    client.receive(B, BrokerProbeAck())
    ledger.take()
    client.receive(A, RegisterAck(V1))
    assert ledger.take() == []
    client.receive(B, RegisterAck(V1))

    assert ledger.take() == [("deliver", None, Registered(V1))]


def test_a_leaver_whose_broker_died_leaves_through_another():
    client, ledger = a_client()
    client.register(FAN)
    client.receive(A, RegisterAck(V1))
    client.leave()
    silence(client, ledger)
    ledger.take()
    client.receive(B, BrokerProbeAck())
    assert (B, registered(version=V1 + 1, description=None)) in ledger.sent()
    client.receive(B, RegisterAck(V1 + 1))

    assert events(ledger)[-1] == Left()


def test_a_client_that_begins_again_looks_for_a_broker_and_says_what_it_was():
    client, _ = a_client()
    client.register(FAN)
    cast = client.cast(JAZZ, b"x")

    again, ledger = a_client(None, client.durable_state(), incarnation=2)
    again.join(())
    again.carry_on(cast, JAZZ, b"x", LIFETIME_US)
    ledger.take()
    again.receive(C, BrokerProbeAck())
    assert ledger.sent() == [
        (C, registered(version=version_of(2, 1))),
        (C, Publish(cast, JAZZ, sealed(b"x"))),
    ]


# --- brokers and their clients


def test_a_description_is_stored_when_the_backbone_routes_by_it():
    broker, ledger = a_broker((B,), tags=())
    broker.receive(1, registered())
    assert ledger.sent() == [(B, TagUpdate(BASE + 1, BASE, ("jazz",)))]
    broker.receive(1, registered())
    assert ledger.sent() == [], "a repeat is answered when the first is"
    broker.receive(B, CoverageAck(BASE + 1))
    assert ledger.sent() == [(1, RegisterAck(V1))]
    broker.receive(1, registered())
    assert ledger.sent() == [(1, RegisterAck(V1))]


def test_an_older_version_that_comes_late_is_said_to_be_outdated():
    broker, ledger = a_broker(())
    broker.receive(1, registered(version=V1 + 1, description=None))
    broker.receive(1, registered())

    assert ledger.sent() == [(1, RegisterAck(V1 + 1)), (1, RegisterOutdated(V1 + 1))]
    assert ONE not in broker.clients.index


def test_a_replaced_description_is_never_said_to_be_complete():
    broker, ledger = a_broker((B,), tags=())
    broker.receive(1, registered())
    broker.receive(1, registered(version=V1 + 1, description=Description(("football",))))
    broker.receive(B, CoverageAck(BASE + 1))
    broker.wake(FlushDue())
    broker.receive(B, CoverageAck(BASE + 2))

    assert [message for to, message in ledger.sent() if to == 1] == [RegisterAck(V1 + 1)]


def test_a_client_that_vanished_is_forgotten_after_its_lease():
    broker, ledger = a_broker(())
    lease_us = broker.clients.leases.lease_us
    for address, name in ((1, ONE), (2, TWO)):
        broker.receive(address, registered(name))
    ledger.now_us = lease_us
    broker.receive(2, KeepAlive(TWO, V1))
    ledger.now_us = lease_us + 1
    broker.wake(LeaseSweep())

    assert set(broker.clients.index) == {TWO}
    assert (2, KeepAliveAck(V1)) in ledger.sent()


def test_a_broker_without_a_view_answers_no_client_and_confirms_nothing():
    broker = Broker(site(name_of(b"", 12), C))
    ledger = broker.host
    ledger.take()
    for message in (BrokerProbe(), registered(), PUBLISH):
        broker.receive(1, message)
    broker.receive(B, passed())
    assert ledger.sent() == []
    broker.receive(A, View(3 * FIRST_EPOCH, A, (B,), 64))
    assert {to for to, message in ledger.sent()} == {A, B}, (
        "B must know of the client before the client hears of it"
    )
    broker.receive(1, BrokerProbe())
    assert ledger.sent() == [(1, BrokerProbeAck())]


# --- casts, without receipts


def test_a_cast_goes_to_own_clients_and_through_filters_but_never_back():
    broker, ledger = a_broker(assurance="none", tags=("jazz", "samba"))
    broker.receive(1, registered())
    broker.receive(2, registered(TWO, description=Description(("football",))))
    ledger.take()
    broker.receive(B, passed())
    assert ledger.sent() == [(1, Notify(CAST, JAZZ, sealed(b"x"))), (C, passed())]
    broker.receive(B, passed())
    assert ledger.sent() == [], "a repeat is not carried again"


def test_predicates_are_left_to_the_index():
    broker, ledger = a_broker((B,), assurance="none")
    for address, name, price in ((1, ONE, 5), (2, TWO, 50)):
        broker.receive(
            address, registered(name, description=Description(("stock",), (Value("price", price),)))
        )
    ledger.take()
    target = Target((Term(where=(Predicate("price", 1, 9),)),))
    broker.receive(1, Publish(CAST, target, sealed(b"")))

    assert [to for to, _ in ledger.sent()] == [1, B], (
        "a filter cannot rule a predicate out, so it goes on"
    )


# --- casts, with receipts


def test_a_publisher_is_told_when_all_members_of_all_brokers_have_confirmed():
    broker, ledger = a_broker()
    broker.receive(1, registered())
    ledger.take()
    broker.receive(9, PUBLISH)
    assert ledger.sent() == [(1, Notify(CAST, JAZZ, sealed(b"x"))), (B, passed()), (C, passed())]
    broker.receive(B, carried(notified=2))
    broker.receive(C, carried(declined=1, unreachable=1))
    assert ledger.sent() == []
    broker.receive(1, NotifyAck(CAST, ONE, Outcome.TAKEN))

    assert ledger.sent() == [(9, carried(0, notified=3, declined=1, unreachable=1))]
    assert len(broker.forwarding.entries) == 0


def test_after_a_second_what_is_known_is_told_if_all_brokers_have_the_cast():
    broker, ledger = a_broker()
    broker.receive(9, PUBLISH)
    ledger.take()
    broker.wake(ProgressAnswerDue(CAST, FIRST_EPOCH))
    assert ledger.sent() == [], "whether the others have it is not known"
    broker.receive(B, carried(notified=1))
    broker.receive(C, carried(open=2))
    assert ledger.sent() == [(9, carried(0, notified=1, open=2))]
    broker.receive(C, carried(notified=2))

    assert ledger.sent() == [(9, carried(0, notified=3))]


def test_a_neighbour_is_asked_until_nothing_is_open():
    broker, ledger = a_broker((B,))
    broker.receive(9, PUBLISH)
    broker.receive(B, carried(open=1))
    ledger.take()
    ledger.now_us += 3 * S
    broker.wake(RequestTimeout())
    assert (B, passed()) in ledger.sent()
    broker.receive(B, carried(notified=1))
    ledger.now_us += 99 * S
    broker.wake(RequestTimeout())

    assert (B, passed()) not in ledger.sent()


def test_a_neighbour_vouches_for_its_own_side():
    broker, ledger = a_broker()
    broker.receive(B, passed())
    assert ledger.sent() == [(C, passed())]
    broker.receive(C, carried(notified=1))

    assert ledger.sent() == [(B, carried(notified=1))]


def test_a_cast_that_entered_at_two_places_meets_and_neither_waits_for_the_other():
    broker, ledger = a_broker()
    broker.receive(9, PUBLISH)
    ledger.take()
    broker.receive(B, passed())
    broker.receive(C, carried(notified=1))
    assert ledger.sent() == [(B, carried(notified=1))], "B need not wait for itself"
    broker.receive(B, carried(notified=2))

    assert ledger.sent() == [(9, carried(0, notified=3))]


def test_a_client_that_asks_a_second_broker_reaches_the_side_the_cast_came_from():
    """The first broker may have died before it told its other neighbours."""
    broker, ledger = a_broker()
    broker.receive(B, passed())
    broker.receive(C, carried())
    ledger.take()
    broker.receive(9, PUBLISH)

    assert (B, passed()) in ledger.sent()


def test_what_was_carried_in_an_older_view_does_not_count():
    broker, ledger = a_broker()
    broker.receive(9, PUBLISH)
    broker.on_view(View(3 * FIRST_EPOCH, A, (B, C), 64))
    ledger.take()
    for neighbour in (B, C):
        broker.receive(neighbour, carried())
    assert not [message for _, message in ledger.sent() if isinstance(message, CastProgress)]
    broker.receive(9, PUBLISH)

    assert {to for to, message in ledger.sent() if isinstance(message, ForwardToBroker)} == {B, C}


def test_own_members_are_told_once_whatever_the_view():
    broker, ledger = a_broker(())
    broker.receive(1, registered())
    broker.receive(9, PUBLISH)
    broker.on_view(View(3 * FIRST_EPOCH, A, (), 64))
    ledger.take()
    broker.receive(9, PUBLISH)
    broker.receive(1, NotifyAck(CAST, ONE, Outcome.TAKEN))

    assert ledger.sent() == [(9, carried(0, notified=1))]


def test_a_pass_of_an_older_view_waits_until_its_broker_has_the_present_one():
    """Two neighbours of a broker that is behind would answer for the same members."""
    broker, ledger = a_broker()
    broker.on_view(View(3 * FIRST_EPOCH, A, (B, C), 64))
    ledger.take()
    broker.receive(B, passed())
    assert ledger.sent() == []

    broker.receive(B, passed(epoch=3 * FIRST_EPOCH))
    assert {to for to, message in ledger.sent() if isinstance(message, ForwardToBroker)} == {C}
    broker.receive(C, carried(3 * FIRST_EPOCH))
    assert (B, carried(3 * FIRST_EPOCH)) in ledger.sent()


def test_a_pass_of_a_view_to_come_waits_for_it():
    broker, ledger = a_broker()
    broker.receive(B, passed(epoch=5 * FIRST_EPOCH))

    assert ledger.sent() == []


def test_a_broker_with_its_hands_full_takes_no_more():
    broker, ledger = a_broker()
    casts = [CastId(name_of(b"many", number), 1, 1) for number in range(FORWARDING_MAX + 50)]
    for cast in casts:
        broker.receive(B, passed(cast))
    assert len(broker.forwarding.entries) == FORWARDING_MAX
    ledger.take()
    for cast in casts[:FORWARDING_MAX]:
        broker.receive(C, carried(cast=cast))

    assert len(broker.forwarding.entries) == 0
    assert len(broker.requests) == 0
    assert {to for to, _ in ledger.sent()} == {B}


def test_one_publisher_fills_half_of_a_brokers_hands_and_gets_it_back():
    broker, ledger = a_broker()
    for _ in range(2):
        for serial in range(FORWARDING_MAX + 50):
            broker.receive(B, passed(CastId(ONE, 1, serial)))
        assert len(broker.forwarding.entries) == FORWARDING_MAX // 2
        broker.receive(B, passed(CastId(TWO, 1, 1)))
        assert len(broker.forwarding.entries) == FORWARDING_MAX // 2 + 1, (
            "there is room for another"
        )
        ledger.take()
        for serial in range(FORWARDING_MAX):
            broker.receive(C, carried(cast=CastId(ONE, 1, serial)))
        broker.receive(C, carried(cast=CastId(TWO, 1, 1)))

        assert len(broker.forwarding.entries) == len(broker.requests) == 0
        assert {to for to, _ in ledger.sent()} == {B}


def test_a_neighbour_that_never_answers_is_left_to_the_next_view():
    broker, ledger = a_broker((B,))
    broker.receive(9, PUBLISH)
    for _ in range(60):
        ledger.now_us += 6 * S
        broker.wake(RequestTimeout())

    assert len(broker.forwarding.entries) == 0


def test_brokers_count_together_whom_a_target_selects():
    for given in ({}, {"assurance": "none"}):
        broker, ledger = a_broker(**given)
        broker.receive(1, registered())
        ledger.take()
        client, own = a_client(**given)
        token = client.estimate(JAZZ)
        ((_, asked),) = own.sent()
        broker.receive(client.address, asked)
        sent = ledger.sent()
        assert [(to, message.dry) for to, message in sent] == [(B, True), (C, True)]
        for neighbour in (B, C):
            broker.receive(neighbour, CastProgress(asked.cast, FIRST_EPOCH, 4, 0, 0, 0))
        ((_, answer),) = ledger.sent()
        client.receive(A, answer)

        assert events(own) == [Estimated(token, 9, 10 if given else 20)]


# --- set up


@pytest.mark.parametrize(
    ("peers", "given", "brokers"),
    [
        (4096, {}, 41),
        (8192, {}, 82),
        (50, {}, 2),
        (1000, {"brokers": 7}, 7),
        (1000, {"broker_share": 0.2}, 200),
    ],
)
def test_one_peer_in_a_hundred_is_a_broker_unless_said_otherwise(peers, given, brokers):
    assert brokers_wanted(peers, design("broker").settle(given)) == brokers


@pytest.mark.parametrize(
    "given", [{"brokers": -1}, {"routing_error": 0}, {"routing_error": 1.5}, {"expected_tags": 0}]
)
def test_parameters_out_of_range_are_refused(given):
    with pytest.raises(ParameterError, match="broker: "):
        design("broker").settle(given)


@pytest.mark.parametrize("kind", ["flat", "national", "laboratory"])
def test_joining_finds_the_same_brokers_as_assembling(kind):
    found = design("broker")
    network = build(kind, 60, 7, seed=4)
    world = World(network, 4)
    plan = Plan(
        60, 7, found.settle({"brokers": 7, "assurance": "none"}), 4, world.host, network.latency_us
    )
    plan = replace(plan, roles=found.roles(plan.peers, plan.infrastructure))
    assembled = population(found).assemble(plan)
    newcomers = [plan.new_member(found, address) for address in range(60)]
    for address, peer in enumerate(newcomers + assembled[60:]):
        world.place(address, peer)
    for address, peer in enumerate(newcomers):
        world.at(address, 0, lambda peer=peer: peer.join(()))
    world.run()

    assert [peer.front_end for peer in newcomers] == [peer.front_end for peer in assembled[:60]]


# --- whole runs


@pytest.mark.parametrize("assurance", ["none", "receipts"])
def test_a_whole_run_with_filters_that_must_grow(assurance):
    given = {"brokers": 12, "expected_tags": 8, "assurance": assurance}
    outcome = simulate(
        Scenario("broker", 200, 100, 5, given, network="laboratory", changes=100, strict=True)
    )

    assert outcome.contract.clean, outcome.scenario.command()
    assert outcome.objections == []
    if assurance == "none":
        assert outcome.measures["PIN_M"] == 1


def test_receipts_double_the_messages_of_a_cast_and_cost_no_time():
    once, assured = (
        simulate(
            Scenario(
                "broker",
                peers=300,
                casts=40,
                seed=4,
                parameters={"brokers": 6, "assurance": assurance},
            )
        )
        for assurance in ("none", "receipts")
    )

    assert assured.messages["cast"] == 2 * once.messages["cast"]
    assert assured.measures["latency_ms_mean"] == once.measures["latency_ms_mean"]


def test_filters_keep_casts_from_going_everywhere():
    run = {"peers": 400, "casts": 60, "seed": 2, "workload_parameters": {"skew": 0.3, "tags": 5000}}
    tight, loose = (
        simulate(Scenario("broker", parameters={"brokers": 20, "routing_error": error}, **run))
        for error in (0.001, 0.9)
    )

    assert tight.contract == loose.contract
    assert tight.messages["cast"] < 0.5 * loose.messages["cast"]
