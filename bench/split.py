"""What one hop of a condcast costs: the short cut for tidy tables against the procedure as written."""

from time import process_time

from implicast.casting.condcast.place import KEY_BITS
from implicast.casting.condcast.split import Match, split, split_by_definition
from implicast.language.aggregate import TargetQuery, aggregate_of
from implicast.overlay.chord_sharp import Table
from implicast.overlay.links import Ref
from implicast.space.digest import digest_bits
from implicast.space.ring import Arc
from implicast.workload.workload import workload
from implicast.world.populations.chord_sharp import settled_tables

BITS, HASHES = 4096, 4
Hop = tuple[Table, tuple[Arc, ...], TargetQuery]


def main(peers: int = 4096, casts: int = 60) -> None:
    hops = _hops(peers, casts)
    print(f"one hop of a condcast to two tags, {peers} peers, {len(hops)} hops")
    for name, by in (("short cut", split), ("as written", split_by_definition)):
        began = process_time()
        for table, arcs, sought in hops:
            match: Match = sought.matcher()
            by(table, arcs, match)
        print(f"  {name:<22} {(process_time() - began) / len(hops) * 1e6:9.2f} us")


def _hops(peers: int, casts: int) -> list[Hop]:
    """Every hop of some casts over settled tables."""
    drawn = workload("zipf", seed=1, peers=peers, casts=casts)
    places = (Ref(digest_bits(KEY_BITS, 1, address), address) for address in range(peers))
    refs = sorted(places, key=lambda ref: ref.place)
    described = drawn.described()
    tables = settled_tables(
        refs, [aggregate_of(described[ref.address], BITS, HASHES) for ref in refs]
    )
    at = {table.me.address: table for table in tables}
    hops: list[Hop] = []
    for number, target in enumerate(drawn.targeted()):
        waiting = [(at[number], (Arc(0, 0),), TargetQuery(target, BITS, HASHES))]
        while waiting:
            hops.append(hop := waiting.pop())
            waiting += [
                (at[node.address], arcs, hop[2])
                for node, arcs in split(hop[0], hop[1], hop[2].matcher())[1]
            ]
    return hops


if __name__ == "__main__":
    main()
