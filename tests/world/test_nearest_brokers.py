"""Brokers' trees and clients' brokers found in columns are those that are found one by one."""

import pytest

from implicast.overlay.backbone.tree import spanning_tree
from implicast.peer.name import name_of, network_of
from implicast.world.network import build
from implicast.world.plan import Plan
from implicast.world.populations.nearest_brokers import nearest, nearest_brokers, wide_tree

CLIENTS = 60


@pytest.mark.parametrize("kind", ["flat", "laboratory", "national"])
@pytest.mark.parametrize("count", [1, 2, 3, 19, 130])
def test_a_tree_grown_in_columns_is_the_same_tree(kind, count):
    network = build(kind, CLIENTS, count, seed=count)
    brokers = tuple(range(CLIENTS, CLIENTS + count))

    tree = spanning_tree(brokers, lambda a, b: network.latency_us(a, b) + network.latency_us(b, a))

    assert wide_tree(brokers, network.router, network.latency_us) == tree


@pytest.mark.parametrize("kind", ["flat", "laboratory", "national"])
def test_every_client_finds_the_broker_that_is_nearest_to_it(kind):
    network, brokers = build(kind, CLIENTS, 23, seed=5), tuple(range(CLIENTS, CLIENTS + 23))
    plan = Plan(
        CLIENTS,
        23,
        {},
        5,
        None,
        network.latency_us,
        roles={"broker": brokers},
        router=network.router,
    )

    def found_alone(client):
        name = name_of(network_of(5), client)
        return nearest(
            name,
            brokers,
            lambda b: network.latency_us(client, b) + network.latency_us(b, client),
            network_of(5),
        )

    assert nearest_brokers(plan) == [found_alone(client) for client in range(CLIENTS)]
    assert len(set(nearest_brokers(plan))) > 1
