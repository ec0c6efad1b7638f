"""What brokers tell each other about who is where. All may be repeated; `Covered` answers each of the first three."""

from implicast.peer.contract import Message


class Tell(Message):
    """These tags are registered on my side of our link."""

    serial: int
    generation: int
    """Of the newest filters that the sender knows of."""
    tags: tuple[str, ...]


class Renew(Message):
    """A new generation of filters begins, with room for `capacity` tags: build yours."""

    serial: int
    generation: int
    capacity: int


class Summary(Message):
    """The whole filter of my side of our link, in the new generation."""

    serial: int
    generation: int
    capacity: int
    filter: bytes


class Covered(Message):
    """Everybody on my side of our link knows what your message `serial` said."""

    serial: int


class Stale(Message):
    """To the broker that begins generations: much of what the filters of this generation say is no longer so."""

    generation: int


class Speak(Message):
    """Rings when news have been gathered for long enough."""


class Unheard(Message):
    """Rings when a neighbour has not covered a message for a while."""


KINDS = (Tell, Renew, Summary, Covered, Stale)
