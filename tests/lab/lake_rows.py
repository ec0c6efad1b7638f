"""The rows of a lake with names instead of numbers: equal however many gatherers numbered them."""

from pathlib import Path

from implicast.lab.lake import Lake
from implicast.lab.numbering import SERIAL_BITS

Named = dict[str, list[tuple[object, ...]]]
OF_READING = {("peers", "time_us"), ("peers", "role")}
"""Columns that say when a gatherer read something."""


class Names:
    """Names by kind and number."""

    def __init__(self, lake: Lake) -> None:
        self._known: dict[tuple[str, int], str] = {}
        for row in lake.gathered("names").to_pylist():
            if row["kind"] in ("peer", "cast", "incarnation"):
                known = self._known.setdefault((row["kind"], row["number"]), row["name"])
                assert known == row["name"], "a number stands for one name"

    def of(self, column: str, value: int | None) -> object:
        if column in ("serial", "cause") and value:
            own = value & ((1 << SERIAL_BITS) - 1)
            return self._known["incarnation", value >> SERIAL_BITS], own
        if column in ("sender", "receiver", "peer", "publisher"):
            return self._known["peer", value or 0]
        return self._known["cast", value] if column == "cast" and value is not None else value


def named_rows(place: Path, run: str = "r", design: str = "dht") -> Named:
    lake = Lake(place, run, design)
    names = Names(lake)
    return {
        table: sorted(
            (
                tuple(
                    names.of(column, value)
                    for column, value in row.items()
                    if (table, column) not in OF_READING
                )
                for row in lake.gathered(table).to_pylist()
            ),
            key=repr,
        )
        for table in ("sends", "notices", "casts", "receipts", "peers")
    }
