"""What a peer sees to at each tick: whom to greet, who is silent, what does not settle by itself.

Greeted are those whose turn it is, heirs that have not echoed, the heirs of the silent, and those missed. Most ticks
find nothing to do, and know until when that will be so. Where nothing is assured there are no greetings: a peer ticks
only while it has something unsettled, and rests then.
"""

from operator import attrgetter
from typing import TYPE_CHECKING

from implicast.overlay.ice.circle import News
from implicast.overlay.ice.messages import Tick
from implicast.overlay.ice.settings import CALM_TICKS
from implicast.overlay.ice.share import Share
from implicast.peer.contract import Address, handles

if TYPE_CHECKING:
    from implicast.overlay.ice.surface import Surface

FORGET_TICKS = 8
"""What is to be forgotten is looked for every so many ticks."""
LATE = 3
"""A tick that comes so many periods after the last one says that we slept."""
_next_us, _heard_us = attrgetter("next_us"), attrgetter("heard_us")


class Upkeep(Share):
    """Finds the silent, and knows for how long nobody can be."""

    __slots__ = (
        "_calm_heirs", "_calm_version", "_forget_us", "_near", "_near_version", "_quiet_us", "_silent_us", "_ticked_us",
        "_ticking", "_wary",
    )  # fmt: skip

    def __init__(self, surface: "Surface") -> None:
        super().__init__(surface)
        self._ticking, self._ticked_us = False, 0
        self._forget_us = FORGET_TICKS * self.timers.tick_us
        """After this time one looks for what is to be forgotten."""
        self._calm_heirs: tuple[Address, ...] = ()
        self._calm_version = -1
        """At the last tick after which there was nothing to see to."""
        self._near: dict[Address, News] = {}
        """Neighbours with what is known of them, ..."""
        self._near_version = -1
        """... as they were in this version of the atlas."""
        self._wary = True
        """A neighbour may be suspect, or its greeting be awaited."""
        self._silent_us = 0
        """Before this time no neighbour can have been silent for too long."""
        self._quiet_us = 0
        """Before this time nobody is to be greeted, nor can anybody's silence matter."""

    def start(self) -> None:
        """Begin to tick."""
        if not (self._ticking or self.surface.left):
            self._ticking, self._ticked_us = True, self.host.now_us
            self.host.after(int(self.timers.tick_us * self.host.rng.random()), Tick())

    def stir(self, by_us: int = 0) -> None:
        """There is something to see to by this time."""
        if by_us < self._quiet_us:
            self._quiet_us = by_us

    def look_up(self) -> None:
        """What is known of a neighbour is no longer what it was."""
        self._near_version = -1

    def beware(self) -> None:
        """A neighbour is suspect, or its greeting awaited."""
        self._wary = True

    @handles(Tick)
    def on_tick(self, tick: Tick) -> None:
        now_us, tick_us = self.host.now_us, self.timers.tick_us
        if now_us - self._ticked_us > LATE * tick_us + self.timers.rto_us // 2:
            self.surface.circle.wake_late()
        self._ticked_us = now_us
        calm = self._look() if self.surface.terms.assured else self._look_unassured()
        if now_us > self._forget_us:
            self._forget_us = now_us + FORGET_TICKS * tick_us
            self._forget(now_us)
        self._ticking = not (self.surface.left or (calm and not self.surface.terms.assured))
        if self._ticking:
            self.host.after(tick_us * CALM_TICKS if calm and not self.surface.circle.missed else tick_us, tick)

    def _look(self) -> bool:
        now_us = self.host.now_us
        calm = self._is_calm_still()
        if calm and (now_us < self._quiet_us or self._is_nothing_due(now_us)):
            return True
        return self._see_to_all(calm)

    def _look_unassured(self) -> bool:
        self._attend()
        return not (self._is_unsettled() or self.surface.giver.gift or self.surface.taker.receipt)

    def _see_to_all(self, calm: bool) -> bool:
        """What there is to do at a tick, after one that left us calm or not; are we calm now?"""
        surface = self.surface
        troubled = self.greet_due()
        if troubled:
            self.face_silence()
        surface.succession.choose_heirs()
        surface.inquest.watch(troubled)
        if calm and not troubled and self._is_calm_still():
            if surface.circle.missed:
                self.greet_missed()
            return True
        self._attend()
        calm = not (troubled or self._is_unsettled() or len(surface.heirs) < self.timers.heirs)
        self._calm_heirs, self._calm_version = surface.heirs, surface.plot.version if calm else -1
        return calm

    def _is_calm_still(self) -> bool:
        """Has nothing come up since a tick that had nothing to see to?"""
        surface, plot = self.surface, self.surface.plot
        if plot.version != self._calm_version or surface.heirs is not self._calm_heirs or plot.status:
            return False
        return not (surface.giver.gift or surface.taker.receipt or surface.leaving or surface.routes.parked)

    def _is_unsettled(self) -> bool:
        """Is there anything that should not wait?"""
        surface, plot = self.surface, self.surface.plot
        unsettled = surface.leaving or surface.routes.parked or plot.status or plot.gap is not None
        return bool(unsettled) or len(plot.pieces) != 1

    def _attend(self) -> None:
        """What only some peers have to see to."""
        surface = self.surface
        surface.seizures.mend_gap()
        if surface.leaving:
            surface.departure.step()
        elif len(surface.plot.pieces) > 1:
            surface.tidying.tidy()
        if surface.giver.gift is not None:
            surface.giver.rescue()
        if surface.circle.missed:
            self.greet_missed()
        if surface.routes.parked:
            surface.routes.unpark()

    def _forget(self, now_us: int) -> None:
        surface, most = self.surface, self.timers.news_max
        surface.taker.expire()
        surface.greetings.forget_gifts()
        surface.inquest.forget()
        surface.routes.forget_hops(now_us - self.timers.estate_us)
        surface.estates.forget()
        if len(surface.circle.news) > most or len(surface.routes.seen) > most:
            surface.circle.forget_strangers()
            surface.routes.forget_strangers()
        surface.giver.forgive(now_us)

    # --- greeting

    def greet_due(self) -> bool:
        """Greet whom it is time to greet. True if anybody who concerns us is silent or suspect.

        It also finds out for how long that need not be done again.
        """
        now_us = self.host.now_us
        quiet_us = now_us + self.timers.hello_us
        troubled = False
        if self._wary or self._is_stale() or now_us >= self._silent_us:
            unsure, troubled = self._look_around(now_us)
            quiet_us = 0 if unsure else quiet_us
        due = [peer for peer, news in self._near.items() if news.next_us <= now_us]
        quiet_us = self._greet_heirs_too(due, now_us, quiet_us)
        is_open = self.surface.asker.open
        asked = [each for each in due if not is_open("hail", each)] if due else due
        if asked:
            self.surface.greetings.hail(asked)
        next_us = min(map(_next_us, self._near.values()), default=quiet_us)  # those just greeted come later
        self._quiet_us = min(quiet_us, next_us, self._silent_us) if len(asked) == len(due) else 0
        return troubled

    def _is_stale(self) -> bool:
        """Have the neighbours to be looked up again?"""
        return not self._near or self._near_version != self.surface.plot.version

    def _is_nothing_due(self, now_us: int) -> bool:
        """Would a calm peer find nobody to greet, to replace or to ask about? It then also knows until when.

        Two ticks of three end with this or before it, at a fifth of the price of a tick that sees to all.
        """
        if self._wary or self._is_stale():
            return False
        quiet_us = self._due_next_us(now_us)
        if quiet_us > now_us:
            quiet_us = self._quiet_until_us(min(quiet_us, self.surface.inquest.owners_next_us(now_us)))
        if quiet_us <= now_us:
            return False
        self._quiet_us = quiet_us
        return True

    def _due_next_us(self, now_us: int) -> int:
        """When nobody around is suspect, nor anybody's greeting awaited: the first time at which a neighbour is to be
        greeted or has been silent for too long."""
        near = self._near.values()
        if now_us >= self._silent_us:
            self._silent_us = min(map(_heard_us, near)) + self.timers.sus_us
            if now_us >= self._silent_us:
                self._look_around(now_us)
        next_us: int = min(map(_next_us, near))
        return next_us if next_us < self._silent_us else self._silent_us

    def _quiet_until_us(self, quiet_us: int) -> int:
        """This time, or when an heir or a missed peer is to be greeted before it; 0 if an heir is to be replaced."""
        near, timers = self._near, self.timers
        for heir in self.surface.heirs:
            news = near.get(heir)
            if news is None or news.leaving:
                return 0
            if news.echo_us + timers.hello_us < quiet_us:
                quiet_us = news.echo_us + timers.hello_us
        for since_us, due_us in self.surface.circle.missed.values():
            quiet_us = min(quiet_us, due_us, since_us + timers.long_us)
        return quiet_us

    def _look_around(self, now_us: int) -> tuple[bool, bool]:
        """Is anybody's greeting awaited? And is anybody silent or suspect?

        Not looked for again while nobody can be: nine ticks of ten, at two thirds of the price.
        """
        if self._is_stale():
            plot, concern = self.surface.plot, self.surface.circle.concern
            self._near, self._near_version = {peer: concern(peer) for peer in plot.neighbours()}, plot.version
        oldest_us = now_us
        unsure = doubted = False
        for peer, news in self._near.items():
            if news.unsure:
                self.surface.greetings.ask_more(peer)
                unsure = True
            if news.suspect_us >= 0:
                doubted = True
            heard_us, since_us = news.heard_us, news.since_us
            if heard_us < oldest_us and since_us < oldest_us:
                oldest_us = heard_us if heard_us > since_us else since_us
        self._wary = unsure or doubted
        self._silent_us = oldest_us + self.timers.sus_us
        return unsure, doubted or self._silent_us < now_us

    def _greet_heirs_too(self, due: list[Address], now_us: int, quiet_us: int) -> int:
        """Heirs that have not echoed for a period are greeted whoever's turn it is; until when there are none."""
        hello_us, concern = self.timers.hello_us, self.surface.circle.concern
        for peer in self.surface.heirs:
            due_us = concern(peer).echo_us + hello_us
            if due_us < quiet_us:
                quiet_us = due_us
            if now_us >= due_us and peer not in due:
                due.append(peer)
        return quiet_us

    def face_silence(self) -> None:
        """Suspect the silent; in the place of suspects, greet their heirs."""
        surface, circle, due = self.surface, self.surface.circle, dict[Address, None]()
        for peer in dict.fromkeys((*surface.plot.neighbours(), *surface.heirs)):
            news = circle.concern(peer)
            if news.suspect_us < 0 and circle.silence_us(peer) > self.timers.sus_us:
                circle.suspect(peer)
            if news.suspect_us >= 0:
                self._greet_heirs_of(news.heirs, due)
        surface.greetings.hail(due)

    def _greet_heirs_of(self, heirs: tuple[Address, ...], due: dict[Address, None]) -> None:
        """Whoever takes the place of a suspect must know of us, and we of it."""
        for heir in heirs:
            if heir == self.address or self.surface.asker.open("hail", heir):
                continue
            if self.host.now_us >= self.surface.circle.concern(heir).next_us:
                due[heir] = None

    def greet_missed(self) -> None:
        """Those that fell silent may be back, or a cut healed: ask at pauses that grow with the silence."""
        surface, timers, now_us = self.surface, self.timers, self.host.now_us
        missed = surface.circle.missed
        for peer, (since_us, due_us) in list(missed.items()):
            if now_us - since_us > timers.long_us:
                del missed[peer]
                continue
            if now_us >= due_us:
                due_us = now_us + max(timers.meet_us, (now_us - since_us) // 4)
                surface.circle.meet_again(peer, due_us)
                if not surface.asker.open("hail", peer):
                    self.host.send(peer, surface.greetings.hail_for(peer))
            self.stir(min(due_us, since_us + timers.long_us))
