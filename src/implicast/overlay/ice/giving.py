"""How pieces change hands: joining, leaving, and the give in three messages that both are made of.

The owner of the place that a newcomer asks for halves its piece (the next bit of the prefix names the dimension) and
gives the half with the place away. From `Give` until `Took` the giver does not answer for it, from `Took` until `Done`
the taker does not either; messages for it wait. So no code ever has two peers that answer for it.
Epochs: split +1 for both halves, merge largest +1, give +2, taking back +3.

Room is left for an unkind network: heirs that hold copies of what a peer keeps, seizing what a dead peer held, repeats
of unanswered gives, tidying of peers with several pieces.
"""

from implicast.overlay.ice.atlas import Atlas, sibling, tract_of
from implicast.overlay.ice.greeting import Greeting
from implicast.overlay.ice.ground import Tenant
from implicast.overlay.ice.messages import AskAgain, Declined, Depart, Done, Give, GiveAgain, Join, Title, Took
from implicast.peer.contract import Address, Host, handles
from implicast.peer.events import Joined, Left
from implicast.space.morton import BITS

JOIN_US = 4_000_000
"""A newcomer draws another place when nobody has answered for so long: the owner was busy."""
LINGER_US = 30_000_000
"""How long a leaver without pieces still forwards what was under way to it."""
INTRODUCERS_MAX = 64
"""Members that a newcomer is told of and asks in turn; further ones are ignored."""


