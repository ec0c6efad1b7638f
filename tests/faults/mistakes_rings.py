"""Mistakes of the designs on hashed rings (DHT, publish/subscribe) and of the ring below them."""

from mistake import Mistake, without_unreachable

from implicast.casting import inbox, notifier
from implicast.casting.dht.member import Dht
from implicast.casting.pubsub import PubSub
from implicast.casting.replicated_lists import RingMember, member
from implicast.casting.replicated_lists.anti_entropy import AntiEntropy
from implicast.casting.replicated_lists.holder import ListHolder
from implicast.casting.replicated_lists.range_handoff import RangeHandoff
from implicast.overlay.links.liveness import RingLiveness
from implicast.overlay.links.messages import INSERT, REPLACE
from implicast.overlay.links.refs import FIRST, lies_between
from implicast.overlay.links.stabilisation import Stabilisation
from implicast.peer.detector import Detector
from implicast.world.faults import Faults

SMALL = {"peers": 24, "faults": Faults(), "strict": False}
LOSSY = {"peers": 24, "faults": Faults(loss=0.05), "strict": False}
NEIGHBOURS = "event=5:crash:18+16+13"
"""Three adjacent nodes on the ring of these scenarios: a holder and both holders of its copies."""


def several(*changes):
    def put(patch):
        for owner, name, instead in changes:
            patch.setattr(owner, name, instead)

    return put


def silence(kind, alarm):
    """A patch: this class ignores the alarm of this name."""

    def put(patch):
        ignored = next(each for each in kind.alarm_handlers if each.__name__ == alarm)
        patch.setattr(
            kind, "alarm_handlers", {**kind.alarm_handlers, ignored: lambda self, alarm: None}
        )

    return put


def confirm_without_copies(self, copy):
    self.acknowledge(copy)


def told_once(self, *given, told=notifier.Notifier.__init__):
    told(self, *given)
    self._requests.topic(notifier.NOTIFY, notifier.RETRY._replace(times=1), self._on_request_lost)


def ever_suspected(self, who, *within):
    return who in self.suspects


def repair_without_a_number(self, holder, cur, cur_num):
    me, right = self._position.me, self._position.right
    beyond = cur != me and not lies_between(holder, cur, me)
    kind = INSERT if beyond and not lies_between(me, right, cur) else REPLACE
    self._requests.request(kind, holder, me, cur, cur_num, FIRST)


def leave_and_forget(self):
    self.reads.open.clear()
    self.requests._open.clear()
    self.notifier.casts.clear()
    RingMember.leave(self)


MISTAKES = (
    Mistake(
        "no copies",
        "dht",
        rule="an entry is acknowledged when it is copied, and copies are compared "
        "(casting/replicated_lists/holder.py)",
        put=several(
            (ListHolder, "forward_copy", confirm_without_copies),
            (AntiEntropy, "send_digest", lambda self: None),
        ),
        says="lacks the entry of",
        churn="event=5:crash:3",
        changes=SMALL,
    ),
    Mistake(
        "a lost range is not announced",
        "dht",
        rule="when a holder fails with all its copies, owners put their entries again "
        "(ring_broadcast.py)",
        put=several(
            (
                RangeHandoff,
                "on_neighbours_changed",
                lambda self: self._anti_entropy.sync_soon() if self._state.is_ready else None,
            )
        ),
        says="lacks the entry of",
        churn=NEIGHBOURS,
        changes=SMALL,
    ),
    Mistake(
        "no acknowledgement",
        "dht",
        rule="a notification is repeated until it is acknowledged (casting/notifier.py)",
        put=several((notifier.Notifier, "__init__", told_once)),
        says="missing",
        churn="event=5:crash:3",
        changes=LOSSY,
    ),
    Mistake(
        "lists requested once",
        "dht-naive",
        rule="a list that does not arrive is requested again, by another path "
        "(casting/replicated_lists/reads.py)",
        put=silence(Dht, "FetchRetry"),
        says="missing",
        churn="event=5:crash:3",
        changes=LOSSY,
    ),
    Mistake(
        "entries put once",
        "chord-pubsub",
        rule="an entry is put again until all its values are acknowledged "
        "(casting/replicated_lists/own_entries.py)",
        put=silence(PubSub, "PutRetry"),
        says="never complete",
        churn="event=5:join:{new}",
        changes=LOSSY,
    ),
    Mistake(
        "no memory of received casts",
        "opchord-pubsub",
        rule="a member recognises duplicates (casting/inbox.py)",
        put=several((inbox.Seen, "first", lambda self, *given: True)),
        says="repeated",
        churn="event=5:crash:3",
        changes=LOSSY,
    ),
    Mistake(
        "suspicions never forgiven",
        "dht",
        rule="a suspicion ends at the first message from the suspect, and after a while "
        "(peer/detector.py)",
        put=several(
            (RingLiveness, "on_message_from", lambda self, ref: None),
            (Detector, "is_suspect", ever_suspected),
            (Detector, "suspected_within", ever_suspected),
        ),
        says="the ring is open",
        churn="event=5..40:split:0+4+6+12+16+17+19+20",
        changes=SMALL,
        long=True,
    ),
    Mistake(
        "a repair takes no number of its own",
        "chord-pubsub",
        rule="the number of a repair supersedes all earlier ones (overlay/links/stabilisation.py)",
        put=several((Stabilisation, "relink", repair_without_a_number)),
        says="as its left neighbour",
        churn="event=5:crash:3",
        changes=SMALL,
    ),
    Mistake(
        "a leaving member forgets its own casts",
        "dht",
        rule="a leaving member still fetches the lists of its casts and notifies those selected "
        "(casting/replicated_lists/member.py)",
        put=several((Dht, "leave", leave_and_forget)),
        says="left, and its cast",
        churn="event=9.01:leave:17",
        changes=SMALL,
    ),
    Mistake(
        "receipts admit no unreachable member",
        "dht",
        rule="a receipt counts the members that did not answer "
        "(casting/replicated_lists/member.py)",
        put=several((member, "Settled", without_unreachable)),
        says="name more unreachable members than they count",
        churn="event=5..60:freeze:3",
        changes={**SMALL, "casts": 120, "network": "flat"},
    ),
)
