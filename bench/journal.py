"""One row of the journal: packed into a buffer (ours) against ten column lists turned into arrays."""

import struct
import time

import numpy as np

ROW = (123456, 123400, 5_000_000, 5_020_000, 17, 900, 44, 3, 80, 2)
PACKED = struct.Struct("<qqqqiiiiih")


def packing(rows: int) -> None:
    buffer, at = bytearray(PACKED.size * rows), 0
    for _ in range(rows):
        PACKED.pack_into(buffer, at, *ROW)
        at += PACKED.size
    np.frombuffer(buffer, "V54", rows)


def columns(rows: int) -> None:
    lists: list[list[int]] = [[] for _ in ROW]
    a, b, c, d, e, f, g, h, i, j = (each.append for each in lists)
    for _ in range(rows):
        (
            a(ROW[0]),
            b(ROW[1]),
            c(ROW[2]),
            d(ROW[3]),
            e(ROW[4]),
            f(ROW[5]),
            g(ROW[6]),
            h(ROW[7]),
            i(ROW[8]),
            j(ROW[9]),
        )
    for each in lists:
        np.array(each, np.int64)


def main(rows: int = 65_536) -> None:
    print("one journal row until it is an array, best of five")
    for name, way in (("packed (ours)", packing), ("column lists", columns)):
        best = float("inf")
        for _ in range(5):
            begun = time.process_time()
            way(rows)
            best = min(best, time.process_time() - begun)
        print(f"  {name:28} {best / rows * 1e9:6.0f} ns")


if __name__ == "__main__":
    main()
