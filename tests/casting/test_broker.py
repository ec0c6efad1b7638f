"""BROKER: clients find their broker, brokers serve them, and casts go where filters let them."""

import pytest

from implicast.casting.broker import (
    REPEAT_US,
    REPEATS_MAX,
    Again,
    Broker,
    Client,
    Forward,
    Got,
    Here,
    Notify,
    Probe,
    Publish,
    Register,
    Repeat,
    Stored,
    brokers_wanted,
)
from implicast.casting.designs import Plan, design
from implicast.language.target import Description, Predicate, Target, Term, Value
from implicast.overlay.backbone.messages import Covered, Speak, Tell
from implicast.peer.contract import CastId
from implicast.peer.errors import ParameterError
from implicast.peer.events import Joined, Left, Notice, Registered, Withdrawn
from implicast.peer.ledger import Ledger
from implicast.world.network import build
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate
from implicast.world.world import World

JAZZ = Target((Term(has=("jazz",)),))
JAZZ_FAN = Description(("jazz",))


def a_client(broker: int | None = 9, acknowledge: bool = False) -> tuple[Client, Ledger]:
    ledger = Ledger()
    return Client(1, ledger, [8, 9], broker, acknowledge), ledger


def a_broker(neighbours: tuple[int, ...] = (), **given) -> tuple[Broker, Ledger]:
    ledger = Ledger()
    return Broker(9, ledger, neighbours, 9, design("broker").settle(given)), ledger


# --- clients


def test_the_first_broker_to_answer_is_the_nearest():
    client, ledger = a_client(broker=None)
    client.join(())
    assert ledger.sent() == [(8, Probe()), (9, Probe())]
    client.on_here(9, Here())
    client.on_here(8, Here())

    assert client.broker == 9
    assert ledger.take() == [("deliver", None, Joined())]


def test_what_is_asked_before_a_broker_is_known_is_sent_when_it_is():
    client, ledger = a_client(broker=None)
    client.register(JAZZ_FAN)
    client.cast(JAZZ, b"hello")
    assert ledger.sent() == []
    client.on_here(9, Here())

    assert ledger.sent() == [(9, Register(1, JAZZ_FAN)), (9, Publish(CastId(1, 1), JAZZ, b"hello"))]


def test_silence_makes_a_client_ask_again_but_only_for_what_still_counts():
    client, ledger = a_client()
    client.register(JAZZ_FAN)
    client.withdraw()
    ledger.take()
    ledger.now_us += 10**8
    client.on_again(Again())

    assert ledger.sent() == [(9, Register(2, None))]


def test_a_client_that_leaves_has_left_when_it_is_forgotten():
    client, ledger = a_client()
    client.register(JAZZ_FAN)
    client.on_stored(9, Stored(1))
    client.leave()
    client.on_stored(9, Stored(2))

    events = [event for verb, _, event in ledger.take() if verb == "deliver"]
    assert events == [Registered(1), Withdrawn(2), Left()]


def test_a_client_drops_what_its_newest_description_does_not_fit_and_what_it_has_heard():
    client, ledger = a_client()
    client.register(JAZZ_FAN)
    ledger.take()
    for serial in (1, 1, 2):
        client.on_notify(9, Notify(CastId(3, serial), JAZZ, b""))
    client.register(Description(("football",)))
    client.on_notify(9, Notify(CastId(3, 3), JAZZ, b""))

    heard = [event for verb, _, event in ledger.take() if verb == "deliver"]
    assert heard == [Notice(CastId(3, 1), b""), Notice(CastId(3, 2), b"")]


# --- brokers


def test_a_description_is_stored_when_the_backbone_routes_by_it():
    broker, ledger = a_broker((8,))
    broker.on_register(1, Register(1, JAZZ_FAN))
    assert ledger.sent() == [(8, Tell(1, 1, ("jazz",)))]
    broker.on_register(1, Register(1, JAZZ_FAN))
    assert ledger.sent() == [], "a repeat is answered when the first is"
    broker.receive(8, Covered(1))
    assert ledger.sent() == [(1, Stored(1))]
    broker.on_register(1, Register(1, JAZZ_FAN))
    assert ledger.sent() == [(1, Stored(1))]


def test_an_older_version_that_comes_late_changes_nothing():
    broker, ledger = a_broker()
    broker.on_register(1, Register(2, None))
    broker.on_register(1, Register(1, JAZZ_FAN))

    assert ledger.sent() == [(1, Stored(2))]
    assert 1 not in broker.index


def test_a_replaced_description_is_never_said_to_be_complete():
    broker, ledger = a_broker((8,))
    broker.on_register(1, Register(1, JAZZ_FAN))
    broker.on_register(1, Register(2, Description(("football",))))
    broker.receive(8, Covered(1))
    broker.wake(Speak())
    broker.receive(8, Covered(2))

    assert [message for to, message in ledger.sent() if to == 1] == [Stored(2)]


