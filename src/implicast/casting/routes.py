"""Casts on their way through stations: what is open of each, and who is told when nothing is.

A station that is asked to carry a cast tells its own members (`telling.py`) and passes it to the neighbours that lead
to others. With receipts it answers with the counts of its own members and of those beyond when all of them are known;
after a second it answers with what is known by then, and once more at the end. So a cast of which nothing gets lost
takes one answer for each step. A neighbour that asks vouches for its own side, so for it all others have to have
answered. If a cast enters at two places (a client's broker died and the client asked another) both meet and wait for
the rest, never for each other.

With a new view everything begins again but the telling of own members: what was under way is forgotten, and the
publishers ask once more, as they do until nothing is open. A broker that is behind is not answered, for its other
neighbours may speak of the same members: it waits for the view. So a broker that dies with a cast in its hands takes no
part of the tree with it. A server is a station without neighbours.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from implicast.casting.central_subscriptions import Announce, Happened
from implicast.casting.complaints import Complain, Docket, Slowing
from implicast.casting.roster import Roster
from implicast.casting.service import DRY, SILENT_MAX, Carried, Publish
from implicast.casting.telling import Notify, Teller, Told, Word
from implicast.language.target import Description, Target
from implicast.overlay.backbone.backbone import Backbone
from implicast.peer.asking import Asker, Patience, Question
from implicast.peer.changes import Changed
from implicast.peer.contract import Address, CastId, Contact, Message, Name, Part, handles
from implicast.peer.fields import Payload, Token
from implicast.peer.memory import Recent, Seen, Shares
from implicast.peer.policy import policy_of
from implicast.peer.site import Site

PASS = "pass"
PATIENCE = Patience(2_000_000, times=21, factor=1.05)
"""With a neighbour that has a cast in its hands; then it is left to the next view."""
HOLD_US = 1_000_000
"""How long a station waits for its own members and those beyond before it answers with what it knows."""
ROUTES_MAX = 8_192
"""Casts in a station's hands, those of a publisher with many refused first; it is asked for them again."""
ENDED_MAX = 16_384
"""Casts that ended and are remembered, in case their publishers have not heard of it."""


class Pass(Message):
    """A broker passes a cast to a neighbour of this view. `dry`: only to count whom it would reach."""

    wire = 0x0311
    cast: CastId
    epoch: Token
    target: Target
    payload: Payload
    dry: bool = False


class Hold(Message):
    """Rings when a cast has been in hand for so long that those who asked should hear how far it is."""

    cast: CastId
    epoch: Token


class Nowhere:
    """What a station knows of others where it is the only one."""

    epoch = 0
    neighbours: tuple[Address, ...] = ()


@dataclass(slots=True)
class Route:
    """A cast in this view: who asked, who was passed it, what they have answered."""

    asked: dict[Address, bool] = field(default_factory=dict)
    """Who asked and does not know the end, and whether it is a client; else it vouches for its own side."""
    told: dict[Address, Carried | None] = field(default_factory=dict)
    """By neighbour to whom the cast was passed: the newest answer, None until there is one."""
    held: bool = True
    """It is too early to answer with less than all."""
    answered: set[Address] = field(default_factory=set)
    """Who asked and has been told what was known."""

    def release(self) -> None:
        """It has taken long enough to answer with what is known."""
        self.held = False


Hop = Publish | Pass | Announce
Selection = tuple[Word, Sequence[Contact]]
"""What is said to own members of a cast, and to whom."""


