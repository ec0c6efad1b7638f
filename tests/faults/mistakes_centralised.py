"""Mistakes of CENTRALISED, and of what every member shares with it."""

from mistake import Mistake

from implicast.casting import inbox, served, telling
from implicast.casting.centralised import Server
from implicast.casting.service import Register, Stored
from implicast.peer.asking import Patience

ONCE = Patience(2_000_000, times=1)


def silence(kind, alarm):
    """A patch: this class does nothing when the alarm of this name rings."""

    def put(patch):
        rings = next(each for each in kind._alarms if each.__name__ == alarm)
        patch.setattr(kind, "_alarms", {**kind._alarms, rings: lambda self, alarm: None})

    return put


def store_anything(patch):
    """The server says `Stored` to an older version, too."""

    def on_register(self, sender, register):
        known = self.roster.entries.get(register.name)
        if known is not None and register.version < known.version:
            self.host.send(sender, Stored(register.version))
        else:
            careful(self, sender, register)

    careful = Server._messages[Register]
    patch.setattr(Server, "_messages", {**Server._messages, Register: on_register})


MISTAKES = (
    Mistake(
        "no repeats",
        "centralised",
        rule="a notification is repeated until it is confirmed (casting/telling.py)",
        put=lambda patch: patch.setattr(telling, "PATIENCE", ONCE),
        says="missing",
    ),
    Mistake(
        "no memory of what was heard",
        "centralised",
        rule="a member tells repeats from news (casting/inbox.py)",
        put=lambda patch: patch.setattr(inbox.Seen, "first", lambda self, cast, now_us=0: True),
        says="repeated",
    ),
    Mistake(
        "requests not repeated",
        "centralised",
        rule="a client repeats what is not answered (casting/served.py)",
        put=lambda patch: patch.setattr(served, "REGISTER_PATIENCE", ONCE),
        says="never complete",
    ),
    Mistake(
        "a server that writes nothing down",
        "centralised",
        rule="a server writes down what it answers, before it answers (casting/centralised/server.py)",
        put=lambda patch: patch.setattr(Server, "kept", lambda self: None),
        says="the server does not know",
        churn="deed=5..9:restart:{infra}",
        parameters={"lease_s": 3000.0},
    ),
    Mistake(
        "no leases",
        "centralised",
        rule="a member that is silent for a lease is forgotten (casting/centralised/server.py)",
        put=silence(Server, "LeaseSweep"),
        says="beyond its lease",
        churn="deed=5:crash:3",
        parameters={"lease_s": 10.0},
    ),
    Mistake(
        "an older version stored",
        "centralised",
        rule="an older version is answered with what is known, never with `Stored` (casting/centralised/server.py)",
        put=store_anything,
        says="the server does not know",
        churn="deed=5..6:return:3,deed=8..9:return:3,deed=12..15:return:3:old,deed=20:describe:3",
        parameters={"lease_s": 3000.0},
    ),
)
