"""Ground lost to a better title: what was kept there is offered to the winner, until it has all of it.

Offers leave the registries at once: a peer that got the place back would otherwise delete the live record when the old
offer is confirmed. Also the call to everybody when what was kept on some ground is lost for good.
"""

from functools import partial

from implicast.casting.spice.alarms import CallAgain
from implicast.casting.spice.homes import address_of
from implicast.casting.spice.items import cut, label_of, places
from implicast.casting.spice.messages import Offer, SayAgain
from implicast.casting.spice.share import SpicePart
from implicast.overlay.ice.estate import Item, Way
from implicast.peer.contract import handles
from implicast.space.tract import WHOLE, Tract, intersect

OFFER_ITEMS = 64
"""Items in one offer."""
CALL_AGAIN_US = (6_000_000, 18_000_000, 36_000_000)
"""When the call for what was lost is repeated, whoever has the ground by then: where a whole neighbourhood died the
surface has other holes too, and a call that meets one does not reach those behind it."""


class Offers(SpicePart):
    """A peer's part after it lost ground, or ground lost what was kept on it."""

    __slots__ = ()

    def yielded(self, tract: Tract) -> None:
        items = tuple(cut(each, tract) for each in self.spice.pack(tract))
        self.spice.drop(tract)
        for start in range(0, len(items), OFFER_ITEMS):
            offered = items[start : start + OFFER_ITEMS]
            self.spice.calls.call(Offer(Way(places(offered)), offered, self.address, self.spice.stores.token()))

    def arrived(self, part: Tract, offer: Offer) -> None:
        """Unite it with what is here; heirs first, then the offerer may forget it."""
        mine = tuple(each for each in offer.items if intersect(part, (each.low, each.high)))
        for item in mine:
            self.spice.unite(item, part, False)
        named = self._named(mine)
        self.surface.batch(named, partial(self._taken, offer, part, named))

    def _named(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        """What we keep now under the names of these items."""
        names = {each.key for each in items}
        return tuple(each for each in self.spice.pack(self.surface.tract) if each.key in names)

    def _taken(self, offer: Offer, part: Tract, items: tuple[Item, ...]) -> None:
        self.spice.settled()
        if self.settings.live:
            self.spice.replicas.came_otherwise(_original_tags(items))
        self.spice.calls.heard(offer.reply, offer.token, part)

    # --- ground without its registries

    def lost(self, tract: Tract) -> None:
        """Ground has become ours of whose registries there is no copy left: ask all who were registered there."""
        self._call(tract)
        for delay_us in CALL_AGAIN_US:
            self.spice.later.put(delay_us, CallAgain(tract))

    @handles(CallAgain)
    def on_call_again(self, alarm: CallAgain) -> None:
        self._call(alarm.lost)

    def _call(self, tract: Tract) -> None:
        self.surface.send(SayAgain(Way(WHOLE), tract))


def _original_tags(items: tuple[Item, ...]) -> dict[str, None]:
    """Tags of items that belong to original roots."""
    labels = [label_of(each.key) for each in items]
    return dict.fromkeys(tag for _, tag, root, _, _ in labels if root == address_of(tag))
