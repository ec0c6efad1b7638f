"""An adversary that searches: within a budget of messages and places it looks for the strategy that
withholds most casts.

    python -m implicast.trials.search --peers 120 --tries 40

Random search over the combinations of liars: one to three strategies, the share of messages
dropped, the delay, the number of superfluous messages and of places, and the victim. Each try is
one whole run, scored by what arrives at the victim and at all honest members; lower is better for
the adversary. The result is shown as the command that replays it.
"""

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from random import Random

from implicast.space.digest import stream
from implicast.trials.attacks import scenario, wanted_most
from implicast.world.liars.liars import STRATEGIES, Liars
from implicast.world.simulate import simulate

Row = dict[str, float]


@dataclass(frozen=True, slots=True)
class Budget:
    """What each liar may spend."""

    share: float = 0.2
    extras: int = 200
    """Messages beyond those that every member sends."""
    places: int = 60


@dataclass(frozen=True, slots=True)
class SearchTry:
    """One strategy and its result."""

    liars: str
    arrival: float
    victim_arrival: float
    forged: int
    command: str

    @property
    def score(self) -> tuple[float, float]:
        """The victim's arrival first: one member is easier to cut off than all."""
        return self.victim_arrival, self.arrival


def drawn(rng: Random, budget: Budget, victim: int | None = None) -> Liars:
    """A random combination within the budget, against a victim."""
    chosen = rng.sample(sorted(STRATEGIES), rng.randint(1, 3))
    return Liars(
        budget.share,
        "+".join(chosen),
        delay_s=round(rng.choice((0.5, 1.9, 10.0, 40.0, 61.0)) * rng.uniform(0.8, 1.0), 3),
        drop=rng.choice((1.0, 1.0, 0.9, 0.5)),
        extras=rng.randint(0, budget.extras),
        places=rng.randint(1, budget.places),
        victim=victim,
    )


def tries(
    name: str, peers: int, casts: int, count: int, seed: int, budget: Budget, k: int = 4
) -> Iterator[SearchTry]:
    """Run `count` random strategies against a design, all in the same network and against the
    member that is due most casts.
    """
    rng = stream(seed, "search", name, peers)
    parameters, victim = {"k": k} if name == "bft" else {}, wanted_most(peers, casts, seed)
    for _ in range(count):
        run = scenario(name, drawn(rng, budget, victim), peers, casts, seed, parameters)
        trust = simulate(run).trust
        assert trust is not None, "the scenario has liars"
        assert run.liars is not None, "the scenario has liars"
        arrived = trust.victim_arrived / trust.victim_expected if trust.victim_expected else 1.0
        yield SearchTry(run.liars.text(), trust.arrival, arrived, trust.forged, run.command())


def worst(
    name: str, peers: int, casts: int, count: int, seed: int, budget: Budget, k: int = 4
) -> SearchTry:
    """The try with the lowest score."""
    return min(tries(name, peers, casts, count, seed, budget, k), key=lambda each: each.score)


def search_row(
    name: str, f: float, peers: int = 96, casts: int = 8, tried: int = 8, seed: int = 1
) -> Row:
    """For the laboratory: the least arrival under any of `tried` random strategies."""
    found = worst(name, peers, casts, tried, seed, Budget(f))
    return {
        "arrival": found.arrival,
        "victim_arrival": found.victim_arrival,
        "forged": float(found.forged),
    }


def main() -> None:
    parser = ArgumentParser(
        description="Search for the strategy of liars that withholds most casts from a victim."
    )
    parser.add_argument("--design", default="bft")
    parser.add_argument("--peers", type=int, default=120)
    parser.add_argument("--casts", type=int, default=16)
    parser.add_argument("--tries", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--k", type=int, default=4)
    given = parser.parse_args()
    budget, found = Budget(given.share), list[SearchTry]()
    for each in tries(
        given.design, given.peers, given.casts, given.tries, given.seed, budget, given.k
    ):
        found.append(each)
        print(
            f"{each.victim_arrival:.4f} {each.arrival:.4f} forged {each.forged}  {each.liars}",
            flush=True,
        )
    print(json.dumps(asdict(min(found, key=lambda each: each.score)), indent=2))


if __name__ == "__main__":
    main()
