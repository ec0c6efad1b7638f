"""How a place meets those of whom it hears, and asks after those that others do not know.

Whoever is named by another is listed at once, for its certificate is sound, and greeted: it learns of us by our own
signed claim, and who stays silent is lost. A greeting asks for no lists: comparing (`comparison.py`) brings what else
is to be known, and only where two lists differ. Who was heard lately need not be greeted: it will learn of us as we did
of it, when it compares its own lists. Greetings of all our places to all places of one address go together.

Asking each of them, from each place, for all its lists took a third of the processor time of a run with change.
"""

from collections.abc import Callable, Iterable, Sequence

from implicast.overlay.skip_graph.absentees import LIFE_US, Absentees
from implicast.overlay.skip_graph.messages import GREETED_MAX, Greet, Greeted, Greeting
from implicast.overlay.skip_graph.place import Place
from implicast.overlay.skip_graph.places import Places
from implicast.peer.asking import Asking, Patience
from implicast.peer.contract import Address, Host, Message, Part, handles
from implicast.peer.identity import Certificate

SHOWN = "shown"
PATIENCE = Patience(1_000_000, times=1)
"""Then it is looked for."""
GREET_US = 200_000
"""Greetings of so long go together."""
GREETINGS_MAX = 4_096
"""Places to be greeted that are remembered at a time; the others are met when lists are compared again."""
DOUBTED_MAX = 512
"""Places that others did not know and that are remembered; the oldest are forgotten first."""


class Greetings(Part):
    """Whom the places of one peer are to greet, and who has not answered yet. `changed()` is called when our lists
    have."""

    __slots__ = ("_absentees", "_asker", "_changed", "_doubted", "_look_us", "_places", "_planned")

    def __init__(
        self, address: Address, host: Host, asker: Asking, places: Places, absentees: Absentees, look_us: int,
        changed: Callable[[], None],
    ) -> None:  # fmt: skip
        super().__init__(address, host)
        self._asker, self._places, self._absentees = asker, places, absentees
        self._look_us, self._changed = look_us, changed
        self._doubted: dict[bytes, tuple[int, bool]] = {}  # whom others do not know: since when; asked?
        self._planned: dict[tuple[bytes, bytes], bool] = {}  # our place, known place; whether it is to know of us
        asker.topic(SHOWN, PATIENCE, lambda shown, asked: absentees.look_for(asked.to, asked.message))

    def learn(self, place: Place, named: Sequence[Certificate]) -> None:
        """Take in whom another named. Who searches asks them; else they are greeted."""
        news, lists = place.learn(named), place.lists
        if news:
            self._changed()
        for node in news:
            if node.address != self.address and not self._absentees.was_heard(node.address):
                lists.note_hearsay(node.key, self.host.now_us)
                if not lists.is_open:
                    self._plan(place, node, is_new=True)

    def ask_for_life(self, place: Place, doubted: Iterable[Certificate]) -> None:
        """Somebody does not know those whom we list."""
        for node in doubted:
            if self._doubts(node):
                self._plan(place, node, is_new=False)

    def put_to(self, address: Address, message: Message) -> None:
        """Send it, and look for the receiver if it does not answer."""
        self._asker.ask(SHOWN, (address, type(message).wire), address, message)

    def answered(self, address: Address, kind: type[Message]) -> None:
        """The answer to what it was sent."""
        self._asker.answered(SHOWN, (address, kind.wire))

    def _plan(self, place: Place, node: Certificate, is_new: bool) -> None:
        if node.address == self.address or len(self._planned) >= GREETINGS_MAX:
            return
        if not self._planned:
            self.host.after(GREET_US, Greeting())
        both = (place.key, node.key)
        self._planned[both] = is_new or self._planned.get(both, False)

    def _doubts(self, node: Certificate) -> bool:
        """Whether it is time to ask somebody; a neighbour that never agrees must not make us ask all the time.

        Mostly the neighbour's list is short and will not be when it has had our answer: who was heard lately is asked
        only if it is still not known then. Saves seven greetings in ten.
        """
        now_us, doubted = self.host.now_us, self._doubted
        first_us, asked = doubted.get(node.key, (-LIFE_US, False))
        if first_us <= now_us - LIFE_US:
            first_us, asked = now_us, False
            doubted.pop(node.key, None)
        asks = not asked and (now_us - first_us > self._look_us // 2 or not self._absentees.was_heard(node.address))
        doubted[node.key] = (first_us, asked or asks)
        while doubted[oldest := next(iter(doubted))][0] <= now_us - LIFE_US or len(doubted) > DOUBTED_MAX:
            del doubted[oldest]
        return asks

    @handles(Greeting)
    def on_greeting(self, alarm: Greeting) -> None:
        """Greet those who are still listed."""
        planned, self._planned = self._planned, {}
        ours: dict[Address, dict[bytes, None]] = {}
        theirs: dict[Address, dict[bytes, None]] = {}
        held = self._places.held
        for (key, other), is_new in planned.items():
            node = held[key].lists.listed(other) if key in held else None
            if node is not None:
                theirs.setdefault(node.address, {})[other] = None
                if is_new:
                    ours.setdefault(node.address, {})[key] = None
        for address, asked in theirs.items():
            claims = [self._places.claim(held[key]) for key in ours.get(address, ())]
            self.put_to(address, Greet(tuple(claims[:GREETED_MAX]), tuple(asked)[:GREETED_MAX]))

    @handles(Greeted)
    def on_greeted(self, sender: Address, greeted: Greeted) -> None:
        """It is there."""
        self.answered(sender, Greet)
