"""Numbers for names: in a journal peers, casts and lives are numbers, on a network they are not."""

from implicast.lab.lake import Lake
from implicast.peer.contract import Address, CastId

SERIAL_BITS = 40
"""A message's number in its sender's life; above it stands the number of that life."""
Key = tuple[int, int]
"""Number of a life, and a number within it."""


class Numbers:
    """Given in order of first sight, and for good: the lake keeps them."""

    def __init__(self, lake: Lake) -> None:
        known = lake.numbers()
        self._lake = lake
        self.peers: dict[str, int] = known.get("peers", {})
        self._incarnations: dict[str, int] = known.get("lives", {})
        self.casts: dict[str, int] = known.get("casts", {})
        self._addresses: dict[Address, int] = {}
        self._last_incarnation = max(self._incarnations.values(), default=0)

    def keep(self) -> None:
        self._lake.keep_numbers(
            {"peers": self.peers, "lives": self._incarnations, "casts": self.casts}
        )

    def peer(self, name: bytes) -> int:
        return self.peers.setdefault(name.hex(), len(self.peers))

    def incarnation(self, name: bytes, incarnation: int) -> int:
        key = f"{name.hex()}.{incarnation}"
        if key not in self._incarnations:
            self._last_incarnation += 1
            self._incarnations[key] = self._last_incarnation
        return self._incarnations[key]

    def goes_on(self, name: bytes, incarnation: int, number: int) -> None:
        """A node takes a later life without beginning anew: what it sends is counted on."""
        self._incarnations[f"{name.hex()}.{incarnation}"] = number

    def cast(self, cast: CastId) -> int:
        return self.casts.setdefault(
            f"{cast.publisher.hex()}.{cast.incarnation}.{cast.serial}", len(self.casts)
        )

    def incarnations_at(self, address: Address, peer: int) -> None:
        self._addresses[address] = peer

    def at(self, address: Address) -> int:
        """Who is at an address; one of whom there is no journal has a number too."""
        if address not in self._addresses:
            self._addresses[address] = self.peers.setdefault(f"at {address}", len(self.peers))
        return self._addresses[address]


def serial(key: Key) -> int:
    """One number for a message in all the run."""
    return key[0] << SERIAL_BITS | key[1]
