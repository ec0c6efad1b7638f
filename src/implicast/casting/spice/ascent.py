"""State of entries that were passed up to the next notch and are not acknowledged yet."""

from dataclasses import dataclass

from implicast.casting.spice.messages import Entry
from implicast.peer.contract import Address

Answer = tuple[Address, int, int]
"""Address to acknowledge to, the requester's token, and the notch that it requested."""


@dataclass(slots=True)
class Ascent:
    """An entry that this peer passed up, and the requesters that wait for it."""

    entry: Entry
    answers: tuple[Answer, ...]
    token: int = 0
    """Token of the first message that carried the entry. An acknowledgement with a smaller token
    belongs to an earlier ascent.
    """

    def join(self, entry: Entry, answer: Answer) -> None:
        """Add a requester; the newer version of the entry replaces the older."""
        if entry.version > self.entry.version:
            self.entry = entry
        if answer not in self.answers:
            self.answers = (*self.answers, answer)

    def start(self, token: int) -> Entry:
        self.token = self.token or token
        return self.entry


def gain(tag: str, entry: Entry) -> int:
    """Change in the number of registrations under the tag: 1 for a new one, -1 for a withdrawal, 0
    for an update.
    """
    if entry.description is None:
        return -1
    return int(entry.before is None or tag not in entry.before.tags)
