"""Processor time of the laboratory's measures of a large journal, beside DuckDB's for the same from
the same Parquet.

    python bench/lab_duckdb.py [MESSAGES]        15,000,000 by default; as many notifications

DuckDB's side is one query for each table, written for it: loads of peers, loads of links, hops,
latency, costs. Gini coefficients and curves follow from histograms and cost next to nothing on
either side; the contract, which SQL has no bitmaps for, is timed apart. Neither side's start is
counted: not the import of DuckDB, nor that of Java's process, of Python's workers and of our
modules into them, which is told apart.
"""

import itertools
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import psutil
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "lab"))

PAIRS = """
create temp table pairs as
select cast_, peer, sum(sent) sent, sum(due) due, sum(came) came, sum(told) told from (
  select "cast" cast_, sender peer, 1 sent, 0 due, 0 came, 0 told from '{at}/sends.parquet' where "cast" is not null
  union all
  select "cast", receiver, 0, 1, (arrived_us is not null)::int, 0 from '{at}/sends.parquet' where "cast" is not null
  union all
  select "cast", peer, 0, 0, 0, 1 from '{at}/notices.parquet')
group by all"""
PEERS = """
create temp table peers as
select peer, sum(o) o, max(o) o_peak, sum(i) i, max(i) i_peak, sum(sent) up, max(sent) u, sum(due) down, max(due) d
from (select p.*, sent - (sent > 0 and c.publisher is not null)::int o, greatest(came - (told > 0)::int, 0) i
      from pairs p left join '{at}/casts.parquet' c on c."cast" = p.cast_ and c.publisher = p.peer) group by peer"""
LINKS = """
create temp table links as
select link, sum(load) load, max(load) peak from (
  select r.cast_, p.link, sum(packets) load from (
    select s."cast" cast_, a.router source_router, b.router target_router, count(*) packets
    from '{at}/sends.parquet' s join '{at}/peers.parquet' a on a.peer = s.sender
    join '{at}/peers.parquet' b on b.peer = s.receiver
    where s."cast" is not null and a.router <> b.router group by all) r
  join '{at}/paths.parquet' p using (source_router, target_router) group by all) group by link"""
HOPS = """
create temp table hops as
select c."cast", coalesce(s.n, 0) messages, coalesce(t.n, 0) members, t.hops, t.deepest from '{at}/casts.parquet' c
left join (select "cast", count(*) n from '{at}/sends.parquet' group by all) s using ("cast")
left join (select "cast", count(*) n, sum(depth) hops, max(depth) deepest from '{at}/notices.parquet' group by all) t
using ("cast")"""
LATENCY = """
create temp table latency as
select avg(w), quantile_cont(w, 0.5), quantile_cont(w, 0.99), max(w) from (
  select n.time_us - c.time_us w from '{at}/notices.parquet' n join '{at}/casts.parquet' c using ("cast"))"""
COSTS = "create temp table costs as select phase, count(*), sum(bytes) from '{at}/sends.parquet' group by phase"


def processor_s() -> float:
    """Processor time of this process and all below it."""
    everyone = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(sum(each.cpu_times()[:4]) for each in everyone if each.is_running())


def by_duckdb(at: Path) -> float:
    began = time.process_time()
    db = duckdb.connect()
    for query in (PAIRS, PEERS, LINKS, HOPS, LATENCY, COSTS):
        db.execute(query.format(at=at))
    return time.process_time() - began


def by_us(at: Path) -> dict[str, float]:
    """Processor time of each stage, in one run: what Spark spends on getting warm for it is in it.

    The session is that of `implicast lab measure`.
    """
    from implicast.lab.journals import JournalSource
    from implicast.lab.measures.all import measured
    from implicast.lab.session import session
    from implicast.lab.storage import Location

    begun = [("start", processor_s())]
    spark = session("local[2]", brief=True)
    spark.range(0, 4, 1, 4).mapInArrow(_imported, "id long").collect()  # workers are there
    measured(
        spark,
        [JournalSource("large", Location.of(at))],
        lambda stage: begun.append((stage, processor_s())),
    )
    begun.append(("", processor_s()))
    spark.stop()
    return {stage: after - before for (stage, before), (_, after) in itertools.pairwise(begun)}


def _imported(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import implicast.lab.measures.large  # noqa: F401

    return batches


def main(messages: int) -> None:
    from test_lab_scale import write_large_journal

    with tempfile.TemporaryDirectory(prefix="implicast-bench-") as folder:
        at = Path(folder) / "journal"
        write_large_journal(at, peers=4096, casts=1024, messages=messages)
        theirs = by_duckdb(at)
        print(f"DuckDB: {theirs:.1f} s of processor time for {messages:,} messages", flush=True)
        ours = by_us(at)
        start, judged = ours.pop("start"), ours.pop("contract and change")
        measures = sum(ours.values())
        print(
            f"the laboratory: {measures:.1f} s, {measures / theirs:.2f} times; the contract: {judged:.1f} s"
        )
        print(f"before that, to start Java and Python's workers: {start:.1f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15_000_000)
