"""Which brokers are there, and which tree joins them: agreed by asking the first of them.

All brokers know the list of all brokers there could be. The *root* is the first of the list that one does not believe
lost. Everybody watches the root; the root watches everybody, and whoever it finds changed it counts out or in again, by
a new *view*: a tree over those that are there, with a number above all that were heard of. A broker follows the newest
view. Two roots, in a partition, lead two trees; when they hear each other the later one steps back and the other
counts all in again. A broker that begins, or comes back, says so by its number 0, and gets a new view; all that it must
have written down is the highest number it knew (`highest`), lest it uses one twice, or follows a view in two lives: its
neighbours would take what it says in the second for repeats. So a set of brokers that begin together makes its first
tree as it makes every other: once the root has heard of each whether it is there, and how far it is from the others
(`spans.py`).

Being lost is private and ends at any word (`detector.py`); the lost are asked again from time to time, because
silence would otherwise last for ever between two who believe each other dead.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice

from implicast.overlay.backbone.messages import BROKERS_MAX, Beat, Beating, LookRound, View
from implicast.overlay.backbone.spans import Spans
from implicast.overlay.backbone.tree import spanning_tree
from implicast.peer.contract import Address, Host, Part, handles
from implicast.peer.liveness import Detector, DetectorSettings

AGAIN_US = 8_000_000
"""How often those believed lost are asked again."""
SURVEYS_MAX = 3
"""How often the root asks for measurements before it makes do with what it has."""
RANK_BITS = 17
"""Of a view's number: who made it. No two brokers make views of the same number."""
FIRST = 1 << RANK_BITS
"""The number of the view in which an assembled backbone begins."""
RANKS_KEPT = 4
"""Backbones of one process whose order is remembered."""


@lru_cache(maxsize=RANKS_KEPT)
def ranks(brokers: tuple[Address, ...]) -> Mapping[Address, int]:
    """All brokers there could be, in the order that all agree on, each with its number. Brokers of one process share
    it: of ten thousand each would else have ten thousand others."""
    return {broker: number for number, broker in enumerate(sorted(brokers))}


