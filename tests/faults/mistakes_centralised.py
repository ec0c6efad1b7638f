"""Mistakes of CENTRALISED, and of what every member shares with it."""

from mistake import Mistake

from implicast.casting import inbox, reliable
from implicast.casting.centralised import LivingClient, LivingServer


def silence(kind, alarm):
    """A patch: this class does nothing when the alarm of this name rings."""

    def put(patch):
        rings = next(each for each in kind._handlers if each.__name__ == alarm)
        patch.setattr(kind, "_handlers", {**kind._handlers, rings: lambda self, alarm: None})

    return put


MISTAKES = (
    Mistake(
        "no repeats",
        "centralised",
        rule="a notification is repeated until it is confirmed (casting/reliable.py)",
        put=lambda patch: patch.setattr(reliable, "REPEATS_MAX", 0),
        says="missing",
    ),
    Mistake(
        "no memory of what was heard",
        "centralised",
        rule="a member tells repeats from news (casting/inbox.py)",
        put=lambda patch: patch.setattr(inbox.Seen, "first", lambda self, cast: True),
        says="repeated",
    ),
    Mistake(
        "requests not repeated",
        "centralised",
        rule="a client repeats what is not answered (casting/centralised/alive.py)",
        put=silence(LivingClient, "Again"),
        says="never complete",
    ),
    Mistake(
        "a server that writes nothing down",
        "centralised",
        rule="a server writes down what it answers, before it answers (casting/centralised/disk.py)",
        put=lambda patch: patch.setattr(LivingServer, "disk", lambda self: ()),
        says="the server does not know",
        churn="deed=5..9:restart:{infra}",
        parameters={"lease_s": 3000.0},
    ),
    Mistake(
        "no leases",
        "centralised",
        rule="whoever is silent for a lease is forgotten (casting/centralised/alive.py)",
        put=silence(LivingServer, "Sweep"),
        says="beyond its lease",
        churn="deed=5:crash:3",
        parameters={"lease_s": 10.0},
    ),
)
