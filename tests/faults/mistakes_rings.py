"""Mistakes of the designs on hashed rings: DHT and publish/subscribe, and of the ring beneath them."""

from mistake import Mistake

from implicast.casting import inbox, telling
from implicast.casting.dht.member import Dht
from implicast.casting.keeping import RingMember
from implicast.casting.keeping.copies import Comparisons
from implicast.casting.keeping.keeper import Keeper
from implicast.casting.keeping.messages import LaidAt
from implicast.casting.keeping.tenure import Tenure
from implicast.casting.pubsub import PubSub
from implicast.overlay.links.company import Company
from implicast.overlay.links.messages import INSERT, REPLACE
from implicast.overlay.links.refs import FIRST, lies_between
from implicast.overlay.links.walks import Looks
from implicast.peer.liveness import Detector
from implicast.world.faults import Faults

SMALL = {"peers": 24, "faults": Faults(), "strict": False}
LOSSY = {"peers": 24, "faults": Faults(loss=0.05), "strict": False}
NEIGHBOURS = "deed=5:crash:18+16+13"
"""Three that are next to each other on the ring of these scenarios: a keeper and both keepers of its copies."""


def several(*changes):
    def put(patch):
        for owner, name, instead in changes:
            patch.setattr(owner, name, instead)

    return put


def silence(kind, alarm):
    """A patch: this class does nothing when the alarm of this name rings."""

    def put(patch):
        rings = next(each for each in kind._alarms if each.__name__ == alarm)
        patch.setattr(kind, "_alarms", {**kind._alarms, rings: lambda self, alarm: None})

    return put


def confirm_without_copies(self, copy):
    laid = LaidAt(copy.serial, copy.rows[0].stamp, copy.low, copy.high, copy.by.address)
    self._tell(copy.rows[0].owner.address, laid)


def told_once(self, *given, told=telling.Teller.__init__):
    told(self, *given)
    self._asker.topic(telling.TELLING, telling.PATIENCE._replace(times=1), self._lost)


def ever_suspected(self, who, *within):
    return who in self._suspects


def repair_without_a_number(self, holder, cur, cur_num):
    links = self._links
    beyond = cur != links.me and not lies_between(holder, cur, links.me)
    kind = INSERT if beyond and not lies_between(links.me, links.right, cur) else REPLACE
    links.membership.request(kind, holder, links.me, cur, cur_num, FIRST)


def leave_and_forget(self):
    self.questions.open.clear()
    self.asker._open.clear()
    self.teller.casts.clear()
    RingMember.leave(self)


MISTAKES = (
    Mistake(
        "no copies",
        "dht",
        rule="an entry counts as laid when it is copied, and copies are compared (casting/keeping/keeper.py)",
        put=several(
            (Keeper, "_copy_on", confirm_without_copies), (Comparisons, "_sync", lambda self: None)
        ),
        says="does not keep what",
        churn="deed=5:crash:3",
        changes=SMALL,
    ),
    Mistake(
        "nobody is told what is lacking",
        "dht",
        rule="when a keeper dies with all its copies, those who were in its lists lay them again (rumours.py)",
        put=several(
            (Tenure, "moved", lambda self: self._copies.soon() if self._share.is_ready else None)
        ),
        says="does not keep what",
        churn=NEIGHBOURS,
        changes=SMALL,
    ),
    Mistake(
        "no acknowledgement",
        "dht",
        rule="whoever is told confirms, and is told again until it does (casting/telling.py)",
        put=several((telling.Teller, "__init__", told_once)),
        says="missing",
        churn="deed=5:crash:3",
        changes=LOSSY,
    ),
    Mistake(
        "lists asked for once",
        "dht-naive",
        rule="a list that does not come is asked for again, by another way (casting/keeping/questions.py)",
        put=silence(Dht, "AskLate"),
        says="missing",
        churn="deed=5:crash:3",
        changes=LOSSY,
    ),
    Mistake(
        "entries laid once",
        "chord-pubsub",
        rule="an entry is laid again until all its values are confirmed (casting/keeping/layings.py)",
        put=silence(PubSub, "LayLate"),
        says="never complete",
        churn="deed=5:join:{new}",
        changes=LOSSY,
    ),
    Mistake(
        "no memory of what was heard",
        "opchord-pubsub",
        rule="a member tells repeats from news (casting/inbox.py)",
        put=several((inbox.Seen, "first", lambda self, cast, now_us: True)),
        says="repeated",
        churn="deed=5:crash:3",
        changes=LOSSY,
    ),
    Mistake(
        "suspicions never forgiven",
        "dht",
        rule="a suspicion ends at the first word from the suspect, and after a while (peer/liveness.py)",
        put=several(
            (Company, "heard", lambda self, ref: None),
            (Detector, "is_suspect", ever_suspected),
            (Detector, "suspected_within", ever_suspected),
        ),
        says="the ring is open",
        churn="deed=5..40:split:0+4+6+12+16+17+19+20",
        changes=SMALL,
    ),
    Mistake(
        "a repair takes no number of its own",
        "chord-pubsub",
        rule="the number of a repair beats all that was before it (overlay/links/walks.py)",
        put=several((Looks, "settle", repair_without_a_number)),
        says="as its left neighbour",
        churn="deed=5:crash:3",
        changes=SMALL,
    ),
    Mistake(
        "a leaver forgets its own casts",
        "dht",
        rule="a leaver still asks for the lists of its casts, and tells whom they select (casting/keeping/member.py)",
        put=several((Dht, "leave", leave_and_forget)),
        says="left, and its cast",
        churn="deed=9.01:leave:17",
        changes=SMALL,
    ),
)