class Views(Part, parts={"detector": Detector, "spans": Spans}):
    """A broker's share in agreeing; `follow` is told of each view that it follows."""

    __slots__ = (
        "_asked_us",
        "_follow",
        "_lost",
        "_made",
        "_members",
        "_past",
        "_ranks",
        "_room",
        "_stale",
        "_stood",
        "_surveys",
        "_unmet",
        "_watch_us",
        "detector",
        "epoch",
        "followed",
        "highest",
        "spans",
    )

    def __init__(
        self,
        address: Address,
        host: Host,
        brokers: Sequence[Address],
        watch_us: int,
        follow: Callable[[View], None],
        room: Callable[[], int],
        patience: DetectorSettings,
    ) -> None:
        super().__init__(address, host)
        assert len(brokers) <= BROKERS_MAX, f"a backbone has at most {BROKERS_MAX} brokers"
        self._ranks = ranks(tuple(brokers))
        self._watch_us, self._follow, self._room = watch_us, follow, room
        self.detector: Detector[Address] = Detector(address, host, patience, self._on_suspicion)
        self.spans = Spans(address, host, self._ranks, self._on_survey)
        self.epoch = 0
        self.highest = 0
        """No view that this broker has heard of has a higher number; the one thing to be written down."""
        self._past = 0
        """No view that it may have followed in an earlier life has a higher number."""
        self._members: Collection[Address] = ()
        self._lost: dict[Address, None] = {}
        self._asked_us: dict[Address, int] = {}
        self.followed: dict[Address, int] = {}
        """At the root: the newest view that each broker said it follows."""
        self._stood = 0
        """What those follow who have not said so: the first view, where the backbone was assembled."""
        self._unmet: set[Address] = set()
        """Who has never been heard: it is not known yet whether they are there."""
        self._stale = False
        self._surveys = 0
        self._made: dict[Address, View] = {}
        """At the root: what it tells each broker of its view, however often; later measures are for the next one."""

    def stand(self, watched: bool = True) -> None:
        """All brokers are there and follow the first view; `watched`: that may change."""
        self.epoch = self.highest = self._stood = FIRST
        self._members = self._ranks
        if watched:
            self._watch_later()

    def arrive(self, highest: int) -> None:
        """This broker begins, alone and without memory but for the highest number it knew. It asks all at once who is
        there: should it have to lead, each that is not would cost a patience after the root's."""
        self.highest = self._past = highest
        self._unmet.update(self._others())
        for other in self._others():
            self.detector.probe(other, Beat(0))
        self._watch_later()

    def heard(self, broker: Address) -> None:
        """Any word from another broker."""
        if self._is_other(broker):
            self._unmet.discard(broker)
            self._lost.pop(broker, None)
            self.detector.heard(broker)

    def _others(self) -> Iterator[Address]:
        return (broker for broker in self._ranks if broker != self.address)

    def _is_other(self, address: Address) -> bool:
        return address in self._ranks and address != self.address

    def root(self) -> Address:
        """The first broker that is not believed lost."""
        return next(
            broker for broker in self._ranks if broker == self.address or broker not in self._lost
        )

    def _on_suspicion(self, broker: Address) -> None:
        """If it was the root, all that might follow it are asked together: else each would cost a patience."""
        was_root = broker == self.root()
        self._lost[broker] = None
        if was_root:
            for other in islice(self._ranks, self._ranks[self.address]):
                if other not in self._lost:
                    self.detector.probe(other, Beat(self.epoch))

    # --- looking

    def _watch_later(self) -> None:
        self.host.after(int(self._watch_us * (0.75 + 0.5 * self.host.rng.random())), LookRound())

    @handles(LookRound)
    def on_watch(self, alarm: LookRound) -> None:
        self._watch_later()
        root = self.root()
        for other in self._others():
            if other in self._lost:
                self._ask_again(other)
            elif root in (self.address, other):
                self.detector.check(other, self._watch_us, Beat(self.epoch))
        if root == self.address:
            self._lead()

    def _ask_again(self, lost: Address) -> None:
        if self._asked_us.get(lost, -AGAIN_US) + AGAIN_US <= self.host.now_us:
            self._asked_us[lost] = self.host.now_us
            self.host.send(lost, Beat(self.epoch))

    def _lead(self) -> None:
        """At the root: a new view if somebody has come or gone; the present one again to whoever missed it."""
        members = self._present()
        if members == list(self._members) and not self._stale:
            self._tell()
        elif self._unmet.isdisjoint(members):
            self._surveys += 1
            if self._surveys > SURVEYS_MAX or self.spans.know(members):
                self._form(members)
            else:
                self.spans.survey(members)

    def _present(self) -> list[Address]:
        return [broker for broker in self._ranks if broker not in self._lost]

    def _on_survey(self) -> None:
        """A broker has told how far it is from the others; perhaps that was all that a new view waited for."""
        if (
            self._surveys
            and self.root() == self.address
            and self.spans.know(members := self._present())
        ):
            self._form(members)

    def _form(self, members: list[Address]) -> None:
        self._surveys, self._stale, self._members = 0, False, members
        self.epoch = (((self.highest >> RANK_BITS) + 1) << RANK_BITS) + self._ranks[self.address]
        self.highest = self.epoch
        self.followed, self._stood = {}, 0
        tree, room = spanning_tree(members, self.spans.round_trip_us), self._room()
        self._made = {
            broker: View(self.epoch, self.address, beside, room) for broker, beside in tree.items()
        }
        self._tell()
        self._follow(self._made[self.address])

    def _tell(self) -> None:
        for broker, view in self._made.items():
            if broker != self.address and self.followed.get(broker) != self.epoch:
                self.host.send(broker, view)

    # --- hearing

    @handles(Beat, Beating)
    def on_beat(self, sender: Address, beat: Beat | Beating) -> None:
        """The root must be above every view there is, and begin again for a broker that has lost its memory."""
        if not self._is_other(sender):
            return
        if isinstance(beat, Beat):
            self.host.send(sender, Beating(self.epoch))
        else:
            self.detector.answered(sender)
        self.heard(sender)
        self.highest = max(self.highest, beat.epoch)
        if self.root() == self.address:
            self._stale |= beat.epoch > self.epoch or beat.epoch < self.followed.get(
                sender, self._stood
            )
            self.followed[sender] = beat.epoch

    @handles(View)
    def on_view(self, sender: Address, view: View) -> None:
        """One that may have been followed in an earlier life is not followed again, and the root need not have heard
        of that life's end: the answer is a number above it, so that the root makes another view."""
        if not self._is_other(sender) or not {view.root, *view.neighbours} <= self._ranks.keys():
            return
        self.heard(sender)
        self.highest = max(self.highest, view.epoch)
        if self.root() == self.address:
            self._stale |= view.epoch > self.epoch
        elif view.epoch > max(self.epoch, self._past):
            self.epoch = view.epoch
            self._members = ()  # of an own view of former times, that must not be taken for the present one
            self._follow(view)
        self.host.send(sender, Beating(self.epoch or self._past + 1))
