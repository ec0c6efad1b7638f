"""Calls to the owners of places: said again until every one has answered, or one has objected.

The original root of a tag calls the others. And who lost ground to a better title offers what it kept there to the
winner, until that has all of it. Offers leave the registries at once: a peer that got the place back would otherwise
delete the live record when the old offer is confirmed.

When what was kept on some ground is lost for good, a walk calls everybody, and is covered when all who were registered
there are again. Casts wait for that: else they would be told that nobody is there.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from implicast.casting.spice.homes import address_of
from implicast.casting.spice.items import LACKING_KEY, cut, label_of, places
from implicast.casting.spice.messages import AskVeto, Offer, ReadyAt, SayAgain, Taken
from implicast.casting.spice.registry import NEVER_US
from implicast.casting.spice.settings import CAST_US
from implicast.casting.spice.share import Repeated, Spice, SpicePart
from implicast.casting.spice.trips import Work
from implicast.overlay.ice.estate import Way
from implicast.peer.contract import Address, Message, handles
from implicast.space.tract import WHOLE, Tract, intersect, subtract

CALLS_MAX = 2_048
"""Calls that have not been answered. Further ones to roots are put off; for further offers renewals must do."""
OFFER_ITEMS = 64
"""Items in one offer."""
LOST_TRIES = 3
"""How often all who may have been registered on lost ground are called, each time for as long as a cast lives."""


class RepeatCall(Message):
    """Rings when a call should have been answered."""

    token: int


@dataclass(slots=True)
class Call(Repeated):
    """Something said to several owners until all have answered."""

    message: ReadyAt | AskVeto | Offer
    until_us: int  # answers that come later do not count

    def is_over(self, part: Tract) -> bool:
        """This part has been dealt with; has all?"""
        left = subtract(self.message.way.tract, part)
        self.message = replace(self.message, way=Way(left))
        return not left


class Calls(SpicePart):
    """What a peer tells, asks and offers the owners of places."""

    __slots__ = ("_calls", "_lost")

    def __init__(self, spice: Spice) -> None:
        super().__init__(spice)
        self._calls: dict[int, Call] = {}
        self._lost: dict[int, tuple[Work, int]] = {}
        """Walks for what was lost, and how often it may be called for after each."""

    def is_calling(self, tag: str) -> bool:
        """Are roots of this tag being called?"""
        calls = [each.message for each in self._calls.values() if self.host.now_us <= each.until_us]
        return any(
            not isinstance(each, Offer) and each.tag == tag and not self._is_past(each)
            for each in calls
        )

    def _is_past(self, message: Message) -> bool:
        """Is there a newer header? Then roots that hear of this one now may lack what was registered meanwhile."""
        return (
            isinstance(message, ReadyAt)
            and message.number < self.spice.levels.header(message.tag).number
        )

    def call(self, message: ReadyAt | AskVeto | Offer, patience_us: int = NEVER_US) -> None:
        if len(self._calls) < CALLS_MAX:
            self._calls[message.token] = Call(message, self.host.now_us + patience_us)
            self.on_repeat_call(RepeatCall(message.token))

    @handles(RepeatCall)
    def on_repeat_call(self, alarm: RepeatCall) -> None:
        call, (lost, _) = self._calls.get(alarm.token), self._lost.get(alarm.token, (None, 0))
        if lost is not None:
            self.spice.walks.give_up(lost)
        if call is None:
            return
        message, is_over = (
            call.message,
            self.host.now_us > call.until_us or self._is_past(call.message),
        )
        if is_over or not (
            isinstance(message, Offer) or self.surface.answers(address_of(message.tag))
        ):
            del self._calls[alarm.token]  # if the place is not ours any more, its owner goes on
            return
        self.spice.later.put(call.wait_longer(), alarm)
        self.surface.send(message)

    def heard(self, reply: Address, token: int, part: Tract, veto: bool = False) -> None:
        """Answer a call that concerns ground of ours."""
        taken = Taken(token, intersect(part, self.surface.ground), veto)
        if reply == self.address:
            self.on_taken(reply, taken)
        else:
            self.host.send(reply, taken)

    @handles(Taken)
    def on_taken(self, sender: Address, taken: Taken) -> None:
        call = self._calls.get(taken.token)
        if (
            call is None
            or self.host.now_us > call.until_us
            or (taken.veto and isinstance(call.message, Offer))
        ):
            return
        complete = call.is_over(taken.part)
        if taken.veto or complete:
            del self._calls[taken.token]
        if complete and not taken.veto and not isinstance(call.message, Offer):
            self.spice.replicas.called_all(call.message)

    # --- offers

    def yielded(self, tract: Tract) -> None:
        items = tuple(
            cut(each, tract) for each in self.spice.pack(tract) if each.key != LACKING_KEY
        )
        self.spice.drop(tract)
        for start in range(0, len(items), OFFER_ITEMS):
            offered = items[start : start + OFFER_ITEMS]
            self.call(Offer(Way(places(offered)), offered, self.address, self.spice.stores.token()))

    def offered(self, part: Tract, offer: Offer) -> None:
        """Unite it with what is here; heirs first, then the offerer may forget it."""
        mine = [each for each in offer.items if intersect(part, (each.low, each.high))]
        for item in mine:
            self.spice.unite(item, part, False)
        names = {each.key for each in mine}
        kept = tuple(each for each in self.spice.pack(self.surface.tract) if each.key in names)
        labels = [label_of(each.key) for each in kept]
        originals = dict.fromkeys(tag for _, tag, root, _, _ in labels if root == address_of(tag))
        self.surface.batch(kept, partial(self._taken, offer, part, originals))

    def _taken(self, offer: Offer, part: Tract, originals: Iterable[str]) -> None:
        self.spice.settled()
        if self.settings.live:
            self.spice.replicas.came_otherwise(originals)
        self.heard(offer.reply, offer.token, part)

    # --- ground without its registries

    def lost(self, tract: Tract) -> None:
        """Of the registries of this ground, ours, there is no copy left: ask all who were registered there."""
        if tract := subtract(tract, self.spice.shelf.lacking):
            self.surface.batch((self.spice.shelf.lack(tract, True),), lambda: None)
            self._call_all(tract, LOST_TRIES)

    def _call_all(self, lost: Tract, tries: int) -> None:
        walk = SayAgain(
            Way(WHOLE), "", address_of(""), 0, lost, self.address, self.spice.stores.token()
        )
        work = Work(self.host.now_us, walk)
        self._lost[walk.walk] = work, tries - 1
        self.spice.later.put(CAST_US, RepeatCall(walk.walk))
        self.spice.walks.send_up(work, walk)
        self.spice.walks.close_one(work)

    def ended(self, work: Work, is_covered: bool) -> None:
        """All of the lost registries that can be there again is; or somebody could not be asked, and is once more."""
        walk = work.walk
        assert isinstance(walk, SayAgain)
        led, tries = self._lost.get(walk.walk, (None, 0))
        if led is not work:
            return
        del self._lost[walk.walk]
        left = intersect(walk.lost, self.spice.shelf.lacking)
        if left and not is_covered and tries:
            self._call_all(left, tries)
        elif left:
            self.surface.batch((self.spice.shelf.lack(left, False),), lambda: None)
            self.spice.walks.reopened()
