"""A member counts once in a receipt, though two peers notify it of one cast, or one peer for two tasks."""

import pytest
from test_spice_receipts import Town

from implicast.casting.inbox import Outcome
from implicast.casting.notifier import Notify
from implicast.casting.spice.receiver import SpiceReceiver
from implicast.casting.spice.traversal_messages import CastRequest, RepeatCoverageReport
from implicast.casting.spice.traversal_state import TraversalTask
from implicast.language.parse import parse
from implicast.overlay.ice.item_store import RouteHeader

MEMBER, PUBLISHER, WAY = 5, 1, RouteHeader((), 0)


class Twice:
    """A cast that meets one record in several tasks."""

    def __init__(self):
        self.town = Town()
        self.town.register(MEMBER, "jazz")
        self.town.run(5)
        self.cast = self.town.cast(PUBLISHER, "samba")
        self.request = CastRequest(WAY, self.cast, parse("jazz"), 0, "jazz", 0, 0, 0, b"")

    def notify(self, *notifiers):
        """Each notifies the member for a task of its own; returns the tasks when all is quiet."""
        member, tasks = self.town.peers[MEMBER].contact, []
        for each in notifiers:
            casts = self.town.peers[each].casts
            tasks.append(TraversalTask(self.town.world.now_us, self.request))
            notification = Notify(self.cast, self.request.target, b"")
            casts.notify(tasks[-1], self.request, member, notification)
        self.town.run(3)
        return tasks


def counted(tasks):
    """How many members the tasks count as notified, and how many as notified by others."""
    tallies = [each.tally for each in tasks]
    others = [each.repeated for each in tallies if isinstance(each, RepeatCoverageReport)]
    return sum(each.notified for each in tallies), sum(others)


def test_two_peers_that_notify_one_member_count_it_once(monkeypatch):
    assert counted(Twice().notify(7, 9)) == (1, 1)

    monkeypatch.setattr(
        SpiceReceiver, "outcome_for", lambda self, sender, cast, again, outcome: Outcome.TAKEN
    )
    assert counted(Twice().notify(7, 9)) == (2, 0), "nothing else keeps it from counting twice"


@pytest.mark.parametrize("again", [False, True], ids=["at a time", "one after the other"])
def test_two_tasks_of_one_peer_count_a_member_once(again):
    scene = Twice()
    tasks = [*scene.notify(7), *scene.notify(7)] if again else scene.notify(7, 7)

    assert counted(tasks) == (1, 1)
    assert scene.town.told(scene.cast) == [MEMBER]
