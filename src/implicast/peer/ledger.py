"""A host that records the calls of a peer: the test double, shipped with the library.

ledger = Ledger()
peer = MyPeer(1, ledger)
peer.receive(2, Find(key=7, origin=2))
assert ledger.take() == [("send", 2, Found(...))]
"""

from random import Random

from implicast.peer.contract import Address, Message

Entry = tuple[str, Address | int | None, Message]


class Ledger:
    """`entries` lists ("send", to, message), ("after", delay_us, alarm) and ("deliver", None,
    event), in order of the calls.
    """

    def __init__(self, seed: int = 0, now_us: int = 0) -> None:
        self.now_us = now_us
        self.rng = Random(seed)
        self.entries: list[Entry] = []

    def send(self, to: Address, message: Message) -> None:
        self.entries.append(("send", to, message))

    def after(self, delay_us: int, alarm: Message) -> None:
        self.entries.append(("after", delay_us, alarm))

    def deliver(self, event: Message) -> None:
        self.entries.append(("deliver", None, event))

    def take(self) -> list[Entry]:
        """Calls since the last `take`."""
        taken, self.entries = self.entries, []
        return taken

    def sent(self) -> list[tuple[Address | int | None, Message]]:
        """Messages sent since the last `take`; alarms and deliveries are dropped."""
        return [(to, message) for verb, to, message in self.take() if verb == "send"]
