"""What brokers and networks cost: filters side by side against one by one, a latency, packets per link."""

from time import perf_counter

import numpy as np

from implicast.language.bloom import Bloom
from implicast.overlay.backbone.table import Table
from implicast.world.network import build


def main(tags: int = 20_000) -> None:
    print(f"who holds a tag: filters of {tags} tags at an error of 10 %, side by side and one by one")
    for neighbours in (2, 4, 8):
        together, alone = _holders(neighbours, tags)
        print(f"  {neighbours} neighbours            {together:9.2f} us a tag; one by one {alone:.2f}")
    _network()


def _holders(neighbours: int, tags: int) -> tuple[float, float]:
    table = Table(list(range(neighbours + 1)), generation=1, capacity=tags, error=0.1)
    filters = [Bloom.sized(tags, 0.1) for _ in range(neighbours + 1)]
    names = [f"tag{number}" for number in range(tags)]
    for number, name in enumerate(names):
        source = number % (neighbours + 1)
        table.put(source, [name])
        filters[source].add(name)
    began = perf_counter()
    together = [table._holders(name) for name in names]
    between = perf_counter()
    alone = [sum(1 << i for i, each in enumerate(filters) if each.might_hold(name)) for name in names]
    ended = perf_counter()
    assert together == alone, "both ways must agree"
    return (between - began) / tags * 1e6, (ended - between) / tags * 1e6


def _network(hosts: int = 4_096, messages: int = 1_000_000) -> None:
    began = perf_counter()
    network = build("worldwide", hosts, 41, seed=1)
    print(f"worldwide network of {hosts} hosts  {perf_counter() - began:6.2f} s to draw and to find all distances")
    rng = np.random.default_rng(1)
    sender, receiver = rng.integers(0, hosts, (2, messages))
    pairs = list(zip(sender[:200_000].tolist(), receiver[:200_000].tolist(), strict=True))
    began = perf_counter()
    for a, b in pairs:
        network.latency_us(a, b)
    print(f"  a latency               {(perf_counter() - began) / len(pairs) * 1e6:9.2f} us")
    began = perf_counter()
    network.link_loads(sender, receiver)
    print(f"  packets on all links    {(perf_counter() - began) / messages * 1e6:9.2f} us a message, of {messages:,}")


if __name__ == "__main__":
    main()