class Routes(Part, parts={"teller": Teller}):
    """The casts that one station carries in its present view; `matching`: who has subscribed to what is described."""

    __slots__ = (
        "_asker",
        "_assured",
        "_ended",
        "_matching",
        "_policy",
        "_roster",
        "_routes",
        "_seen",
        "_shares",
        "_way",
        "_words",
        "changed",
        "docket",
        "taken",
        "teller",
    )

    def __init__(
        self,
        site: Site,
        asker: Asker,
        roster: Roster,
        way: Backbone | Nowhere,
        matching: Callable[[Description], Sequence[Contact]] = lambda description: (),
    ) -> None:
        super().__init__(site.address, site.host)
        self._assured, self._words, self._policy = (
            site.assured,
            site.words,
            policy_of(site.parameters),
        )
        self._asker, self._roster, self._way, self._matching = asker, roster, way, matching
        self.docket = Docket(lambda: site.host.now_us, site.kept.docket if site.kept else ())
        """The complaints that were heard here."""
        self.teller = Teller(
            site.address, site.host, asker, site.assured, self._own_ended, site.words
        )
        self._seen = Seen()
        self._routes: dict[CastId, Route] = {}
        self._shares: Shares[Name] = Shares(ROUTES_MAX)
        self._ended: Recent[CastId, Told] = Recent(ENDED_MAX)
        """What became of own members, of casts that have ended here; it outlives views."""
        self.taken: dict[CastId, Selection] = {}
        """What is being said to own members."""
        self.changed: Changed[CastId] = Changed()
        """Of `taken`."""
        asker.topic(PASS, PATIENCE, self._lost)

    def begin_again(self) -> None:
        """There is a new tree."""
        for key in self._asker.topics(PASS):
            self._asker.drop(PASS, key)
        self._routes.clear()
        self._shares = Shares(ROUTES_MAX)

    # --- asked

    def carry(self, asker: Address, client: bool, hop: Hop) -> None:
        """Carry a cast for a client, or for a broker of the present view; if its publisher has cast it."""
        about = (
            hop.description
            if isinstance(hop, Announce)
            else (DRY, hop.target)
            if hop.dry
            else hop.target
        )
        if self._words.opened(hop.cast, about, hop.payload) is None or (
            client and self._is_too_much(hop)
        ):
            return
        if not (self._assured or hop.dry):
            self._spread_once(asker, hop)
            return
        route = self._routes.get(hop.cast)
        if route is None:
            if not self._shares.allows(hop.cast.publisher) or not self._tell_own(hop):
                return
            route = self._routes[hop.cast] = Route()
            self._shares.add(hop.cast.publisher)
            self.host.after(HOLD_US, Hold(hop.cast, self._way.epoch))
        route.asked[asker] = client
        route.answered.discard(asker)
        if (slowing := self.docket.slowing(hop.cast)) is not None:
            self.host.send(asker, slowing)
        self._pass_on(asker, client, hop, route)
        self._settle(hop.cast, route)

    def _is_too_much(self, hop: Hop) -> bool:
        """Whether a client's cast comes too soon after others of its publisher: it will be asked for again."""
        is_known = hop.cast in self._routes or hop.cast in self._ended or self._seen.met(hop.cast)
        return not is_known and not self._policy.admits(hop.cast, self.host.now_us)

    def _spread_once(self, asker: Address, hop: Hop) -> None:
        """Listing 2 of the thesis, `handle_cast`: own selected members, and neighbours that lead; never back."""
        if self._seen.met(hop.cast) or not self._tell_own(hop):
            return
        for neighbour, onward in self._onward(hop).items():
            if neighbour != asker:
                self.host.send(neighbour, onward)

    def _onward(self, hop: Hop) -> dict[Address, Pass]:
        """What goes on to the neighbours that lead to selected members. Events go through one server."""
        way = self._way
        if isinstance(way, Nowhere) or isinstance(hop, Announce):
            return {}
        onward = Pass(hop.cast, way.epoch, hop.target, hop.payload, hop.dry)
        return {each: onward for each in way.neighbours if way.leads(each, hop.target)}

    def _tell_own(self, hop: Hop) -> bool:
        """Tell own members, once; False when there is no room to remember it."""
        cast = hop.cast
        if cast in self.teller.casts or cast in self._ended:
            return True
        if hop.dry:
            self._ended[cast] = Told(0, notified=len(self._select(hop)[1]))
            return True
        if not self._seen.first(cast, self.host.now_us):
            return self._seen.met(cast)
        self.resume(*self._select(hop))
        return True

    def _select(self, hop: Hop) -> Selection:
        if isinstance(hop, Announce):
            return Happened(hop.cast, hop.description, hop.payload), self._matching(hop.description)
        return Notify(hop.cast, hop.target, hop.payload), self._roster.select(hop.target)

    def resume(self, word: Word, members: Sequence[Contact]) -> None:
        """Tell own members, at first or after a crash in the midst of it."""
        self._seen.first(word.cast, self.host.now_us)
        if not self._policy.bears(len(members)) or not self.docket.admits(word.cast, members):
            self._own_ended(word.cast, Told(0, declined=len(members)))
            return
        if self._assured:
            self.taken[word.cast] = word, members
            self.changed.note(word.cast)
        self.teller.tell(word, members)

    def _pass_on(self, asker: Address, client: bool, hop: Hop, route: Route) -> None:
        """To every neighbour that leads, but to one that vouches for its own side."""
        for neighbour, onward in self._onward(hop).items():
            vouched = neighbour == asker and not client
            key = (neighbour, hop.cast)
            if (
                not vouched
                and route.told.setdefault(neighbour) is None
                and self._asker.open(PASS, key) is None
            ):
                self._asker.ask(PASS, key, neighbour, onward)

    # --- answering

    def _settle(self, cast: CastId, route: Route) -> None:
        """Answer everybody for whom all is known; and, when it has taken long, everybody who has heard nothing."""
        for asker, client in list(route.asked.items()):
            carried = self._counted(cast, route, asker, client)
            if carried is None or (carried.open and (route.held or asker in route.answered)):
                continue
            self.host.send(asker, carried)
            route.answered.add(asker)
            if not carried.open:
                del route.asked[asker]
        if not route.asked:
            self._forget(cast)

    def _forget(self, cast: CastId) -> None:
        if self._routes.pop(cast, None) is not None:
            self._shares.drop(cast.publisher)

    def _counted(self, cast: CastId, route: Route, asker: Address, client: bool) -> Carried | None:
        """What is known of a cast, without the side of the asker; None while a neighbour has said nothing."""
        counts: list[Told | Carried] = [
            self.teller.casts.get(cast) or self._ended.get(cast) or Told(0)
        ]
        for neighbour, each in route.told.items():
            if neighbour != asker or client:
                if each is None:
                    return None
                counts.append(each)
        return Carried(
            cast,
            0 if client else self._way.epoch,
            sum(each.notified for each in counts),
            sum(each.unreachable for each in counts),
            sum(each.declined for each in counts),
            sum(each.open for each in counts),
            tuple(name for each in counts for name in each.silent)[:SILENT_MAX],
        )

    # --- complaints

    @handles(Complain)
    def on_complain(self, sender: Address, complaint: Complain) -> None:
        if self._words.vouches(complaint):
            self.docket.complain(complaint, sender)

    @handles(Slowing)
    def on_slowing(self, sender: Address, slowing: Slowing) -> None:
        """A neighbour declines a cast: whoever asked for it here is told."""
        route = self._routes.get(slowing.cast)
        for asker in route.asked if route is not None and sender in route.told else ():
            self.host.send(asker, slowing)

    @handles(Hold)
    def on_hold(self, alarm: Hold) -> None:
        route = self._routes.get(alarm.cast)
        if route is not None and alarm.epoch == self._way.epoch:
            route.release()
            self._settle(alarm.cast, route)

    def _own_ended(self, cast: CastId, told: Told) -> None:
        self._ended[cast] = told
        self.taken.pop(cast, None)
        self.changed.note(cast)
        route = self._routes.get(cast)
        if route is not None:
            self._settle(cast, route)

    @handles(Carried)
    def on_carried(self, sender: Address, carried: Carried) -> None:
        route = self._routes.get(carried.cast)
        if route is None or carried.epoch != self._way.epoch or sender not in route.told:
            return
        if not carried.open:
            self._asker.answered(PASS, (sender, carried.cast))
        route.told[sender] = carried
        self._settle(carried.cast, route)

    def _lost(self, key: tuple[Address, CastId], question: Question) -> None:
        """A neighbour does not come to an end: whoever asked will ask again, perhaps in another view."""
        self._forget(key[1])