def test_a_cast_goes_to_own_clients_and_through_filters_but_never_back():
    broker, ledger = a_broker((6, 7, 8))
    broker.on_register(1, Register(1, JAZZ_FAN))
    broker.on_register(2, Register(1, Description(("football",))))
    broker.receive(6, Tell(1, 1, ("jazz",)))
    broker.receive(7, Tell(1, 1, ("jazz", "samba")))
    broker.receive(8, Tell(1, 1, ("chess",)))
    ledger.take()
    cast = CastId(4, 1)
    broker.on_forward(6, Forward(cast, JAZZ, b"x"))
    assert ledger.sent() == [(1, Notify(cast, JAZZ, b"x")), (7, Forward(cast, JAZZ, b"x"))]
    broker.on_forward(6, Forward(cast, JAZZ, b"x"))
    assert ledger.sent() == [], "a repeat is not carried again"


def test_confirmed_hops_are_repeated_until_they_are_confirmed_or_hopeless():
    broker, ledger = a_broker(acknowledge=True)
    broker.on_register(1, Register(1, JAZZ_FAN))
    ledger.take()
    notify = Notify(CastId(4, 1), JAZZ, b"")
    broker.on_publish(4, Publish(CastId(4, 1), JAZZ, b""))
    assert ledger.sent() == [(4, Got(CastId(4, 1))), (1, notify)]
    for _ in range(REPEATS_MAX + 3):
        ledger.now_us += REPEAT_US
        broker.wake(Repeat())

    assert ledger.sent() == [(1, notify)] * REPEATS_MAX
    broker.on_publish(4, Publish(CastId(4, 2), JAZZ, b""))
    broker.receive(1, Got(CastId(4, 2)))
    ledger.take()
    ledger.now_us += REPEAT_US
    broker.wake(Repeat())
    assert ledger.sent() == []


def test_predicates_are_left_to_the_index():
    broker, ledger = a_broker((8,))
    broker.on_register(1, Register(1, Description(("stock",), (Value("price", 5),))))
    broker.on_register(2, Register(1, Description(("stock",), (Value("price", 50),))))
    ledger.take()
    target = Target((Term(where=(Predicate("price", 1, 9),)),))
    broker.on_publish(1, Publish(CastId(1, 1), target, b""))

    assert [to for to, _ in ledger.sent()] == [1, 8], "a filter cannot rule a predicate out, so it goes on"


# --- set up


@pytest.mark.parametrize(
    ("peers", "given", "brokers"),
    [(4096, {}, 41), (8192, {}, 82), (50, {}, 2), (1000, {"brokers": 7}, 7), (1000, {"broker_share": 0.2}, 200)],
)
def test_one_peer_in_a_hundred_is_a_broker_unless_said_otherwise(peers, given, brokers):
    assert brokers_wanted(peers, design("broker").settle(given)) == brokers


@pytest.mark.parametrize("given", [{"brokers": -1}, {"routing_error": 0}, {"routing_error": 1.5}, {"expected_tags": 0}])
def test_parameters_out_of_range_are_refused(given):
    with pytest.raises(ParameterError, match="broker: "):
        design("broker").settle(given)


@pytest.mark.parametrize("kind", ["flat", "national", "laboratory"])
def test_joining_finds_the_same_brokers_as_assembling(kind):
    found = design("broker")
    network = build(kind, 60, 7, seed=4)
    world = World(network, 4)
    plan = Plan(60, 7, found.settle({"brokers": 7}), 4, world.host, network.latency_us)
    assembled = found.assemble(plan)
    newcomers = [found.newcomer(plan, address) for address in range(60)]
    for address, peer in enumerate(newcomers + assembled[60:]):
        world.place(address, peer)
    for address, peer in enumerate(newcomers):
        world.at(address, 0, lambda peer=peer: peer.join(()))
    world.run()

    assert [peer.broker for peer in newcomers] == [peer.broker for peer in assembled[:60]]


def test_a_whole_run_with_filters_that_must_grow():
    outcome = simulate(
        Scenario(
            "broker", 200, 100, 5, {"brokers": 12, "expected_tags": 8}, network="laboratory", changes=100, strict=True
        )
    )

    assert outcome.contract.clean, outcome.scenario.command()
    assert outcome.objections == []
    assert outcome.measures["PIN_M"] == 1


def test_filters_keep_casts_from_going_everywhere():
    run = {"peers": 400, "casts": 60, "seed": 2, "workload_parameters": {"skew": 0.3, "tags": 5000}}
    tight, loose = (
        simulate(Scenario("broker", parameters={"brokers": 20, "routing_error": error}, **run))
        for error in (0.001, 0.9)
    )

    assert tight.contract == loose.contract
    assert tight.messages["cast"] < 0.5 * loose.messages["cast"]
