"""Carrying messages over ground with holes: hop by hop acknowledged, around suspects, parked where places are in doubt.

A part of a destination goes to its owner if that is known, to the owner's first live heir if the owner is suspect, and
else to a neighbour that is strictly nearer (Listings 6 and 7 of the thesis). Where nobody is nearer a *detour* begins:
the message notes how near it had come and whom it has visited, and may go to worse places until it is nearer than that.
Outside a detour each hop is nearer or rests on a better title, inside one nobody is visited twice: nothing loops.
Dropping is safe: whoever asked asks again.
"""

from collections import OrderedDict
from typing import Any

from msgspec.structs import replace

from implicast.overlay.ice.alive.asking import Ask
from implicast.overlay.ice.alive.estate import Keeper, Way
from implicast.overlay.ice.alive.geometry import FARTHEST, rank_of, target_rows
from implicast.overlay.ice.alive.messages import Enter, Passed, Who
from implicast.overlay.ice.alive.minding import Minding
from implicast.overlay.ice.alive.settings import Life
from implicast.overlay.ice.messages import Title, Titles
from implicast.peer.contract import Address, Host, Message, handles
from implicast.space.tract import Tract, contains, intersect, intervals, subtract, union

REROUTED = 4
"""A message that is given up on one way and tried on another is so many hops older."""
Routed = Any
"""A message with a field `way`."""


