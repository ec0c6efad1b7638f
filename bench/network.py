"""What a network costs: drawing it, a latency, packets per link."""

from time import perf_counter

import numpy as np

from implicast.world.network import build


def main(hosts: int = 4_096, messages: int = 1_000_000) -> None:
    began = perf_counter()
    network = build("worldwide", hosts, 41, seed=1)
    print(
        f"worldwide network of {hosts} hosts  {perf_counter() - began:6.2f} s to draw and to find all distances"
    )
    rng = np.random.default_rng(1)
    sender, receiver = rng.integers(0, hosts, (2, messages))
    pairs = list(zip(sender[:200_000].tolist(), receiver[:200_000].tolist(), strict=True))
    began = perf_counter()
    for a, b in pairs:
        network.latency_us(a, b)
    print(f"  a latency               {(perf_counter() - began) / len(pairs) * 1e6:9.2f} us")
    began = perf_counter()
    network.link_loads(sender, receiver)
    print(
        f"  packets on all links    {(perf_counter() - began) / messages * 1e6:9.2f} us a message, of {messages:,}"
    )


if __name__ == "__main__":
    main()
