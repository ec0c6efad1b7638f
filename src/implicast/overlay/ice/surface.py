"""ICE: one peer's share of a surface that is divided among all peers, as a part of a peer.

The surface owns the parts below and says what happens to all of them at once: at each tick, when our ground changes
(`announce`), when others tell us of theirs (`hear`), when a better title takes ours away (`lost`). A part is made when
it is first needed, so that a peer at rest on an assembled surface costs little more than its table. Where nothing is
assured, or nothing changes, a peer ticks only while it has something unsettled.
"""

from collections.abc import Callable, Iterable
from typing import Any

from implicast.overlay.ice.atlas import Atlas, overlap, tract_of
from implicast.overlay.ice.circle import Circle
from implicast.overlay.ice.entry import Admission
from implicast.overlay.ice.estate import Item, Tenant
from implicast.overlay.ice.estates import Estates
from implicast.overlay.ice.gives import Giver, Taker
from implicast.overlay.ice.greetings import Hails
from implicast.overlay.ice.inquest import Inquest
from implicast.overlay.ice.messages import TITLES_MAX, KeptSurface, Neighbour, Tick, Title
from implicast.overlay.ice.parting import Parting
from implicast.overlay.ice.plot import Plot
from implicast.overlay.ice.routes import Paths, Routed
from implicast.overlay.ice.settings import CALM_TICKS, Terms
from implicast.overlay.ice.share import Correspondence
from implicast.overlay.ice.succession import Succession
from implicast.overlay.ice.table import SurfaceTable
from implicast.peer.asking import Asking, UpkeepAsker
from implicast.peer.contract import Address, Host, Part, handles, in_order
from implicast.peer.late import piecemeal
from implicast.space.morton import CODES
from implicast.space.tract import Tract, contains, subtract

PARTS: dict[str, type[Part]] = {
    "circle": Circle,
    "asker": Correspondence,
    "greeter": UpkeepAsker,
    "plot": Plot,
    "greetings": Hails,
    "routes": Paths,
    "estates": Estates,
    "succession": Succession,
    "giver": Giver,
    "taker": Taker,
    "entry": Admission,
    "parting": Parting,
    "inquest": Inquest,
}
FORGET_TICKS = 8
"""Ticks between two sweeps of what is to be forgotten."""
LATE = 3
"""A tick that comes so many periods after the last one says that we slept."""


