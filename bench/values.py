"""What it costs to make a message: msgspec struct (ours) against dataclasses, named tuple and plain
tuple.
"""

from collections import namedtuple
from dataclasses import dataclass
from timeit import repeat

from implicast.peer.contract import Message


class Struct(Message):
    key: int
    origin: int
    hops: int


@dataclass(slots=True)
class Slots:
    key: int
    origin: int
    hops: int


@dataclass(slots=True, frozen=True)
class Frozen:
    key: int
    origin: int
    hops: int


Named = namedtuple("Named", "key origin hops")

WAYS = {
    "msgspec struct (ours)": "Struct(3, x, 5)",
    "slots dataclass": "Slots(3, x, 5)",
    "frozen slots dataclass": "Frozen(3, x, 5)",
    "named tuple": "Named(3, x, 5)",
    "tuple": "(3, x, 5)",
}


def main(times: int = 100_000) -> None:
    print("making a value of three fields, best of seven")
    names = globals() | {"x": 4}
    seconds = {
        name: min(repeat(way, globals=names, number=times, repeat=7)) for name, way in WAYS.items()
    }
    for name, taken in seconds.items():
        print(
            f"  {name:28} {taken / times * 1e9:6.0f} ns   {taken / seconds['tuple']:5.1f} x a tuple"
        )


if __name__ == "__main__":
    main()
