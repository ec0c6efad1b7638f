"""Ground lost to a better title: what was kept there is offered to the winner, until it has all of it.

Offers leave the registries at once: a peer that got the place back would otherwise delete the live record when the old
offer is confirmed. Also the call to everybody when what was kept on some ground is lost for good.
"""

from implicast.casting.spice.alive.closing import Closing
from implicast.casting.spice.alive.items import cut, places
from implicast.casting.spice.alive.keeper import arrives
from implicast.casting.spice.alive.messages import Offer, SayAgain, Taken
from implicast.casting.spice.alive.settings import STORE_US, WAIT_LONGEST_US, LivingSettings
from implicast.overlay.ice.estate import Item, Way
from implicast.peer.contract import Address, Host, handles
from implicast.space.tract import WHOLE, Tract, intersect, subtract

OFFERS_MAX = 1_024
"""Messages of offered items that are not confirmed; further ones are not offered: renewals bring those back."""
OFFER_ITEMS = 64
"""Items in one offer."""
CALL_AGAIN_US = (6_000_000, 18_000_000, 36_000_000)
"""When the call for what was lost is repeated, whoever has the ground by then: where a whole neighbourhood died the
surface has other holes too, and a call that meets one does not reach those behind it."""


class Offered:
    """Items that wait for their new owner."""

    __slots__ = ("items", "outstanding", "wait_us")

    def __init__(self, items: tuple[Item, ...]) -> None:
        self.items, self.outstanding, self.wait_us = items, places(items), STORE_US


class Offering(Closing):
    """A peer's part after it lost ground, or ground lost what was kept on it."""

    __slots__ = ("_offers",)

    def __init__(self, address: Address, host: Host, settings: LivingSettings) -> None:
        super().__init__(address, host, settings)
        self._offers: dict[int, Offered] = {}

    def yielded(self, tract: Tract) -> None:
        items = tuple(cut(each, tract) for each in self.pack(tract))
        self.drop(tract)
        for start in range(0, len(items), OFFER_ITEMS):
            if len(self._offers) < OFFERS_MAX:
                token = self.token()
                self._offers[token] = Offered(items[start : start + OFFER_ITEMS])
                self._offer(token)

    def _offer(self, token: int) -> None:
        offered = self._offers.get(token)
        if offered is None:
            return
        self.later(offered.wait_us, lambda: self._offer(token))
        offered.wait_us = min(2 * offered.wait_us, WAIT_LONGEST_US)
        self.surface.send(Offer(Way(offered.outstanding), offered.items, self.address, token))

    @handles(Offer)
    def on_offer(self, sender: Address, offer: Offer) -> None:
        self.surface.carry(sender, offer)

    @arrives(Offer)
    def _offer_arrived(self, part: Tract, offer: Offer) -> None:
        """Unite it with what is here; heirs first, then the offerer may forget it."""
        mine = tuple(each for each in offer.items if intersect(part, (each.low, each.high)))
        for item in mine:
            self._unite(item, part, False)
        self.surface.batch(self.pack_named(mine, part), lambda: self._taken(offer, part))

    def pack_named(self, items: tuple[Item, ...], part: Tract) -> tuple[Item, ...]:
        """What we keep now under the names of these items."""
        names = {each.key for each in items}
        return tuple(each for each in self.pack(self.surface.tract) if each.key in names)

    def _taken(self, offer: Offer, part: Tract) -> None:
        taken = Taken(offer.token, intersect(part, self.surface.ground))
        self.settled()
        self.reply_taken(offer.reply, taken)

    def reply_taken(self, reply: Address, taken: Taken) -> None:
        if reply == self.address:
            self.on_taken(self.address, taken)
        else:
            self.host.send(reply, taken)

    @handles(Taken)
    def on_taken(self, sender: Address, taken: Taken) -> None:
        offered = self._offers.get(taken.token)
        if offered is not None:
            offered.outstanding = subtract(offered.outstanding, taken.part)
            if not offered.outstanding:
                del self._offers[taken.token]

    # --- ground without its registries

    def lost(self, tract: Tract) -> None:
        """Ground has become ours of whose registries there is no copy left: ask all who were registered there."""
        self._call(tract)
        for delay_us in CALL_AGAIN_US:
            self.later(delay_us, lambda: self._call(tract))

    def _call(self, tract: Tract) -> None:
        self.surface.send(SayAgain(Way(WHOLE), tract))

    @handles(SayAgain)
    def on_say_again(self, sender: Address, call: SayAgain) -> None:
        self.surface.carry(sender, call)

    @arrives(SayAgain)
    def _called(self, part: Tract, call: SayAgain) -> None:
        self.register_again(call.lost)

    def register_again(self, lost: Tract) -> None:
        """Do we have a record there? (`registering.py`)"""