class Surface(Part, parts=PARTS):
    """One peer's share of the surface."""

    __slots__ = (
        "_forget_us",
        "_number",
        "_rest",
        "_ticked_us",
        "born_us",
        "kept_before",
        "tenant",
        "terms",
        *PARTS,
    )
    asker: Correspondence
    greeter: UpkeepAsker
    plot: Plot
    circle: Circle
    greetings: Hails
    routes: Paths
    estates: Estates
    succession: Succession
    giver: Giver
    taker: Taker
    entry: Admission
    parting: Parting
    inquest: Inquest

    def __init__(
        self,
        address: Address,
        host: Host,
        tenant: Tenant,
        terms: Terms,
        kept: KeptSurface | None = None,
    ) -> None:
        super().__init__(address, host)
        self.tenant, self.terms, self.kept_before = tenant, terms, kept
        self.born_us = host.now_us if kept is None else max(host.now_us, kept.born_us + 1)
        """When this life began: later than any before it at this address."""
        self._ticked_us, self._forget_us = -1, FORGET_TICKS * terms.timers.tick_us
        """When the last tick was (-1: we do not tick), and after which time we look for what is to be forgotten."""
        self._number = 0
        """Names transfers, hops and backups; it starts anywhere, so that a second life is not taken for the first."""
        self._rest: Callable[[Surface], None] | None = None
        if terms.assured:
            self._number = host.rng.getrandbits(40)
            for name in self.parts:
                self.make(name)
        else:
            self.__class__ = piecemeal(type(self), Surface.make)  # type: ignore[arg-type]  # a class has a hash

    def make(self, name: str) -> Any:
        """A part that has not been needed until now."""
        kind: Any = self.parts.get(name)
        if kind is None:
            raise AttributeError(name)
        asks = issubclass(kind, Asking)
        part = (
            kind(self.address, self.host, self.terms.timers.asks_max, self.circle.took)
            if asks
            else kind(self)
        )
        setattr(self, name, part)
        if self._rest is not None and name in ("plot", "routes"):
            rest, self._rest = self._rest, None
            rest(self)
        return part

    def rest_later(self, rest: "Callable[[Surface], None]") -> None:
        """Let the laboratory give us our place, by `rest_on`, when it is needed; we were there from the beginning."""
        self._rest, self.born_us = rest, 0

    @property
    def rests(self) -> bool:
        """Has nothing changed our ground, or what we know of others', since we were given it?"""
        return self._rest is not None or (self.plot.version == 0 and not self.plot.status)

    def next_number(self) -> int:
        self._number = (self._number or self.host.rng.getrandbits(40)) + 1
        return self._number

    # --- what the tenant asks for

    def join(self, introducers: tuple[Address, ...]) -> None:
        """Ask for a place, by way of peers already there; the first peer owns the whole surface."""
        kept = self.kept_before
        self.entry.join(
            introducers, kept.contacts if kept is not None and self.terms.assured else ()
        )

    def kept(self) -> KeptSurface:
        """What is to be written down, so that the next life is soon where this one was."""
        contacts = dict.fromkeys((*self.plot.neighbours(), *self.heirs, *self.estates.held))
        return KeptSurface(self.born_us, tuple(contacts)[:TITLES_MAX])

    def leave(self) -> None:
        """Give every piece away, stay a while for strays, go."""
        self.parting.leave()

    def send(self, message: Routed) -> None:
        """Route a message of our own."""
        self.routes.route(self.address, message)

    def batch(self, items: tuple[Item, ...], then: Callable[[], None]) -> bool:
        """Back items up at all heirs; `then` is called when that counts. False: too many are waiting already."""
        if self.terms.assured:
            return self.succession.batch(items, then)
        then()
        return True

    def heard(self, peer: Address) -> None:
        """Any word of a peer is a sign of life."""
        if self.terms.assured:
            self.circle.heard(peer)

    # --- what is ours

    @property
    def pieces(self) -> list[Title]:
        return self.plot.pieces

    @property
    def tract(self) -> Tract:
        """All our pieces."""
        return self.plot.tract

    @property
    def ground(self) -> Tract:
        """All our firm pieces."""
        return self.plot.firm

    @property
    def centre(self) -> tuple[int, ...]:
        """The centre of our largest piece, in half units."""
        return tuple(self.routes.table.centre.tolist())

    @property
    def population(self) -> int:
        """About how many peers there are: as if all had as much ground as we and those around us."""
        titles = [*self.plot.pieces, *self.plot.others]
        codes = sum(each.high - each.low for each in titles)
        return len({each.owner for each in titles}) * CODES // codes if codes else 0

    @property
    def heirs(self) -> tuple[Address, ...]:
        return self.succession.heirs

    @property
    def leaving(self) -> bool:
        return self.parting.leaving

    @property
    def is_doubtful(self) -> bool:
        """No heir has lately said that it heard us: another peer may be about to take our place."""
        return self.terms.watched and self.succession.is_doubtful

    def answers(self, code: int) -> bool:
        """Ours, firm, and not in doubt."""
        return contains(self.plot.firm, code) and not self.is_doubtful

    def holdings(self) -> tuple[object, ...]:
        """Who is around, and copies of what others keep, as values that can be encoded."""
        titles = tuple(
            title for title in self.plot.atlas.titles.values() if title.owner != self.address
        )
        if not self.terms.assured:
            return (titles,)
        estates = [
            (
                estate.titles,
                estate.heirs,
                estate.around,
                tuple(item for _, item in estate.items.values()),
            )
            for estate in self.estates.held.values()
        ]
        return titles, self.heirs, tuple(estates)

    # --- what happens to all of it

    def start(self) -> None:
        """Begin to tick."""
        if self._ticked_us < 0 and not self.parting.left:
            self._ticked_us = self.host.now_us
            self.host.after(int(self.terms.timers.tick_us * self.host.rng.random()), Tick())

    @handles(Tick)
    def on_tick(self, tick: Tick) -> None:
        """Greet, look after the silent, and see to what does not settle by itself."""
        timers, now_us, watched = self.terms.timers, self.host.now_us, self.terms.watched
        if now_us - self._ticked_us > LATE * timers.tick_us + timers.rto_us // 2:
            self.circle.wake_late()
        self._ticked_us = now_us
        troubled = watched and self.circle.tend()
        if watched:
            self.succession.choose_heirs()
            self.inquest.watch(troubled)
            self.circle.greet_missed()
        self._attend()
        calm = not (troubled or self._is_unsettled())
        if now_us > self._forget_us:
            self._forget_us = now_us + FORGET_TICKS * timers.tick_us
            self.taker.expire()
            self.greetings.forget_gifts()
            self.routes.forget_hops()
            self.estates.forget()
            self.circle.forget_strangers()
        if self.parting.left or (calm and not watched):
            self._ticked_us = -1
        else:
            self.host.after(timers.tick_us * CALM_TICKS if calm else timers.tick_us, tick)

    def _is_unsettled(self) -> bool:
        """Is there anything that should not wait?"""
        moving = self.giver.gift or self.taker.receipt or self.routes.parked or self.plot.status
        lacking = self.terms.assured and len(self.succession.heirs) < self.terms.timers.heirs
        return bool(
            moving or lacking or self.parting.leaving or self.plot.gap or len(self.plot.pieces) != 1
        )

    def _attend(self) -> None:
        """What only some peers have to see to."""
        self.inquest.mend_gap()
        if self.parting.leaving:
            self.parting.step()
        elif len(self.plot.pieces) > 1:
            self.parting.tidy()
        self.giver.rescue()
        if self.routes.parked:
            self.routes.unpark()

    def announce(self, before: Iterable[Address] = ()) -> None:
        """Our pieces, their status or our heirs have changed: tell old and new neighbours, and the tenant."""
        self.greetings.next_mark()
        self.plot.survey()
        self.greetings.hail(
            sorted({*before, *self.plot.neighbours(), *self.succession.told}, key=in_order)
        )
        self.tenant.settled()
        self.routes.unpark()
        self.start()

    def firm_up(self, kind: str, number: int, before: set[Address]) -> None:
        """What was held for this reason answers now, if anything is left of it."""
        before = before.union(self.plot.neighbours())
        if self.plot.release(kind, number):
            self.announce(before)
            self.entry.settled_in()

    def hear(self, titles: Iterable[Title], sender: Address | None = None) -> None:
        """Learn from others; what we lose by it we yield. What is said of third parties is checked with them."""
        plot = self.plot
        before, neighbours = list(plot.pieces), plot.neighbours()
        if not (news := plot.learn(titles)):
            return
        hearsay = {each.owner for each in news if each.owner != sender}
        for each in plot.neighbours():
            # A title that its owner has let go would otherwise go round among others for ever. An owner whose mark we
            # do not know is asked anyway, at its first echo.
            if each in hearsay and self.circle.concern(each).mark >= 0:
                self.greetings.ask_more(each)
        lost = subtract(tract_of(before), plot.tract)
        if lost:
            winners = [each for each in news if any(overlap(each, piece) for piece in before)]
            # Hearsay is not passed on: a title that its owner has let go would go round for ever.
            self.greetings.lost_to([each for each in winners if each.owner == sender])
            self.lost(lost, neighbours, winners)
        else:
            self.greetings.hail([each for each in plot.neighbours() if each not in neighbours])
            self.routes.unpark()

    def learn_around(self, around: tuple[Neighbour, ...]) -> None:
        """What another owner knew of its neighbours, as far as they are ours now."""
        self.hear(title for title, _ in around)
        for title, heirs in around:
            news = self.circle.news.get(title.owner)
            if news is not None and not news.heirs:
                news.take_heirs(heirs)

    def met(self, peer: Address, born_us: int) -> None:
        """A life that began then is at a peer's address. If we knew one before it, that is dead: heirs take over."""
        if not self.circle.is_new_incarnation(peer, born_us):
            return
        estate = self.estates.held.pop(peer, None)
        self.circle.begin_anew(peer, born_us)
        self.greeter.drop("hail", peer)
        self.plot.atlas.drop(self.plot.atlas.of(peer))
        self.plot.survey()
        self.succession.drop_heir(peer)
        self.inquest.bury(peer, estate)
        self.entry.met(peer)

    def lost(self, tract: Tract, neighbours: list[Address], winners: list[Title]) -> None:
        """Better titles took ground from us. What we kept there is offered by the tenant to whoever has it now."""
        gift = self.giver.gift
        if gift is not None and gift.piece not in self.plot.pieces:
            self.giver.take_back()
        self.taker.lost()
        self.tenant.yielded(tract)
        self.announce({*neighbours, *(each.owner for each in winners)})
        if not self.plot.pieces:
            self.homeless()

    def homeless(self) -> None:
        """All is lost to others: come again as a newcomer, by way of whoever is known."""
        known = [*self.plot.neighbours(), *self.heirs, *self.circle.missed]
        self.succession.end()
        self.entry.come_again(known)
        self.inquest.open.clear()

    def settle_into(self, title: Title, others: list[Title], heirs: tuple[Address, ...]) -> None:
        """Take a place on a surface that is assembled at once."""
        self.plot.settle_on(Atlas([title, *others]))
        self.succession.begin_with(heirs, self.host.now_us)
        self.entry.settle()
        self.plot.survey()
        if self.terms.watched:
            self.start()

    def rest_on(self, title: Title, others: Callable[[], list[Title]], table: SurfaceTable) -> None:
        """Take a place on a surface that is assembled at once, and on which nothing is assured: its table is known, and
        the titles around it are asked for when they are needed."""
        self.plot.settle_alone(title, lambda: [title, *others()])
        self.routes.redraw(table)