class Giving(Greeting):
    """Split, merge, give."""

    __slots__ = ("attempt", "given", "introducers", "joined", "number", "offer", "received")

    def __init__(
        self, address: Address, host: Host, tenant: Tenant, dimensions: int, cosine: float, merge: bool = True
    ) -> None:
        super().__init__(address, host, tenant, dimensions, cosine, merge)
        self.number = self.attempt = 0
        self.given: Title | None = None
        """Our piece that is being given."""
        self.offer: Give | None = None
        self.received: tuple[Address, Give] | None = None
        """Who gives us what, until it is done."""
        self.introducers: tuple[Address, ...] = ()
        self.joined = False

    def in_transit(self) -> list[Title]:
        return [self.given, *self.not_yet()] if self.given is not None else self.not_yet()

    def not_yet(self) -> list[Title]:
        return [self.received[1].title] if self.received is not None else []

    def join(self, introducers: tuple[Address, ...]) -> None:
        """Ask for a place, by way of peers already there; the first peer owns the whole surface."""
        self.introducers = introducers[:INTRODUCERS_MAX]
        if self.introducers:
            self._ask()
        else:
            self.atlas.put([Title(0, 0, 0, self.address)])
            self._settled_in()
            self.announce([])

    def _ask(self) -> None:
        self.attempt += 1
        place = self.host.rng.getrandbits(BITS)
        self.host.send(self.host.rng.choice(self.introducers), Join(place, self.address))
        self.host.after(JOIN_US, AskAgain(self.attempt))

    @handles(AskAgain)
    def on_ask_again(self, alarm: AskAgain) -> None:
        if alarm.attempt == self.attempt and not self.pieces and not self.leaving:
            self._ask()

    @handles(Join)
    def on_join(self, sender: Address, join: Join) -> None:
        busy = self.given is not None or self.leaving
        if not self.carry(join.code, join) or busy or join.newcomer == self.address:
            return
        smallest, *more = sorted(self._settled_pieces(), key=lambda title: (-title.bits, title.low))
        if more:
            self.give(smallest, join.newcomer)
        elif smallest.bits < BITS:
            self.give(self._split(smallest, join.code), join.newcomer)

    def _settled_pieces(self) -> list[Title]:
        moving = self.in_transit()
        return [each for each in self.pieces if each not in moving]

    def _split(self, piece: Title, code: int) -> Title:
        """Halve a piece; the half with the code."""
        bits = piece.bits + 1
        half = 1 << (BITS - bits)
        halves = [Title(low, bits, piece.epoch + 1, self.address) for low in (piece.low, piece.low + half)]
        self.atlas.drop([piece])
        self.atlas.put(halves)
        return halves[code >= halves[1].low]

    def give(self, piece: Title, taker: Address) -> None:
        self.number += 1
        self.given = piece
        title = Title(piece.low, piece.bits, piece.epoch + 2, taker)
        around = tuple(each for each in self.atlas.titles.values() if each.low != piece.low)
        self.offer = Give(self.number, title, around, self.tenant.pack((piece.low, piece.high)))
        self.survey(self.in_transit())
        self.host.send(taker, self.offer)

    @handles(Give)
    def on_give(self, sender: Address, give: Give) -> None:
        if self.leaving or self.received is not None or self.atlas.better_than(give.title):
            self.host.send(sender, Declined(give.number))
            return
        for title in give.around:
            if title.owner != self.address:
                self.atlas.learn(title)
        self._own(give.title)
        self.received = (sender, give)
        self.tenant.unpack(give.luggage)
        self.survey(self.in_transit())
        self.host.send(sender, Took(give.number))

    def _own(self, title: Title) -> None:
        """Our own act: what we knew of this place is void."""
        atlas = Atlas([title])
        for each in self.atlas.titles.values():
            atlas.learn(each)
        self.atlas = atlas

    @handles(Took)
    def on_took(self, sender: Address, took: Took) -> None:
        offer = self.offer
        if offer is None or offer.number != took.number:
            return
        before = self.neighbours()
        self.given = self.offer = None
        self.atlas.learn(offer.title)
        self.gifts.append((self.host.now_us, offer.title))
        self.tenant.forget((offer.title.low, offer.title.high))
        self.host.send(sender, Done(took.number))
        self.announce(before)
        if self.leaving:
            self._give_next(())

    @handles(Declined)
    def on_declined(self, sender: Address, declined: Declined) -> None:
        offer, piece = self.offer, self.given
        if offer is None or piece is None or offer.number != declined.number:
            return
        self.given = self.offer = None
        self.atlas.drop([piece])
        self.atlas.put([Title(piece.low, piece.bits, piece.epoch + 3, self.address)])
        self._merge()
        self.announce(self.neighbours())
        if self.leaving:
            self._give_next((sender,))

    @handles(Done)
    def on_done(self, sender: Address, done: Done) -> None:
        if self.received is None or self.received[0] != sender or self.received[1].number != done.number:
            return
        before = self.neighbours()
        self.received = None
        self._merge()
        self.announce(before)
        self._settled_in()

    def _settled_in(self) -> None:
        if not self.joined:
            self.joined = True
            self.host.deliver(Joined())

    def _merge(self) -> None:
        """Join halves that are both ours and settled into what they are halves of."""
        pieces = {each.low: each for each in self._settled_pieces()}
        for each in sorted(pieces.values(), key=lambda title: -title.bits):
            other = pieces.get(sibling(each.low, each.bits)) if each.bits else None
            if other is not None and other.bits == each.bits and each.low in pieces:
                self.atlas.drop([each, other])
                low, epoch = min(each.low, other.low), max(each.epoch, other.epoch) + 1
                self.atlas.put([Title(low, each.bits - 1, epoch, self.address)])
                return self._merge()
        return None

    def leave(self) -> None:
        """Give every piece away, linger for strays, go."""
        self.leaving = True
        self._give_next(())

    def _give_next(self, declined: tuple[Address, ...]) -> None:
        """The largest piece first, to the owner of its sibling if that is one piece, else to the smallest neighbour."""
        neighbours = [each for each in self.neighbours() if each not in declined]
        if self.given is not None:
            return
        if not self.pieces or not self.neighbours():
            self.host.after(LINGER_US, Depart())
        elif self.received is not None or not neighbours:
            self.host.after(JOIN_US, GiveAgain())
        else:
            piece = min(self.pieces, key=lambda title: (title.bits, title.low))
            self.give(piece, self._heir(piece, neighbours))

    @handles(GiveAgain)
    def on_give_again(self, alarm: GiveAgain) -> None:
        self._give_next(())

    @handles(Depart)
    def on_depart(self, alarm: Depart) -> None:
        self.host.deliver(Left())

    def _heir(self, piece: Title, neighbours: list[Address]) -> Address:
        other = self.atlas.at(sibling(piece.low, piece.bits)) if piece.bits else None
        if other is not None and other.bits == piece.bits and other.owner in neighbours:
            return other.owner
        return min(neighbours, key=self._known_ground)

    def _known_ground(self, peer: Address) -> tuple[int, Address]:
        tract = tract_of(self.atlas.of(peer))
        return sum(tract[1::2]) - sum(tract[::2]), peer
