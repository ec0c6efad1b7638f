"""Golden journals: digests of the journals of a fixed set of runs, one file a design in `tests/golden`.

A file holds one SHA-256 for each column of `sends`, `notices`, `registrations` and `casts` of each run, so that a new
column adds lines and changes none. A message kind counts by its wire number: renaming a class changes nothing.

    python tests/golden_journals.py              compares all runs of both seeds
    python tests/golden_journals.py --rewrite    writes the files anew; the commit says which lines move and why
    python tests/golden_journals.py dht --seed 1 compares the runs of one design
    python tests/golden_journals.py --run "bft receipts quiet 1"    compares single runs

The files hold for both forms of the compiled modules: `IMPLICAST_CORE=python` selects the Python one.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from implicast.casting.designs import design, designs
from implicast.world.churn import Churn
from implicast.world.faults import Faults
from implicast.world.journal import read
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate

FOLDER = Path(__file__).parent / "golden"
TABLES = ("sends", "notices", "registrations", "casts")
SEEDS = (1, 2)
ASSURANCES = ("none", "receipts")
WORLDS = ("quiet", "hostile")
PEERS = 48
FAULTS = "loss=0.02,duplicate=0.02,reorder=0.1,jitter=0.3"
CHURN = (
    "joins=4,leaves=3,crashes=4,group=2,returns=4,disk=any,freezes=2,slow=1,cuts=2,flaps=1,splits=1,bursts=1,falls=1,"
    "anew=2,restarts=1,over_s=20"
)


@dataclass(frozen=True)
class GoldenRun:
    """One run whose journal is held fixed."""

    design: str
    assurance: str
    world: str
    seed: int

    def __str__(self) -> str:
        return f"{self.design} {self.assurance} {self.world} {self.seed}"

    def scenario(self) -> Scenario:
        """48 peers that register by messages; seed 2 grows the network from one peer by joins."""
        found = design(self.design)
        workload = "groups" if "tags" in found.languages else "attributes"
        hostile = self.world == "hostile"
        return Scenario(
            self.design,
            peers=PEERS,
            casts=48 if hostile else 12,
            seed=self.seed,
            parameters={**found.trial, "assurance": self.assurance},
            workload=workload,
            network="national",
            interval_ms=1000,
            payload_bytes=16,
            start="assembled" if self.seed == 1 else "joined",
            register="messages",
            changes=8,
            faults=Faults.parse(FAULTS) if hostile else Faults(),
            churn=Churn.parse(CHURN) if hostile else Churn(),
        )

    def digests(self) -> dict[str, str]:
        """`table.column` to SHA-256, in the order of the columns."""
        numbers = {kind.__name__: kind.wire for kind in design(self.design).kinds}
        with tempfile.TemporaryDirectory(prefix="golden-") as folder:
            journal = Path(folder) / "journal"
            simulate(self.scenario(), journal)
            return {
                f"{table}.{name}": column_digest(column, numbers)
                for table in TABLES
                for name, column in _columns(read(journal, table))
            }


def runs(names: Iterable[str] = (), seeds: Iterable[int] = SEEDS) -> list[GoldenRun]:
    """Every golden run of these designs (all, if none is named) and seeds."""
    wanted = list(names) or list(designs())
    return [
        GoldenRun(name, assurance, world, seed)
        for name in wanted
        for seed in seeds
        for assurance in ASSURANCES
        for world in WORLDS
    ]


def _columns(table: pa.Table) -> list[tuple[str, pa.ChunkedArray]]:
    return list(zip(table.column_names, table.columns, strict=True))


def column_digest(column: pa.ChunkedArray, numbers: dict[str, int]) -> str:
    """SHA-256 of the values and of which are null; independent of chunks and encodings."""
    if pa.types.is_dictionary(column.type):
        words = column.cast(pa.string()).to_pylist()
        return _hash([numbers.get(word, word) for word in words])
    if pa.types.is_integer(column.type) and not column.null_count:
        values = np.ascontiguousarray(column.to_numpy(), dtype="<i8")
        return sha256(values.tobytes()).hexdigest()
    return _hash(column.to_pylist())


def _hash(values: list[object]) -> str:
    return sha256(msgspec.msgpack.encode(values)).hexdigest()


def recorded(name: str) -> dict[str, dict[str, str]]:
    """By run, the digests that the design's file holds."""
    path, found = FOLDER / f"{name}.txt", dict[str, dict[str, str]]()
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        if line and not line.startswith("#"):
            run, column, digest = line.rsplit(" ", 2)
            found.setdefault(run, {})[column] = digest
    return found


def differences(run: GoldenRun) -> list[str]:
    """The columns of a run that differ from its file, one line each."""
    expected, found = recorded(run.design).get(str(run), {}), run.digests()
    changed = [
        name for name, digest in found.items() if name in expected and expected[name] != digest
    ]
    return (
        [f"{run}: {name} differs" for name in changed]
        + [f"{run}: {name} is not in the file" for name in found.keys() - expected.keys()]
        + [
            f"{run}: {name} is in the file and no longer in the journal"
            for name in expected.keys() - found.keys()
        ]
    )


def rewrite(name: str) -> None:
    """Write the file of a design anew, all seeds."""
    head = "# design assurance world seed table.column SHA-256; written by python tests/golden_journals.py --rewrite\n"
    lines = [
        f"{run} {column} {digest}\n"
        for run in runs([name])
        for column, digest in run.digests().items()
    ]
    (FOLDER / f"{name}.txt").write_text(head + "".join(lines), "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("design", nargs="*", help="designs to run; all if none is named")
    parser.add_argument("--seed", type=int, choices=SEEDS, help="one seed only; both by default")
    parser.add_argument(
        "--rewrite", action="store_true", help="write the files anew instead of comparing"
    )
    parser.add_argument(
        "--run", action="append", choices=[*map(str, runs())], help="a single run; repeatable"
    )
    asked = parser.parse_args()
    names = asked.design or list(designs())
    if unknown := set(names) - set(designs()):
        parser.error(f"no design {sorted(unknown)[0]}; choose from {', '.join(designs())}")
    if asked.rewrite and asked.seed:
        parser.error("--rewrite writes all seeds of a design; leave --seed out")
    if asked.run and (asked.rewrite or asked.design or asked.seed):
        parser.error("--run names single runs to compare; leave the other arguments out")
    if asked.rewrite:
        for name in names:
            rewrite(name)
        return 0
    lines = [
        line
        for run in runs(names, [asked.seed] if asked.seed else SEEDS)
        if not asked.run or str(run) in asked.run
        for line in differences(run)
    ]
    print("\n".join(lines) or "all golden journals are equal")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
