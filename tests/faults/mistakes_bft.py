"""Mistakes of the Byzantine-tolerant design where peers come, go and crash: of its lists, and of its casts."""

from mistake import Mistake

from implicast.casting import inbox
from implicast.casting.bft.member import Bft
from implicast.casting.bft.validator import SeenTable
from implicast.overlay.skip_graph.graph import SkipGraph
from implicast.world.faults import Faults

SMALL = {"peers": 16, "casts": 110, "faults": Faults(), "network": "flat", "strict": False}
LOSSY = {**SMALL, "faults": Faults(loss=0.05)}


def silence(*alarms):
    """A patch: nothing happens when the alarms of these names fire. An unknown name is an error."""

    def put(patch):
        by_name = {each.__name__: each for each in Bft.alarm_handlers}
        for name in alarms:
            patch.setitem(Bft.alarm_handlers, by_name[name], lambda self, alarm: None)

    return put


def remember_nothing(patch):
    """Two guards, each of which would do: the table of multicasts met, and the inbox."""
    patch.setattr(SeenTable, "get", lambda self, query: None)
    patch.setattr(SeenTable, "record", lambda self, *met: None)
    patch.setattr(inbox.Seen, "first", lambda self, *given: True)


def never_forgive(patch):
    patch.setattr(
        SkipGraph, "on_heard_from", lambda self, sender: self.members.detector.heard_from(sender)
    )


MISTAKES = (
    Mistake(
        "steps are sent once",
        "bft",
        rule="a step of a multicast is repeated until it is acknowledged (casting/bft/step_delivery.py), "
        "and a node fetches a missed cast from its neighbours (digest_exchange.py); either rule alone "
        "suffices here, so both are off",
        put=silence("RequestTimeout", "DigestDue"),
        says="missing",
        churn="event=5:crash:3",
        changes={
            **LOSSY,
            "casts": 200,
        },  # most are reached by several senders: one in fifty is missed
    ),
    Mistake(
        "no memory of received casts",
        "bft",
        rule="a node accepts a multicast once, and a member recognises duplicates "
        "(casting/bft/validator.py)",
        put=remember_nothing,
        says="repeated",
        churn="event=5:crash:3",
        changes=SMALL,
    ),
    Mistake(
        "suspicion never forgiven",
        "bft",
        rule="a lost peer is listed again at its first message (overlay/skip_graph/members.py)",
        put=never_forgive,
        says="invariants",
        churn="event=5..29:freeze:3",
        changes=SMALL,
    ),
    Mistake(
        "no suspicion report",
        "bft",
        rule="a peer that finds another silent reports it, and the others probe it themselves "
        "(overlay/skip_graph/members.py); anti-entropy finds what reports miss (anti_entropy.py); "
        "either rule alone suffices here, so both are off",
        put=silence("SuspicionReportDue", "CompareDue"),
        says="invariants",
        churn="event=5:crash:3",
        changes={**SMALL, "casts": 4},  # later casts would detect the dead peer
    ),
    Mistake(
        "short lists stay short",
        "bft",
        rule="a list that became shorter is compared with those of the neighbours, which know the next "
        "nodes (overlay/skip_graph/anti_entropy.py)",
        put=silence("CompareDue"),
        says="invariants",
        churn="event=5:crash:3",
        changes=SMALL,
    ),
)
