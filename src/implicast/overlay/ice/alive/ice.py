"""The living surface as a part of a peer: what happens at each tick, and its assembled beginning."""

from implicast.overlay.ice.alive.estate import Keeper
from implicast.overlay.ice.alive.inheriting import Estate
from implicast.overlay.ice.alive.messages import Tick
from implicast.overlay.ice.alive.seizing import Seizing
from implicast.overlay.ice.alive.settings import CALM_TICKS, Life
from implicast.overlay.ice.atlas import Atlas
from implicast.overlay.ice.messages import Title
from implicast.peer.contract import Address, Host, handles

FORGET_TICKS = 8
"""What is to be forgotten is looked for every so many ticks."""
LATE = 3
"""A tick that comes so many periods after the last one says that we slept."""


class LivingIce(Seizing):
    """One peer's share of a surface that lives."""

    __slots__ = ("_calm_heirs", "_calm_version", "_forget_us")

    def __init__(
        self, address: Address, host: Host, keeper: Keeper, life: Life, dimensions: int, cosine: float,
        merge: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(address, host, keeper, life, dimensions, cosine, merge)
        self._forget_us = FORGET_TICKS * life.tick_us
        """After this time one looks for what is to be forgotten."""
        self._calm_heirs: tuple[Address, ...] = ()
        self._calm_version = -1
        """At the last tick after which there was nothing to see to."""

    @handles(Tick)
    def on_tick(self, tick: Tick) -> None:
        now_us, tick_us = self.host.now_us, self.life.tick_us
        if now_us - self.ticked_us > LATE * tick_us:
            self._notice_sleep(now_us - self.ticked_us)
        self.ticked_us = now_us
        calm = self._is_calm_still()
        if not (calm and (now_us < self.quiet_us or self._is_nothing_due(now_us))):
            calm = self._see_to_all(calm)
        if now_us > self._forget_us:
            self._forget_us = now_us + FORGET_TICKS * tick_us
            self._forget(now_us)
        if not self.left:
            self.host.after(tick_us * CALM_TICKS if calm and not self.missed else tick_us, tick)

    def _see_to_all(self, calm: bool) -> bool:
        """What there is to do at a tick, after one that left us calm or not; are we calm now?"""
        troubled = self.greet_due()
        if troubled:
            self.face_silence()
        self.choose_heirs()
        self.watch(troubled)
        if calm and not troubled and self._is_calm_still():
            if self.missed:
                self.greet_missed()
            return True
        self._attend()
        calm = not (troubled or self._busy())
        self._calm_heirs, self._calm_version = self.heirs, self.version if calm else -1
        return calm

    def _is_calm_still(self) -> bool:
        """Has nothing come up since a tick that had nothing to see to?"""
        if self.version != self._calm_version or self.heirs is not self._calm_heirs or self.status:
            return False
        return not (self.gift is not None or self.receipt is not None or self.leaving or self.parked)

    def _is_nothing_due(self, now_us: int) -> bool:
        """Would a calm peer find nobody to greet, to replace or to ask about? It then also knows until when.

        Two ticks of three end with this or before it, at a fifth of the price of a tick that sees to all.
        """
        if self._wary or not self._circle:
            return False
        quiet_us = self.due_next_us(now_us)
        if quiet_us > now_us:
            quiet_us = self._quiet_until_us(min(quiet_us, self.owners_next_us(now_us)))
        if quiet_us <= now_us:
            return False
        self.quiet_us = quiet_us
        return True

    def _quiet_until_us(self, quiet_us: int) -> int:
        """This time, or when an heir or somebody missed is to be greeted before it; 0 if an heir is to be replaced."""
        circle, life = self._circle, self.life
        for heir in self.heirs:
            news = circle.get(heir)
            if news is None or news.leaving:
                return 0
            if news.echo_us + life.hello_us < quiet_us:
                quiet_us = news.echo_us + life.hello_us
        for since_us, due_us in self.missed.values():
            quiet_us = min(quiet_us, due_us, since_us + life.long_us)
        return quiet_us

    def _busy(self) -> bool:
        """Is there anything that should not wait?"""
        unsettled = self.leaving or self.parked or self.status or self._gap is not None
        return bool(unsettled) or len(self.pieces) != 1 or len(self.heirs) < self.life.heirs

    def _attend(self) -> None:
        """What only some peers have to see to."""
        if self._gap is not None:
            self.mend_gap()
        if self.leaving:
            self.depart_step()
        elif len(self.pieces) > 1:
            self.tidy()
        if self.gift is not None:
            self.rescue_gift()
        if self.missed:
            self.greet_missed()
        if self.parked:
            self.unpark()

    def _notice_sleep(self, since_us: int) -> None:
        if since_us > LATE * self.life.tick_us + self.life.rto_us // 2:
            self.wake_late(since_us)

    def _forget(self, now_us: int) -> None:
        self.expire_receipt()
        self.forget_gifts()
        self.forget_suspects()
        self._forget_hops(now_us - self.life.estate_us)
        if self.estates:
            self.forget_estates()
        if len(self.news) > self.life.news_max or len(self.seen) > self.life.news_max:
            self._forget_strangers()
        if self.declined:
            self.declined = {each: until_us for each, until_us in self.declined.items() if until_us > now_us}

    def _forget_hops(self, since_us: int) -> None:
        """Of those silent for so long no repeat is on its way any more."""
        known = self.news
        for each in [each for each in self.seen if each in known and known[each].heard_us < since_us]:
            del self.seen[each]

    def _forget_strangers(self) -> None:
        """Keep what is known of those who concern us; of the others, those heard longest ago go first."""
        near = {*self.neighbours(), *self.heirs, *self.estates, *self.missed}
        strangers = sorted((each for each in self.news if each not in near), key=lambda each: self.news[each].heard_us)
        for each in strangers[: max(0, len(self.news) - self.life.news_max // 2)]:
            del self.news[each]
        self.seen = {each: numbers for each, numbers in self.seen.items() if each in self.news}

    def holdings(self) -> tuple[object, ...]:
        """The state of the surface, and copies of what others keep, as values that can be encoded."""
        estates = [
            (estate.titles, estate.heirs, estate.around, tuple(item for _, item in estate.items.values()))
            for estate in self.estates.values()
        ]
        return tuple(self.atlas.titles.values()), self.heirs, tuple(estates)

    def settle_into(self, title: Title, others: list[Title], heirs: tuple[Address, ...]) -> None:
        """Take a place on a surface that is assembled at once."""
        self.atlas = Atlas([title, *others])
        self.heirs = heirs
        self.echoed_us = self.host.now_us
        self.joined = True
        self.resurvey()
        self.start()

    def inherit_from(self, owner: "LivingIce") -> None:
        """Hold a complete copy of what an owner keeps, from the beginning."""
        estate = Estate(-1, tuple(owner.pieces), owner.heirs, owner.around(), -1)
        estate.put(0, owner.keeper.pack(owner.tract))
        self.estates[owner.address] = estate
