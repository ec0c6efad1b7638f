"""What clients and brokers say beyond what every station and its members say (`casting/service.py`)."""

from implicast.peer.contract import Message


class Probe(Message):
    """A client that looks for the nearest broker asks all of them; the first to answer is it."""

    wire = 0x0312


class Serving(Message):
    """A broker that follows a view answers a probe."""

    wire = 0x0313
