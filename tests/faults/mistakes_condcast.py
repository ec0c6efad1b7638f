"""Mistakes of condcast where peers come, go and crash: of its tables, its casts, and what it believes of others."""

from mistake import Mistake

from implicast.casting import inbox
from implicast.casting.condcast.condcast import Condcast
from implicast.peer.detector import Detector


def silence(alarm):
    """A patch: nothing happens when the alarm of this name fires."""

    def put(patch):
        ignored = next(each for each in Condcast.alarm_handlers if each.__name__ == alarm)
        patch.setitem(Condcast.alarm_handlers, ignored, lambda self, alarm: None)

    return put


def never_forgive(patch):
    patch.setattr(Detector, "is_suspect", lambda self, who: who in self.suspects)
    heard = Detector.heard_from

    def remember(self, who):
        since_us = self.suspects.get(who)
        heard(self, who)
        if since_us is not None:
            self.suspects[who] = since_us

    patch.setattr(Detector, "heard_from", remember)


MISTAKES = (
    Mistake(
        "arcs are requested once",
        "condcast",
        rule="a peer that does not report its arcs as covered is asked again (casting/condcast/arc_coverage.py)",
        put=silence("RequestTimeout"),
        says="missing",
    ),
    Mistake(
        "no memory of received casts",
        "condcast",
        rule="a member recognises duplicates (casting/inbox.py)",
        put=lambda patch: patch.setattr(inbox.Seen, "first", lambda self, *given: True),
        says="repeated",
    ),
    Mistake(
        "suspicion never forgiven",
        "condcast",
        rule="a suspicion ends at the first message from the suspect (peer/detector.py)",
        put=never_forgive,
        says="missing",
    ),
    Mistake(
        "no rounds",
        "condcast",
        rule="all tables are refreshed once in a period (overlay/chord_sharp/rounds.py)",
        put=silence("RoundDue"),
        says="places ahead",
    ),
    Mistake(
        "missing levels are not requested",
        "condcast",
        rule="a level that did not arrive in a round is requested (overlay/chord_sharp/rounds.py)",
        put=silence("CatchUp"),
        says="places ahead",
    ),
)
