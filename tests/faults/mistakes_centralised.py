"""Mistakes of CENTRALISED, and of what every member shares with it."""

from mistake import Mistake

from implicast.casting import front_end_client, inbox, notifier
from implicast.casting.centralised import Server
from implicast.casting.client_registry import Register, RegisterAck
from implicast.peer.requests import RetryPolicy

ONCE = RetryPolicy(2_000_000, times=1)


def silence(kind, alarm):
    """A patch: this class does nothing when the alarm of this name rings."""

    def put(patch):
        rings = next(each for each in kind.alarm_handlers if each.__name__ == alarm)
        patch.setattr(
            kind, "alarm_handlers", {**kind.alarm_handlers, rings: lambda self, alarm: None}
        )

    return put


def take_repeats(patch):
    """A member delivers whatever it has a notification of; what it remembers is the same."""
    first = inbox.Seen.first
    patch.setattr(inbox.Seen, "first", lambda self, *given: first(self, *given) or True)


def store_anything(patch):
    """The server says `RegisterAck` to an older version, too."""

    def on_register(self, sender, register):
        known = self.clients.entries.get(register.name)
        if known is not None and register.version < known.version:
            self.host.send(sender, RegisterAck(register.version))
        else:
            careful(self, sender, register)

    careful = Server.message_handlers[Register]
    patch.setattr(Server, "message_handlers", {**Server.message_handlers, Register: on_register})


MISTAKES = (
    Mistake(
        "no repeats",
        "centralised",
        rule="a notification is repeated until it is acknowledged (casting/notifier.py)",
        put=lambda patch: patch.setattr(notifier, "RETRY", ONCE),
        says="missing",
    ),
    Mistake(
        "no memory of received casts",
        "centralised",
        rule="a member recognises duplicates (casting/inbox.py)",
        put=take_repeats,
        says="repeated",
    ),
    Mistake(
        "requests not repeated",
        "centralised",
        rule="a client repeats requests that are not answered (casting/front_end_client.py)",
        put=lambda patch: patch.setattr(front_end_client, "REGISTER_RETRY", ONCE),
        says="never complete",
    ),
    Mistake(
        "a server without durable state",
        "centralised",
        rule="a server writes its state to disk before it answers (casting/centralised/server.py)",
        put=lambda patch: patch.setattr(Server, "durable_state", lambda self: None),
        says="the server does not know",
        churn="event=5..9:restart:{infra}",
        parameters={"lease_s": 3000.0},
    ),
    Mistake(
        "no leases",
        "centralised",
        rule="the registration of a member that is silent for a lease is removed "
        "(casting/centralised/server.py)",
        put=silence(Server, "LeaseSweep"),
        says="beyond its lease",
        churn="event=5:crash:3",
        parameters={"lease_s": 10.0},
    ),
    Mistake(
        "an older version stored",
        "centralised",
        rule="an older version is answered with the stored one, never with `RegisterAck` "
        "(casting/centralised/server.py)",
        put=store_anything,
        says="the server does not know",
        churn="event=5..6:return:3,event=8..9:return:3,event=12..15:return:3:old,event=20:describe:3",
        parameters={"lease_s": 3000.0},
    ),
)
