"""Numbers for names: in a journal peers, casts and incarnations are numbers, on a network they are
not.

A number is given once and for good: the lake's table `names` has a row for each, which is added in
the step that needs it. All names are held in memory, about 500 bytes for each cast.
"""

from typing import Any, NamedTuple

from implicast.lab.lake import Lake, Rows
from implicast.net.observation.journal import CastRow
from implicast.peer.contract import Address, CastId

SERIAL_BITS = 40
"""A message's number in its sender's incarnation; above it stands the incarnation's number."""
CONTINUES = "continues"
"""Kind of an incarnation that has the number of the one before it."""
Key = tuple[int, int]
"""Number of an incarnation, and a number within it."""


class MadeCast(NamedTuple):
    """What was cast. `target` is None if it was published to subscribers."""

    time_us: int
    target: str | None
    digest: bytes


class Numbers:
    """Numbers in order of first sight, as the lake has them, and those that are new."""

    def __init__(self, lake: Lake, addresses: dict[Address, int]) -> None:
        self.peers: dict[str, int] = {}
        self.casts: dict[str, int] = {}
        self.made: dict[int, MadeCast] = {}
        self._incarnations: dict[str, int] = {}
        self._ended: set[int] = set()
        self._addresses = addresses
        self._new: Rows = []
        rows = lake.gathered("names").to_pylist()
        for row in sorted(rows, key=lambda row: (row["kind"] == CONTINUES, int(row["number"]))):
            self._know(row)
        self._last_incarnation = max(self._incarnations.values(), default=0)

    def _know(self, row: dict[str, Any]) -> None:
        kind, number = row["kind"], int(row["number"])
        if kind == "made":
            self.made[number] = MadeCast(row["time_us"], row["target"], row["digest"])
        elif kind == "receipt":
            self._ended.add(number)
        else:
            known = {"peer": self.peers, "cast": self.casts}
            known.get(kind, self._incarnations)[row["name"]] = number

    def take_new(self) -> Rows:
        """The rows of names that no step has yet."""
        new, self._new = self._new, []
        return new

    def _give(self, kind: str, number: int, name: str = "", made: MadeCast | None = None) -> None:
        facts = made._asdict() if made is not None else {}
        self._new.append({"kind": kind, "name": name, "number": number, **facts})

    def peer(self, name: bytes) -> int:
        return self._numbered("peer", self.peers, name.hex())

    def _numbered(self, kind: str, known: dict[str, int], name: str) -> int:
        if name not in known:
            known[name] = len(known)
            self._give(kind, known[name], name)
        return known[name]

    def incarnation(self, name: bytes, incarnation: int) -> int:
        key = f"{name.hex()}.{incarnation}"
        if key not in self._incarnations:
            self._last_incarnation += 1
            self._incarnations[key] = self._last_incarnation
            self._give("incarnation", self._last_incarnation, key)
        return self._incarnations[key]

    def goes_on(self, name: bytes, incarnation: int, number: int) -> None:
        """A node takes a later incarnation without beginning anew: what it sends is counted on."""
        key = f"{name.hex()}.{incarnation}"
        if self._incarnations.get(key) != number:
            self._incarnations[key] = number
            self._give(CONTINUES, number, key)

    def cast(self, cast: CastId) -> int:
        name = f"{cast.publisher.hex()}.{cast.incarnation}.{cast.serial}"
        return self._numbered("cast", self.casts, name)

    def make(self, number: int, row: CastRow) -> bool:
        """What was cast is known; was it new?"""
        if number in self.made:
            return False
        self.made[number] = MadeCast(row.time_us, row.target, row.digest)
        self._give("made", number, made=self.made[number])
        return True

    def end(self, number: int) -> bool:
        """A cast has its receipt; was it new?"""
        if number in self._ended:
            return False
        self._ended.add(number)
        self._give("receipt", number)
        return True

    def is_at(self, address: Address, peer: int) -> None:
        self._addresses[address] = peer

    def at(self, address: Address) -> int:
        """The peer at an address; one of which there is no journal has a number too."""
        if address not in self._addresses:
            name = f"at {address}"
            self._addresses[address] = self._numbered("peer", self.peers, name)
        return self._addresses[address]


def serial(key: Key) -> int:
    """One number for a message in all the run."""
    return key[0] << SERIAL_BITS | key[1]