class Carrying(Minding):
    """Routes."""

    __slots__ = ("parked", "seen")

    def __init__(
        self, address: Address, host: Host, keeper: Keeper, life: Life, dimensions: int, cosine: float,
        merge: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(address, host, keeper, life, dimensions, cosine, merge)
        self.parked: list[tuple[int, Routed]] = []
        self.seen: dict[Address, OrderedDict[int, None]] = {}

    @property
    def is_doubtful(self) -> bool:
        """Nobody may rely on us now: `heirs.py`."""
        return False

    def answers(self, code: int) -> bool:
        """Ours, firm, and not in doubt."""
        return contains(self.ground, code) and not self.is_doubtful

    # --- coming

    def carry(self, sender: Address, message: Routed) -> None:
        """A routed message has come by."""
        way: Way = message.way
        self.host.send(sender, Passed(way.number))
        self.heard(sender)
        if not self._is_repeat(sender, way.number):
            self.check_mark(sender, way.mark)
            self.route(sender, message)

    def _is_repeat(self, sender: Address, number: int) -> bool:
        seen = self.seen.get(sender)
        if seen is None:
            seen = self.seen[sender] = OrderedDict()
        if number in seen:
            return True
        seen[number] = None
        if len(seen) > self.life.seen_max:
            seen.popitem(last=False)
        return False

    @handles(Enter)
    def on_enter(self, sender: Address, enter: Enter) -> None:
        self.carry(sender, enter)

    @handles(Who)
    def on_who(self, sender: Address, who: Who) -> None:
        self.carry(sender, who)

    def send(self, message: Message) -> None:
        self.route(self.address, message)

    # --- going on

    def route(self, sender: Address, message: Routed) -> None:
        """Our part is delivered, or parked while we do not answer for it; the rest goes on."""
        way: Way = message.way
        if len(way.tract) == 2 and way.tract[1] - way.tract[0] == 1 and self._to_code(sender, message, way):
            return
        own = intersect(way.tract, self.ground)
        rest = subtract(way.tract, self.ground) if own else way.tract
        if rest and self.unsettled and (waiting := intersect(rest, self.unsettled)):
            rest = subtract(rest, self.unsettled)
            self.park(message, waiting)
        if rest and way.hops <= self.life.hops_max:
            self._send_on(message, rest)
        if own and self.is_doubtful:
            self.park(message, own)
        elif own:
            self.deliver(sender, own, message)

    def _to_code(self, sender: Address, message: Routed, way: Way) -> bool:
        """The plain case of `route`, a quarter of its cost: one code, nobody in doubt; False if it is not so plain."""
        code = way.tract[0]
        if contains(self.ground, code):
            if self.is_doubtful:
                return False
            self.deliver(sender, way.tract, message)
            return True
        if self.status or way.stuck or way.hops > self.life.hops_max:
            return False
        title = self.title_at(code)
        hop = title.owner if title is not None else self.table.next_hop(code) if len(self.table.rows) else None
        if hop is None or self.is_suspect(hop):
            return False
        self._hop(hop, message, way.tract)
        return True

    def deliver(self, sender: Address, part: Tract, message: Routed) -> None:
        """What has arrived; our own kinds are decided here, all others above."""
        if type(message) is Enter:
            self.entering(message, part[0])
        elif type(message) is Who:
            self.tell(message.asker, self.firm_pieces())
        else:
            self.keeper.arrived(sender, part, message)

    def entering(self, enter: Enter, code: int) -> None:
        """A newcomer asks for this place: `giving.py`."""

    def tell(self, asker: Address, titles: list[Title]) -> None:
        if asker != self.address and titles:
            self.host.send(asker, Titles(tuple(titles)))

    def _send_on(self, message: Routed, rest: Tract) -> None:
        known, unknown = self._by_owner(rest)
        parts: dict[Address, list[Tract]] = {}
        for owner, part in known.items():
            hop = self._knock(owner)
            if hop is None:
                self._wait_for(owner, message, part)
            else:
                parts.setdefault(hop, []).append(part)
        for hop, part in self._outward(message, unknown) if unknown else ():
            parts.setdefault(hop, []).append(part)
        for hop, shares in parts.items():
            tract = shares[0] if len(shares) == 1 else union(each for share in shares for each in intervals(share))
            self._hop(hop, message, tract)

    def _by_owner(self, tract: Tract) -> tuple[dict[Address, Tract], Tract]:
        """The parts of a destination whose owners are known, and what is left."""
        known: dict[Address, Tract] = {}
        for low, high in intervals(tract):
            at = low
            while at < high:
                title = self.title_at(at)
                if title is None:
                    at = next((each for each in self._lows if each > at), high)
                    continue
                known[title.owner] = (*known.get(title.owner, ()), at, min(high, title.high))
                at = title.high
        if not known:
            return known, tract
        shares = {owner: union(intervals(share)) for owner, share in known.items()}
        return shares, subtract(tract, union(each for share in shares.values() for each in intervals(share)))

    def _knock(self, owner: Address) -> Address | None:
        """The owner, or while it is suspect its first live heir; None if that is us, or nobody."""
        if not self.is_suspect(owner):
            return owner
        for heir in self.news[owner].heirs:
            if heir == self.address:
                return None
            if not self.is_suspect(heir):
                return heir
        return None

    def _wait_for(self, owner: Address, message: Routed, part: Tract) -> None:
        if type(message) is Who:
            self.tell(message.asker, self.atlas.of(owner))
        else:
            self.park(message, part)

    def _outward(self, message: Routed, unknown: Tract) -> list[tuple[Address, Tract]]:
        """Next hops towards ground whose owners we do not know; what starts or continues a detour is sent at once."""
        way: Way = message.way
        if way.stuck and self._rank(unknown) >= way.stuck:
            self._detour(message, unknown, way.stuck, (*way.visited, self.address))
            return []
        if not len(self.table.rows):
            return []
        found = []
        for hop, part in self.table.branches(unknown, self.cosine, self.merge):
            if hop is None:
                self._detour(message, part, self._rank(part), (self.address,))
            else:
                found.append((hop, part))
        return found

    # --- detours

    def _detour(self, message: Routed, part: Tract, stuck: tuple[int, ...], visited: tuple[Address, ...]) -> None:
        if len(visited) > self.life.visited_max:
            return
        targets, table = target_rows(part, self.dimensions), self.table
        ranks = [
            (rank_of(table.rows[row : row + 1], targets, self.dimensions), row)
            for row, owner in enumerate(table.owners)
            if owner not in visited
        ]
        if ranks:
            _, row = min(ranks)
            self._hop(table.owners[row], message, part, stuck, visited)

    def _rank(self, part: Tract) -> tuple[int, int]:
        own = self.table.own
        return rank_of(own, target_rows(part, self.dimensions), self.dimensions) if len(own) else FARTHEST

    # --- one hop

    def _hop(
        self, to: Address, message: Routed, tract: Tract, stuck: tuple[int, ...] = (), visited: tuple[Address, ...] = ()
    ) -> None:
        number = self.next_number()
        onward = replace(message, way=Way(tract, number, self.mark, message.way.hops + 1, stuck, visited))
        self.ask(("hop", number), to, onward, self.life.tries_hop, self._undelivered)

    @handles(Passed)
    def on_passed(self, sender: Address, passed: Passed) -> None:
        self.heard(sender)
        self.answered(("hop", passed.number), sender)

    def _undelivered(self, ask: Ask) -> None:
        """Nobody there: look for another way."""
        self.suspect(ask.to)
        message: Routed = ask.message
        way: Way = message.way
        self.route(self.address, replace(message, way=replace(way, hops=way.hops + REROUTED)))

    # --- waiting

    def park(self, message: Routed, part: Tract) -> None:
        """What lies on ground in transit, in doubt or of the dead waits, for a while and up to a bound."""
        if len(self.parked) < self.life.parked_max:
            waiting = replace(message, way=replace(message.way, tract=part))
            self.parked.append((self.host.now_us + self.life.park_us, waiting))

    def unpark(self) -> None:
        waiting, self.parked = self.parked, []
        for until_us, message in waiting:
            if until_us > self.host.now_us:
                self._take_up(until_us, message)

    def _take_up(self, until_us: int, message: Routed) -> None:
        before = len(self.parked)
        self.route(self.address, message)
        for index in range(before, len(self.parked)):
            self.parked[index] = (min(until_us, self.parked[index][0]), self.parked[index][1])
