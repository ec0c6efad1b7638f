"""How a living place meets those of whom it hears, and asks after those that others do not know.

Whoever is named by another is listed at once, for its certificate is sound, and greeted: it learns of us by our own
signed claim, and who stays silent is lost. A greeting asks for no lists: comparing (`comparing.py`) brings what else is
to be known, and only where two lists differ. Who was heard lately need not be greeted: it will learn of us as we did of
it, when it compares its own lists. Greetings of all our places to all places of one address go together.

Asking each of them, from each place, for all its lists took a third of the processor time of a run with change.
"""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Sequence

from implicast.overlay.skip_graph.leaving import LeavingGraph
from implicast.overlay.skip_graph.messages import EVERY, PRESENT, Claim, Greet, Greeted, Greeting, Unheard
from implicast.overlay.skip_graph.place import Place
from implicast.overlay.skip_graph.searching import PATIENCE_US
from implicast.peer.contract import Address, Host, Message, handles
from implicast.peer.identity import Certificate, Trust
from implicast.peer.pending import Pending
from implicast.peer.signatures import Signer
from implicast.space.vector import Vectors

GREET_US = 200_000
"""Greetings of so long go together."""
GREETED_MAX = 256
"""Claims, and places asked after, in one greeting."""
GREETINGS_MAX = 4_096
"""Places to be greeted that are remembered at a time; the others are met when lists are compared again."""
CLAIM_US = 1_000_000
"""How long one signature serves; claims count for half a minute."""
CLAIMS_MAX = 256
"""Claims of our places that are kept; the first are forgotten first."""
LIFE_US = 15_000_000
"""Who was asked for a sign of life within this time is not asked again, whatever neighbours say."""
DOUBTED_MAX = 512
"""Places that others did not know and that are remembered; the oldest are forgotten first."""


