"""What it costs to resolve a group: the inverted index against a scan, and the memory it takes."""

import tracemalloc
from time import perf_counter

from implicast.language.index import Index
from implicast.language.target import Description, Target
from implicast.workload.workload import workload

SCANNED = 20


def main(peers: int = 65_536, casts: int = 1_024) -> None:
    drawn = workload("zipf", seed=1, peers=peers, casts=casts)
    descriptions, targets = drawn.described(), drawn.targeted()
    index, build_us, megabytes = _built(descriptions)
    index_us, selected = _timed(lambda target: index.select(target), targets)
    scan_us, scanned = _timed(lambda target: _scan(target, descriptions), targets[:SCANNED])
    assert selected[:SCANNED] == scanned, "the index and a scan must agree"
    print(f"index over {peers} descriptions of 18 tags, {casts} casts of 2 tags")
    print(
        f"  building              {build_us / peers:9.2f} us a description, {megabytes:.0f} MB beside the descriptions"
    )
    print(
        f"  resolving, index      {index_us / casts:9.1f} us a cast (mean group {_mean(selected):.0f})"
    )
    ratio = scan_us / SCANNED / (index_us / casts)
    print(f"  resolving, scan       {scan_us / SCANNED:9.1f} us a cast: {ratio:.0f} times more")


def _built(descriptions: list[Description]) -> tuple[Index[int], float, float]:
    began = perf_counter()
    _index(descriptions)
    build_us = (perf_counter() - began) * 1e6
    tracemalloc.start()  # In a second run, since tracing slows the first.
    index = _index(descriptions)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return index, build_us, held / 1e6


def _index(descriptions: list[Description]) -> Index[int]:
    index: Index[int] = Index()
    for peer, description in enumerate(descriptions):
        index.add(peer, description)
    return index


def _timed(resolve, targets: list[Target]) -> tuple[float, list[list[int]]]:  # type: ignore[no-untyped-def]
    began = perf_counter()
    groups = [resolve(target) for target in targets]
    return (perf_counter() - began) * 1e6, groups


def _scan(target: Target, descriptions: list[Description]) -> list[int]:
    return [peer for peer, description in enumerate(descriptions) if target.selects(description)]


def _mean(groups: list[list[int]]) -> float:
    return sum(map(len, groups)) / len(groups)


if __name__ == "__main__":
    main()
