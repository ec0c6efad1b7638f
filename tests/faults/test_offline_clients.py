"""Light clients that sleep, with proxies that are killed: each cast once; and a client that is wrong is caught."""

from dataclasses import replace

import pytest

from implicast.trials.proxies import OfflineClient, ProxySettings, ProxyTrial

SETTINGS = ProxySettings("centralised", casts=100)


@pytest.mark.parametrize(
    ("design", "seed"), [("centralised", 1), ("broker", 2), ("dht", 3), ("condcast", 4)]
)
def test_each_client_has_every_cast_that_describes_it_once(design, seed):
    outcome = ProxyTrial(replace(SETTINGS, name=design, seed=seed)).run()

    assert outcome.clean
    assert (outcome.due > 200, outcome.killed) == (True, 3)
    assert outcome.alone, "a proxy that was killed missed something that the other heard"
    assert outcome.stored <= outcome.fetched, "what one client has from both is fetched from both"
    assert outcome.fetched < 1.6 * outcome.stored, "the cursor keeps from fetching all again"


class Forgetful(OfflineClient):
    """Does not drop by its id what it has."""

    def take(self, batch):
        self.shown += batch


class Hasty(OfflineClient):
    """Moves the cursor before what came is safe."""

    def wake(self, proxies, chance=None, cut=0.0):
        for number in self.proxies:
            if proxies[number].up:
                while batch := proxies[number].fetch(self.number, self.cursors.get(number, 0)):
                    self.cursors[number] = self.cursors.get(number, 0) + len(batch)
                    if chance is not None and chance.random() < cut:
                        return
                    self.take(batch)


class Lone(OfflineClient):
    """Asks one proxy alone."""

    def wake(self, proxies, chance=None, cut=0.0):
        self.proxies = self.proxies[:1] * 2
        super().wake(proxies, chance, cut)


@pytest.mark.parametrize(
    ("client_class", "what"), [(Forgetful, "twice"), (Hasty, "missing"), (Lone, "missing")]
)
def test_a_client_that_is_wrong_is_caught(client_class, what):
    outcome = ProxyTrial(replace(SETTINGS, cut=0.5), client_class).run()

    assert getattr(outcome, what) > 0
    assert not outcome.clean


def test_the_same_seed_gives_the_same_story():
    first, second = (ProxyTrial(SETTINGS).run() for _ in range(2))

    assert first == second