class GreetingGraph(LeavingGraph):
    """The places of one peer that greet those of others."""

    __slots__ = ("_claims", "_doubted", "_to_greet", "_unheard")

    def __init__(self, address: Address, host: Host, k: int, vectors: Vectors, trust: Trust, signer: Signer) -> None:
        super().__init__(address, host, k, vectors, trust, signer)
        self._doubted: dict[bytes, tuple[int, bool]] = {}  # whom others do not know: since when; asked?
        self._to_greet: dict[tuple[bytes, bytes], bool] = {}  # place of ours, known place; whether it is to know of us

        self._claims: dict[bytes, Claim] = {}
        self._unheard: Pending[tuple[Address, type], Message] = Pending(host, Unheard(), PATIENCE_US)

    @abstractmethod
    def _look_for(self, address: Address, message: Message) -> None:
        """It was sent this and has not answered."""

    @abstractmethod
    def _was_heard_since(self, address: Address, time_us: int) -> bool:
        """Whether somebody has given a sign of life since then."""

    @abstractmethod
    def _may_list(self, node: Certificate) -> bool:
        """Whether somebody named by another may be listed, if it answers."""

    def _was_heard(self, address: Address) -> bool:
        """Whether somebody has given a sign of life less than `LIFE_US` ago."""
        return self._was_heard_since(address, self.host.now_us - LIFE_US + 1)

    def _claim(self, place: Place) -> Claim:
        """Signed once a second at most: it says that we are there now, to whomever it is said."""
        held = self._claims.get(place.key)
        if held is None or held.certificate is not place.certificate or held.sent_us < self.host.now_us - CLAIM_US:
            held = self._claims[place.key] = super()._claim(place)
            if len(self._claims) > CLAIMS_MAX:
                del self._claims[next(iter(self._claims))]
        return held

    def _learn(self, place: Place, named: Sequence[Certificate], level: int = EVERY) -> None:
        """Take in whom another named. Who searches asks them; else they are greeted."""
        searching = place.searching
        news = place.learn(named, level) if searching else [node for node in named if place.enter(node)]
        for node in news:
            if node.address != self.address and not self._was_heard(node.address):
                place.hearsay[node.key] = self.host.now_us
                if not searching:
                    self._plan_greeting(place, node, is_new=True)

    def _vouched(self, place: Place, named: Collection[Certificate]) -> tuple[Certificate, ...]:
        """Nobody is named to others who was only named to us: it has to be heard first. So hearsay goes one step, and
        the dead are forgotten for good when those have lost them who ever heard them. Else newcomers that come one
        after another would pass them on to each other for ever.
        """
        hearsay = place.hearsay
        if not hearsay:
            return tuple(named)
        for node in named:
            if node.key in hearsay and self._was_heard_since(node.address, hearsay[node.key]):
                del hearsay[node.key]
        return tuple([node for node in named if node.key not in hearsay])

    def _take_in(self, place: Place, named: Iterable[Certificate]) -> None:
        """Of those named, who is new and may be listed."""
        self._learn(place, [node for node in named if node.key not in place.known and self._may_list(node)])
        self._go_on(place)

    def _ask_for_life(self, place: Place, doubted: Iterable[Certificate]) -> None:
        """Somebody does not know those whom we list."""
        for node in doubted:
            if self._doubts(node):
                self._plan_greeting(place, node, is_new=False)

    def _plan_greeting(self, place: Place, node: Certificate, is_new: bool) -> None:
        if node.address == self.address or len(self._to_greet) >= GREETINGS_MAX:
            return
        if not self._to_greet:
            self.host.after(GREET_US, Greeting())
        both = (place.key, node.key)
        self._to_greet[both] = is_new or self._to_greet.get(both, False)

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
        asks = not asked and (now_us - first_us > self.look_us // 2 or not self._was_heard(node.address))
        doubted[node.key] = (first_us, asked or asks)
        while doubted[oldest := next(iter(doubted))][0] <= now_us - LIFE_US or len(doubted) > DOUBTED_MAX:
            del doubted[oldest]
        return asks

    @handles(Greeting)
    def on_greeting(self, alarm: Greeting) -> None:
        """Greet those who are still listed."""
        planned, self._to_greet = self._to_greet, {}
        ours: dict[Address, dict[bytes, None]] = {}
        theirs: dict[Address, dict[bytes, None]] = {}
        for (key, other), is_new in planned.items():
            place = self.places.get(key)
            node = place.listed(other) if place is not None else None
            if node is not None:
                theirs.setdefault(node.address, {})[other] = None
                if is_new:
                    ours.setdefault(node.address, {})[key] = None
        for address, asked in theirs.items():
            claims = [self._claim(self.places[key]) for key in ours.get(address, ())]
            self._put_to(address, Greet(tuple(claims[:GREETED_MAX]), tuple(asked)[:GREETED_MAX]))

    def _put_to(self, address: Address, message: Message) -> None:
        """Send it, and look for the receiver if it does not answer. One alarm serves all."""
        self._unheard.ask((address, type(message)), message)
        self.host.send(address, message)

    @handles(Unheard)
    def on_unheard(self, alarm: Unheard) -> None:
        for (address, _), message in self._unheard.due():
            self._look_for(address, message)

    @handles(Greet)
    def on_greet(self, sender: Address, greet: Greet) -> None:
        if not self.places:
            self.has_left(sender)
            return
        greeted = [self.places[key] for key in greet.asked[:GREETED_MAX] if key in self.places]
        for said in greet.claims[:GREETED_MAX]:
            if self.belief.credible(PRESENT, said):
                for place in greeted:
                    place.enter(said.certificate)
                    place.asked_by(said.certificate.address)
        self._say_left(sender, greet.asked[:GREETED_MAX])
        self.host.send(sender, Greeted())
        self._tell_late(sender)

    @handles(Greeted)
    def on_greeted(self, sender: Address, greeted: Greeted) -> None:
        """It is there."""
        self._unheard.answer((sender, Greet))
